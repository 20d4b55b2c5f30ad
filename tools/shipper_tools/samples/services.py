"""Four made-up services and the log lines that they write, each in a format of its own.

The lines are drawn from pools that are rendered once per service, so that a line costs a few
look-ups. Addresses are from the ranges that are set aside for documentation and tests
(198.18.0.0/15, 2001:db8::/32, example.com).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import TypeVar

from shipper_tools.samples import words

T = TypeVar("T")

#: ``(random source, host, hour, n)`` gives ``n`` lines in the order of their times, without line
#: ends.
LineMaker = Callable[[Random, str, datetime, int], list[str]]

_POOL = 4096
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MILLISECONDS = [f"{ms:03d}" for ms in range(1000)]
_MINUTES_AND_SECONDS = [f"{m:02d}:{s:02d}" for m in range(60) for s in range(60)]


@dataclass(frozen=True)
class Service:
    """A service that logs.

    Attributes:
        name: the first part of its files' names.
        hosts: where it runs; each writes a file per hour.
        share: of all lines, relative to the other services.
        prepare: renders the pools from a random source, and gives the maker of lines.
    """

    name: str
    hosts: tuple[str, ...]
    share: float
    prepare: Callable[[Random], LineMaker]


def _pool(rng: Random, items: Sequence[T]) -> list[T]:
    """A pool in which the first of ``items`` are the frequent ones (Zipf's law), as with pages and
    clients."""
    return rng.choices(items, weights=[1 / rank for rank in range(1, len(items) + 1)], k=_POOL)


def _milliseconds(rng: Random, median: float, spread: float) -> list[float]:
    """Latencies: most near the median, a long tail (log-normal)."""
    return [round(median * rng.lognormvariate(0, spread), 1) for _ in range(_POOL)]


def _moments(rng: Random, n: int) -> list[tuple[int, int]]:
    """``n`` moments of an hour in order, as (second, millisecond)."""
    return [divmod(ms, 1000) for ms in sorted(rng.choices(range(3_600_000), k=n))]


def _seconds(pattern: str, hour: datetime) -> list[str]:
    """Return every second of an hour; ``pattern`` takes ``{h}`` (the hour itself), ``{mon}``, and
    once ``{ms}`` (minutes:seconds)."""
    # Not strftime's %b: that goes by the locale, and the same seed must give the same bytes
    # everywhere.
    before, after = pattern.format(h=hour, mon=_MONTHS[hour.month - 1], ms="\0").split("\0")
    return [f"{before}{clock}{after}" for clock in _MINUTES_AND_SECONDS]


def _web(pools: Random) -> LineMaker:
    """nginx, combined format."""
    clients = _pool(pools, [_client(pools) for _ in range(3000)])
    agents = _pool(pools, words.USER_AGENTS)
    referers = _pool(pools, words.REFERERS)
    requests = [_request(pools, path) for path in _pool(pools, words.PATHS)]
    tails = [
        f'] {request} "{referer}" "{agent}"'
        for request, referer, agent in zip(
            requests, pools.choices(referers, k=_POOL), pools.choices(agents, k=_POOL), strict=True
        )
    ]

    def lines(rng: Random, host: str, hour: datetime, n: int) -> list[str]:
        stamps = _seconds("{h:%d}/{mon}/{h:%Y:%H}:{ms} +0000", hour)
        moments = _moments(rng, n)
        chosen = zip(moments, rng.choices(clients, k=n), rng.choices(tails, k=n), strict=True)
        return [f"{client} [{stamps[second]}{tail}" for (second, _), client, tail in chosen]

    return lines


def _client(rng: Random) -> str:
    if rng.random() < 0.12:
        return (
            f"2001:db8:{rng.getrandbits(16):x}:{rng.getrandbits(16):x}::{rng.getrandbits(16):x} - -"
        )
    user = rng.choice(words.USERS) if rng.random() < 0.03 else "-"
    return f"198.{rng.choice((18, 19))}.{rng.randrange(256)}.{rng.randrange(256)} - {user}"


def _request(rng: Random, path: str) -> str:
    method = (
        "POST"
        if path.startswith(("/login", "/cart", "/checkout"))
        else rng.choices(("GET", "HEAD"), (97, 3))[0]
    )
    status = rng.choices((200, 304, 301, 404, 403, 500, 502, 503), (860, 60, 25, 35, 6, 5, 6, 3))[0]
    size = 0 if status == 304 or method == "HEAD" else int(2500 * rng.lognormvariate(0, 1.3))
    return (
        f'"{method} {path.format(id=rng.randrange(10**5))} HTTP/{rng.choice(("1.1", "2.0"))}" '
        f"{status} {size}"
    )


def _payments(pools: Random) -> LineMaker:
    """A Java application with Logback's pattern, and a stack trace of several lines now and
    then."""
    entries = [_payment_entry(pools) for _ in range(_POOL)]

    def lines(rng: Random, host: str, hour: datetime, n: int) -> list[str]:
        stamps = _seconds("{h:%Y-%m-%d %H}:{ms},", hour)
        chosen, total = [], 0
        while total < n:
            entry = rng.choice(entries)
            chosen.append(entry)
            total += len(entry)
        written: list[str] = []
        for (second, ms), (message, *trace) in zip(_moments(rng, len(chosen)), chosen, strict=True):
            written.append(f"{stamps[second]}{_MILLISECONDS[ms]} {message}")
            written += trace
        return written[
            :n
        ]  # the last trace may go on in the next file, as it does when a log is rotated

    return lines


def _payment_entry(rng: Random) -> list[str]:
    thread = f"[http-nio-8080-exec-{rng.randrange(1, 33)}]"
    order, amount = f"ord-{rng.randrange(10**7):07d}", f"{rng.lognormvariate(3.5, 1):.2f} EUR"
    if rng.random() >= 0.008:
        level, logger, text = rng.choices(words.PAYMENT_EVENTS, words.PAYMENT_WEIGHTS)[0]
        return [
            f"{level:<5} {thread} {logger} - "
            f"{text.format(order=order, amount=amount, name=rng.choice(words.NAMES))}"
        ]
    error, cause = rng.choice(words.EXCEPTIONS)
    frames = [
        f"\tat {frame}({frame.split('.')[-2]}.java:{rng.randrange(20, 900)})"
        for frame in words.FRAMES
    ]
    shown = rng.randrange(6, len(frames))
    head = f"ERROR {thread} c.e.payments.CaptureService - capture of {order} failed"
    return [
        head,
        f"{error} ({order})",
        *frames[:shown],
        f"Caused by: {cause}",
        *frames[:3],
        f"\t... {shown} more",
    ]


def _system(pools: Random) -> LineMaker:
    """syslog as it lies in /var/log (RFC 3164: no year, a day padded with a blank)."""
    messages = [
        text.format(
            pid=pools.randrange(300, 40_000),
            port=pools.randrange(1024, 65_536),
            n=pools.randrange(1, 90),
            ip=_client(pools).split()[0],
        )
        for text in _pool(pools, words.SYSTEM_EVENTS)
    ]

    def lines(rng: Random, host: str, hour: datetime, n: int) -> list[str]:
        stamps = _seconds("{mon} {h.day:>2} {h:%H}:{ms} ", hour)
        chosen = zip(_moments(rng, n), rng.choices(messages, k=n), strict=True)
        return [f"{stamps[second]}{host} {message}" for (second, _), message in chosen]

    return lines


def _search(pools: Random) -> LineMaker:
    """key=value pairs (logfmt)."""
    took = _milliseconds(pools, 35, 0.9)
    tails = [
        f'level={"info" if ms < 400 else "warn"} query="{query}" '
        f"hits={int(pools.lognormvariate(3, 2))} "
        f"took_ms={ms} cache={pools.choices(('hit', 'miss'), (7, 3))[0]} "
        f"lang={pools.choice(words.LANGUAGES)}"
        for query, ms in zip(_pool(pools, words.QUERIES), took, strict=True)
    ]

    def lines(rng: Random, host: str, hour: datetime, n: int) -> list[str]:
        stamps = _seconds("ts={h:%Y-%m-%dT%H}:{ms}.", hour)
        middle = f"Z service=search host={host} "
        chosen = zip(_moments(rng, n), rng.choices(tails, k=n), strict=True)
        return [
            f"{stamps[second]}{_MILLISECONDS[ms]}{middle}{tail}" for (second, ms), tail in chosen
        ]

    return lines


SERVICES = (
    Service("web", ("web-01", "web-02", "web-03"), 0.45, _web),
    Service("payments", ("pay-01", "pay-02"), 0.14, _payments),
    Service("system", ("web-01", "api-01", "pay-01"), 0.08, _system),
    Service("search", ("search-01", "search-02"), 0.08, _search),
)
