"""Reading ahead: the JVM cuts and converts the next rows while the lanes open and deliver the ones before."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.2


class Prefetch(Generic[T]):
    """Iterates over ``source`` in a thread of its own, at most ``depth`` items ahead, from the ``with`` block's beginning on.

    What ``source`` raises is raised to the reader. Leaving the block ends the thread, also when items are left.
    """

    def __init__(self, source: Iterator[T], depth: int) -> None:
        self._source = source
        self._items: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="prefetch", daemon=True)

    def __enter__(self) -> Iterator[T]:
        self._thread.start()
        return iter(self)

    def __iter__(self) -> Iterator[T]:
        while (item := self._items.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        # After a failure the thread may be waiting for the JVM, which closes the line to a task that failed.
        self._thread.join(None if error is None else 5.0)

    def _read(self) -> None:
        try:
            for item in self._source:
                self._put((item,))
                if self._stop.is_set():
                    return
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _put(self, item: tuple[T] | BaseException | None) -> None:
        while not self._stop.is_set():
            try:
                return self._items.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
