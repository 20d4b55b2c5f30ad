"""Place of the configuration."""

from __future__ import annotations

import os
from pathlib import Path


def config_dir(dags: Path) -> Path:
    """Return `$SHIPPER_CONFIG`; else the ``config`` beside ``dags``, the folder of DAGs. (Links are
    not followed: a tool that keeps the folder at a commit replaces what a link leads to.)"""
    return Path(os.environ.get("SHIPPER_CONFIG") or dags.absolute().parent / "config").absolute()
