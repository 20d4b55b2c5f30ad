"""The part of librdkafka's words that no call returns: what its error callback and its log say.

Every client shares this module, also the consumer that judges a delivery: nothing here decides what
was delivered.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
import re
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from shipper import runtime

log = logging.getLogger("shipper.kafka")

_BELIEVED_SECONDS = 60.0
_REPEATED_SECONDS = 30.0
_MOST_LINES = 1000
#: The end of a line that differs each time: how long the attempt took, and how many equal lines
#: librdkafka itself left out.
_ATTEMPT = re.compile(r" \(after .*\)$", re.DOTALL)


def weakly(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callback that does not keep alive the object whose bound method ``callback`` is, and
    does nothing once that object is gone; any other ``callback`` as it is.

    A client keeps its callbacks. If their object also holds the client, only the garbage collector
    can end the two. The collector runs in any thread; in a thread of the client itself it makes
    librdkafka abort the process."""
    if not inspect.ismethod(callback):
        return callback
    method = weakref.WeakMethod(callback)

    def call(*arguments: Any) -> Any:
        target = method()
        return target(*arguments) if target else None

    return call


class Complaint(NamedTuple):
    name: str
    """The error's name in librdkafka."""
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class Complaints:
    """Error callback of a client, the only place where librdkafka says why no connection comes up.
    A call that waits for one only times out."""

    #: Errors that waiting does not mend; :data:`shipper.kafka.outcomes.TABLE` rules the same.
    FINAL = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED")
    #: In the order of how much they tell: one of the first is not replaced by one of the second.
    _TELLING = (*FINAL, "_SSL", "_RESOLVE"), ("_TRANSPORT",)
    _WAITING = (
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_MSG_TIMED_OUT",
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_WAIT_COORD",
        "_DESTROY_BROKER",
    )

    def __init__(self, serve: Callable[[], object] = lambda: None) -> None:
        """Collect a client's complaints. ``serve``: serves the client's callbacks, for a client of
        which no other call does that. It must not raise, and is held :func:`weakly`."""
        self._last: Complaint | None = None
        self._heard_at = 0.0
        self._serve = weakly(serve)

    def hear(self, error: Any) -> None:
        """Take a KafkaError (``error_cb``)."""
        decisive, vague = self._TELLING
        if error.name() in decisive or (
            error.name() in vague and (self._last is None or self._last.name in vague)
        ):
            self._last, self._heard_at = Complaint(error.name(), error.str()), runtime.monotonic()

    def forget(self) -> None:
        """Note that a connection came up."""
        self._last = None

    @property
    def last(self) -> Complaint | None:
        self._serve()
        return self._last

    @property
    def final(self) -> Complaint | None:
        """The reason why waiting for a connection is in vain. An old one does not count, such as
        one of a broker that was just starting: librdkafka repeats it after 30 s."""
        last = self.last
        if (
            last is None
            or last.name not in self.FINAL
            or runtime.monotonic() - self._heard_at > _BELIEVED_SECONDS
        ):
            return None
        return last

    def explain(self, name: str, text: str) -> str:
        """Return ``text``; if the error ``name`` says only that no answer came, with the reason
        that was heard."""
        last = self.last
        return text if last is None or name not in self._WAITING else f"{text} ({last})"


class _Repeats:
    """Leaves out lines that were told less than half a minute ago, and counts them. One for all
    clients of the process: a broker that is gone makes each of them say the same, again and again.
    """

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, int]] = {}
        """Line → when (monotonic) it was told last, and how often it was left out since."""
        self._lock = runtime.Lock()

    def take(self, line: str) -> str | None:
        """Return the line to tell, with how often it was left out before; None to leave it out."""
        key, now = _ATTEMPT.sub("", line), runtime.monotonic()
        with self._lock:
            at, count = self._told.get(key, (-_REPEATED_SECONDS, 0))
            if now - at < _REPEATED_SECONDS:
                self._told[key] = at, count + 1
                return None
            if len(self._told) >= _MOST_LINES:
                self._told.clear()
            self._told[key] = now, 0
        return f"{line} ({count:,} more such lines in {now - at:.0f} s)" if count else line


_repeats = _Repeats()


class ClientLog:
    """``logger`` of a client. librdkafka's lines are for ``-v`` (SHIPPER_LOG) alone: what a user
    has to know, an error or the progress says."""

    def __init__(self) -> None:
        self._most = logging.CRITICAL if os.environ.get("SHIPPER_LOG") else logging.INFO
        least = max(log.getEffectiveLevel(), logging.DEBUG + 1)
        self._least = least if least <= self._most else math.inf

    def log(self, level: int, text: str, *arguments: Any) -> None:
        """Log a line. ``arguments``: facility, client and line."""
        # confluent-kafka may call this while a fatal error is under way as an exception, which each
        # `try` on the way may change. So the test is a plain one.
        if level < self._least:
            return
        facility, _, line = arguments if len(arguments) == 3 else ("", "", text % arguments)
        if told := _repeats.take(f"{facility}: {line}"):
            log.log(min(level, self._most), "%s", told)
