"""What the lanes did over time: bytes in flight, bytes on the wire, how long readers waited for a lane, records parked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from shipper.report.markup import Html, join, tag, utc
from shipper.report.results import LanePoint, ShipResult
from shipper.report.timeline import MOST_STEPS, Step, plot

_Height = Callable[[LanePoint, float], float]

_PLOTS: tuple[tuple[str, str, str, _Height], ...] = (
    ("MB in flight, uncompressed", "megabytes", "flight", lambda point, _: point.in_flight_bytes / 1e6),
    ("MB per second on the wire", "megabytes per second", "wire", lambda point, seconds: point.wire_bytes / 1e6 / seconds),
    ("% of the time readers waited for a lane", "percent", "wait", lambda point, _: 100 * point.waited),
    ("Records parked", "records", "parked", lambda point, _: float(point.parked_records)),
)


def lanes(ship: ShipResult, prefix: str) -> Html:
    """The figures, folded away: they answer why a run was slow, which few readers ask. Nothing for a short run."""
    points = ship.lane_timeline
    if len(points) < 3:
        return join([])
    figures = []
    for title, unit, key, height in _PLOTS:
        steps = _steps(points, height)
        if any(step.height for step in steps):
            drawn = plot(steps, f"{title}, {ship.cluster}", unit, f"{prefix}-{key}")
            figures.append(tag("figure", tag("p", title, class_="axis"), drawn, class_="timeline"))
    return tag("details", tag("summary", "What the lanes did"), *figures)


def _steps(points: Sequence[LanePoint], height: _Height) -> list[Step]:
    every = max(1, -(-len(points) // MOST_STEPS))
    found = []
    for before, now in pairwise(points[::every]):
        start, end = utc(before.at).timestamp(), utc(now.at).timestamp()
        found.append(Step(start, end, height(now, max(0.001, (end - start) / every))))
    return found
