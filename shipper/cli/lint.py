"""Warnings of `shipper validate`: entries that are allowed and may be a mistake all the same.

Notifiers that are not there: their classes are looked for in the files of installed packages. Importing one would run what a configuration names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from shipper.config import ConfigFault, LoadedConfig, locate


def missing_notifiers(config_dir: Path, loaded: LoadedConfig) -> list[ConfigFault]:
    """Warnings of notifiers whose class is not here; a warning, since it must be where Airflow is."""
    named = [
        (name, f"notify[{index}].notifier", why_missing(entry.notifier))
        for name, pipeline in loaded.pipelines.items()
        for index, entry in enumerate(pipeline.notify)
    ]
    return [locate(config_dir, name, field, why) for name, field, why in named if why]


def why_missing(name: str, folders: Sequence[str] | None = None) -> str | None:
    """Why there is no class ``name``, or None. None also for a package that is not installed here at all: Airflow may live elsewhere.
    ``folders``: by default where Python looks."""
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
    """Files of the module ``names`` below ``root``; a package's own may hold nothing."""
    path = root.joinpath(*names)
    return [file for file in (path.with_name(f"{path.name}.py"), path / "__init__.py") if file.is_file()]
