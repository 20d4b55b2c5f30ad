"""End of a run on each cluster, by its report. Pure. What becomes of the window, all its runs
together say (:mod:`shipper.report.window_state`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from shipper.report.account import Account, accounts
from shipper.report.results import RunReport
from shipper.report.verdict import Verdict, verdict
from shipper.report.window_records import RunEnd, SentRecords, source_closed
from shipper.report.window_state import BLOCKED, DOUBT, FAILED, SHIPPED

_OTHER_WINDOWS = "incomplete"
"""The section of a report's page whose caveats are about other windows than its own."""
_COVERED = (_OTHER_WINDOWS, "left-out")
"""Sections whose caveats are about files that are left: the looks of the runs say of which window,
and until when."""
_MOST_TOPICS = 50
"""Topics of one ship, those with the most records; the report has all of them."""


def outcomes(report: RunReport) -> Iterator[tuple[str, RunEnd, str]]:
    """Yield cluster, end and doubt for each cluster that the run was about; the cluster is empty
    for all, if the run failed before it came to one."""
    judged, found = verdict(report), accounts(report)
    if judged.state != "failed":
        # A cluster without a ship was not part of the run.
        found = [account for account in found if account.ship]
    elif not any(account.ship or account.gate for account in found):
        found = [Account("", None, None, None, ())]
    for account in found:
        state, cause = _state(report, account, judged)
        doubt = _doubts(account, judged, _COVERED) if state == DOUBT else ()
        own = report.plan.own_files if report.plan else []
        ended = RunEnd(
            state=state,
            cause=cause,
            began=report.plan.started_at if report.plan else report.started_at,
            files=len(own),
            bytes=sum(file.size_bytes for file in own),
            records=account.delivered,
            there=account.before,
            sent=_sent(account),
        )
        yield account.cluster, ended, " ".join(doubt)


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


def _state(report: RunReport, account: Account, judged: Verdict) -> tuple[str, str]:
    """State and cause. As the page's verdict: never better than the report says."""
    if source_closed(report.gate_source):
        return BLOCKED, judged.cause or ""
    for step in (account.ship, account.gate):
        if step is not None and step.status == "failed":
            return FAILED, step.error or judged.cause or ""
    if judged.state == "failed" and (account.ship is None or account.gate is None):
        return FAILED, judged.cause or ""
    doubts = list(_doubts(account, judged, (_OTHER_WINDOWS,)))
    return (DOUBT, " ".join(doubts)) if doubts else (SHIPPED, "")


def _doubts(account: Account, judged: Verdict, without: Collection[str]) -> Iterator[str]:
    for caveat in judged.doubts:
        if caveat.section not in without and caveat.cluster in ("", account.cluster):
            yield caveat.says
