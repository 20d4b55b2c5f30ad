"""The size of this run against the runs before it: files, bytes, records and time as small bar charts, this run's bar last.

Only runs over a window of the same length are compared: a backfill of a month says nothing about an hour.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shipper.config.units import format_bytes, format_duration
from shipper.report.account import Account
from shipper.report.markup import Html, number, plural, tag, utc, window
from shipper.report.plot import bars
from shipper.report.results import PastRun, RunReport

MOST_RUNS = 60
"""The latest ones; the others are in report.json."""


@dataclass(frozen=True)
class _Chart:
    title: str
    key: str
    past: Sequence[float]
    now: float
    """Of this run."""
    write: Callable[[float], str]

    @property
    def median(self) -> float:
        return statistics.median(self.past)


def history_section(report: RunReport, found: Sequence[Account]) -> Html | None:
    """None where there is nothing that could be compared: no plan, or no earlier run."""
    if report.plan is None:
        return None
    length = report.window_end - report.window_start
    before = [run for run in report.history if run.window_end - run.window_start == length][-MOST_RUNS:]
    head = tag("h2", "Against earlier runs")
    if not before:
        return None
    first, last = before[0], before[-1]
    count = plural(len(before), "run")
    says = (
        f"This run is the last bar of each chart. Before it: {count} over windows of the same length, "
        f"{window(first.window_start, first.window_end)}"
    )
    says += f" to {window(last.window_start, last.window_end)}." if len(before) > 1 else "."
    figures = (_figure(chart) for chart in _charts(report, found, before))
    return tag(
        "section", head, tag("div", *figures, class_="charts"), tag("p", f"{says} The line is their median."), id="history"
    )


def _charts(report: RunReport, found: Sequence[Account], before: Sequence[PastRun]) -> list[_Chart]:
    """A run that failed was cut short: its files and bytes can be compared, its records only where they were counted."""
    plan = report.plan
    assert plan is not None
    lines = [account.read + account.unread for account in found if account.read is not None]
    charts = [
        _Chart("Files", "files", [run.files for run in before], len(plan.own_files), number),
        _Chart(
            "Bytes, as stored",
            "bytes",
            [run.bytes for run in before],
            sum(file.size_bytes for file in plan.own_files),
            lambda size: format_bytes(round(size)),
        ),
    ]
    if lines:
        charts.append(_Chart("Records", "records", [run.records for run in before], max(lines), number))
    if report.first_cause is None and report.status == "succeeded":
        took = max(0.0, (utc(report.finished_at) - utc(plan.started_at)).total_seconds())
        charts.append(_Chart("Time", "seconds", [run.seconds for run in before], took, format_duration))
    return charts


def _figure(chart: _Chart) -> Html:
    svg = bars(
        f"history-{chart.key}",
        f"{chart.title} of this run and the runs before it",
        f"{chart.write(chart.now)}; {_compared(chart)}.",
        [*chart.past, chart.now],
        chart.median,
    )
    head = tag("p", tag("span", chart.title), tag("b", chart.write(chart.now)))
    return tag("figure", head, svg, tag("figcaption", _compared(chart)), class_="bars")


def _compared(chart: _Chart) -> str:
    """``12 % above the median of 1,190,000``."""
    median = chart.write(chart.median)
    if not chart.median:
        return f"the median is {median}"
    share = round(100 * (chart.now / chart.median - 1))
    if share == 0:
        return f"at the median of {median}"
    if share >= 900:
        return f"{number(chart.now / chart.median)} times the median of {median}"
    return f"{abs(share)} % {'above' if share > 0 else 'below'} the median of {median}"
