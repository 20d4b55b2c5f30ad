"""Whether a notifier's class is there, found in the files of installed packages: importing it would run what a configuration names."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path


def why_missing(name: str, folders: Sequence[str] | None = None) -> str | None:
    """None also for a package that is not installed here at all: Airflow may live elsewhere. ``folders``: by default where Python looks."""
    *modules, class_name = name.split(".")
    roots = [Path(folder) for folder in (sys.path if folders is None else folders) if folder]
    if not any(_modules(root, modules[:1]) for root in roots):
        return None
    found = [file for root in roots for file in _modules(root, modules)]
    if not found:
        return f"there is no module {'.'.join(modules)} here, and {modules[0]} is; is a provider to be installed, or the name misspelt?"
    if not any(re.search(rf"\b{class_name}\b", file.read_text(errors="replace")) for file in found):
        return f"{'.'.join(modules)} holds no {class_name}"
    return None


def _modules(root: Path, names: Sequence[str]) -> list[Path]:
    """The module's file; a package's own, which may hold nothing."""
    path = root.joinpath(*names)
    return [file for file in (path.with_name(f"{path.name}.py"), path / "__init__.py") if file.is_file()]
