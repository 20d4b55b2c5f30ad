"""What speaks against a release is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

from shipper_tools import release

_ROOT = Path(__file__).parents[2]
_FILES = {
    "pyproject.toml": '[project]\nversion = "1.0.0"\n',
    "tools/pyproject.toml": '[project]\nversion = "1.0.0"\n',
    "dags/shipper_faults.py": 'written_by="1.0.0"\n',
    "CHANGELOG.md": "## 1.0.0\n\nAll of it.\n",
}


def test_files_that_are_not_committed_are_named(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    [why] = release.why_not(tmp_path, "1.0.0")
    for name in ("CHANGELOG.md", "dags/", "pyproject.toml", "tools/"):
        assert name in why


def test_the_folder_of_the_tutorials_leaves_a_checkout_clean() -> None:
    ignored = ["git", "check-ignore", "-q", "tutorial/config"]
    assert subprocess.run(ignored, cwd=_ROOT, check=False).returncode == 0
