"""The command lines of this machine, for tests that no secret shows there."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path


class CommandLines:
    """Those of all processes, and Java's environments, read again and again while the ``with``
    block runs, for a word."""

    def __init__(self, word: bytes):
        self.seen: set[bytes] = set()
        self._word, self._done = word, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _look(self):
        while not self._done.wait(0.2):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):  # it has ended
                    line = path.read_bytes()
                    java = line.split(b"\0")[0].endswith(b"java")
                    if self._word in line or (
                        java and self._word in path.with_name("environ").read_bytes()
                    ):
                        self.seen.add(line)
