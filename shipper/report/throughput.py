"""Throughput of a ship: records per second over time, as committed. A point counts the records that
were committed since the point before it."""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from shipper.config.units import format_bytes, format_duration, utc
from shipper.report.cluster_view import ClusterView
from shipper.report.markup import moment, number, plural
from shipper.report.plan_result import Forecast, Limit
from shipper.report.results import ShipResult, TimelinePoint

_WIDE, _TALL = 960, 120
"""Units of a picture of columns, whatever its size on the screen."""
_LEAST = 1.5
"""Units of the lowest column."""
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


def throughput(account: ClusterView, ship: ShipResult) -> dict[str, Any]:
    """Return picture and sentence of one ship. The picture is empty for fewer than two steps."""
    steps = spans(ship.timeline)
    ends = (steps[0].start, steps[-1].end) if len(steps) > 1 else None
    drawn = columns([(one.start, one.end, one.rate) for one in steps], *ends) if ends else ""
    return {
        "account": account,
        "says": " ".join(_caption(ship, steps)),
        "columns": drawn,
        "ends": [moment(dt.datetime.fromtimestamp(at, dt.UTC)) for at in ends or ()],
    }


def columns(values: Sequence[tuple[float, float, float]], start: float, end: float) -> str:
    """Return the path of a column for each begin, end and value, the largest as tall as the
    picture."""
    scale, most, path = _WIDE / (end - start), max(value for *_, value in values), ""
    for begin, over, value in values:
        wide, tall = (over - begin) * scale, max(_LEAST, _TALL * value / most) if value else 0.0
        x = (begin - start) * scale + 0.08 * wide
        path += f"M{x:.1f} {_TALL}v{-tall:.1f}h{0.84 * wide:.1f}v{tall:.1f}"
    return path


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


def _caption(ship: ShipResult, steps: Sequence[RateSpan]) -> Iterator[str]:
    if ship.delivered and ship.ship_seconds > 0:
        size = ship.bytes / ship.ship_seconds
        mean = f"Mean {number(ship.delivered / ship.ship_seconds)} records/s"
        peak = f", peak {number(max(step.rate for step in steps))} records/s" if steps else ""
        took = f"{format_duration(ship.ship_seconds)} from the first byte to the last commit"
        yield f"{mean} ({format_bytes(size)}/s){peak}; {took}."
    if len(steps) < 2:
        yield "Too few points in time for a plot." if ship.delivered else "Nothing was committed."
    yield f"{plural(ship.tasks, 'Spark task')}, {plural(ship.lanes, 'lane')} each."
    if ship.limited_by is not None:
        yield f"Held up most by {_LIMITS[ship.limited_by]}."
    if ship.cpu_seconds and ship.bytes:
        yield f"{ship.cpu_seconds / ship.bytes * 1e9:.0f} core-seconds per GB."
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
