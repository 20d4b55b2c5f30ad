"""Stand-ins for all of :mod:`shipper.runtime`, by virtual time and the seeded scheduler."""

import datetime as dt
from collections import deque
from concurrent.futures import CancelledError
from contextlib import contextmanager
from queue import Empty, Full

from greenlet import GreenletExit

from shipper import runtime
from tests.sim.world import EPOCH, LOOK_SECONDS, Stuck, World


def _deadline(timeout):
    return None if timeout is None or timeout < 0 else World.current.seconds + timeout


class Waiters:
    """Fibers that wait for something to change."""

    __slots__ = ("_fibers",)

    def __init__(self):
        self._fibers = []

    def wait(self, until):
        here = World.current
        fiber = here.fiber
        self._fibers.append(fiber)
        if here.wait(until):
            return True
        if fiber in self._fibers:
            self._fibers.remove(fiber)
        return False

    def wake(self, count=None):
        here = World.current
        while self._fibers and count != 0 and not here.over:
            fiber = self._fibers.pop(0)
            if fiber.process.dead or fiber.done or fiber.ready:
                continue
            here.wake(fiber)
            count = None if count is None else count - 1


class Lock:
    _depth = 1

    def __init__(self):
        self._owner = None
        self._waiters = Waiters()

    def acquire(self, blocking=True, timeout=-1):
        here = World.current
        if here.gives_way:
            here.give_way()
        elif here.over:
            raise GreenletExit
        if self._owner is not None:
            until = _deadline(timeout)
            while self._owner is not None:
                if not blocking or (until is not None and here.seconds >= until):
                    return False
                self._waiters.wait(until)
        self._owner = here.fiber
        return True

    def release(self):
        self._owner = None
        if self._waiters._fibers:
            self._waiters.wake(1)

    def locked(self):
        return self._owner is not None

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()


class RLock(Lock):
    def __init__(self):
        super().__init__()
        self._depth = 0

    def acquire(self, blocking=True, timeout=-1):
        if self._owner is not World.current.fiber and not super().acquire(blocking, timeout):
            return False
        self._depth += 1
        return True

    def release(self):
        self._depth -= 1
        if not self._depth:
            super().release()


class Condition:
    def __init__(self, lock=None):
        self._lock = lock or RLock()
        self._waiters = Waiters()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self):
        return bool(self._lock.acquire())

    def __exit__(self, *_):
        self._lock.release()

    def wait(self, timeout=None):
        depth, self._lock._depth = self._lock._depth, 1
        self._lock.release()
        try:
            return self._waiters.wait(_deadline(timeout))
        finally:
            self._lock.acquire()
            self._lock._depth = depth

    def wait_for(self, predicate, timeout=None):
        until = _deadline(timeout)
        while not (found := predicate()):
            left = None if until is None else until - World.current.seconds
            if left is not None and left <= 0:
                break
            self.wait(left)
        return found

    def notify(self, n=1):
        self._waiters.wake(n)

    def notify_all(self):
        if self._waiters._fibers:
            self._waiters.wake()


class Event:
    def __init__(self):
        self._set = False
        self._waiters = Waiters()

    def is_set(self):
        return self._set

    def set(self):
        self._set = True
        if self._waiters._fibers:
            self._waiters.wake()

    def clear(self):
        self._set = False

    def wait(self, timeout=None):
        until = _deadline(timeout)
        while not self._set:
            if until is not None and World.current.seconds >= until:
                break
            self._waiters.wait(until)
        return self._set


class Queue:
    """As no call gives way while it has changed something, there is no lock."""

    def __init__(self, maxsize=0):
        self.maxsize = maxsize
        self._items = deque()
        self._waiters = Waiters()

    def put(self, item, block=True, timeout=None):
        most = self.maxsize
        if not self._wait_for(lambda: not most or len(self._items) < most, block, timeout):
            raise Full
        self._items.append(item)
        self._waiters.wake()

    def get(self, block=True, timeout=None):
        if not self._wait_for(lambda: self._items, block, timeout):
            raise Empty
        item = self._items.popleft()
        self._waiters.wake()
        return item

    def _wait_for(self, can, block, timeout):
        here = World.current
        here.give_way()
        until = _deadline(timeout if block else 0.0)
        while not can():
            if until is not None and here.seconds >= until:
                return False
            self._waiters.wait(until)
            here.give_way()
        return True

    def get_nowait(self):
        return self.get(block=False)

    def put_nowait(self, item):
        self.put(item, block=False)

    def empty(self):
        return not self._items

    def qsize(self):
        return len(self._items)


class Thread:
    def __init__(self, group=None, target=None, name=None, args=(), kwargs=None, *, daemon=None):
        self.name, self.daemon = name or "thread", daemon
        self._target, self._args, self._kwargs = target, tuple(args), kwargs or {}
        self._fiber = None
        self._ended = Event()

    def start(self):
        self._fiber = World.current.spawn(self._run, self.name)

    def _run(self):
        try:
            self.run()
        except GreenletExit:
            raise
        except BaseException as error:
            if not World.current.over:
                World.current.failures.append((self.name, error))
        finally:
            self._ended.set()
            del self._target, self._args, self._kwargs  # cycles are freed late

    def run(self):
        if self._target:
            self._target(*self._args, **self._kwargs)

    def join(self, timeout=None):
        self._ended.wait(timeout)

    def is_alive(self):
        return self._fiber is not None and not self._ended.is_set()

    @property
    def ident(self):
        return None if self._fiber is None else id(self._fiber)


class Timer(Thread):
    def __init__(self, interval, function):
        super().__init__(target=function)
        self._interval, self._cancelled = interval, Event()

    def cancel(self):
        self._cancelled.set()

    def run(self):
        if not self._cancelled.wait(self._interval):
            super().run()


class Future:
    def __init__(self):
        self._done = Event()
        self._result = None
        self._error = None
        self._cancelled = self._running = False
        self._callbacks = []

    @classmethod
    def __class_getitem__(cls, _):
        return cls

    def set_result(self, result):
        self._result = result
        self._end()

    def set_exception(self, error):
        self._error = error
        self._end()

    def _end(self):
        self._done.set()
        for callback in self._callbacks:
            callback(self)

    def result(self, timeout=None):
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._result

    def exception(self, timeout=None):
        if not self._done.wait(timeout):
            raise TimeoutError
        if self._cancelled:
            raise CancelledError
        return self._error

    def wait(self, timeout):
        """Wait until it is done, or for so long."""
        return self._done.wait(timeout)

    def cancel(self):
        if self._running or self._done.is_set():
            return False
        self._cancelled = True
        self._end()
        return True

    def cancelled(self):
        return self._cancelled

    def running(self):
        return self._running and not self._done.is_set()

    def done(self):
        return self._done.is_set()

    def add_done_callback(self, callback):
        if self.done():
            callback(self)
        else:
            self._callbacks.append(callback)


class ThreadPoolExecutor:
    def __init__(self, max_workers=None, thread_name_prefix="pool"):
        self._most = max_workers or 8
        self._name = thread_name_prefix
        self._waiting = deque()
        self._workers = []
        self._busy = 0

    def submit(self, call, *args, **kwargs):
        future = Future()
        self._waiting.append((future, call, args, kwargs))
        if self._busy < self._most:
            self._busy += 1
            worker = Thread(target=self._work, name=self._name)
            self._workers.append(worker)
            worker.start()
        return future

    def _work(self):
        while self._waiting:
            future, call, args, kwargs = self._waiting.popleft()
            if future.cancelled():
                continue
            future._running = True
            try:
                result = call(*args, **kwargs)
            except GreenletExit:
                raise
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        self._busy -= 1

    def map(self, call, *iterables):
        futures = [self.submit(call, *args) for args in zip(*iterables, strict=False)]
        return (future.result() for future in futures)

    def shutdown(self, wait=True, *, cancel_futures=False):
        if cancel_futures:
            for future, *_ in self._waiting:
                future.cancel()
        while wait and self._workers:
            self._workers.pop(0).join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()


def as_completed(futures, timeout=None):
    left = list(futures)
    changed = Event()
    for future in left:
        future.add_done_callback(lambda _: changed.set())
    while left:
        done = [future for future in left if future.done()]
        for future in done:
            left.remove(future)
            yield future
        if not done:
            changed.clear()
            changed.wait()


def _monotonic():
    here = World.current
    if here.over:
        raise GreenletExit
    here.seconds += LOOK_SECONDS
    return here.seconds


def _time():
    return EPOCH + _monotonic() + World.current.process.clock_ahead


def _now():
    return dt.datetime.fromtimestamp(_time(), dt.UTC)


class _Current:
    """The present thread, as far as the product asks for it."""

    @property
    def ident(self):
        return id(World.current.fiber)

    @property
    def name(self):
        return World.current.fiber.name


#: Name in shipper.runtime → what stands in for it.
STAND_INS = {
    "Condition": Condition,
    "Event": Event,
    "Full": Full,
    "Future": Future,
    "Lock": Lock,
    "Queue": Queue,
    "RLock": RLock,
    "Thread": Thread,
    "ThreadPoolExecutor": ThreadPoolExecutor,
    "Timer": Timer,
    "as_completed": as_completed,
    "current_thread": _Current,
    "get_ident": lambda: id(World.current.fiber),
    "main_thread": _Current,
    "monotonic": _monotonic,
    "now": _now,
    "process_time": lambda: 0.0,
    "sleep": lambda seconds: World.current.sleep(seconds),
    "threads": lambda: [],
    "time": _time,
    "time_ns": lambda: int(_time() * 1e9),
    "token_hex": lambda size=32: World.current.random.randbytes(size).hex(),
}


@contextmanager
def installed(*, more=()):
    """Put the stand-ins in the place of shipper.runtime, and ``more`` (owner, name, value), while
    the block runs."""
    places = [(runtime, name, value) for name, value in STAND_INS.items()] + list(more)
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, value in places:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


__all__ = ["STAND_INS", "Stuck", "installed"]
