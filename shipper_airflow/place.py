"""Places: of the configuration, and of Airflow's own pages."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

_WRITTEN = re.compile(r'^CONFIG = (".*?")', re.MULTILINE)


def config_dir(dags: Path) -> Path:
    """Return `$SHIPPER_CONFIG`; else what `shipper dags install` has written into ``dags``, the
    folder of DAGs; else the ``config`` beside it. (Links are not followed: a tool that keeps the
    folder at a commit replaces what a link leads to.)"""
    if given := os.environ.get("SHIPPER_CONFIG"):
        return Path(given).absolute()
    try:
        written = _WRITTEN.search((dags / "shipper_dags.py").read_text("utf-8"))
    except OSError:
        written = None
    return Path(json.loads(written[1])) if written else dags.absolute().parent / "config"


def root() -> str:
    """Return where Airflow's own pages begin: `/`, or the prefix that it is served below."""
    from airflow.configuration import conf

    return urlsplit(conf.get("api", "base_url", fallback="/") or "/").path.rstrip("/") + "/"
