"""A run's report as one self-contained HTML page: no network, no script, no fonts of its own.

The order is the reader's: the outcome and what to do; the records' destinations; the agreement of
the independent counts; the speed; then the lists. The page shows only the report's content, and the
same report gives the same page. ``page.html.j2`` is the markup; each section of it shows the result
of one function of this package.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator
from typing import Any

from shipper.config.units import format_bytes, format_duration, plural, utc
from shipper.report.cluster_view import ClusterView
from shipper.report.flow import flow
from shipper.report.markup import duration, window
from shipper.report.results import RunReport
from shipper.report.run_view import RunStep, RunView, checks, run_view, section
from shipper.report.tables import (
    figure_table,
    file_table,
    gap_table,
    gate_tables,
    left_out_table,
)
from shipper.report.templates import environment
from shipper.report.throughput import throughput
from shipper.report.times import requests, times

#: State → mark, words, and colour of the icon; and the tone of a cluster.
_BADGES = {
    "shipped": ("✓", "Succeeded", "1a7f4b", "good"),
    "nothing": ("✓", "Succeeded", "6b8577", "good"),
    "doubt": ("!", "Look into this", "b26a00", "warn"),
    "failed": ("✗", "Failed", "c0362c", "bad"),
    "blocked": ("✗", "Failed", "c0362c", "bad"),
}
_STATUS = {
    "succeeded": ("✓ succeeded", "good"),
    "failed": ("✗ failed", "bad"),
    "skipped": ("skipped", "dim"),
}
_FIRST_ROWS = 20


@functools.cache
def _template() -> Any:
    made = environment("shipper.report")
    made.globals.update(duration=duration, window=window, utc=utc, first_rows=_FIRST_ROWS)
    return made.get_template("page.html.j2")


def render(report: RunReport) -> str:
    """Return the page. Takes any report, whatever is missing in it: the page of a failed run
    matters most."""
    run = run_view(report)
    numbered = [(f"c{i}", one) for i, one in enumerate(run.clusters)]
    results = (report.plan, report.gate_source, *report.ships, *report.delivery_gates)
    page: str = _template().render(
        report=report,
        run=run,
        plan=report.plan,
        badge=_BADGES[run.state],
        clusters=[
            (*(("–", "dim") if one.is_silent else _BADGES[one.state][::3]), one.line)
            for one in run.clusters
        ],
        section=section,
        pointers=_pointers(report, run),
        # The report step's own times say only how long the report took.
        began=min(utc(at) for at in (report.started_at, *(r.started_at for r in results if r))),
        usual=_usual(report),
        flows=[flow(account, i, report.plan) for i, account in numbered if _has_sum(account)],
        gates=gate_tables(report),
        figures=[figure_table(one) for one in run.clusters if one.topics or one.counts],
        ships=[
            throughput(account, account.ship, i)
            for i, account in numbered
            if account.ship and (account.ship.delivered or account.ship.timeline)
        ],
        files=file_table(report, run.clusters),
        left_out=left_out_table(report),
        gaps=gap_table(report),
        times=times(run.steps),
        requests=requests(run.steps),
        steps=list(_steps(run)),
    )
    return page


def _has_sum(account: ClusterView) -> bool:
    return account.ship is not None and bool(
        account.read or account.sent or account.before or account.aside
    )


def _steps(run: RunView) -> Iterator[tuple[RunStep, str, str]]:
    """Yield each step with its status in words and the status's tone."""
    failed = False
    for step in run.steps:
        if step.result is None:
            # A step after a failure was never begun; a step without any explanation was killed, or
            # its result is lost.
            yield step, "not run" if failed else "no result", "dim"
        else:
            yield step, *_STATUS[step.result.status]
        failed = failed or step.failed or step.result is None


def _pointers(report: RunReport, run: RunView) -> list[tuple[str, str]]:
    """Return links to what a reader should still see, but for the sections to which the doubts have
    links already."""
    found, shown = run.clusters, {section(doubt) for doubt in run.doubts}
    broken = sum(not check.passed and check.severity != "quarantine" for _, check in checks(report))
    aside = sum(sum(account.quarantined.values()) for account in found)
    wrong = sum(not count.agrees for account in found for count in account.counts)
    unsent = sum(account.parked for account in found)
    remarks = len(run.notes)
    left_out = report.plan.left_out_in_words() if report.plan else ""
    links = [
        (f"{plural(broken, 'check')} did not hold" if broken else "", "gates"),
        (f"{plural(aside, 'record')} quarantined" if aside else "", "sum"),
        (f"{plural(wrong, 'figure')} disagreeing" if wrong else "", "figures"),
        (f"{plural(unsent, 'record')} not sent" if unsent else "", "sum"),
        (plural(remarks, "note") if remarks else "", "notes"),
        (left_out, "left-out"),
        ("the steps and their errors" if report.status == "failed" else "", "steps"),
    ]
    return [(says, place) for says, place in links if says and place not in shown]


def _usual(report: RunReport) -> dict[str, Any] | None:
    """Return the size of the earlier runs over windows of the same length: a backfill of a month
    says nothing about an hour."""
    before = [
        run
        for run in report.history
        if run.window_end - run.window_start == report.window_end - report.window_start
    ]
    if not before:
        return None
    files, size, records = (
        round(statistics.median(getattr(run, key) for run in before))
        for key in ("files", "bytes", "records")
    )
    took = format_duration(statistics.median(run.seconds for run in before))
    return {
        "runs": len(before),
        "says": (
            f"{plural(files, 'file')}, {format_bytes(size)}, {plural(records, 'record')}, {took}"
        ),
    }
