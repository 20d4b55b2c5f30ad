"""The source gate: the typed checks of a pipeline, looked at and then judged by Great Expectations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from pyspark.errors import AnalysisException

from shipper.config.checks import ListingCheck
from shipper.config.content_checks import ContentCheck, SourceCheck
from shipper.report.results import CheckResult
from spark_jobs import reason
from spark_jobs.gates import content, listing
from spark_jobs.gates.content import Measured, measured
from spark_jobs.gates.finding import Finding, Looked, judged
from spark_jobs.gates.listing import Listing
from spark_jobs.gates.suite import quiet
from spark_jobs.gates.words import listed

_MOST_FILES = 3
Scope = Literal["sample", "full"]
Measure = Callable[[Scope, Mapping[str, str]], Mapping[str, Any]]
"""(scope, name → SQL aggregate over its records) → name → figure, in one pass."""
Where = Callable[[Scope, Mapping[str, str]], Mapping[str, Sequence[tuple[str, int]]]]
"""(scope, name → SQL condition) → name → (file, records for which it is true), the worst few files first; one more pass."""


@dataclass(frozen=True)
class Source:
    """What the gate may look at."""

    listing: Listing
    measure: Measure
    topics: tuple[str, ...]
    """Topics whose names are known before reading."""
    where: Where | None = None
    """Asked only when a check does not hold."""


@dataclass(frozen=True)
class Evaluation:
    results: list[CheckResult]
    """One per check, in their order."""
    scans: int
    """How often lines were read: once for each scope that a check asks for, if nothing goes wrong."""


def evaluate_source(checks: Sequence[SourceCheck], source: Source) -> Evaluation:
    """Never raises for a check that cannot be evaluated: such a check blocks.

    All checks of lines of one scope are one aggregate over its records, in one scan and one Spark job. If that
    fails, as it does when a column's expression fails on a record, each check is asked by itself, so that only those to blame are
    without a figure; a file that cannot be read is everybody's fault. docs/gates.md says what it costs.
    """
    looked: dict[int, Looked] = {}
    scans = 0
    of_scope: dict[Scope, dict[int, ContentCheck]] = {"sample": {}, "full": {}}
    for index, check in enumerate(checks):
        if isinstance(check, ContentCheck):
            of_scope[check.on][index] = check
        else:
            looked[index] = _looked_at_listing(check, source.listing)
    for scope, members in of_scope.items():
        if members:
            found, read = _look_at_lines(scope, members, source)
            looked |= found
            scans += read
    return Evaluation(judged([looked[index] for index in range(len(checks))]), scans)


def _looked_at_listing(check: Any, of: Listing) -> Looked:
    if not isinstance(check, get_args(ListingCheck)):
        name = str(getattr(check, "check", type(check).__name__))
        return Looked(name, "block", "a check that shipper knows", f"there is no check {name!r}")
    expected = listing.expected(check)
    try:
        return Looked(check.title, check.severity, expected, listing.find(check, of))
    except Exception as error:
        return Looked(check.title, check.severity, expected, reason.of_building(error))


def _look_at_lines(scope: Scope, checks: Mapping[int, ContentCheck], source: Source) -> tuple[dict[int, Looked], int]:
    asked: dict[int, Measured] = {}
    looked: dict[int, Looked] = {}
    for index, check in checks.items():
        try:
            asked[index] = measured(check, source.listing.plan, source.topics)
        except Exception as error:
            looked[index] = Looked(check.title, check.severity, "", reason.of_building(error))
    figures, scans = _figures(scope, {index: one.figures for index, one in asked.items()}, source.measure)
    for index, one in asked.items():
        check, found = checks[index], figures[index]
        looked[index] = Looked(
            check.title, check.severity, one.expected, found if isinstance(found, str) else _finding(one, scope, found)
        )
    return looked, scans + _say_where(
        scope, {index: one.at_fault for index, one in asked.items() if one.at_fault}, looked, source
    )


def _say_where(scope: Scope, conditions: Mapping[int, str], looked: dict[int, Looked], source: Source) -> int:
    """Adds to each finding that does not hold in which files the records at fault are. Returns how often lines were read for it."""
    failed = {
        str(index): condition
        for index, condition in conditions.items()
        if isinstance(looked[index].finding, Finding) and not looked[index].finding.holds
    }
    if not failed or source.where is None:
        return 0
    try:
        with quiet():
            found = source.where(scope, failed)
    except Exception:  # that the check does not hold is known; where, is a help
        return 1
    for index, files in ((int(name), files) for name, files in found.items() if files):
        finding = looked[index].finding
        assert isinstance(finding, Finding)
        named = listed([f"{file} ({count:,})" for file, count in files], most=_MOST_FILES)
        looked[index] = replace(looked[index], finding=replace(finding, observed=f"{finding.observed}; most in {named}"))
    return 1


def _finding(one: Measured, scope: Scope, figures: Mapping[str, Any]) -> Finding | str:
    try:
        rows = figures["rows"]
        if not rows and one.figures:
            return Finding((), f"0 rows{content.WHERE[scope]}: nothing to judge by")
        return one.finding(rows, figures)
    except Exception as error:  # figures that are missing, or null
        return f"its figures cannot be read: {type(error).__name__}"


def _figures(
    scope: Scope, wanted: Mapping[int, Mapping[str, str]], measure: Measure
) -> tuple[dict[int, Mapping[str, Any] | str], int]:
    """Each check's figures, or why it has none; and how many scans that took."""
    together = {"rows": content.ROWS}
    together |= {f"{index}.{name}": aggregate for index, own in wanted.items() for name, aggregate in own.items()}
    try:
        with quiet():  # Spark's errors quote the values that caused them
            row = measure(scope, together)
    except Exception as error:
        scans = int(not isinstance(error, AnalysisException))
        fault = reason.of_exception(error)
        if len(wanted) == 1 or reason.is_unreadable_file(error):
            return dict.fromkeys(wanted, fault), scans
        found: dict[int, Mapping[str, Any] | str] = {}
        for index, own in wanted.items():
            alone, more = _figures(scope, {index: own}, measure)
            found |= alone
            scans += more
        return found, scans
    return {index: {"rows": row["rows"]} | {name: row[f"{index}.{name}"] for name in own} for index, own in wanted.items()}, 1
