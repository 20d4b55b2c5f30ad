"""What the lanes did: over time, bytes in flight and on the wire, waits, retries and parked records; and each lane by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from shipper.config.units import format_bytes, format_duration
from shipper.report.markup import Column, Html, Row, join, number, plural, table, tag, utc
from shipper.report.results import LaneAccount, LanePoint, ShipResult
from shipper.report.timeline import MOST_STEPS, Step, plot

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
            drawn = plot(steps, f"{title}, {ship.cluster}", unit, f"{prefix}-{key}")
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


def _steps(points: Sequence[LanePoint], height: _Height) -> list[Step]:
    """At most :data:`MOST_STEPS`, each of the same number of points; a point is what happened since the one before."""
    every = max(1, -(-len(points) // MOST_STEPS))
    found = []
    for start, end in pairwise([*range(0, len(points) - 1, every), len(points) - 1]):
        began, ended = utc(points[start].at).timestamp(), utc(points[end].at).timestamp()
        found.append(Step(began, ended, height(points[start + 1 : end + 1], max(0.001, ended - began))))
    return found
