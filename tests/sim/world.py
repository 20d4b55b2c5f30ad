"""A seeded scheduler: one fiber runs at a time, time is virtual, and the seed decides everything.

A fiber is a greenlet. It gives way only where the product waits for time, a lock, an event, a queue
or the network, and where it takes a lock or tells others of a change. A simulated process is a set
of fibers: one that is killed is never resumed, and one that is paused is resumed later.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
import traceback
from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

#: Virtual seconds that each look at the clock takes: a loop that only looks at the clock ends.
_LOOK_SECONDS = 1e-6
#: Unix time at which each world begins: 2026-09-01T00:00:00Z.
EPOCH = 1_788_220_800.0
_MOST_SWITCHES = 2_000_000


class Stuck(Exception):
    """No fiber can ever run again, or the world ran for longer than it may."""


class Process:
    """A simulated process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused_until = 0.0
        self.switches = 0
        self.struck_after: int | None = None
        """Number of switches after which ``strike`` is called, once."""
        self.strike: Callable[[], object] = lambda: None

    def __repr__(self) -> str:
        return self.name


class Fiber:
    """A thread of a simulated process."""

    def __init__(
        self, process: Process, name: str, call: Callable[[], object], hub: greenlet
    ) -> None:
        self.process = process
        self.name = name
        self.call = call
        self.done = False
        self.waits = 0
        """Number of the wait under way, by which an old timer is told from a present one."""
        self.ready = False
        """True if it is among the fibers that run next."""
        self.woken = False
        self.greenlet = greenlet(self._run, hub)  # which runs on when this one ends

    def _run(self) -> None:
        try:
            self.call()
        finally:
            self.done = True


class World:
    """The scheduler, its time, and the log of what happened."""

    current: World | None = None

    def __init__(self, seed: int, *, keeps_log: bool = False) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.seconds = 0.0
        """Virtual monotonic seconds."""
        self.over = False
        self.switches = 0
        self.log: list[str] | None = [] if keeps_log else None
        self.failures: list[tuple[str, BaseException]] = []
        """Exceptions that ended a thread."""
        self._ready: list[Fiber] = []
        self._timers: list[tuple[float, int, Fiber, int]] = []
        self._numbers = itertools.count()
        self._names = itertools.count()
        self._hub = getcurrent()
        self._fibers: list[Fiber] = []
        self._running: Fiber | None = None
        self.gives_way = self.random.choice((0.0, 0.02, 0.2))
        """Chance that a fiber gives way where it need not wait."""

    # What happens.

    def tell(self, text: str) -> None:
        """Append to the log, which a seed must repeat to the last line."""
        if self.log is not None:
            self.log.append(f"{self.seconds:10.4f} {text}")

    def now(self) -> float:
        if self.over:
            raise GreenletExit
        self.seconds += _LOOK_SECONDS
        return self.seconds

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    # Fibers.

    @property
    def fiber(self) -> Fiber:
        """The fiber that runs now."""
        assert self._running is not None
        return self._running

    @property
    def process(self) -> Process:
        """The process that runs now."""
        return self.fiber.process

    def spawn(
        self, call: Callable[[], object], name: str = "", process: Process | None = None
    ) -> Fiber:
        """Begin a fiber in ``process``, or in the present one."""
        process = process or self.process
        fiber = Fiber(process, name or f"fiber {next(self._names)}", call, self._hub)
        self._fibers.append(fiber)
        self._make_ready(fiber)
        return fiber

    def wake(self, fiber: Fiber) -> None:
        """Make a waiting fiber ready."""
        if not fiber.ready:
            fiber.woken = True
            self._make_ready(fiber)

    def _make_ready(self, fiber: Fiber) -> None:
        fiber.ready = True
        self._ready.append(fiber)

    def wait(self, until: float | None = None) -> bool:
        """Wait until woken, or until the time comes. Return True if woken."""
        if self.over:
            raise GreenletExit
        fiber = self.fiber
        fiber.waits += 1
        fiber.woken = False
        if until is not None:
            heapq.heappush(
                self._timers, (max(until, self.seconds), next(self._numbers), fiber, fiber.waits)
            )
        self._hub.switch()
        if self.over:
            raise GreenletExit
        return fiber.woken

    def sleep(self, seconds: float) -> None:
        until = self.seconds + max(0.0, seconds) + _LOOK_SECONDS
        while self.seconds < until:
            self.wait(until)

    def give_way(self) -> None:
        """Let others run first, now and then."""
        if self.chance(self.gives_way):
            self.give_way_once()
        if self.over:
            raise GreenletExit

    def at(self, seconds: float, call: Callable[[], object], process: Process) -> None:
        """Call in a fiber of ``process`` after so many virtual seconds."""

        def later() -> None:
            self.sleep(seconds)
            call()

        self.spawn(later, "later", process)

    # Processes.

    def kill(self, process: Process) -> None:
        """Kill a process: none of its fibers runs again, not even the present one."""
        self.tell(f"kill {process}")
        process.dead = True
        if self._running is not None and self._running.process is process:
            self._hub.switch()

    def pause(self, process: Process, seconds: float) -> None:
        self.tell(f"pause {process} for {seconds:.1f} s")
        process.paused_until = self.seconds + seconds
        if self._running is not None and self._running.process is process:
            self.give_way_once()

    def give_way_once(self) -> None:
        fiber = self.fiber
        fiber.waits += 1
        self._make_ready(fiber)
        self._hub.switch()

    # The hub.

    def run(self, main: Callable[[], Any], most_seconds: float) -> Any:
        """Run ``main`` in a process of its own until it returns. Raises what it raises, and Stuck.
        Then the world is over."""
        result: list[Any] = []
        error: list[BaseException] = []

        def first() -> None:
            try:
                result.append(main())
            except BaseException as raised:
                error.append(raised)

        World.current = self
        fiber = self.spawn(first, "main", Process("world"))
        try:
            while not fiber.done:
                self._step(most_seconds)
        finally:
            self._end()
        if error:
            raise error[0]
        return result[0]

    def _step(self, most_seconds: float) -> None:
        runnable = [f for f in self._ready if self.seconds >= f.process.paused_until]
        if not runnable:
            self._advance()
            return
        if self.seconds > most_seconds or self.switches > _MOST_SWITCHES:
            raise Stuck(
                f"it did not end within {most_seconds:g} virtual seconds: {self._waiting()}"
            )
        fiber = runnable[self.random.randrange(len(runnable))] if len(runnable) > 1 else runnable[0]
        self._ready.remove(fiber)
        fiber.ready = False
        if fiber.process.dead or fiber.done:
            return
        self.switches += 1
        process = fiber.process
        process.switches += 1
        if process.struck_after is not None and process.switches > process.struck_after:
            process.struck_after = None
            process.strike()
            self._make_ready(fiber)
            return
        self._running = fiber
        fiber.greenlet.switch()
        self._running = None

    def _advance(self) -> None:
        """Go to the next moment at which a fiber can run."""
        resumed = [f.process.paused_until for f in self._ready if not f.process.dead]
        while self._timers:
            at, _, fiber, number = self._timers[0]
            if fiber.process.dead or fiber.done or fiber.waits != number or fiber.ready:
                heapq.heappop(self._timers)
                continue
            if resumed and min(resumed) < at:
                break
            heapq.heappop(self._timers)
            self.seconds = max(self.seconds, at)
            fiber.waits += 1  # this timer has ended the wait
            self._make_ready(fiber)
            return
        if not resumed:
            raise Stuck(f"nothing can happen any more: {self._waiting()}")
        self.seconds = max(self.seconds, min(resumed))

    def _waiting(self) -> str:
        return "\n".join(
            f"{f.process}/{f.name}:\n" + "".join(traceback.format_stack(f.greenlet.gr_frame, 6))
            for f in self._fibers
            if not (f.done or f.process.dead)
        )

    def _end(self) -> None:
        """Unwind all that still waits. Whatever it does meanwhile ends at once."""
        self.over = True
        for fiber in self._fibers:
            if not fiber.done and fiber.greenlet:
                with contextlib.suppress(BaseException):  # what ends there was over before
                    fiber.greenlet.throw(GreenletExit)
        self._fibers.clear()
        World.current = None


def world() -> World:
    """Return the world that runs now."""
    if World.current is None:
        raise GreenletExit
    return World.current
