"""The source gate: the typed checks of a pipeline as expectations on the listing and on the lines. One function per check."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.expectations.expectation import Expectation
from pyspark.sql import DataFrame

from shipper.config.checks import FilesCheck, FreshnessCheck, NotNullCheck, RowsCheck, SourceCheck
from shipper.config.units import write_duration
from shipper.report.results import CheckResult, PlanResult
from spark_jobs import reason
from spark_jobs.gates.suite import Answer, Question, ask
from spark_jobs.gates.verdict import unevaluated

Content = Callable[[Literal["sample", "full"]], DataFrame]
_WHERE = {"listing": "", "sample": " in the sample", "full": " in all files"}


@dataclass(frozen=True)
class _Asked:
    """A check with the question it asks, and with its words."""

    name: str
    severity: Literal["block", "warn"]
    scope: Literal["listing", "sample", "full"]
    question: Question
    expected: str
    observed: Callable[[Mapping[str, Any]], str]

    def result(self, answer: Answer) -> CheckResult:
        try:
            if answer.fault is not None:
                return unevaluated(self.name, self.expected, answer.fault)
            observed = self.observed(answer.figures)
        except Exception as error:  # a result without the figures it should have
            return unevaluated(self.name, self.expected, f"its figures cannot be read: {type(error).__name__}")
        return CheckResult(
            check=self.name, severity=self.severity, passed=answer.holds, expected=self.expected, observed=observed
        )


def evaluate_source(checks: Sequence[SourceCheck], plan: PlanResult, content: Content) -> list[CheckResult]:
    """One result per check, in their order.

    ``content`` makes the frame of the sample's or of all files' records; it is called at most once for each, and not at all if
    no check needs it. What it raises is a fault of the checks that needed it.

    A suite of rows and three not_null is two scans (in 4 Spark jobs), however many not_null there are: one that counts the rows
    and one that counts all nulls. rows alone is one scan. Measured on 2,000,000 lines of 125 bytes, local[2], warm: 1.4 s, and
    1.1 s for one hand-written aggregate of the same figures; rows alone 0.2 s. A column whose expression fails on the data costs
    about 10 scans, since Great Expectations tries again. The listing's suite takes 0.04 s and no Spark.
    """
    asked = [_asked(check, plan) for check in checks]
    results: dict[int, CheckResult] = {}
    for scope in ("listing", "sample", "full"):
        of_scope = {index: one for index, one in enumerate(asked) if one.scope == scope}
        if not of_scope:
            continue
        try:
            frame = _listing(plan) if scope == "listing" else content(scope)
            answers = ask([one.question for one in of_scope.values()], frame)
        except Exception as error:
            answers = [Answer.impossible(reason.of_exception(error))] * len(of_scope)
        pairs = zip(of_scope.items(), answers, strict=True)
        results |= {index: one.result(answer) for (index, one), answer in pairs}
    return [results[index] for index in range(len(checks))]


def _listing(plan: PlanResult) -> pd.DataFrame:
    """One row per file; ``age_ms`` is the time from its modification to the window's end (negative: modified later)."""
    end_ms = round(plan.window_end.timestamp() * 1000)
    return pd.DataFrame(
        {
            "path": pd.Series([file.path for file in plan.files], dtype="object"),
            "size_bytes": pd.Series([file.size_bytes for file in plan.files], dtype="int64"),
            "age_ms": pd.Series([end_ms - file.modified_ms for file in plan.files], dtype="int64"),
        }
    )


def _asked(check: SourceCheck, plan: PlanResult) -> _Asked:
    match check:
        case FilesCheck():
            return _files(check)
        case FreshnessCheck():
            return _freshness(check)
        case RowsCheck():
            return _rows(check)
        case NotNullCheck():
            return _not_null(check)
    name = str(getattr(check, "check", type(check).__name__))
    return _Asked(name, "block", "listing", Question(lambda: _unknown(name)), "a check that shipper knows", lambda _: "")


def _unknown(name: str) -> Expectation:
    raise ValueError(f"there is no check {name!r}")


def _files(check: FilesCheck) -> _Asked:
    return _Asked(
        "files",
        check.severity,
        "listing",
        Question(lambda: _row_count(check.min, check.max)),
        _range(check.min, check.max, "files"),
        lambda figures: _count(figures["observed_value"], "file"),
    )


def _freshness(check: FreshnessCheck) -> _Asked:
    limit_ms = round(check.max_age_seconds * 1000)

    def observed(figures: Mapping[str, Any]) -> str:
        if not figures["rows"]:
            return "no files"
        seconds = figures["observed_value"] / 1000
        # Rounded up, so that a figure beyond the limit never looks like the limit.
        age = write_duration(math.ceil(abs(seconds)))
        return f"newest file {age} {'before' if seconds >= 0 else 'after'} the window's end"

    return _Asked(
        "freshness",
        check.severity,
        "listing",
        Question(lambda: gxe.ExpectColumnMinToBeBetween(column="age_ms", max_value=limit_ms), ("age_ms",)),
        f"newest file ≤ {write_duration(check.max_age_seconds)} before the window's end",
        observed,
    )


def _rows(check: RowsCheck) -> _Asked:
    return _Asked(
        "rows",
        check.severity,
        check.on,
        Question(lambda: _row_count(check.min, check.max)),
        _range(check.min, check.max, "rows"),
        lambda figures: _count(figures["observed_value"], "row") + _WHERE[check.on],
    )


def _not_null(check: NotNullCheck) -> _Asked:
    def observed(figures: Mapping[str, Any]) -> str:
        rows, nulls = figures["element_count"], figures["unexpected_count"]
        if not rows:
            return f"0 rows{_WHERE[check.on]}: nothing to judge by"
        # Rounded down, so that a share below the limit never looks like the limit.
        share = (rows - nulls) * 1_000_000 // rows / 10_000
        return f"{nulls:,} of {_count(rows, 'row')} null ({share:.12g} % not null){_WHERE[check.on]}"

    return _Asked(
        f"not_null({check.column})",
        check.severity,
        check.on,
        Question(lambda: gxe.ExpectColumnValuesToNotBeNull(column=check.column, mostly=check.min_rate), (check.column,)),
        "no nulls" if check.min_rate == 1 else f"≥ {100 * check.min_rate:.12g} % not null",
        observed,
    )


def _row_count(fewest: int | None, most: int | None) -> Expectation:
    if fewest is None and most is None:
        raise ValueError("it has neither `min` nor `max`, so nothing could fail it; give one of them")
    return gxe.ExpectTableRowCountToBeBetween(min_value=fewest, max_value=most)


def _range(fewest: int | None, most: int | None, what: str) -> str:
    if fewest is not None and fewest == most:
        return f"{fewest:,} {what}"
    if fewest is not None and most is not None:
        return f"{fewest:,}–{most:,} {what}"
    if most is not None:
        return f"≤ {most:,} {what}"
    return f"≥ {fewest:,} {what}" if fewest is not None else f"a number of {what}"


def _count(count: int, one: str) -> str:
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"
