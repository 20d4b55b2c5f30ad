"""A benchmark's result as one table and one plot for each case: on the terminal, and on one HTML
page that loads nothing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources

from jinja2 import Environment
from markupsafe import Markup

from shipper.config.units import format_duration, number
from shipper_tools.bench.results import BenchResult, Case, Summary

_CELLS: dict[str, Callable[[Summary], str]] = {
    "contender": lambda one: one.contender.name,
    "rec/s, median": lambda one: number(one.records_per_second.median),
    "lowest": lambda one: number(one.records_per_second.lowest),
    "highest": lambda one: number(one.records_per_second.highest),
    "MB/s": lambda one: f"{one.megabytes_per_second:.1f}",
    "shipping MB/s": lambda one: (
        f"{one.shipping_megabytes_per_second:.1f}" if one.shipping_megabytes_per_second else "–"
    ),
    "client CPU s/M": lambda one: f"{one.client_cpu_per_million:.2f}",
    "broker CPU s/M": lambda one: f"{one.cpu_seconds_per_million.get('broker', 0.0):.2f}",
    "× best peer": lambda one: f"{one.times_best_peer:.2f}" if one.times_best_peer else "–",
    "peak MB": lambda one: f"{one.peak_bytes / 1e6:,.0f}" if one.peak_bytes else "–",
}
COLUMNS = tuple(_CELLS)


def by_case(result: BenchResult) -> list[tuple[Case, list[Summary]]]:
    """Return the summaries of each case, the fastest first."""
    ranked = sorted(result.summaries, key=lambda summary: -summary.records_per_second.median)
    cases = dict.fromkeys(summary.case for summary in result.summaries)
    return [(case, [summary for summary in ranked if summary.case == case]) for case in cases]


def cells(summary: Summary) -> list[str]:
    """Return the cells of a contender's row, by :data:`COLUMNS`."""
    return [cell(summary) for cell in _CELLS.values()]


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
