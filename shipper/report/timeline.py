"""Throughput over time as a stepped area: records per second, as committed, with the mean as a dashed line.

A point counts what was committed since the point before it. The plot stretches with the page and its text does not,
by the same trick as in :mod:`shipper.report.flow`.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from shipper.config.units import format_bytes, format_duration
from shipper.report.markup import Html, join, number, plural, tag, utc
from shipper.report.results import ShipResult, TimelinePoint

MOST_STEPS = 240
"""More points than that are summed up in groups of equal number: a step of less than two pixels shows nothing."""
_HEIGHT = 160
_TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400]

_WORTH_SAYING_SECONDS = 5.0
"""A topic is parked until it was looked up for the first time."""


@dataclass(frozen=True)
class Span:
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
    bars = [Step(step.start, step.end, step.rate) for step in steps]
    mean = sum(step.records for step in steps) / (steps[-1].end - steps[0].start)
    drawn = plot(bars, f"Throughput to {ship.cluster} over time", "records per second", f"{prefix}-time", mean)
    return tag("figure", tag("p", "Records per second", class_="axis"), drawn, caption, class_="timeline")


class Step(NamedTuple):
    """A height from ``start`` to ``end`` (seconds since the epoch)."""

    start: float
    end: float
    height: float


def spans(points: Sequence[TimelinePoint]) -> list[Span]:
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
        found.append(Span(start, members[-1], sum(counts[end] for end in members)))
        start = members[-1]
    return found


def _caption(ship: ShipResult, steps: Sequence[Span]) -> Html:
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


def plot(steps: Sequence[Step], title: str, unit: str, prefix: str, mean: float | None = None) -> Html:
    """An area of steps over time. ``unit`` completes "between 5 and 9 …"; ``prefix`` makes ids unique in the page."""
    start, end = steps[0].start, steps[-1].end
    peak = max(step.height for step in steps)
    y_ticks = ticks(peak)
    top = max(peak, y_ticks[-1]) * 1.04
    described = (
        f"From {_clock(start, True)} to {_clock(end, True)} UTC; between {number(min(s.height for s in steps))} "
        f"and {number(peak)} {unit}" + (f", mean {number(mean)}." if mean is not None else ".")
    )
    means = (
        []
        if mean is None
        else [_line("mean", mean, top), tag("text", "mean", class_="mean-label", x="100%", dx="6", y=_f(_y(mean, top) + 4))]
    )
    return tag(
        "svg",
        tag("title", title, id=f"{prefix}-title"),
        tag("desc", described, id=f"{prefix}-desc"),
        *_y_axis(y_ticks, top),
        *_x_axis(start, end),
        _area(steps, top),
        *means,
        role="img",
        aria_labelledby=f"{prefix}-title {prefix}-desc",
    )


def _area(steps: Sequence[Step], top: float) -> Html:
    """The steps in a box of 1000 × the height, stretched to the width of the plot."""
    start, end = steps[0].start, steps[-1].end
    path = []
    for step in steps:
        path.append(f"V{_f(_y(step.height, top))}H{_f(1000 * (step.end - start) / (end - start))}")
    outline = f"M0 {_HEIGHT}{''.join(path)}V{_HEIGHT}"
    area = tag("path", class_="area", d=f"{outline}Z")
    edge = tag("path", class_="edge", d=outline, vector_effect="non-scaling-stroke")
    box = {"viewBox": f"0 0 1000 {_HEIGHT}", "preserveAspectRatio": "none"}
    return tag("svg", area, edge, width="100%", height=str(_HEIGHT), **box)


def _y_axis(values: Sequence[float], top: float) -> Iterator[Html]:
    for value in values:
        yield _line("grid", value, top)
        digits = max(0, -math.floor(math.log10(values[1]))) if values[1] < 1 else 0
        yield tag("text", f"{value:,.{digits}f}", x="-8", y=_f(_y(value, top) + 4), text_anchor="end")


def _x_axis(start: float, end: float) -> Iterator[Html]:
    """Ticks at round times of the clock. On a phone every second one goes without its label (class ``odd``)."""
    step = next((s for s in _TIME_STEPS if (end - start) / s <= 8), 86400 * math.ceil((end - start) / 86400 / 8))
    first = math.ceil(start / step) * step
    for i in range(int((end - first) // step) + 1):
        at = first + i * step
        x = f"{_f(100 * (at - start) / (end - start))}%"
        yield tag("line", class_="tick", x1=x, x2=x, y1=str(_HEIGHT), y2=str(_HEIGHT + 4))
        label = _day(at) if step >= 86400 else _clock(at, step < 60)
        yield tag("text", label, class_="odd" if i % 2 else None, x=x, y=str(_HEIGHT + 18), text_anchor="middle")
    days = _day(start) if _day(start) == _day(end) else f"{_day(start)} to {_day(end)}"
    yield tag("text", f"{days}, UTC", x="100%", y=str(_HEIGHT + 36), text_anchor="end")


def ticks(peak: float) -> list[float]:
    """From 0 to just below or at the peak, in about four steps of 1, 2 or 5 times a power of ten."""
    if peak <= 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(peak / 4))
    step = next(factor * power for factor in (1, 2, 5, 10) if peak / (factor * power) <= 5)
    return [i * step for i in range(int(peak / step + 1e-9) + 1)]


def _line(kind: str, value: float, top: float) -> Html:
    y = _f(_y(value, top))
    return tag("line", class_=kind, x1="0", x2="100%", y1=y, y2=y)


def _y(value: float, top: float) -> float:
    return _HEIGHT * (1 - value / top)


def _day(at: float) -> str:
    return f"{dt.datetime.fromtimestamp(at, dt.UTC):%Y-%m-%d}"


def _clock(at: float, seconds: bool) -> str:
    moment = dt.datetime.fromtimestamp(at, dt.UTC)
    return f"{moment:%H:%M:%S}" if seconds else f"{moment:%H:%M}"


def _f(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
