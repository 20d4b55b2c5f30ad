"""Stop by a signal, or because the parent process is gone: the stack unwinds, so that Spark ends
with it, the lease is released, and a message gives the state of the ledger."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from types import FrameType

from shipper import runtime
from shipper.error_codes import STOPPED, with_code
from shipper.processes import ProcessId, group_members

#: Variable that names the process that started this one, as "PID START"; see ProcessId.
PARENT = "SHIPPER_PARENT"
#: Signals of a person at the keyboard, of a service manager, and of a closed terminal.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_EVERY_SECONDS = 1.0


#: What sends the rest of a run.
SAME_COMMAND = "Run the same command again for the rest"


class Stopped(SystemExit):
    """Raised in the main thread. Its exit code is 128 + the signal's number, as shells have it."""

    def __init__(self, signum: int, why: str | None = None) -> None:
        super().__init__(128 + signum)
        self.signum = signum
        self.why = why or f"stopped by {signal.Signals(signum).name}"
        self.there: str | None = None
        """State of the records at the stop, if known."""
        self.committed: int | None = None
        """Records that the ledger has of the ship that was stopped, if known."""
        self.rest = SAME_COMMAND
        """Advice on what sends the rest."""

    @property
    def message(self) -> str:
        there = (
            self.there
            or "What was sent until then, if anything, is in the ledger and is not sent again"
        )
        text = f"{self.why}. {there}. {self.rest}."
        return with_code(text, STOPPED)

    @property
    def message_of_command(self) -> str:
        """Message of a whole command, which speaks of records only if it ships them."""
        return self.message if self.there else with_code(f"{self.why}. Run it again.", STOPPED)


class _Once:
    """Handler that stops once: a second TERM must not interrupt the unwinding. A second Ctrl-C
    raises again, since the user wants to wait no longer."""

    def __init__(self, at_most_seconds: float | None) -> None:
        self._at_most_seconds = at_most_seconds
        self._asked = False
        self.orphaned = False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if self._asked and signum != signal.SIGINT:
            return
        if not self._asked and self._at_most_seconds is not None:
            end_after(self._at_most_seconds, 128 + signum)
        self._asked = True
        raise Stopped(
            signum,
            "stopped, because the process that had started it ended" if self.orphaned else None,
        )


def raise_when_stopped(at_most_seconds: float | None = None) -> None:
    """Raise :class:`Stopped` on TERM, HUP and INT from now on. Signals that the parent ignores, as
    `nohup` does HUP, stay ignored.

    With ``at_most_seconds`` the process ends by then in any case. With the parent in the
    environment (see :func:`child_environment`), the parent's end counts as a TERM.
    """
    handler = _Once(at_most_seconds)
    for signum in _SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, handler)
    if parent := _parent(os.environ.pop(PARENT, "")):
        runtime.Thread(
            target=_watch, args=(parent, handler, at_most_seconds), name="parent", daemon=True
        ).start()


def child_environment() -> Mapping[str, str]:
    """Return the environment through which a child knows this process."""
    me = ProcessId.of(os.getpid())
    return {PARENT: f"{me.pid} {me.started}"}


def _parent(text: str) -> ProcessId | None:
    """Return the parent; None if none is named, or if it cannot be seen from here (a container of
    its own)."""
    pid, _, started = text.partition(" ")
    parent = ProcessId(int(pid), started) if pid.isdigit() and started else None
    return parent if parent and parent.alive() else None


def _watch(parent: ProcessId, handler: _Once, at_most_seconds: float | None) -> None:
    while parent.alive():
        runtime.sleep(_LOOK_EVERY_SECONDS)
    handler.orphaned = True
    if at_most_seconds is not None:
        end_after(
            at_most_seconds, 128 + signal.SIGTERM
        )  # the main thread may be in a call that hears no signal
    os.kill(os.getpid(), signal.SIGTERM)


def end_after(seconds: float, exit_code: int) -> None:
    """End this process after that time, and those of its group, if it leads the group."""

    def end() -> None:
        me = os.getpid()
        for pid in group_members(me):  # none, if somebody else leads the group
            if pid != me:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        os._exit(exit_code)

    timer = runtime.Timer(seconds, end)
    timer.daemon = True
    timer.start()
