"""Notes of a run for an operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shipper.config.units import format_bytes
from shipper.report.account import Account
from shipper.report.markup import plural
from shipper.report.plan_result import ReplayOf
from shipper.report.results import RunReport, ShipResult
from shipper.report.run_folder import Asked


def notes(report: RunReport, found: Sequence[Account]) -> list[str]:
    """Return the notes, with the cluster if there is more than one."""
    lines = []
    if report.plan and report.plan.reship:
        why = f": {report.plan.reship_reason}" if report.plan.reship_reason else "."
        lines.append(f"This run re-shipped files that an earlier run had shipped (`reship`){why}")
    if report.plan and report.plan.replay:
        lines.append(_replayed(report.plan.replay))
    if report.asked:
        lines += _asked(report.asked)
    for account in found:
        own = list(_of_cluster(account))
        lines += [f"{account.cluster}: {note}" if found[1:] else note for note in own]
    return lines


def _of_cluster(account: Account) -> Iterator[str]:
    plan, ship = account.plan, account.ship
    if plan:
        if plan.problem:
            yield f"When planning: {plan.problem}"
        yield from plan.warnings
        if plan.in_the_clear:
            yield f"{plan.in_the_clear[:1].upper()}{plan.in_the_clear[1:]}."
    if ship:
        if measured := measured_rate(ship):
            yield f"Sent {measured}."
        if ship.late_files:
            yield _late(ship)
        yield from ship.notes


def measured_rate(ship: ShipResult) -> str:
    """Return the measured rate beside the cap that held; nothing without a cap."""
    if not (ship.rate_limit_bytes and ship.wire_bytes and ship.ship_seconds):
        return ""
    rate, cap = format_bytes(ship.wire_bytes / ship.ship_seconds), ship.rate_limit_bytes
    return f"{rate}/s on the wire, at a cap of {format_bytes(cap)}/s"


def _replayed(asked: ReplayOf) -> str:
    what = (
        f", of events from {asked.start:%Y-%m-%dT%H:%M:%SZ} to {asked.end:%Y-%m-%dT%H:%M:%SZ}"
        if asked.start and asked.end
        else ""
    )
    where = (
        f"to topics that begin with {asked.topic_prefix}"
        if asked.topic_prefix
        else "to the same topics once more"
    )
    return f"This is replay {asked.id} of {asked.pipeline}{what}, {where}: {asked.reason}"


def _asked(asked: Asked) -> Iterator[str]:
    if asked.plan_only:
        yield (
            "A dry run was asked for: nothing was sent, and the window does not count as shipped."
        )
    if asked.other_clusters:
        yield (
            f"This run shipped only to {', '.join(asked.clusters)}, as asked. What "
            f"{', '.join(asked.other_clusters)} may lack is still missing."
        )
    if asked.rate_limit:
        yield f"A cap of {asked.rate_limit} to each cluster was asked for."
    if asked.skipped_checks:
        yield (f"Skipped checks, as asked: {', '.join(asked.skipped_checks)}: {asked.skip_reason}")


def _late(ship: ShipResult) -> str:
    files, windows = plural(ship.late_files, "file"), plural(ship.late_windows, "earlier window")
    return (
        f"{files} of {windows} came late, or were left by an earlier run. "
        f"{plural(ship.late_records, 'record')} of them were shipped."
    )
