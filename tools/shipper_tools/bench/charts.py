"""Plots as inline SVG. Shapes stretch with the page, text is HTML beside them and does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shipper.config.units import write_size
from shipper.report.markup import Html, number, tag
from shipper.report.plot import coordinate, ticks
from shipper_tools.bench.results import Measurement, Summary

#: Kinds of processes in the order in which their CPU time is stacked: who sends, then who does not.
KINDS = ("client", "driver", "jvm", "worker", "broker", "proxy")

_WIDTH, _HEIGHT = 640.0, 260.0
_SERIES = 6


def bars(found: Sequence[Summary], rounds: Sequence[Measurement] | None) -> Html:
    """A bar per contender: its rate, with a stroke for each of ``rounds``; or without them its CPU time, stacked by process."""
    if rounds is not None:
        top = max(summary.records_per_second.highest for summary in found)
        rows = [_rate_row(summary, rounds, top) for summary in found]
    else:
        top = max(sum(summary.cpu_seconds_per_million.values()) for summary in found)
        rows = [_cpu_row(summary, top or 1.0) for summary in found]
    return tag("figure", *rows, class_="bars")


def _rate_row(summary: Summary, rounds: Sequence[Measurement], top: float) -> Html:
    rate = summary.records_per_second
    strokes = [
        tag("line", x1=x, x2=x, y1="1", y2="19", class_="round")
        for x in (coordinate(100 * m.records / m.seconds / top) for m in rounds if m.contender == summary.contender)
    ]
    bar = tag(
        "rect",
        x="0",
        y="4",
        width=coordinate(100 * rate.median / top),
        height="12",
        class_="ours" if summary.contender.ours else "peer",
    )
    says = f"{number(rate.median)} ({number(rate.lowest)} to {number(rate.highest)})"
    return _row(summary, [bar, *strokes], number(rate.median), says)


def _cpu_row(summary: Summary, top: float) -> Html:
    shapes, x = [], 0.0
    for kind in KINDS:
        width = 100 * summary.cpu_seconds_per_million.get(kind, 0.0) / top
        if width:
            shapes.append(tag("rect", x=coordinate(x), y="4", width=coordinate(width), height="12", class_=f"cpu-{kind}"))
            x += width
    says = ", ".join(f"{kind} {seconds:.2f} s" for kind, seconds in summary.cpu_seconds_per_million.items())
    return _row(summary, shapes, f"{sum(summary.cpu_seconds_per_million.values()):.2f}", says)


def _row(summary: Summary, shapes: Sequence[Html], figure: str, says: str) -> Html:
    title = tag("title", f"{summary.contender.name}: {says}")
    svg = tag("svg", title, *shapes, role="img", viewBox="0 0 100 20", preserveAspectRatio="none")
    return tag("div", tag("span", summary.contender.name), svg, tag("b", figure), class_="bar")


@dataclass(frozen=True)
class _Axis:
    value: Callable[[Summary], float | None]
    tick: Callable[[float], str]


def _size(value: float) -> str:
    return write_size(int(value))


_AXES = {
    "round trip": _Axis(lambda s: s.case.rtt_ms, lambda v: f"{v:g} ms"),
    "delay per request": _Axis(lambda s: s.case.request_delay_ms, lambda v: f"{v:g} ms"),
    "tasks": _Axis(lambda s: s.contender.tasks, lambda v: f"{v:g}"),
    "lanes": _Axis(lambda s: s.contender.lanes, lambda v: f"{v:g}"),
    "batch": _Axis(lambda s: s.contender.batch_bytes, _size),
    "record size": _Axis(lambda s: s.case.record_bytes, _size),
    "partitions": _Axis(lambda s: s.case.partitions, lambda v: f"{v:g}"),
    "topics": _Axis(lambda s: s.case.topics, lambda v: f"{v:g}"),
}


def sweeps(found: Sequence[Summary]) -> list[str]:
    """Axes with three values or more: those are worth a line."""
    return [name for name, axis in _AXES.items() if len({v for s in found if (v := axis.value(s)) is not None}) > 2]


def _groups(found: Sequence[Summary], axis_name: str) -> dict[str, list[tuple[float, Summary]]]:
    """Points by what is equal along the axis, the best first; a group of one point is no line."""
    axis = _AXES[axis_name]

    def differs(other: str) -> bool:
        return len({_AXES[other].value(summary) for summary in found}) > 1

    groups: dict[str, list[tuple[float, Summary]]] = {}
    for summary in found:
        value = axis.value(summary)
        if value is not None:
            groups.setdefault(_rest(summary, axis_name, differs), []).append((value, summary))
    some = {name: sorted(points, key=lambda p: p[0]) for name, points in groups.items() if len(points) > 1}
    best = sorted(some, key=lambda name: -max(s.records_per_second.median for _, s in some[name]))
    return {name: some[name] for name in best[:_SERIES]}


def _rest(summary: Summary, axis_name: str, differs: Callable[[str], bool]) -> str:
    """What a line holds constant, as far as others hold something else."""
    contender, case = summary.contender, summary.case
    name = contender.name
    if axis_name == "tasks":
        name = "shipper"
    if axis_name in ("lanes", "batch"):
        batches = f"{write_size(contender.batch_bytes)} batches" if contender.batch_bytes else ""
        other = batches if axis_name == "lanes" else f"{contender.lanes} lanes" if contender.lanes else ""
        name = f"shipper, {other}" if other else "shipper"
    parts = {
        "round trip": f"{case.rtt_ms:g} ms",
        "delay per request": f"{case.request_delay_ms:g} ms per request",
        "record size": "log lines" if case.record_bytes is None else write_size(case.record_bytes),
        "partitions": f"{case.partitions} partitions",
        "topics": f"{case.topics} topics",
    }
    return " · ".join([name, *(text for axis, text in parts.items() if axis != axis_name and differs(axis))])


def lines(found: Sequence[Summary], axis_name: str) -> Html:
    """Medians along an axis, with the spread of the rounds as a stroke at each point. At most six lines, the fastest."""
    groups, axis = _groups(found, axis_name), _AXES[axis_name]
    values = sorted({value for points in groups.values() for value, _ in points})
    if not values:
        return tag("p", "No contender was measured at two values.")
    top = max(s.records_per_second.highest for points in groups.values() for _, s in points)
    # Values are spread evenly: they are most often doublings.
    place = {value: _WIDTH * (index + 0.5) / len(values) for index, value in enumerate(values)}
    shapes = [*_grid(top), *(_tick(place[value], axis.tick(value)) for value in values)]
    for index, points in enumerate(groups.values()):
        shapes += _series(index, [(place[value], summary) for value, summary in points], top)
    svg = tag(
        "svg",
        tag("title", f"Records per second by {axis_name}"),
        *shapes,
        role="img",
        viewBox=f"-70 -10 {_WIDTH + 80:g} {_HEIGHT + 40:g}",
    )
    legend = tag(
        "p", *(tag("span", tag("i", class_=f"swatch s{i}"), f" {name}") for i, name in enumerate(groups)), class_="legend"
    )
    return tag("figure", legend, svg, class_="lines")


def _grid(top: float) -> Iterator[Html]:
    for value in ticks(top):
        y = coordinate(_HEIGHT * (1 - value / top))
        yield tag("line", x1="0", x2=coordinate(_WIDTH), y1=y, y2=y, class_="grid")
        yield tag("text", number(value), x="-8", y=y, class_="y")


def _tick(x: float, label: str) -> Html:
    return tag("text", label, x=coordinate(x), y=coordinate(_HEIGHT + 22), class_="x")


def _series(index: int, points: Sequence[tuple[float, Summary]], top: float) -> Iterator[Html]:
    def y(rate: float) -> str:
        return coordinate(_HEIGHT * (1 - rate / top))

    path = " ".join(f"{coordinate(x)},{y(summary.records_per_second.median)}" for x, summary in points)
    yield tag("polyline", points=path, class_=f"line s{index}")
    for x, summary in points:
        rate = summary.records_per_second
        yield tag("line", x1=coordinate(x), x2=coordinate(x), y1=y(rate.lowest), y2=y(rate.highest), class_=f"spread s{index}")
        says = tag("title", f"{summary.contender.name}, {summary.case.title}: {number(rate.median)} rec/s")
        yield tag("circle", says, cx=coordinate(x), cy=y(rate.median), r="4", class_=f"dot s{index}")
