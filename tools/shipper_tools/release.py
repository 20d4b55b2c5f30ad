"""``python -m shipper_tools.release FOLDER``: the files of a release, from the commit that is checked
out. With ``--tag`` the commit is tagged too. See CONTRIBUTING.md.

::

    FOLDER/shipper-VERSION-py3-none-any.whl, shipper-VERSION.tar.gz   and the same of shipper-tools
           shipper-VERSION-constraints.txt                            the versions that the tests run with
           shipper-VERSION.cdx.json                                   what it is made of (CycloneDX)
           CHANGES.md                                                 of this version
           SHA256SUMS                                                 of all of these
"""  # noqa: E501

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from shipper.errors import ShipperError, UsageError
from shipper.whole_files import write_whole

#: Changed files that are named.
_SHOWN = 5
#: What an installation may have.
_EXTRAS = ("spark", "airflow", "statsd", "aws", "dev")


def why_not(root: Path, version: str) -> list[str]:
    """Return what in the checkout at ``root`` speaks against a release of ``version``."""
    found = []
    if changes := _git(root, "status", "--porcelain").splitlines():
        shown = ", ".join(change.split(maxsplit=1)[-1] for change in changes[:_SHOWN])
        more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
        found.append(f"the checkout has changes that are not committed: {shown}{more}")
    for project in (root / "pyproject.toml", root / "tools" / "pyproject.toml"):
        if (its := tomllib.loads(project.read_text())["project"]["version"]) != version:
            found.append(f"{project.relative_to(root)} has version {its}")
    if f'written_by="{version}"' not in (root / "dags" / "shipper_faults.py").read_text():
        found.append("dags/ is of another version: `shipper dags install dags`")
    if not changes_of(root / "CHANGELOG.md", version):
        found.append(f"CHANGELOG.md has no heading `## {version}` with words below it")
    if _git(root, "tag", "--list", f"v{version}"):
        found.append(f"the tag v{version} is there already")
    return found


def changes_of(changelog: Path, version: str) -> str:
    """Return the section of the version, without its heading."""
    heading = rf"^## {re.escape(version)}\b[^\n]*\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog.read_text(), re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def make(root: Path, folder: Path, version: str) -> list[Path]:
    """Make the files in ``folder``, which must be empty or not there, and return them."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    _uv(root, "build", "--all-packages", "--out-dir", str(folder))
    (folder / ".gitignore").unlink(missing_ok=True)
    extras = [word for extra in _EXTRAS for word in ("--extra", extra)]
    locked = ["export", "--locked", "--no-dev", "--no-emit-workspace", *extras]
    constraints = folder / f"shipper-{version}-constraints.txt"
    _uv(root, *locked, "--no-hashes", "--no-header", "--output-file", str(constraints))
    parts = folder / f"shipper-{version}.cdx.json"
    _uv(root, *locked, "--format", "cyclonedx1.5", "--output-file", str(parts))
    changes = changes_of(root / "CHANGELOG.md", version)
    write_whole(str(folder / "CHANGES.md"), f"{changes}\n")
    made = sorted(folder.iterdir())
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made)
    write_whole(str(folder / "SHA256SUMS"), "".join(lines))
    return [*made, folder / "SHA256SUMS"]


def uv(root: Path) -> str:
    """Return the program: that on the path, else the one that `make setup` fetched."""
    return shutil.which("uv") or str(root / ".tools" / "bin" / "uv")


def _uv(root: Path, *words: str) -> None:
    command = [uv(root), *words, "--quiet"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UsageError(f"`uv {' '.join(words)}` failed: {done.stderr.strip()}")


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m shipper_tools.release")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tag", action="store_true", help="tag the commit; nothing is pushed")
    asked = parser.parse_args()
    root = Path.cwd()
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    if reasons := why_not(root, version):
        print(f"no release {version}:", *(f"  {why}" for why in reasons), sep="\n", file=sys.stderr)
        return 2
    try:
        made = make(root, asked.folder, version)
    except ShipperError as error:
        print(error.message, file=sys.stderr)
        return error.exit_code
    if asked.tag:
        _git(root, "tag", "--annotate", f"v{version}", "--message", f"shipper {version}")
    print(*made, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
