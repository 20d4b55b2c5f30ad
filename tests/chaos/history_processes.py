"""The processes of a history's runs, without the two seconds that Python takes to import
everything.

A process that has imported all of it, and has never had a thread (:func:`serve`), forks the leader
of each run. The leader forks the driver and each task attempt, so that any of them can be killed
with -9 at any point and the others go on: tasks whose driver is dead, and a driver whose tasks are
dead. A leader does nothing else, and ends with its last process.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import logging
import os
import pickle
import random
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any

from shipper.config.cluster import Cluster
from shipper.errors import ShipperError
from shipper.worker.order import ShipOrder
from tests.chaos.history_run import (
    DRIVER_POINTS,
    WORKER_POINTS,
    Answer,
    Point,
    RunSpec,
    Strike,
    announce,
    owner,
    perform,
    work,
)

_SUBREAPER, _DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG


class Leader:
    """The driver's end of its leader's socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._lock = link, threading.Lock()

    def run_task(
        self,
        spec: RunSpec,
        order: ShipOrder,
        cluster: Cluster,
        task: int,
        attempt: int,
        cancelled: threading.Event,
    ) -> Answer:
        here, there = Pipe()
        with self._lock:
            socket.send_fds(self._link, [b"task"], [there.fileno()])
            there.close()
            pid = int(self._link.recv(100))
        announce(event="task", task=task, attempt=attempt, pid=pid)
        try:
            with contextlib.suppress(BrokenPipeError):
                here.send((spec, order, cluster, task, attempt))
            while not here.poll(0.1):
                if cancelled.is_set():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            found = here.recv()
            assert isinstance(found, Answer)
            return found
        except (EOFError, ConnectionError):
            return Answer(error=f"the process of task {task} died")
        finally:
            here.close()


def serve() -> None:
    """Fork a leader for each (RunSpec, events, log) on standard input, and print its process
    number. Ends with standard input."""
    _adopt_orphans()
    requests = io.BufferedReader(io.FileIO(0))
    while True:
        try:
            spec, events, log = pickle.load(requests)
        except EOFError:
            return
        pid = os.fork()
        if pid == 0:
            _in_child(_lead, spec, events, log)
        os.write(1, b"%d\n" % pid)


def _adopt_orphans() -> None:
    """Become the parent of processes whose leader was killed, so that they are gone when
    they end."""
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def _die_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _in_child(do: Callable[..., object], *arguments: object) -> None:
    """Do what a forked process is there for, and end the process."""
    code = 1
    try:
        _die_with_parent()
        do(*arguments)
        code = 0
    except BaseException:
        logging.getLogger("history").exception("a process of the run failed")
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _lead(spec: RunSpec, events: str, log: str) -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for path, number in (("/dev/null", 0), (events, 1), (log, 2)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    logging.basicConfig(
        level="INFO",
        format="%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
        force=True,
    )
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    driver = os.fork()
    if driver == 0:
        here.close()
        _in_child(_drive, spec, there)
    there.close()
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not select.select([here], [], [], 0.2)[0]:
            continue
        request, fds, _, _ = socket.recv_fds(here, 100, 1)
        if not request:  # the driver is gone; its tasks go on
            break
        pid = os.fork()
        if pid == 0:
            here.close()
            _in_child(_task, fds[0], driver)
        os.close(fds[0])
        with contextlib.suppress(BrokenPipeError):
            here.send(b"%d" % pid)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _drive(spec: RunSpec, link: socket.socket) -> None:
    announce(event="driver", pid=os.getpid())
    for strike in spec.strikes:
        if strike.point in DRIVER_POINTS:
            _arm(strike, DRIVER_POINTS[strike.point], os.getpid())
        elif spec.kind != "ship":
            _arm(strike, WORKER_POINTS[strike.point], os.getpid())
    _slow_down(spec)
    try:
        announce(event="ended", **perform(spec, Leader(link)))
    except ShipperError as error:
        announce(event="ended", error=error.message, kind=type(error).__name__)


def _task(fd: int, driver: int) -> None:
    answers = Connection(fd)
    spec, order, cluster, task, attempt = answers.recv()
    if attempt == 0:
        for strike in spec.strikes:
            if strike.point in WORKER_POINTS:
                _arm(strike, WORKER_POINTS[strike.point], driver)
    _slow_down(spec)
    try:
        answer = work(spec, order, cluster, task, attempt)
    except BaseException as error:
        answer = Answer(error=f"{type(error).__module__}.{type(error).__name__}: {error}")
    answers.send(answer)


def _slow_down(spec: RunSpec) -> None:
    for method, seconds in spec.pauses:
        of: Any = owner(method)
        original = getattr(of, method)

        def slow(
            self: Any, *arguments: Any, original: Any = original, seconds: float = seconds
        ) -> Any:
            time.sleep(seconds)
            return original(self, *arguments)

        setattr(of, method, slow)


def _arm(strike: Strike, point: Point, driver: int) -> None:
    """Put the strike around a method or a function, for this process."""
    of, name, when = point
    original = getattr(of, name)
    lock, calls = threading.Lock(), [0]

    def hit() -> None:
        announce(
            event="strike", point=strike.point, victim=strike.victim, number=int(strike.number)
        )
        if strike.victim == "all":
            os.killpg(os.getpgid(0), strike.number)
        else:
            os.kill(driver if strike.victim == "driver" else os.getpid(), strike.number)

    def armed(*arguments: Any, **named: Any) -> Any:
        with lock:
            calls[0] += 1
            now = calls[0] == strike.nth
        if now and when == "before":
            hit()
        if now and when == "during":
            threading.Timer(random.uniform(0.0, 0.004), hit).start()
        found = original(*arguments, **named)
        if now and when == "after":
            hit()
        return found

    setattr(of, name, armed)
