"""A seeded scheduler: one fiber runs at a time, time is virtual, and the seed decides everything.

A fiber is a greenlet. It gives way only where the product waits for time, a lock, an event, a queue
or the network, and where it takes a lock or tells others of a change. A simulated process is a set
of fibers: one that is killed is never resumed, and one that is paused is resumed later.
"""

from __future__ import annotations

import itertools
import random
import traceback
from collections.abc import Callable, Collection
from heapq import heappop, heappush
from typing import Any, ClassVar

from greenlet import GreenletExit, getcurrent, greenlet

#: Virtual seconds that each look at the clock takes: a loop that only looks at the clock ends.
LOOK_SECONDS = 1e-6
#: Unix time at which each world begins: 2026-09-01T00:00:00Z.
EPOCH = 1_788_220_800.0
_MOST_SWITCHES = 2_000_000
#: Sorts of faults that a failing seed is tried without.
FAULTS = ("kills", "pauses", "losses", "delays", "troubles", "switches")


class Stuck(Exception):
    """No fiber can ever run again, or the world ran for longer than it may."""


class Process:
    """A simulated process."""

    def __init__(self, name: str):
        self.name = name
        self.dead = False
        self.paused_until = 0.0
        self.switches = 0
        self.struck_after: int | None = None
        """Number of switches after which ``strike`` is called, once."""
        self.struck_at = 0
        """Number of points of the protocol until ``strike`` is called, once; 0: never."""
        self.struck_word = ""
        """Only points count whose name has it."""
        self.clock_ahead = 0.0
        """Seconds by which its clock is ahead of the others."""
        self.cut_off_until = 0.0
        """Until then it reaches the old leaders of its ledger alone, which acknowledge nothing."""
        self.strike: Callable[[], object] = lambda: None

    def __repr__(self):
        return self.name


class Fiber:
    """A thread of a simulated process."""

    __slots__ = ("call", "carrier", "done", "name", "process", "ready", "waits", "woken")

    def __init__(self, process: Process, name: str, call: Callable[[], object]):
        self.process = process
        self.name = name
        self.call = call
        self.done = False
        #: Number of the wait under way, by which an old timer is told from a present one.
        self.waits = 0
        #: True if it is among the fibers that run next.
        self.ready = False
        self.woken = False
        self.carrier: Carrier | None = None
        """The greenlet that runs it, once it has begun."""


class Carrier(greenlet):
    """A greenlet that runs one fiber after the other, of any world: to make one costs as much as
    twenty switches."""

    idle: ClassVar[list[Carrier]] = []
    fiber: Fiber | None = None

    def run(self):
        while True:
            fiber, here = self.fiber, World.current
            assert fiber is not None
            try:
                fiber.call()
            except GreenletExit:
                pass
            except BaseException as error:
                here.crash = error
            fiber.done = True
            del fiber.call  # cycles are freed late
            self.fiber = fiber.carrier = fiber = None
            following = here.leave(self)
            del here
            if following is not None:
                self.idle.append(self)
                following.switch()


class World:
    """The scheduler, its time, and the log of what happened."""

    current: ClassVar[World]
    """The world that runs now; :class:`_Nowhere` while none does."""

    def __init__(self, seed: int, *, keeps_log: bool = False, without: Collection[str] = ()):
        self.random = random.Random(seed)
        self.seed = seed
        self.seconds = 0.0
        """Virtual monotonic seconds."""
        self.over = self.has_paused = False
        self.store_fails = 0.0
        """Chance that a request of a run to the storage of results fails, or its answer is lost."""
        self.switches = 0
        self.log: list[str] | None = [] if keeps_log else None
        self.failures: list[tuple[str, BaseException]] = []
        """Exceptions that ended a thread."""
        self._ready: list[Fiber] = []
        self._timers: list[tuple[float, int, Fiber | None, Any]] = []
        """Time, number, and the fiber with the number of its wait, or what is called then."""
        self._numbers = 0
        self._names = itertools.count()
        self._hub = getcurrent()
        self._fibers: list[Fiber] = []
        self.fiber: Fiber = None  # type: ignore[assignment]
        """The fiber that runs now; None while the next one is chosen."""
        self._begins: Fiber | None = None
        """The fiber that the hub is to begin."""
        self._main: Fiber | None = None
        self.crash: BaseException | None = None
        """What ends the world: Stuck, or an exception that nobody took."""
        self._most_seconds = 0.0
        self.gives_way = self.random.choice((0.0, 0.02, 0.2))
        """Chance that a fiber gives way where it need not wait."""
        self.without = without
        """Sorts of faults, of ``FAULTS``, that are left out of the seed's course."""
        if "switches" in without:
            self.gives_way = 0.0

    # What happens.

    def tell(self, text: str):
        """Append to the log, which a seed must repeat to the last line."""
        if self.log is not None:
            self.log.append(f"{self.seconds:10.4f} {text}")

    def chance(self, probability: float) -> bool:
        return probability > 0.0 and self.random.random() < probability

    # Fibers.

    @property
    def process(self) -> Process:
        """The process that runs now."""
        return self.fiber.process

    def spawn(
        self, call: Callable[[], object], name: str = "", process: Process | None = None
    ) -> Fiber:
        """Begin a fiber in ``process``, or in the present one."""
        process = process or self.process
        fiber = Fiber(process, name or f"fiber {next(self._names)}", call)
        self._fibers.append(fiber)
        self._make_ready(fiber)
        return fiber

    def wake(self, fiber: Fiber):
        """Make a waiting fiber ready."""
        if not fiber.ready:
            fiber.woken = True
            self._make_ready(fiber)

    def _make_ready(self, fiber):
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
            self._push(until, fiber, fiber.waits)
        self._run_others()
        return fiber.woken

    def _push(self, at, fiber, what):
        number = self._numbers = self._numbers + 1
        heappush(self._timers, (at if at > self.seconds else self.seconds, number, fiber, what))

    def sleep(self, seconds: float):
        until = self.seconds + (seconds if seconds > 0 else 0.0) + LOOK_SECONDS
        while self.seconds < until:
            self.wait(until)

    def give_way(self):
        """Let others run first, now and then."""
        if self.over:
            raise GreenletExit
        if self.gives_way and self.random.random() < self.gives_way:
            self.give_way_once()

    def at(self, seconds: float, call: Callable[[], object]):
        """Call after so many virtual seconds. ``call`` may not wait."""
        self._push(self.seconds + seconds, None, call)

    # Processes.

    def kill(self, process: Process):
        """Kill a process: none of its fibers runs again, not even the present one."""
        self.tell(f"kill {process}")
        process.dead = True
        if self.fiber is not None and self.fiber.process is process:
            self._run_others()

    def pause(self, process: Process, seconds: float):
        self.tell(f"pause {process} for {seconds:.1f} s")
        process.paused_until = self.seconds + seconds
        self.has_paused = True
        if self.fiber is not None and self.fiber.process is process:
            self.give_way_once()

    def pass_point(self, name: str):
        """Pass a point of the protocol: the request ``name`` is about to be sent, or was
        answered."""
        process = self.process
        if process.struck_at and process.struck_word in name:
            process.struck_at -= 1
            if not process.struck_at:
                process.strike()

    def give_way_once(self):
        fiber = self.fiber
        fiber.waits += 1
        self._make_ready(fiber)
        self._run_others()

    # The scheduler. The fiber that gives way chooses the next one, and switches to it.

    def run(self, main: Callable[[], Any], most_seconds: float) -> Any:
        """Run ``main`` in a process of its own until it returns. Raises what it raises, and Stuck.
        Then the world is over."""
        result = []
        error = []

        def first():
            try:
                result.append(main())
            except BaseException as raised:
                error.append(raised)

        World.current = self
        self._most_seconds = most_seconds
        self._main = self.spawn(first, "main", Process("world"))
        self._begins = self._next()
        try:
            while not self._main.done:
                begins, self._begins = self._begins, None
                self._give(begins, Carrier.idle.pop() if Carrier.idle else Carrier()).switch()
                if self.crash is not None:
                    raise self.crash
        finally:
            self._end()
        if error:
            raise error[0]
        return result[0]

    def _run_others(self):
        """Let others run until it is the present fiber's turn again."""
        fiber = self.fiber
        following = self._next()
        if following is not fiber:
            if following is None:
                self._hub.switch()
            elif following.carrier is not None:
                following.carrier.switch()
            elif Carrier.idle:
                self._give(following, Carrier.idle.pop()).switch()
            else:  # begins low on the stack: what a switch copies to and fro stays small
                self._begins = following
                self._hub.switch()
        if self.over:
            raise GreenletExit

    def leave(self, carrier: Carrier) -> greenlet | None:
        """Give a carrier whose fiber has ended the next one, or return whom it is to switch to."""
        if self.over or self.crash is not None or self._main.done:
            return self._hub
        following = self._next()
        if following is None or following.carrier is not None:
            return self._hub if following is None else following.carrier
        self._give(following, carrier)
        return None

    @staticmethod
    def _give(fiber, carrier):
        fiber.carrier, carrier.fiber = carrier, fiber
        return carrier

    def _next(self):
        """Choose who runs next; let time pass while nobody can. Return None if the world ends."""
        try:
            return self._chosen()
        except Stuck as stuck:
            self.crash = stuck
            return None

    def _chosen(self):
        """Choose who runs next; let time pass while nobody can. Raises Stuck."""
        self.fiber = None  # type: ignore[assignment]
        ready, timers = self._ready, self._timers
        while True:
            if not ready:
                if not timers:
                    raise Stuck(f"nothing can happen any more: {self._waiting()}")
                at, _, waiting, what = heappop(timers)
                if waiting is None:
                    self.seconds = at
                    what()
                elif not (waiting.waits != what or waiting.ready or waiting.process.dead):
                    self.seconds = at
                    waiting.waits += 1  # this timer has ended the wait
                    self._make_ready(waiting)
                continue
            if self.seconds > self._most_seconds or self.switches > _MOST_SWITCHES:
                raise Stuck(
                    f"it did not end within {self._most_seconds:g} virtual seconds:"
                    f" {self._waiting()}"
                )
            if (count := len(ready)) > 1:
                index = int(self.random.random() * count)
                ready[index], ready[-1] = ready[-1], ready[index]
            fiber = ready.pop()
            process = fiber.process
            if process.dead or fiber.done:
                continue
            if process.paused_until > self.seconds:
                self._push(process.paused_until, None, lambda fiber=fiber: ready.append(fiber))
                continue
            self.switches += 1
            process.switches += 1
            if process.struck_after is not None and process.switches > process.struck_after:
                process.struck_after = None
                process.strike()
                ready.append(fiber)
                continue
            fiber.ready = False
            self.fiber = fiber
            return fiber

    def _waiting(self):
        return "\n".join(
            f"{f.process}/{f.name}:\n" + "".join(traceback.format_stack(f.carrier.gr_frame, 6))
            for f in self._fibers
            if f.carrier is not None and not f.process.dead
        )

    def _end(self):
        """Unwind all that still waits. Whatever it does meanwhile ends at once."""
        self.over = True
        for fiber in self._fibers:
            if fiber.carrier is not None:
                fiber.carrier.throw(GreenletExit)
        self._fibers.clear()
        self._timers.clear()
        World.current = _NOWHERE


class _Nowhere:
    """Stands where the world was once it is over: whoever looks at it ends."""

    over = True

    def __getattr__(self, name):
        raise GreenletExit


_NOWHERE: Any = _Nowhere()
World.current = _NOWHERE
