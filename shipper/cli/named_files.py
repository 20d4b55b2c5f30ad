"""Files that are named on the command line."""

from __future__ import annotations

import os
from pathlib import Path

from shipper.config.rules import SCHEME


def absolute(path: str) -> str:
    """A path as the steps of a run need it, who may be started elsewhere; symbolic links are not followed. What has a scheme stays as it is."""
    return path if SCHEME.match(path) else os.path.normpath(Path.cwd() / path)
