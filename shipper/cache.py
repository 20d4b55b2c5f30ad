"""Folder of what can be made again: the jars of dev servers, and what makes a JVM start fast."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return ``$SHIPPER_CACHE``, else ``$XDG_CACHE_HOME/shipper``, else ``~/.cache/shipper``. Safe
    to delete at any time."""
    if chosen := environ.get("SHIPPER_CACHE"):
        return Path(chosen).expanduser().absolute()
    if base := environ.get("XDG_CACHE_HOME"):
        return Path(base).absolute() / "shipper"
    return Path.home() / ".cache" / "shipper"
