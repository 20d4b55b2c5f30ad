"""What speaks against a release is found before anything is made."""

import subprocess
from importlib.metadata import version
from pathlib import Path

from shipper_tools import release

_ROOT = Path(__file__).parents[2]
_VERSION = version("shipper")


def test_nothing_is_released_that_does_not_fit_together(tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", _ROOT, clone], check=True)
    (clone / "stray.txt").write_text("")
    found = release.why_not(clone, "9.9.9")
    assert len(found) == 5, found
    assert "stray.txt" in found[0]
    (clone / "stray.txt").unlink()
    (clone / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {_VERSION} – today\n\n- It is.\n\n## 0\n"
    )
    who = ("-c", "user.name=n", "-c", "user.email=e@example")
    subprocess.run(["git", *who, "commit", "--quiet", "-am", "Release"], cwd=clone, check=True)
    assert release.why_not(clone, _VERSION) == []
    assert release.changes_of(clone / "CHANGELOG.md", _VERSION) == "- It is."


def test_the_folder_of_the_tutorials_leaves_a_checkout_clean():
    ignored = ["git", "check-ignore", "-q", "tutorial/config"]
    assert subprocess.run(ignored, cwd=_ROOT).returncode == 0
