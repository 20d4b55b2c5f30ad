"""What became of a window on each cluster, by the run's report. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from shipper.report.account import Account, accounts
from shipper.report.coverage import Look, coverage, lacking
from shipper.report.markup import utc
from shipper.report.results import Coverage, RunReport
from shipper.report.verdict import Verdict, verdict

SHIPPED, LATE, DOUBT, WAITING, SHIPPING, MISSING, BLOCKED, FAILED = (
    "shipped",
    "late",
    "doubt",
    "waiting",
    "shipping",
    "missing",
    "blocked",
    "failed",
)
#: From the best to the worst: of several clusters a window shows the worst.
STATES = (SHIPPED, LATE, DOUBT, WAITING, SHIPPING, MISSING, BLOCKED, FAILED)
#: Those in which all of the window is on the cluster.
THERE = (SHIPPED, LATE, DOUBT)
_OTHER_WINDOWS = "incomplete"
"""The section of a report's page whose caveats are about other windows than its own."""


_MOST_TOPICS = 50
"""Of one ship, those with the most records; the report has all of them."""


@dataclass(frozen=True)
class Arrived:
    """What a run sent to one topic, in all of its attempts."""

    topic: str
    records: int
    bytes: int
    """Of values and keys, uncompressed."""
    quarantine: bool
    parked: int
    """Records that waited for it in vain."""


@dataclass(frozen=True)
class SentRecords:
    """What a run sent to one cluster, in all of its attempts."""

    seconds: float
    records: int
    bytes: int
    """Uncompressed."""
    wire_bytes: int
    quarantined: int
    parked: int
    ledger: int
    """Entries that were ever written to the pipeline's ledger about chunks, when the ship began."""
    topics: tuple[Arrived, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """One row of the index: a run over a window, as one cluster saw it. Times are seconds since the epoch, UTC."""

    pipeline: str
    cluster: str
    start: int
    end: int
    run_id: str
    state: str
    began: int
    ended: int
    files: int = 0
    """Of the window itself, without those that came late for others."""
    bytes: int = 0
    """Of these, as stored."""
    records: int = 0
    """Sent by this run."""
    there: int = 0
    """Records of the window that were on the cluster before."""
    cause: str = ""
    """Why it is not plainly shipped, in one paragraph."""
    look: Look | None = None
    """What the run looked at, and what it left; None: it did not come so far."""
    sent: SentRecords | None = None
    """None: no ship began."""

    @property
    def lag(self) -> int:
        """Seconds from the window's end to the report."""
        return max(0, self.ended - self.end)


def outcomes(report: RunReport, clusters: Collection[str] = (), deliver_within: float | None = None) -> list[Outcome]:
    """One for each cluster that the run was about. ``clusters``: the pipeline's, of whose a run that failed early may say nothing."""
    judged = verdict(report)
    found = {account.cluster: account for account in accounts(report)}
    if judged.state != "failed":
        # A cluster of which no step left anything was no part of the run: a dry run, or one for other clusters.
        found = {name: account for name, account in found.items() if account.ship}
    elif not any(account.ship or account.gate for account in found.values()):
        found |= {name: Account(name, None, None, None, ()) for name in clusters if name not in found}
    closed = _source_closed(report)
    return [_outcome(report, account, judged, deliver_within, closed=closed) for account in found.values()]


def _outcome(report: RunReport, account: Account, judged: Verdict, deliver_within: float | None, *, closed: bool) -> Outcome:
    began = report.plan.started_at if report.plan else report.started_at
    state, cause = _state(report, account, judged, closed=closed)
    ended = _seconds(report.finished_at)
    if state == SHIPPED and deliver_within is not None and ended > _seconds(report.window_end) + deliver_within:
        state, cause = LATE, "It was delivered later than `schedule.deliver_within` after the window's end."
    own = report.plan.own_files if report.plan else []
    return Outcome(
        pipeline=report.pipeline,
        cluster=account.cluster,
        start=_seconds(report.window_start),
        end=_seconds(report.window_end),
        run_id=report.run_id,
        state=state,
        began=_seconds(began),
        ended=ended,
        files=len(own),
        bytes=sum(file.size_bytes for file in own),
        records=account.delivered,
        there=account.before,
        cause=cause,
        look=_look(report, account, passed=state in THERE),
        sent=_sent(account),
    )


def _sent(account: Account) -> SentRecords | None:
    ship = account.ship
    if ship is None:
        return None
    sent = [
        Arrived(one.topic, one.delivered + one.earlier, one.delivered_bytes + one.earlier_bytes, one.quarantine, one.parked)
        for one in account.topics
    ]
    topics = sorted((one for one in sent if one.records or one.parked), key=lambda one: -one.records)
    return SentRecords(
        seconds=ship.ship_seconds,
        records=account.sent + ship.by_earlier_attempts,
        bytes=sum(one.bytes for one in sent),
        wire_bytes=ship.wire_bytes + ship.earlier_wire_bytes,
        quarantined=sum(account.quarantined.values()) + sum(one.earlier for one in account.topics if one.quarantine),
        parked=account.parked,
        ledger=ship.chunks_end,
        topics=tuple(topics[:_MOST_TOPICS]),
    )


def _state(report: RunReport, account: Account, judged: Verdict, *, closed: bool) -> tuple[str, str]:
    """State and cause. As the page's verdict: never better than the report says."""
    if closed:
        return BLOCKED, judged.cause or ""
    failed = next((step for step in (account.ship, account.gate) if step is not None and step.status == "failed"), None)
    if failed is not None:
        return FAILED, failed.error or judged.cause or ""
    if judged.state == "failed" and (account.ship is None or account.gate is None):
        return FAILED, judged.cause or ""
    doubts = list(_doubts(account, judged, [other.cluster for other in accounts(report)]))
    return (DOUBT, " ".join(doubts)) if doubts else (SHIPPED, "")


def _doubts(account: Account, judged: Verdict, names: Collection[str]) -> Iterator[str]:
    for caveat in judged.doubts:
        about = [name for name in names if caveat.says.startswith(f"{name}: ")]
        if caveat.section != _OTHER_WINDOWS and (not about or account.cluster in about):
            yield caveat.says


def _source_closed(report: RunReport) -> bool:
    gate = report.gate_source
    return gate is not None and gate.status == "failed" and any(c.severity == "block" and not c.passed for c in gate.checks)


def _look(report: RunReport, account: Account, *, passed: bool) -> Look | None:
    if not passed:
        return Look(lacking(report.plan, account.cluster), passed) if report.plan else None
    if account.gate is None or account.gate.status == "failed":
        return None
    if account.gate.coverage:
        return Look(account.gate.coverage, passed)
    if report.plan:
        return Look(coverage(report.plan, account.cluster, when_empty_fails=False), passed)
    return Look(Coverage(start=report.window_start, end=report.window_end), passed)


def _seconds(at: dt.datetime) -> int:
    return int(utc(at).timestamp())
