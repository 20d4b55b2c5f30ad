"""Pictures as inline SVG, for all pages: coordinates, ticks, an area over time, bars beside each other.

A picture stretches with the page while its text does not (``preserveAspectRatio="none"``, text placed in per cent and pixels), so that it can
be read at 360 px.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shipper.report.markup import Html, number, tag

MOST_STEPS = 240
"""More points than that are to be summed up in groups of equal number: a step of less than two pixels shows nothing."""
_AREA_HEIGHT = 160
_BARS_HEIGHT = 100.0
_TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400]


class PlotStep(NamedTuple):
    """A height from ``start`` to ``end`` (seconds since the epoch)."""

    start: float
    end: float
    height: float


def coordinate(value: float, digits: int = 2) -> str:
    """Two decimals at most: small pages, and the same text on every machine."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def picture(prefix: str, title: str, description: str, *shapes: Html, **attributes: str) -> Html:
    """An ``svg`` that a screen reader can name and describe. ``prefix`` makes its ids unique on the page."""
    return tag(
        "svg",
        tag("title", title, id=f"{prefix}-title"),
        tag("desc", description, id=f"{prefix}-desc"),
        *shapes,
        role="img",
        aria_labelledby=f"{prefix}-title {prefix}-desc",
        **attributes,
    )


def bars(prefix: str, title: str, description: str, values: Sequence[float], median: float) -> Html:
    """A bar for each value, the last one for now, with a line at ``median`` of the others."""
    top = max(*values, 1e-9)
    y = coordinate(_BARS_HEIGHT * (1 - median / top))
    return picture(
        prefix,
        title,
        description,
        *(_bar(i, value, top, "now" if i == len(values) - 1 else "past") for i, value in enumerate(values)),
        tag("line", class_="median", x1="0", x2=str(len(values)), y1=y, y2=y, vector_effect="non-scaling-stroke"),
        viewBox=f"0 0 {len(values)} {coordinate(_BARS_HEIGHT)}",
        preserveAspectRatio="none",
    )


def _bar(i: int, value: float, top: float, kind: str) -> Html:
    height = max(_BARS_HEIGHT * value / top, 0.8 if value else 0.0)
    y = coordinate(_BARS_HEIGHT - height)
    return tag("rect", class_=kind, x=coordinate(i + 0.14), y=y, width="0.72", height=coordinate(height))


def area(steps: Sequence[PlotStep], title: str, unit: str, prefix: str, mean: float | None = None) -> Html:
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
        else [_line("mean", mean, top), tag("text", "mean", class_="mean-label", x="100%", dx="6", y=_px(_y(mean, top) + 4))]
    )
    return picture(prefix, title, described, *_y_axis(y_ticks, top), *_x_axis(start, end), _outline(steps, top), *means)


def _outline(steps: Sequence[PlotStep], top: float) -> Html:
    """The steps in a box of 1000 × the height, stretched to the width of the plot."""
    start, end = steps[0].start, steps[-1].end
    path = []
    for step in steps:
        path.append(f"V{_px(_y(step.height, top))}H{_px(1000 * (step.end - start) / (end - start))}")
    outline = f"M0 {_AREA_HEIGHT}{''.join(path)}V{_AREA_HEIGHT}"
    filled = tag("path", class_="area", d=f"{outline}Z")
    edge = tag("path", class_="edge", d=outline, vector_effect="non-scaling-stroke")
    box = {"viewBox": f"0 0 1000 {_AREA_HEIGHT}", "preserveAspectRatio": "none"}
    return tag("svg", filled, edge, width="100%", height=str(_AREA_HEIGHT), **box)


def _y_axis(values: Sequence[float], top: float) -> Iterator[Html]:
    for value in values:
        yield _line("grid", value, top)
        digits = max(0, -math.floor(math.log10(values[1]))) if values[1] < 1 else 0
        yield tag("text", f"{value:,.{digits}f}", x="-8", y=_px(_y(value, top) + 4), text_anchor="end")


def _x_axis(start: float, end: float) -> Iterator[Html]:
    """Ticks at round times of the clock. On a phone every second one goes without its label (class ``odd``)."""
    step = next((s for s in _TIME_STEPS if (end - start) / s <= 8), 86400 * math.ceil((end - start) / 86400 / 8))
    first = math.ceil(start / step) * step
    for i in range(int((end - first) // step) + 1):
        at = first + i * step
        x = f"{_px(100 * (at - start) / (end - start))}%"
        yield tag("line", class_="tick", x1=x, x2=x, y1=str(_AREA_HEIGHT), y2=str(_AREA_HEIGHT + 4))
        label = _day(at) if step >= 86400 else _clock(at, step < 60)
        yield tag("text", label, class_="odd" if i % 2 else None, x=x, y=str(_AREA_HEIGHT + 18), text_anchor="middle")
    days = _day(start) if _day(start) == _day(end) else f"{_day(start)} to {_day(end)}"
    yield tag("text", f"{days}, UTC", x="100%", y=str(_AREA_HEIGHT + 36), text_anchor="end")


def ticks(peak: float) -> list[float]:
    """From 0 to just below or at the peak, in about four steps of 1, 2 or 5 times a power of ten."""
    if peak <= 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(peak / 4))
    step = next(factor * power for factor in (1, 2, 5, 10) if peak / (factor * power) <= 5)
    return [i * step for i in range(int(peak / step + 1e-9) + 1)]


def _line(kind: str, value: float, top: float) -> Html:
    y = _px(_y(value, top))
    return tag("line", class_=kind, x1="0", x2="100%", y1=y, y2=y)


def _y(value: float, top: float) -> float:
    return _AREA_HEIGHT * (1 - value / top)


def _day(at: float) -> str:
    return f"{dt.datetime.fromtimestamp(at, dt.UTC):%Y-%m-%d}"


def _clock(at: float, seconds: bool) -> str:
    moment = dt.datetime.fromtimestamp(at, dt.UTC)
    return f"{moment:%H:%M:%S}" if seconds else f"{moment:%H:%M}"


def _px(value: float) -> str:
    return coordinate(value, 1)
