"""Whether a task runs the code that its driver runs. Executors get theirs by another way, an archive or a folder of their own, and an order that is
read by another version may lose what that one does not know."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
#: What tasks run of shipper.
_PARTS = ("complaints.py", "errors.py", "types.py", "config/*.py", "kafka/*.py", "ledger/*.py", "worker/*.py")


@functools.cache
def code_digest() -> str:
    """12 hex digits over the sources that tasks run. Takes some 5 ms, once in a process."""
    digest = hashlib.sha256()
    for path in sorted(path for part in _PARTS for path in _ROOT.glob(part)):
        digest.update(f"{path.relative_to(_ROOT).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
