"""A benchmark's result as one table and one plot for each case: on the terminal, and on one HTML
page that loads nothing."""

from __future__ import annotations

from importlib import resources

from jinja2 import Environment
from markupsafe import Markup

from shipper.config.units import format_duration
from shipper.report.markup import number
from shipper_tools.bench.results import BenchResult, Case, Summary

COLUMNS = (
    *(
        "contender",
        "rec/s, median",
        "lowest",
        "highest",
        "MB/s",
        "client CPU s/M",
        "broker CPU s/M",
        "× best peer",
        "peak MB",
    ),
)


def by_case(result: BenchResult) -> list[tuple[Case, list[Summary]]]:
    """Return the summaries of each case, the fastest first."""
    ranked = sorted(result.summaries, key=lambda summary: -summary.records_per_second.median)
    cases = dict.fromkeys(summary.case for summary in result.summaries)
    return [(case, [summary for summary in ranked if summary.case == case]) for case in cases]


def cells(summary: Summary) -> list[str]:
    """Return the cells of a contender's row, by :data:`COLUMNS`."""
    rate, times, peak = summary.records_per_second, summary.times_best_peer, summary.peak_bytes
    broker = summary.cpu_seconds_per_million.get("broker", 0.0)
    return [
        summary.contender.name,
        *(number(value) for value in (rate.median, rate.lowest, rate.highest)),
        f"{summary.megabytes_per_second:.1f}",
        f"{summary.client_cpu_per_million:.2f}",
        f"{broker:.2f}",
        f"{times:.2f}" if times else "–",
        f"{peak / 1e6:,.0f}" if peak else "–",
    ]


def render(result: BenchResult) -> str:
    """Return the page."""
    style = [(package, "style.css") for package in ("shipper.report", "shipper_tools.bench")]
    template = Environment(autoescape=True, trim_blocks=True).from_string(
        _read("shipper_tools.bench", "page.html.j2")
    )
    page: str = template.render(
        result=result,
        columns=COLUMNS,
        cells=cells,
        number=number,
        format_duration=format_duration,
        cases=by_case(result),
        style=Markup("".join(_read(*place) for place in style)),
        failed=[measured for measured in result.measurements if measured.error],
    )
    return page


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
