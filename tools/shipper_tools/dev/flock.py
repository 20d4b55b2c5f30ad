"""A lock between processes that a crash releases."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold ``path`` (made if it is not there, never removed) for the length of the block.

    Another holder, in this process or another one, is waited for without limit, after one call of ``on_wait``. The
    kernel lets go of the lock when its holder dies, so there is nothing to clean up. The file stays: removing it would
    let a third process lock a file that the second no longer sees.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
