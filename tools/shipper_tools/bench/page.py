"""A benchmark's result as one HTML page that needs nothing else: plots of the rounds, CPU by process, the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources

from shipper.config.units import format_bytes, format_duration
from shipper.report.markup import Column, Html, Row, join, moment, number, table, tag
from shipper_tools.bench.charts import KINDS, bars, lines, sweeps
from shipper_tools.bench.results import BenchResult, Case, Measurement, Summary

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(result: BenchResult) -> str:
    cases = list(dict.fromkeys(summary.case for summary in result.summaries))
    main = tag(
        "main",
        tag("h1", result.question),
        _facts(result),
        _verdicts(result),
        *(_sweep(result, axis) for axis in sweeps(result.summaries)),
        *(_case(result, case) for case in cases),
        _failures(result.measurements),
        _reading(),
    )
    header = tag("header", tag("p", tag("b", f"shipper bench {result.name}"), class_="pipeline"), tag("p", moment(result.date)))
    footer = tag("footer", tag("p", "Every measurement is in the JSON file of the same name."))
    body = tag("body", header, main, footer)
    return f"<!doctype html>\n{tag('html', _head(result), body, lang='en')}\n"


def _head(result: BenchResult) -> Html:
    style = resources.files("shipper.report").joinpath("style.css").read_text(encoding="utf-8")
    own = resources.files("shipper_tools.bench").joinpath("style.css").read_text(encoding="utf-8")
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"shipper bench {result.name}, {result.date:%Y-%m-%d}"),
        tag("style", Html(style + own)),
    )


def _facts(result: BenchResult) -> Html:
    machine = result.machine
    facts = [
        (
            "Machine",
            f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:g} GB, {machine.system}; the broker on the same cores",
        ),
        ("Load before", f"{machine.load_before:g}"),
        ("Took", format_duration(result.took_seconds)),
        ("Versions", ", ".join(f"{name} {version}" for name, version in machine.versions.items())),
        ("Told", tag("code", " ".join(["shipper bench", *result.arguments]))),
        *(("Note", note) for note in result.notes),
    ]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts")


def _verdicts(result: BenchResult) -> Html | None:
    if not result.verdicts:
        return None
    columns = [Column("What must be reached"), Column("Asked", True), Column("Found", True), Column("")]
    rows = [
        Row(
            [v.question, v.asked, "–" if v.found is None else f"{v.found:,g}", "✓ reached" if v.reached else "✗ not reached"],
            None if v.reached else "bad",
        )
        for v in result.verdicts
    ]
    return tag("section", tag("h2", "Asked and found"), table("Medians of all rounds", columns, rows))


def _sweep(result: BenchResult, axis: str) -> Html:
    return tag("section", tag("h2", f"Records per second by {axis}"), lines(result.summaries, axis))


def _case(result: BenchResult, case: Case) -> Html:
    found = sorted((summary for summary in result.summaries if summary.case == case), key=lambda s: -s.records_per_second.median)
    rounds = max(summary.rounds for summary in found)
    return tag(
        "section",
        tag("h2", case.title),
        tag("h3", f"Records per second: the median of {rounds} rounds, a stroke for each round"),
        bars(found, [m for m in result.measurements if m.case == case and m.round and not m.error]),
        tag("h3", "CPU seconds per million records, by process"),
        _legend(found),
        bars(found, None),
        table("In figures", list(_columns(found)), [_row(summary, found) for summary in found]),
    )


def _legend(found: Sequence[Summary]) -> Html:
    there = [kind for kind in KINDS if any(kind in summary.cpu_seconds_per_million for summary in found)]
    return tag("p", *(tag("span", tag("i", class_=f"swatch cpu-{kind}"), f" {kind}") for kind in there), class_="legend")


def _has_tasks(found: Sequence[Summary]) -> bool:
    return any(summary.task_records_per_second for summary in found)


def _columns(found: Sequence[Summary]) -> Iterator[Column]:
    yield Column("Contender")
    yield Column("rec/s, median", True)
    yield Column("lowest – highest", True)
    yield Column("MB/s", True)
    if _has_tasks(found):
        yield Column("rec/s in the tasks", True)
        yield Column("worker's peak", True)
    if any(summary.peak_bytes for summary in found):
        yield Column("peak memory", True)
    yield Column("client CPU s per million", True)
    yield Column("× best peer", True)


def _row(summary: Summary, found: Sequence[Summary]) -> Row:
    rates, tasks = summary.records_per_second, summary.task_records_per_second
    told = tag("span", summary.contender.settings, class_="told") if summary.contender.settings else None
    cells = [
        join([summary.contender.name, told]),
        number(rates.median),
        f"{number(rates.lowest)} – {number(rates.highest)}",
        f"{summary.megabytes_per_second:.1f}",
    ]
    if _has_tasks(found):
        peak = summary.worker_peak_bytes if tasks else None
        cells += [number(tasks.median) if tasks else "–", format_bytes(peak) if peak else "–"]
    if any(each.peak_bytes for each in found):
        cells.append(format_bytes(summary.peak_bytes) if summary.peak_bytes else "–")
    times = summary.times_best_peer
    cells += [f"{summary.client_cpu_per_million:.2f}", f"{times:.2f}" if times else "–"]
    return Row(cells, "total" if summary.contender.ours else None)


def _failures(measurements: Sequence[Measurement]) -> Html | None:
    failed = [m for m in measurements if m.error]
    if not failed:
        return None
    items = (
        tag("li", f"round {m.round}, {m.case.title}, {m.contender.name}: ", tag("span", m.error or "", class_="error"))
        for m in failed
    )
    return tag("section", tag("h2", "Failed measurements"), tag("ul", *items))


def _reading() -> Html:
    return tag(
        "section",
        tag("h2", "How to read it"),
        tag(
            "p",
            "All contenders ran in this one session, in turn, each measurement into a new topic. A rate counts from the first record "
            "handed over to the last one acknowledged or committed; opening connections and lanes is not in it (end to end: the whole "
            "ship step is). Client CPU includes the start of the process, so short measurements overstate it. Compare within the page; "
            "another machine, or another day, gives other figures.",
        ),
    )
