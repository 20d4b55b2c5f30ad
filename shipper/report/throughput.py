"""Throughput of a ship: records per second over time, as committed, with the mean as a dashed
line. A point counts the records that were committed since the point before it."""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from shipper.config.units import format_bytes, format_duration, number, plural, utc
from shipper.report.cluster_view import ClusterView
from shipper.report.plan_result import Forecast, Limit
from shipper.report.results import ShipResult, TimelinePoint

_HEIGHT = 160
_DAY = 86_400
_TIME_STEPS = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, _DAY)

_LIMITS: dict[Limit, str] = {
    "source": "reading the files",
    "processor": "the processors",
    "acknowledgements": "the delay of acknowledgements",
    "bandwidth": "the cluster's `bandwidth`",
    "rate_limit": "the `rate_limit`",
    "quota": "a quota of the brokers",
}


class RateSpan(NamedTuple):
    """Records committed in (start, end], in seconds since the epoch."""

    start: float
    end: float
    records: int

    @property
    def rate(self) -> float:
        return self.records / (self.end - self.start)


def throughput(account: ClusterView, ship: ShipResult, prefix: str) -> dict[str, Any]:
    """Return plot and sentence of one ship. The plot is None for fewer than two steps."""
    steps = spans(ship.timeline)
    plot = _plot(_from_first_byte(steps, ship.ship_seconds)) if len(steps) > 1 else None
    says = " ".join(_caption(ship, steps))
    return {"account": account, "prefix": prefix, "says": says, "plot": plot}


def foretold(found: Forecast) -> str:
    """Return the forecast in a sentence or two."""
    by = f"run {found.measured_by}" if found.measured_by else "shipper's benchmark of plain lines"
    per_gb = found.cpu_seconds / max(1, found.bytes) * 1e9
    cost = (
        f"some {format_bytes(found.wire_bytes)} on the wire and {found.cpu_seconds:.1f} CPU "
        f"seconds ({per_gb:.0f} per GB), going by {by}"
    )
    size = f"{format_bytes(found.bytes)} to send"
    if found.seconds is None or found.bytes_per_second is None:
        unknown = "Time and limit are not known: no earlier ship took long enough to tell"
        return f"{size}; {cost}. {unknown}."
    if found.limited_by is None:
        return f"{size}, too little to tell a limit; {cost}."
    took = f"in some {format_duration(found.seconds)}"
    rate = f"{format_bytes(found.bytes_per_second)}/s"
    return f"{size} {took} ({rate}), limited by {_LIMITS[found.limited_by]}; {cost}."


def spans(points: Sequence[TimelinePoint]) -> list[RateSpan]:
    """Return spans without gaps. The first point does not say when its interval began; it is taken
    to be as long as the others, by their median."""
    counts: dict[float, int] = {}
    for point in sorted(points, key=lambda point: utc(point.at)):
        at = utc(point.at).timestamp()
        counts[at] = counts.get(at, 0) + point.records
    ends = list(counts)
    if len(ends) < 2:
        return []
    usual = statistics.median_low(end - start for start, end in pairwise(ends))
    starts = [ends[0] - usual, *ends[:-1]]
    return [RateSpan(start, end, counts[end]) for start, end in zip(starts, ends, strict=True)]


def _from_first_byte(steps: Sequence[RateSpan], seconds: float) -> list[RateSpan]:
    """Put before ``steps`` the time until the first of them, in which nothing was committed.
    ``seconds``: from the first byte to the last commit."""
    begin, first = steps[-1].end - seconds, steps[0].start
    return [RateSpan(begin, first, 0), *steps] if begin < first else [*steps]


def _caption(ship: ShipResult, steps: Sequence[RateSpan]) -> Iterator[str]:
    if ship.delivered and ship.ship_seconds > 0:
        size = sum(topic.delivered_bytes for topic in ship.topics) / ship.ship_seconds
        mean = f"Mean {number(ship.delivered / ship.ship_seconds)} records/s"
        peak = f", peak {number(max(step.rate for step in steps))} records/s" if steps else ""
        took = f"{format_duration(ship.ship_seconds)} from the first byte to the last commit"
        yield f"{mean} ({format_bytes(size)}/s){peak}; {took}."
    if len(steps) < 2:
        yield "Too few points in time for a plot." if ship.delivered else "Nothing was committed."
    yield f"{plural(ship.tasks, 'Spark task')}, {plural(ship.lanes, 'lane')} each."
    if ship.limited_by is not None:
        yield f"Held up most by {_LIMITS[ship.limited_by]}."
    if ship.cpu_seconds and (sent := sum(topic.delivered_bytes for topic in ship.topics)):
        yield f"{ship.cpu_seconds / sent * 1e9:.0f} core-seconds per GB."
    if ship.ack_ms is not None and ship.held_ack_ms is not None:
        yield (
            f"Sized for acknowledgements after {ship.ack_ms:.0f} ms; at the end they took "
            f"{ship.held_ack_ms:.0f} ms."
        )
    if ship.guarantee == "at_least_once":
        yield "Sent at least once, without transactions."
    if ship.possible_duplicates:
        again = plural(ship.possible_duplicates, "record")
        yield f"Up to {again} may be there twice: see the notes."
    if ship.task_retries or ship.lane_reopened:
        retries = plural(ship.task_retries, "task retry", "task retries")
        yield f"{retries}, {plural(ship.lane_reopened, 'lane')} reopened."


def _plot(steps: Sequence[RateSpan]) -> dict[str, Any]:
    """Draw an area of steps over time, in a box of 1000 × 160 that is stretched to the width of the
    plot, and its axes."""
    start, end = steps[0].start, steps[-1].end
    peak = max(step.rate for step in steps)
    mean = sum(step.records for step in steps) / (end - start)
    y_ticks = ticks(peak)
    digits = max(0, -math.floor(math.log10(y_ticks[1])))
    top = max(peak, y_ticks[-1]) * 1.04

    def y(value: float) -> str:
        return coordinate(_HEIGHT * (1 - value / top), 1)

    path = "".join(
        f"V{y(step.rate)}H{coordinate(1000 * (step.end - start) / (end - start), 1)}"
        for step in steps
    )
    first, last = _time(start, "%Y-%m-%d"), _time(end, "%Y-%m-%d")
    return {
        "path": f"M0 {_HEIGHT}{path}V{_HEIGHT}",
        "y_ticks": [(y(value), f"{value:,.{digits}f}") for value in y_ticks],
        "x_ticks": list(_x_ticks(start, end)),
        "days": first if first == last else f"{first} to {last}",
        "mean_y": y(mean),
        "described": (
            f"From {_time(start, '%H:%M:%S')} to {_time(end, '%H:%M:%S')} UTC; between "
            f"{number(min(s.rate for s in steps))} and {number(peak)} records per second, mean "
            f"{number(mean)}."
        ),
    }


def _x_ticks(start: float, end: float) -> Iterator[tuple[str, str]]:
    """Place in per cent and label, at round times of the clock."""
    days = _DAY * math.ceil((end - start) / _DAY / 8)
    step = next((s for s in _TIME_STEPS if (end - start) / s <= 8), days)
    label = "%Y-%m-%d" if step >= _DAY else "%H:%M" if step >= 60 else "%H:%M:%S"
    for at in range(math.ceil(start / step) * step, math.floor(end) + 1, step):
        yield coordinate(100 * (at - start) / (end - start), 1), _time(at, label)


def ticks(peak: float) -> list[float]:
    """Return ticks from 0 to just below or at the peak, in about four steps of 1, 2 or 5 times a
    power of ten."""
    if peak <= 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(peak / 4))
    step = next(factor * power for factor in (1, 2, 5, 10) if peak / (factor * power) <= 5)
    return [i * step for i in range(int(peak / step + 1e-9) + 1)]


def coordinate(value: float, digits: int = 2) -> str:
    """Write a coordinate with two decimals at most: small pages, and the same text on every
    machine."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def _time(at: float, form: str) -> str:
    return format(dt.datetime.fromtimestamp(at, dt.UTC), form)
