"""Throughput of a ship: records per second over time, as committed, with the mean as a dashed line;
and each lane by itself.

A point counts the records that were committed since the point before it.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from shipper.config.units import format_bytes, format_duration
from shipper.report.account import Account
from shipper.report.cells import Cell, TableRow
from shipper.report.markup import number, plural, utc
from shipper.report.results import LaneAccount, ShipResult, TimelinePoint

MOST_STEPS = 240
"""More points than that are summed up in groups of equal number: a step of less than two pixels
shows nothing."""
MOST_LANES = 64
_HEIGHT = 160
_TIME_STEPS = [
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
]
_WORTH_SAYING_SECONDS = 5.0
"""A topic is parked until it was looked up for the first time."""


@dataclass(frozen=True)
class RateSpan:
    """Records committed in (start, end], in seconds since the epoch."""

    start: float
    end: float
    records: int

    @property
    def rate(self) -> float:
        return self.records / (self.end - self.start)


def parked_seconds(ship: ShipResult) -> float:
    """Return the seconds from the first sample with parked records to the last."""
    at = [point.at for point in ship.lane_timeline if point.parked_records]
    return (max(at) - min(at)).total_seconds() if at else 0.0


def throughput(account: Account, ship: ShipResult, prefix: str) -> dict[str, Any]:
    """Return plot, sentence and lanes of one ship. The plot is None for fewer than two steps;
    failed lanes are never left out."""
    steps = spans(ship.timeline)
    lanes = ship.lane_accounts
    kept = sorted(sorted(range(len(lanes)), key=lambda i: (-lanes[i].reopened, i))[:MOST_LANES])
    return {
        "account": account,
        "prefix": prefix,
        "says": _caption(ship, steps),
        "sized": ship.tuning,
        "trouble": bool(ship.lane_reopened),
        "plot": _plot(steps) if len(steps) > 1 else None,
        "lanes": [_lane(lanes[i], ship.ship_seconds, f"{prefix}-lane-{i}") for i in kept],
    }


def spans(points: Sequence[TimelinePoint]) -> list[RateSpan]:
    """Return at most :data:`MOST_STEPS` spans without gaps.

    The first point does not say when its interval began; it is taken to be as long as the others,
    by their median.
    """
    counts: dict[float, int] = {}
    for point in sorted(points, key=lambda point: utc(point.at)):
        at = utc(point.at).timestamp()
        counts[at] = counts.get(at, 0) + point.records
    ends = list(counts)
    if len(ends) < 2:
        return []
    usual = statistics.median_low(end - start for start, end in pairwise(ends))
    group = math.ceil(len(ends) / MOST_STEPS)
    found, start = [], ends[0] - usual
    for i in range(0, len(ends), group):
        members = ends[i : i + group]
        found.append(RateSpan(start, members[-1], sum(counts[end] for end in members)))
        start = members[-1]
    return found


def _caption(ship: ShipResult, steps: Sequence[RateSpan]) -> str:
    sentences = []
    size = sum(topic.delivered_bytes for topic in ship.topics)
    if ship.delivered and ship.ship_seconds > 0:
        bandwidth = f" ({format_bytes(size / ship.ship_seconds)}/s)" if size else ""
        mean = f"Mean {number(ship.delivered / ship.ship_seconds)} records/s{bandwidth}"
        peak = f", peak {number(max(step.rate for step in steps))} records/s" if steps else ""
        sentences.append(
            f"{mean}{peak}; {format_duration(ship.ship_seconds)} from the first byte to the last "
            "commit."
        )
    if len(steps) < 2:
        sentences.append(
            "Too few points in time for a plot." if ship.delivered else "Nothing was committed."
        )
    lanes = f", {plural(ship.lanes, 'lane')} each" if ship.lanes else ""
    sentences.append(f"{plural(ship.tasks, 'Spark task')}{lanes}.")
    if ship.parked and parked_seconds(ship) >= _WORTH_SAYING_SECONDS:
        waited = ", ".join(
            f"{topic} ({plural(count, 'record')})" for topic, count in sorted(ship.parked.items())
        )
        sentences.append(
            f"Parked for {format_duration(parked_seconds(ship))}, because these topics could not "
            f"be written to: {waited}."
        )
    if ship.guarantee == "at_least_once":
        sentences.append("Sent at least once, without transactions.")
    if ship.possible_duplicates:
        sentences.append(
            f"{plural(ship.possible_duplicates, 'record')} possibly duplicated: sent again after "
            "a fault."
        )
    if ship.task_retries or ship.lane_reopened:
        times = plural(ship.lane_reopened, "lane")
        sentences.append(
            f"{plural(ship.task_retries, 'task retry', 'task retries')}, {times} reopened."
        )
    return " ".join(sentences)


def _lane(account: LaneAccount, ship_seconds: float, place: str) -> TableRow:
    share = (
        f"{min(100, round(100 * account.busy_seconds / ship_seconds))} %" if ship_seconds else "–"
    )
    cells: dict[str, str | Cell] = {
        "Lane": f"task {account.task}, lane {account.lane}",
        "Transactions": number(account.transactions),
        "Bytes": format_bytes(account.bytes),
        "Busy": format_duration(account.busy_seconds),
        "Share of the time": share,
        "Opened anew": Cell(number(account.reopened), "warn" if account.reopened else ""),
    }
    return TableRow(cells, "warn" if account.reopened else None, place)


def _plot(steps: Sequence[RateSpan]) -> dict[str, Any]:
    """Draw an area of steps over time, in a box of 1000 × 160 that is stretched to the width of the
    plot, and its axes."""
    start, end = steps[0].start, steps[-1].end
    peak, mean = (
        max(step.rate for step in steps),
        sum(step.records for step in steps) / (end - start),
    )
    y_ticks = ticks(peak)
    top = max(peak, y_ticks[-1]) * 1.04

    def y(value: float) -> str:
        return coordinate(_HEIGHT * (1 - value / top), 1)

    path = "".join(
        f"V{y(step.rate)}H{coordinate(1000 * (step.end - start) / (end - start), 1)}"
        for step in steps
    )
    return {
        "path": f"M0 {_HEIGHT}{path}V{_HEIGHT}",
        "y_ticks": [
            (y(value), f"{value:,.{max(0, -math.floor(math.log10(y_ticks[1])))}f}")
            for value in y_ticks
        ],
        "x_ticks": list(_x_ticks(start, end)),
        "days": _day(start) if _day(start) == _day(end) else f"{_day(start)} to {_day(end)}",
        "mean_y": y(mean),
        "described": (
            f"From {_clock(start, True)} to {_clock(end, True)} UTC; between "
            f"{number(min(s.rate for s in steps))} and {number(peak)} records per second, mean "
            f"{number(mean)}."
        ),
    }


def _x_ticks(start: float, end: float) -> Iterator[tuple[str, str]]:
    """Place in per cent and label, at round times of the clock."""
    step = next(
        (s for s in _TIME_STEPS if (end - start) / s <= 8),
        86400 * math.ceil((end - start) / 86400 / 8),
    )
    first = math.ceil(start / step) * step
    for i in range(int((end - first) // step) + 1):
        at = first + i * step
        yield (
            coordinate(100 * (at - start) / (end - start), 1),
            _day(at) if step >= 86400 else _clock(at, step < 60),
        )


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


def _day(at: float) -> str:
    return f"{dt.datetime.fromtimestamp(at, dt.UTC):%Y-%m-%d}"


def _clock(at: float, seconds: bool) -> str:
    moment = dt.datetime.fromtimestamp(at, dt.UTC)
    return f"{moment:%H:%M:%S}" if seconds else f"{moment:%H:%M}"
