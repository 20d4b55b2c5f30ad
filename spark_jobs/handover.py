"""How the driver hands its order, passwords and all, to Spark's Python processes on the same machine: in memory, never on a disk.

Such a process learns a path by an option of the sink, and options are shown in Spark's plans. The path leads into the driver's open files
(``/proc/PID/fd/N``), which other processes of the same user may open; when the driver is gone, by kill -9 too, so is what was behind it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_OLD_SECONDS = 600.0


@contextlib.contextmanager
def handed_over(content: bytes, folder: Path) -> Iterator[str]:
    """The path, as long as the ``with`` block runs. Where there is no memory to be opened like that (macOS), a file in ``folder``."""
    if not hasattr(os, "memfd_create"):
        path = folder / "order"
        path.touch(mode=0o600)
        path.write_bytes(content)
        try:
            yield str(path)
        finally:
            path.unlink(missing_ok=True)
        return
    number = os.memfd_create("shipper order")
    try:
        with open(number, "wb", closefd=False) as memory:
            memory.write(content)
        yield f"/proc/{os.getpid()}/fd/{number}"
    finally:
        os.close(number)


def sweep() -> None:
    """Removes orders in files that processes of this user left behind when they were killed: older shippers, and where there is no
    memory to be opened. A living process needs its own for some seconds only."""
    before = time.time() - _OLD_SECONDS
    for path in Path(tempfile.gettempdir()).glob("shipper-*/order"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if found.st_uid == os.geteuid() and found.st_mtime < before:
                path.unlink()
