"""Outcomes of a run on each cluster, by its report. Pure. What becomes of the window, all its runs
together say (:mod:`shipper.report.standing`)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shipper.report.account import Account, accounts
from shipper.report.markup import utc
from shipper.report.results import RunReport
from shipper.report.standing import (
    BLOCKED,
    DOUBT,
    FAILED,
    SHIPPED,
    RunSeen,
    attempts,
    source_closed,
)
from shipper.report.verdict import Verdict, verdict
from shipper.windows.window import Window

_OTHER_WINDOWS = "incomplete"
"""The section of a report's page whose caveats are about other windows than its own."""
_COVERED = (_OTHER_WINDOWS, "left-out")
"""Sections whose caveats are about files that are left: the coverage of the runs says of which
window, and until when."""


_MOST_TOPICS = 50
"""Topics of one ship, those with the most records; the report has all of them."""


@dataclass(frozen=True)
class SentRecords:
    """Figures of what a run sent to one cluster, in all of its attempts."""

    seconds: float
    records: int
    bytes: int
    """Uncompressed."""
    wire_bytes: int
    quarantined: int
    parked: int
    ledger: int
    """Entries that were ever written to the pipeline's ledger about chunks, when the ship began."""
    topics: Sequence[Mapping[str, Any]] = ()
    """Topic, records, bytes, quarantine and parked of each."""


@dataclass(frozen=True)
class Outcome:
    """One row of the index: a run over a window, as one cluster saw it. Times are seconds since the
    epoch, UTC."""

    pipeline: str
    cluster: str
    start: int
    end: int
    run_id: str
    state: str
    began: int
    ended: int
    files: int = 0
    """Number of the window's own files, without those that came late for others."""
    bytes: int = 0
    """Bytes of these files, as stored."""
    records: int = 0
    """Sent by this run."""
    there: int = 0
    """Records of the window that were on the cluster before."""
    cause: str = ""
    """Reason why it is not plainly shipped, in one paragraph."""
    attempts: tuple[RunSeen, ...] = ()
    committed: Mapping[str, dt.datetime] = field(default_factory=dict)
    """START/END of a window → when the last of its records that the run knows of was committed on
    the cluster."""
    sent: SentRecords | None = None
    """Records that were sent. None: no ship began."""


def outcomes(report: RunReport, clusters: Collection[str] = ()) -> list[Outcome]:
    """Return one outcome for each cluster that the run was about. ``clusters``: the pipeline's, of
    whose a run that failed early may say nothing."""
    judged = verdict(report)
    found = {account.cluster: account for account in accounts(report)}
    if judged.state != "failed":
        # A cluster without any step's result was not part of the run: a dry run, or one for other
        # clusters.
        found = {name: account for name, account in found.items() if account.ship}
    elif not any(account.ship or account.gate for account in found.values()):
        found |= {
            name: Account(name, None, None, None, ()) for name in clusters if name not in found
        }
    closed = source_closed(report.gate_source)
    return [_outcome(report, account, judged, closed=closed) for account in found.values()]


def _outcome(
    report: RunReport, account: Account, judged: Verdict, *, closed: bool | None
) -> Outcome:
    began = report.plan.started_at if report.plan else report.started_at
    state, cause = _state(report, account, judged, closed=bool(closed))
    own = report.plan.own_files if report.plan else []
    run = RunSeen(
        Window(utc(report.window_start), utc(report.window_end)),
        report.run_id,
        doubt=" ".join(_doubts(account, judged, _names(report), _COVERED))
        if state == DOUBT
        else "",
    )
    lost = account.ship.recreated if account.ship else ()
    seen = attempts(run, account.cluster, report.plan, report.gate_source, account.gate, lost)
    return Outcome(
        pipeline=report.pipeline,
        cluster=account.cluster,
        start=_seconds(report.window_start),
        end=_seconds(report.window_end),
        run_id=report.run_id,
        state=state,
        began=_seconds(began),
        ended=_seconds(report.finished_at),
        files=len(own),
        bytes=sum(file.size_bytes for file in own),
        records=account.delivered,
        there=account.before,
        cause=cause,
        attempts=seen,
        committed={
            tick: utc(moment)
            for attempt in seen
            if attempt.passed and attempt.at
            for tick, moment in attempt.at.committed.items()
        },
        sent=_sent(account),
    )


def _sent(account: Account) -> SentRecords | None:
    ship = account.ship
    if ship is None:
        return None
    topics: list[dict[str, Any]] = [
        {
            "topic": one.topic,
            "records": one.delivered + one.earlier,
            "bytes": one.delivered_bytes + one.earlier_bytes,
            "quarantine": one.quarantine,
            "parked": one.parked,
        }
        for one in account.topics
    ]
    return SentRecords(
        seconds=ship.ship_seconds,
        records=account.sent + ship.by_earlier_attempts,
        bytes=sum(one["bytes"] for one in topics),
        wire_bytes=ship.wire_bytes + ship.earlier_wire_bytes,
        quarantined=sum(account.quarantined.values())
        + sum(one.earlier for one in account.topics if one.quarantine),
        parked=account.parked,
        ledger=ship.chunks_end,
        topics=sorted(
            (one for one in topics if one["records"] or one["parked"]),
            key=lambda one: -one["records"],
        )[:_MOST_TOPICS],
    )


def _state(
    report: RunReport, account: Account, judged: Verdict, *, closed: bool
) -> tuple[str, str]:
    """State and cause. As the page's verdict: never better than the report says."""
    if closed:
        return BLOCKED, judged.cause or ""
    failed = next(
        (
            step
            for step in (account.ship, account.gate)
            if step is not None and step.status == "failed"
        ),
        None,
    )
    if failed is not None:
        return FAILED, failed.error or judged.cause or ""
    if judged.state == "failed" and (account.ship is None or account.gate is None):
        return FAILED, judged.cause or ""
    doubts = list(_doubts(account, judged, _names(report), (_OTHER_WINDOWS,)))
    return (DOUBT, " ".join(doubts)) if doubts else (SHIPPED, "")


def _names(report: RunReport) -> list[str]:
    return [account.cluster for account in accounts(report)]


def _doubts(
    account: Account, judged: Verdict, names: Collection[str], without: Collection[str]
) -> Iterator[str]:
    for caveat in judged.doubts:
        about = [name for name in names if caveat.says.startswith(f"{name}: ")]
        if caveat.section not in without and (not about or account.cluster in about):
            yield caveat.says


def _seconds(at: dt.datetime) -> int:
    return int(utc(at).timestamp())
