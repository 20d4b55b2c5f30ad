"""``shipper environment pack``: the environment of Spark's tasks, as one file for `runner.archive`.

It holds Python itself with its standard library, shipper, and the packages that a task imports.
Spark (pyspark's Python files too) is the cluster's own. Packages are copied from this installation,
so nothing is downloaded, and the archive holds the versions that this environment was tested with.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from shipper.cli.console import Force, Json, new_app, out, print_json
from shipper.errors import ShipperError, UsageError
from shipper.whole_files import output_file

app = new_app("environment", "Environment of Spark's executors.")

_OURS = ("shipper", "spark_jobs")
#: Packages besides shipper's own dependencies.
_OF_TASKS = ("pyarrow", "numpy")
_PACKAGES = "packages"
_LEVEL = 3
"""Level of gzip: half of the time of level 6, and 5 % more bytes."""
#: Parts of packages and of Python that no task imports.
_LEFT_OUT = {
    "test",
    "tests",
    "include",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "pydoc_data",
}
_LEFT_OUT |= {"site-packages", "dist-packages"}
_SOURCES = (".pxd", ".pyx", ".pxi", ".h", ".hpp", ".a", ".pyi")
#: Not a link to an interpreter elsewhere, as in a virtual environment: the executors' machines need
#: not have that interpreter.
_LAUNCHER = """#!/bin/sh
# It runs wherever it was unpacked.
here=$(cd "$(dirname "$0")/.." && pwd -P) || exit 1
LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
PYTHONPATH="$here/{packages}${{PYTHONPATH:+:$PYTHONPATH}}"
export LD_LIBRARY_PATH PYTHONPATH
unset PYTHONHOME
exec "$here/bin/{python}" "$@"
"""
_CHECK = """import sys
import confluent_kafka, numpy, pyarrow, shipper.worker.task
elsewhere = [path for path in sys.path if path and not path.startswith(sys.argv[1])]
elsewhere += [module.__file__ for module in (confluent_kafka, pyarrow, shipper) if not module.__file__.startswith(sys.argv[1])]
sys.exit(f"it looks elsewhere: {elsewhere}" if elsewhere else 0)
"""  # noqa: E501


@app.callback()
def _group() -> None:
    """Keep `pack` a command of its own, though it is the only one."""


@app.command(
    epilog="Example: `shipper environment pack /opt/shipper/tasks.tar.gz`, and `runner.archive` "
    "names that file"
)
def pack(
    archive: Annotated[Path, typer.Argument(help="The file to write, .tar.gz.")] = Path(
        "tasks.tar.gz"
    ),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Pack the environment of Spark's tasks: Python, shipper and the packages that a task imports.

    Executors need the same operating system and processor as this machine, and the same Spark;
    nothing else, at no path in particular. Unpacks it once elsewhere, and imports what a task
    imports, before it gets its name.
    """
    if not archive.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(
            f"{archive}: Spark recognises an archive by its name. Nothing was written. Choose "
            "a name that ends in .tar.gz."
        )
    archive = archive.absolute()  # the unpacked Python is started in another folder
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        output_file(archive, force=force) as part,
        tempfile.TemporaryDirectory(dir=archive.parent, prefix=".packing-") as folder,
    ):
        _write(part)
        _check(part, Path(folder) / "elsewhere")
    size = archive.stat().st_size
    if as_json:
        print_json({"archive": str(archive), "bytes": size, "python": _version()})
    else:
        out.say(
            f"{archive} has {size / 1e6:,.0f} MB; write it in the pipeline: `runner: {{archive: "
            f"{archive}}}`"
        )


def _write(made: Path) -> None:
    python = f"python{_version()}"
    with tarfile.open(made, "w:gz", compresslevel=_LEVEL, dereference=True) as archive:
        launcher = _LAUNCHER.format(packages=_PACKAGES, python=python).encode()
        entry = tarfile.TarInfo("bin/python")
        entry.size, entry.mode = len(launcher), 0o755
        archive.addfile(entry, BytesIO(launcher))
        for place, path in (_interpreter(python) | _packages()).items():
            archive.add(path, place, filter=_without_what_nobody_imports)


def _without_what_nobody_imports(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = PurePosixPath(entry.name).parts
    needless = (
        not _LEFT_OUT.isdisjoint(parts)
        or any(part.startswith("config-") for part in parts)
        or entry.name.endswith(_SOURCES)
    )
    return None if needless else entry


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _interpreter(python: str) -> dict[str, Path]:
    """Return place in the archive → file or folder, as they lie below Python's own prefix, where it
    finds its library by the place that it is started from."""
    found = {f"bin/{python}": Path(getattr(sys, "_base_executable", sys.executable))}
    library = Path(
        sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or ""
    )
    if library.is_file() and ".so" in library.name:
        found[f"lib/{library.name}"] = library
    base = {
        "base": sys.base_prefix,
        "platbase": sys.base_exec_prefix,
        "installed_base": sys.base_prefix,
    }
    for folder in (Path(sysconfig.get_path(name, vars=base)) for name in ("stdlib", "platstdlib")):
        found[str(folder.relative_to(sys.base_prefix))] = folder
    return found


def _packages() -> dict[str, Path]:
    """Return place in the archive → folder or module of shipper and of its dependencies. Raises
    UsageError."""
    found = {}
    for name in _OURS:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise UsageError(f"{name} is not installed in {sys.prefix}.", code="SHIP-110")
        found[name] = Path(spec.origin).parent
    for package in _needed(_OF_TASKS):
        for name in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            found[name] = Path(str(package.locate_file(name)))
    return {f"{_PACKAGES}/{name}": path for name, path in found.items() if path.exists()}


def _needed(also: Iterable[str]) -> Iterator[Distribution]:
    """Yield shipper's dependencies and ``also``, with theirs, each once. Those of extras are left
    out. Raises UsageError."""
    left, seen = ["shipper", *also], set[str]()
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if name in also:
                raise UsageError(
                    f"{name} is not installed in {sys.prefix}, and Spark's tasks need it. "
                    "Install `shipper[spark]`.",
                    code="SHIP-110",
                ) from None
            continue  # for another system, or another Python
        left += [
            re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0]
            for each in found.requires or ()
            if "extra ==" not in each
        ]
        if name != "shipper":
            yield found


def _check(made: Path, folder: Path) -> None:
    """Raise ShipperError if tasks' imports are not found in there, or only elsewhere."""
    with tarfile.open(made) as archive:
        archive.extractall(folder, filter="data")
    command = [str(folder / "bin" / "python"), "-c", _CHECK, str(folder.resolve())]
    done = subprocess.run(
        command, env={"PATH": os.defpath}, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ShipperError(
            f"the environment {sys.prefix} does not work after it is packed: {said}. Its "
            f"Python, {sys.base_prefix}, must be relocatable, as the ones that `uv python "
            "install` brings are. Or install the same environment at one path on all "
            "executors, and name it in `runner.python`.",
            code="SHIP-805",
        )
