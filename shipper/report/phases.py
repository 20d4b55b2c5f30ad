"""Phases of a step, and their time, as the step itself measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shipper import runtime

#: Phase before the first step of a process: Python, its imports, and everything that the process
#: did until then.
STARTING_PYTHON = "starting Python"


class Phases:
    """Seconds by name. Inside a phase that is part of another one, only the inner one's clock runs;
    so all of them together are never more than the time that passed. Of the thread that made it:
    what others do meanwhile is not waited for, or is seen where it is."""

    def __init__(self, clock: Callable[[], float] = runtime.monotonic) -> None:
        self._clock = clock
        self._thread = runtime.get_ident()
        self._seconds: dict[str, float] = {}
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Count the ``with`` block as (a part of) the phase ``name``."""
        if runtime.get_ident() != self._thread:
            yield
            return
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def move(self, seconds: float, of: str, to: str) -> None:
        """Move ``seconds`` that were counted for ``of`` to ``to``, which came before it, by another
        measurement: at most as many as there are."""
        seconds = min(max(0.0, seconds), self._seconds.get(of, 0.0))
        if not seconds:
            return
        left = self._seconds[of] - seconds
        self.add(to, seconds)
        if list(self._seconds).index(to) > list(self._seconds).index(of):
            del self._seconds[of]
        self._seconds[of] = left

    def add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def seconds(self) -> dict[str, float]:
        """Return phase → seconds, in milliseconds' precision, in the order in which the phases
        first ended."""
        return {
            name: round(seconds, 3) for name, seconds in self._seconds.items() if seconds >= 0.0005
        }

    def _turn(self) -> None:
        """Count the time since the last turn for the phase that is innermost now."""
        now = self._clock()
        if self._open:
            self.add(self._open[-1], now - self._since)
        self._since = now
