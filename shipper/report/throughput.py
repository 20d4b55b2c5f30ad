"""How fast a ship was: records per second over time, as committed, with the mean as a dashed line; and what its lanes did meanwhile: bytes in
flight and on the wire, waits, retries and parked records, and each lane by itself.

A point counts what was committed since the point before it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from shipper.config.units import format_bytes, format_duration
from shipper.report.markup import Column, Html, Row, join, number, plural, table, tag, utc
from shipper.report.plot import MOST_STEPS, PlotStep, area
from shipper.report.results import LaneAccount, LanePoint, ShipResult, TimelinePoint

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
    """From the first sample with parked records to the last."""
    at = [point.at for point in ship.lane_timeline if point.parked_records]
    return (max(at) - min(at)).total_seconds() if at else 0.0


def timeline(ship: ShipResult, prefix: str) -> Html:
    """The figure of one ship: a plot where there is something to plot, and one sentence of figures in any case."""
    steps = spans(ship.timeline)
    caption = tag("figcaption", _caption(ship, steps))
    if len(steps) < 2:
        return tag("figure", caption, class_="timeline")
    drawn_steps = [PlotStep(step.start, step.end, step.rate) for step in steps]
    mean = sum(step.records for step in steps) / (steps[-1].end - steps[0].start)
    drawn = area(drawn_steps, f"Throughput to {ship.cluster} over time", "records per second", f"{prefix}-time", mean)
    return tag("figure", tag("p", "Records per second", class_="axis"), drawn, caption, class_="timeline")


def spans(points: Sequence[TimelinePoint]) -> list[RateSpan]:
    """At most :data:`MOST_STEPS` spans without gaps.

    The first point does not say when its interval began; it is taken to be as long as the others, by their median.
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


def _caption(ship: ShipResult, steps: Sequence[RateSpan]) -> Html:
    sentences = []
    size = sum(topic.delivered_bytes for topic in ship.topics)
    if ship.delivered and ship.ship_seconds > 0:
        bandwidth = f" ({format_bytes(size / ship.ship_seconds)}/s)" if size else ""
        mean = f"Mean {number(ship.delivered / ship.ship_seconds)} records/s{bandwidth}"
        peak = f", peak {number(max(step.rate for step in steps))} records/s" if steps else ""
        sentences.append(f"{mean}{peak}; {format_duration(ship.ship_seconds)} from the first byte to the last commit.")
    if len(steps) < 2:
        sentences.append("Too few points in time for a plot." if ship.delivered else "Nothing was committed.")
    lanes = f", {plural(ship.lanes, 'lane')} each" if ship.lanes else ""
    sentences.append(f"{plural(ship.tasks, 'Spark task')}{lanes}.")
    if ship.tuning:
        sentences.append(f"Sized for the link: {ship.tuning}.")
    if ship.parked and parked_seconds(ship) >= _WORTH_SAYING_SECONDS:
        waited = ", ".join(f"{topic} ({plural(count, 'record')})" for topic, count in sorted(ship.parked.items()))
        sentences.append(f"Parked for {format_duration(parked_seconds(ship))}, since it could not be written to: {waited}.")
    if ship.guarantee == "at_least_once":
        sentences.append("Sent at least once, without transactions.")
    if ship.possible_duplicates:
        sentences.append(f"{plural(ship.possible_duplicates, 'record')} possibly doubled: sent again after a fault.")
    if ship.task_retries or ship.lane_reopened:
        times = plural(ship.lane_reopened, "lane")
        sentences.append(f"{plural(ship.task_retries, 'task retry', 'task retries')}, {times} opened anew.")
    return join(sentences, " ")


MOST_LANES = 64

_Height = Callable[[Sequence[LanePoint], float], float]
"""Of a step: the points in it, and its seconds → its height."""


def _mean(figure: Callable[[LanePoint], float]) -> _Height:
    return lambda points, _: sum(map(figure, points)) / len(points)


def _sum(figure: Callable[[LanePoint], float]) -> _Height:
    return lambda points, _: sum(map(figure, points))


_PLOTS: tuple[tuple[str, str, str, _Height], ...] = (
    ("MB in flight, uncompressed", "megabytes", "flight", _mean(lambda point: point.in_flight_bytes / 1e6)),
    (
        *("MB per second on the wire", "megabytes per second", "wire"),
        lambda points, seconds: sum(point.wire_bytes for point in points) / 1e6 / seconds,
    ),
    ("% of the time readers waited for a lane", "percent", "wait", _mean(lambda point: 100 * point.waited)),
    ("Lanes at work", "lanes", "busy", _mean(lambda point: point.busy_lanes)),
    ("Lanes opened anew after a fault", "lanes", "reopened", _sum(lambda point: point.reopened)),
    ("Records parked", "records", "parked", lambda points, _: float(max(point.parked_records for point in points))),
)


def lanes(ship: ShipResult, prefix: str) -> Html:
    """Folded away, as it answers why a run was slow, which few readers ask; open where a lane was in trouble. Nothing for a
    run of less than three seconds."""
    points = ship.lane_timeline
    figures = []
    for title, unit, key, height in _PLOTS if len(points) >= 3 else ():
        steps = _steps(points, height)
        if any(step.height for step in steps):
            drawn = area(steps, f"{title}, {ship.cluster}", unit, f"{prefix}-{key}")
            figures.append(tag("figure", tag("p", title, class_="axis"), drawn, class_="timeline small"))
    if not figures and not ship.lane_accounts:
        return join([])
    trouble = bool(ship.lane_reopened)
    parts = [tag("div", *figures, class_="plots") if figures else None, _table(ship, prefix)]
    return tag("details", tag("summary", "Lanes: bytes in flight, waits, retries"), *parts, open=trouble, class_="lanes")


def _table(ship: ShipResult, prefix: str) -> Html | None:
    accounts = ship.lane_accounts
    if not accounts:
        return None
    titles = ("Transactions", "Bytes", "Busy", "Share of the time", "Opened anew")
    columns = [Column("Lane"), *(Column(title, numeric=True) for title in titles)]
    # Lanes in trouble are never among those left out.
    kept = sorted(range(len(accounts)), key=lambda i: (-accounts[i].reopened, i))[:MOST_LANES]
    rows = [_lane(accounts[i], ship.ship_seconds, f"{prefix}-lane-{i}") for i in sorted(kept)]
    rest = len(accounts) - len(rows)
    more = tag("p", f"{plural(rest, 'more lane')} in report.json.") if rest else None
    return join([table(f"Each lane of the ship to {ship.cluster}", columns, rows), more])


def _lane(account: LaneAccount, ship_seconds: float, anchor: str) -> Row:
    share = f"{min(100, round(100 * account.busy_seconds / ship_seconds))} %" if ship_seconds else "–"
    anew = tag("span", number(account.reopened), class_="warn") if account.reopened else number(0)
    cells = [number(account.transactions), format_bytes(account.bytes), format_duration(account.busy_seconds), share, anew]
    return Row([f"task {account.task}, lane {account.lane}", *cells], tone="warn" if account.reopened else None, anchor=anchor)


def _steps(points: Sequence[LanePoint], height: _Height) -> list[PlotStep]:
    """At most :data:`MOST_STEPS`, each of the same number of points; a point is what happened since the one before."""
    every = max(1, -(-len(points) // MOST_STEPS))
    found = []
    for start, end in pairwise([*range(0, len(points) - 1, every), len(points) - 1]):
        began, ended = utc(points[start].at).timestamp(), utc(points[end].at).timestamp()
        found.append(PlotStep(began, ended, height(points[start + 1 : end + 1], max(0.001, ended - began))))
    return found
