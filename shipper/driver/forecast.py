"""Limit of a ship, and what it costs: foretold for a plan, and found by what a ship measured."""

from __future__ import annotations

from collections.abc import Sequence

from shipper.report.plan_result import Forecast, Limit
from shipper.report.results import ShipResult
from shipper.worker.receipt import Receipt
from shipper.worker.tuning import SHORT_ACK_SECONDS, Sizing, Tuning

#: Shortest ship of which is said what held it up.
_TOLD_SECONDS = 5.0
#: Shares: of what a cap or a link lets through; of the tasks' time that their reader waited for a
#: lane; of it that one core was at work for each.
_FULL, _WAITED, _BUSY = 0.8, 0.2, 0.5
#: Core-seconds per byte near and far, of plain lines (docs/understand/sizing.md), for a pipeline
#: without a ship that tells its own; and bytes per second of a task that any pipeline reaches.
_COST_NEAR, _COST_FAR, _REACHED = 8.2e-9, 10.6e-9, 10e6


def forecast(sizing: Sizing, tuning: Tuning, count: int, past: ShipResult | None) -> Forecast:
    """Return what is known of a ship of ``count`` bytes, uncompressed. ``past``: an earlier ship of
    the pipeline to the cluster; None: no result tells of one."""
    link, tasks = sizing.link, sizing.tasks
    ratio = past.bytes / past.wire_bytes if past else link.ratio
    bounds: dict[Limit, float] = {"bandwidth": link.bandwidth_bytes_per_second * ratio}
    if link.cap_bytes_per_second:
        bounds["rate_limit"] = link.cap_bytes_per_second * ratio
    if not link.is_short:
        bounds["acknowledgements"] = sizing.acknowledged_bytes_per_second(tuning)
    cost = _COST_NEAR if link.is_short else _COST_FAR
    if past:
        cost = past.cpu_seconds / past.bytes
        bounds["processor"] = tasks / cost
        if past.tasks == tasks and past.limited_by in ("source", "processor", "quota"):
            bounds[past.limited_by] = past.bytes / past.ship_seconds
    limit, rate = min(bounds.items(), key=lambda bound: bound[1])
    found = Forecast(
        bytes=count,
        wire_bytes=round(count / ratio),
        cpu_seconds=count * cost,
        measured_by=past.run_id if past else None,
    )
    if past or rate < tasks * _REACHED:
        waits = link.transaction_seconds(tuning.chunk_bytes / tuning.batch_bytes)
        found.bytes_per_second, found.seconds = rate, max(count / rate, waits)
        found.limited_by = limit if found.seconds >= _TOLD_SECONDS else None
    return found


def limit_of(result: ShipResult, receipts: Sequence[Receipt], bandwidth: float) -> Limit | None:
    """Return what held the ship up most; None: it was too short to tell. ``bandwidth``: of the
    cluster's link, in bytes per second."""
    at_work = sum(each.seconds for each in receipts)
    if result.ship_seconds < _TOLD_SECONDS or not at_work:
        return None
    rate = result.wire_bytes / result.ship_seconds
    if result.rate_limit_bytes and rate >= _FULL * result.rate_limit_bytes:
        return "rate_limit"
    busy = result.cpu_seconds / at_work
    waited = sum(each.waited_seconds for each in receipts) / at_work
    if waited < _WAITED:
        return "processor" if busy >= _BUSY else "source"
    if sum(each.throttled_seconds for each in receipts) >= _WAITED * at_work:
        return "quota"
    if rate >= _FULL * bandwidth:
        return "bandwidth"
    delay = (result.held_ack_ms or result.ack_ms or 0.0) / 1000
    return "processor" if busy >= _FULL or delay < SHORT_ACK_SECONDS else "acknowledgements"
