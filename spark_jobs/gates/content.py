"""Figures that the checks of lines need from Spark, and their evaluation. One function per check.

A check names SQL aggregates over all records of its scope; those of all checks are computed in one
pass, and one row of figures comes back. So a suite costs one scan for each scope, however many
checks it has, and no value of a record ever leaves Spark.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shipper.config.content_checks import (
    AllowedCheck,
    ConditionCheck,
    ContentCheck,
    InWindowCheck,
    JsonCheck,
    LineLengthCheck,
    MatchesCheck,
    MaxGapCheck,
    NotNullCheck,
    RateCheck,
    RecordCheck,
    RouteRateCheck,
    RowsCheck,
    SchemaCheck,
    Share,
    UniqueCheck,
)
from shipper.config.rules import sql_column, sql_literal, sql_time
from shipper.config.units import format_duration, listed, plural, write_size
from shipper.driver.gate import between, figure, rate, share, size
from shipper.report.plan_result import PlanResult
from shipper.windows.window import parse_window
from spark_jobs.gates.figures import Bound, CheckFigures

Scope = Literal["sample", "full"]
#: Asked for with every scope.
ROWS = "count(*)"
WHERE = {"sample": " in the sample", "full": " in all files"}
_MOST_COMPARED, _SHORT_LINE_BYTES = 50_000, 100
# Class → how a record that is right, and one that is not, is called.
_WORDS: dict[type[RateCheck], tuple[str, str]] = {
    NotNullCheck: ("not null", "null"),
    MatchesCheck: ("with a match", "without a match"),
    JsonCheck: ("JSON objects", "no JSON object"),
    AllowedCheck: ("with an allowed value", "with another value"),
    InWindowCheck: ("in the window", "outside the window"),
    SchemaCheck: ("as expected", "with drift"),
    ConditionCheck: ("true", "not true"),
}

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """One check as figures to ask for."""

    expected: str
    figures: Mapping[str, str]
    """Name → SQL aggregate."""
    observe: Callable[[int, Figures], CheckFigures]
    """(number of records, the figures) → observed value. For all checks but `rows`, there is a
    record."""
    at_fault: str | None = None
    """SQL: whether a record is one of those that the check counts against itself; so it can be said
    in which files they are."""


def measured(check: ContentCheck, plan: PlanResult, topics: tuple[str, ...]) -> Measured:
    """Return the figures of a check. ``topics``: those whose names are known before reading."""
    match check:
        case RowsCheck():
            return _rows(check)
        case SchemaCheck() if check.columns is None:
            return _json_schema(check)
        case RecordCheck():
            return _share_of(check, check.condition())
        case InWindowCheck():
            return _share_of(check, check.condition_in(_begin(plan), plan.window_end))
        case MaxGapCheck():
            return _max_gap(check, plan)
        case UniqueCheck():
            return _unique(check, plan)
        case LineLengthCheck():
            return _line_length(check)
        case RouteRateCheck():
            return _route_rate(check, topics)
    raise ValueError(f"there is no check {check.title!r}")


def _begin(plan: PlanResult) -> dt.datetime:
    """Return the begin of the run's window, or of the first one that a late file belongs to: its
    records are as old as that."""
    late = (
        parse_window(file.late_window).start
        for file in plan.files
        if file.late_window and file.left
    )
    return min(late, default=plan.window_start)


def _rows(check: RowsCheck) -> Measured:
    def observe(rows: int, _: Figures) -> CheckFigures:
        where = WHERE[check.on] + (" (`on: full` counts all)" if check.on == "sample" else "")
        return CheckFigures((Bound(rows, check.min, check.max),), plural(rows, "row") + where)

    return Measured(between(figure(check.min), figure(check.max), "rows"), {}, observe)


def _share_of(check: RateCheck, condition: str) -> Measured:
    right, wrong = _WORDS[type(check)]

    def observe(rows: int, figures: Figures) -> CheckFigures:
        good = figures["good"]
        observed = (
            f"{rows - good:,} of {plural(rows, 'row')} {wrong} ({share(good, rows)} "
            f"{right}){WHERE[check.on]}"
        )
        return CheckFigures((Bound(good / rows, min=check.min_rate),), observed)

    at_fault = f"NOT coalesce({condition}, false)"
    return Measured(
        _at_least(check.min_rate, right), {"good": f"count_if({condition})"}, observe, at_fault
    )


def _at_least(smallest: float, what: str) -> str:
    return f"{'' if smallest == 1 else '≥ '}{rate(smallest)} {what}"


def _json_schema(check: SchemaCheck) -> Measured:
    figures = {
        "good": f"count_if({check.condition()})",
        "objects": f"count({check.keys()})",
        "complete": f"count_if({check.has_all()})",
        "with_new": f"count_if({check.has_new()})",
    }

    def observe(rows: int, found: Figures) -> CheckFigures:
        drift = {
            "without an expected field": found["objects"] - found["complete"],
            "with a new field": found["with_new"],
            "no JSON object": rows - found["objects"],
        }
        words = (
            ", ".join(f"{count:,} {what}" for what, count in drift.items() if count) or "no drift"
        )
        observed = (
            f"{share(found['good'], rows)} of {plural(rows, 'row')} as expected "
            f"({words}){WHERE[check.on]}"
        )
        return CheckFigures((Bound(found["good"] / rows, min=check.min_rate),), observed)

    at_fault = f"NOT coalesce({check.condition()}, false)"
    return Measured(
        _at_least(check.min_rate, "with the expected fields"), figures, observe, at_fault
    )


def _unique(check: UniqueCheck, plan: PlanResult) -> Measured:
    """Count distinct hashes. Of many records only every n-th hash is kept, so that the pass needs
    neither memory nor a shuffle of all of them; all copies of a value have the same hash, so what
    is compared is right about the values that it is of."""
    column = sql_column(check.column)
    estimate = plan.total_bytes * max(1.0, plan.sample_ratio) / _SHORT_LINE_BYTES
    every = 1
    while estimate / every > _MOST_COMPARED:
        every *= 2
    hashed = f"xxhash64({column})"
    kept = f"{column} IS NOT NULL" + (f" AND {hashed} % {every} = 0" if every > 1 else "")
    figures = {
        "kept": f"count_if({kept})",
        "distinct": f"count(DISTINCT IF({kept}, {hashed}, NULL))",
    }

    def observe(rows: int, found: Figures) -> CheckFigures:
        there, distinct = found["kept"], found["distinct"]
        by = f", by every {every}th value" if every > 1 else ""
        if not there:
            return CheckFigures(
                (), f"no value among {plural(rows, 'row')} to compare{by}{WHERE[check.on]}"
            )
        observed = (
            f"{there - distinct:,} of {plural(there, 'value')} repeat another "
            f"({share(distinct, there)} distinct{by}){WHERE[check.on]}"
        )
        return CheckFigures((Bound(distinct / there, min=check.min_rate),), observed)

    return Measured(_at_least(check.min_rate, "distinct"), figures, observe)


def _max_gap(check: MaxGapCheck, plan: PlanResult) -> Measured:
    """Have Spark go through the seconds of the window that have a record: as many as the window is
    long, however many records there are."""
    expected = f"no {format_duration(check.max_seconds)} without a record"
    if shipped := sum(not file.left for file in plan.own_files):
        known = CheckFigures(
            (Bound(shipped, min=1),),
            f"not to be told: {plural(shipped, 'file')} of the window shipped before",
        )
        return Measured(expected, {}, lambda rows, found: known)
    start, end = (int(at.timestamp()) for at in (plan.window_start, plan.window_end))
    second = f"unix_seconds({sql_time(check.column)})"
    seconds = f"collect_set(IF({second} >= {start} AND {second} < {end}, {second}, NULL))"
    # An array of the longest gap and when it began, which compares by the gap.
    gap = (
        f"aggregate(array_sort(array_append({seconds}, {end}L)), array(0L, 0L, {start}L), "
        "(s, x) -> array_append(greatest(array(s[0], s[1]), array(x - s[2], s[2])), x))"
    )

    def observe(rows: int, found: Figures) -> CheckFigures:
        longest = found["gap"]
        since = dt.datetime.fromtimestamp(found["since"], dt.UTC)
        observed = (
            f"at most {format_duration(longest)} without a record, from {since:%Y-%m-%dT%H:%M:%SZ} "
            f"on, among {plural(rows, 'row')}{WHERE[check.on]}"
        )
        return CheckFigures((Bound(longest, max=check.max_seconds),), observed)

    return Measured(expected, {"gap": f"{gap}[0]", "since": f"{gap}[1]"}, observe)


def _line_length(check: LineLengthCheck) -> Measured:
    length = "octet_length(value)"
    quantiles = {
        name: (bound, part)
        for name, bound, part in (("p50", check.p50_bytes, 0.5), ("p99", check.p99_bytes, 0.99))
        if bound is not None
    }
    figures = {"shortest": f"min({length})", "longest": f"max({length})"}
    figures |= {name: f"count_if({length} <= {bound})" for name, (bound, _) in quantiles.items()}

    def observe(rows: int, found: Figures) -> CheckFigures:
        shortest, longest = found["shortest"], found["longest"]
        bounds = [Bound(found[name] / rows, min=part) for name, (_, part) in quantiles.items()]
        bounds += [Bound(longest, max=check.max_bytes)] if check.max_bytes is not None else []
        bounds += [Bound(shortest, min=check.min_bytes)] if check.min_bytes is not None else []
        words = [
            f"{share(found[name], rows)} ≤ {write_size(bound)}"
            for name, (bound, _) in quantiles.items()
        ]
        return CheckFigures(
            tuple(bounds),
            "; ".join([f"{shortest:,} to {longest:,} bytes", *words]) + WHERE[check.on],
        )

    words = [f"{name} ≤ {write_size(bound)}" for name, (bound, _) in quantiles.items()]
    if check.min_bytes is not None or check.max_bytes is not None:
        words.append(f"each {between(size(check.min_bytes), size(check.max_bytes))}")
    return Measured(", ".join(words), figures, observe)


def _route_rate(check: RouteRateCheck, topics: tuple[str, ...]) -> Measured:
    from spark_jobs.frame import TOPIC_COLUMN  # imports Spark, which other checks may do without

    names = list(dict.fromkeys((*topics, *check.topics)))
    figures = {
        f"topic{i}": f"count_if({sql_column(TOPIC_COLUMN)} = {sql_literal(name)})"
        for i, name in enumerate(names)
    }

    def observe(rows: int, found: Figures) -> CheckFigures:
        counts = [found[f"topic{i}"] for i in range(len(names))]
        bounds = [
            bound
            for name, count in zip(names, counts, strict=True)
            for bound in _share_bounds(check, name, count, rows)
        ]
        # What is wrong comes first: a long list is cut off.
        order = sorted(
            range(len(names)),
            key=lambda i: all(
                bound.holds for bound in _share_bounds(check, names[i], counts[i], rows)
            ),
        )
        shown = listed([f"{names[i]} {share(counts[i], rows)}" for i in order], most=8)
        return CheckFigures(tuple(bounds), f"{shown} of {plural(rows, 'row')}{WHERE[check.on]}")

    least = f"≥ {rate(check.min_share)} each" if check.min_share else "no topic empty"
    limits = [
        f"{name} {between(rate(limit.min), rate(limit.max))}"
        for name, limit in check.topics.items()
    ]
    return Measured(
        "; ".join([least, *limits] if set(topics) - set(check.topics) else limits), figures, observe
    )


def _share_bounds(check: RouteRateCheck, name: str, count: int, rows: int) -> list[Bound]:
    limit: Share | None = check.topics.get(name)
    if limit is not None:
        return [Bound(count / rows, limit.min, limit.max)]
    return [Bound(count, min=1), Bound(count / rows, min=check.min_share)]
