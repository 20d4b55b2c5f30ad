"""A benchmark's result as one table: on the terminal, and on one HTML page that needs nothing else, with a plot of each case."""

from __future__ import annotations

from importlib import resources

from jinja2 import Environment
from markupsafe import Markup

from shipper.config.units import format_duration
from shipper.report.markup import number
from shipper_tools.bench.results import BenchResult, Summary

COLUMNS = (
    "contender",
    "rec/s, median",
    "lowest",
    "highest",
    "MB/s",
    "client CPU s/M",
    "broker CPU s/M",
    "× best peer",
    "peak MB",
)


def cells(summary: Summary) -> list[str]:
    """Cells of a contender's row, by :data:`COLUMNS`."""
    rate, times, peak = summary.records_per_second, summary.times_best_peer, summary.peak_bytes
    broker = summary.cpu_seconds_per_million.get("broker", 0.0)
    return [
        summary.contender.name, *(number(value) for value in (rate.median, rate.lowest, rate.highest)),
        f"{summary.megabytes_per_second:.1f}", f"{summary.client_cpu_per_million:.2f}", f"{broker:.2f}",
        f"{times:.2f}" if times else "–", f"{peak / 1e6:,.0f}" if peak else "–",
    ]  # fmt: skip


def render(result: BenchResult) -> str:
    """Return the page."""
    style = [(package, "style.css") for package in ("shipper.report", "shipper_tools.bench")]
    cases = dict.fromkeys(summary.case for summary in result.summaries)
    template = Environment(autoescape=True, trim_blocks=True).from_string(_read("shipper_tools.bench", "page.html.j2"))
    page: str = template.render(
        result=result, columns=COLUMNS, cells=cells, number=number, format_duration=format_duration,
        style=Markup("".join(_read(*place) for place in style)),
        cases=[(case, sorted((s for s in result.summaries if s.case == case), key=_fastest_first)) for case in cases],
        failed=[measured for measured in result.measurements if measured.error],
    )  # fmt: skip
    return page


def _fastest_first(summary: Summary) -> float:
    return -summary.records_per_second.median


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
