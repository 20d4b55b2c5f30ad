"""Where the configuration lies."""

from __future__ import annotations

import os
from pathlib import Path


def config_dir() -> Path:
    """`$SHIPPER_CONFIG`; else the ``config`` beside ``dags``."""
    return Path(
        os.environ.get("SHIPPER_CONFIG") or Path(__file__).resolve().parents[2] / "config"
    ).absolute()
