"""Where things lie: paths and URIs of the configuration."""

from __future__ import annotations

import os
import re
from pathlib import Path

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def resolve_uri(config_dir: Path, uri: str) -> str:
    """A path that is neither absolute nor has a scheme lies below the folder above ``config_dir``; others stay as they are.

    Globs, placeholders and a ``/`` at the end survive. Symbolic links are not followed: a file's path is its identity.
    """
    if _SCHEME.match(uri) or uri.startswith("/"):
        return uri
    path = os.path.normpath(Path.cwd() / config_dir / ".." / uri)
    return path + "/" if uri.endswith("/") else path


def lies_below(uri: str, root: str) -> bool:
    """Whether everything that ``uri``, a path or a pattern of paths, can name lies in the folder ``root``. Symbolic links are not looked at."""
    plain, top = _without_file_scheme(uri), _without_file_scheme(root).rstrip("/")
    if ".." in re.split(r"[/,{}|]", plain):
        return False
    return plain == top or plain.startswith(top + "/")


def _without_file_scheme(uri: str) -> str:
    found = re.match(r"file:/+", uri)
    return "/" + uri[found.end() :] if found else uri
