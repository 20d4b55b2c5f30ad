"""The source gate: the typed checks of a pipeline, looked at and then judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from shipper.config.checks import ListingCheck
from shipper.config.content_checks import ContentCheck, SourceCheck, is_count
from shipper.driver.engine import SourceVerdict
from shipper.driver.gate import listed
from shipper.errors import SourceError, SparkUnavailable
from shipper.report.results import CheckResult
from spark_jobs import reason
from spark_jobs.gates import content, listing
from spark_jobs.gates.content import Measured, measured
from spark_jobs.gates.figures import CheckFigures, Unjudged, judged
from spark_jobs.gates.listing import Listing
from spark_jobs.gates.view import SourceView

_MOST_FILES = 3
Scope = Literal["sample", "full"]
Measure = Callable[[Scope, Mapping[str, str]], Mapping[str, Any]]
"""(scope, name → SQL aggregate over its records) → name → figure, in one scan."""
Where = Callable[[Scope, Mapping[str, str]], Mapping[str, Sequence[tuple[str, int]]]]
"""(scope, name → SQL condition) → name → (file, records for which it is true), the worst few files
first; one more scan."""


@dataclass(frozen=True)
class SourceEvidence:
    """Evidence that the gate may use."""

    listing: Listing
    measure: Measure
    topics: tuple[str, ...]
    """Topics whose names are known before reading."""
    where: Where | None = None
    """Asked only when a check does not hold."""


def judge_source(checks: Sequence[SourceCheck], view: SourceView) -> SourceVerdict:
    listing = Listing(
        view.plan, view.pipeline.source.path, view.history, view.duplicates, view.marked
    )
    evidence = SourceEvidence(
        listing, view.measure, tuple(view.pipeline.fixed_topics()), view.where
    )
    return replace(evaluate_source(checks, evidence), scope=view.scope)


def evaluate_source(checks: Sequence[SourceCheck], evidence: SourceEvidence) -> SourceVerdict:
    """Judge the source. A check that cannot be evaluated blocks. Raises SparkUnavailable if Spark's
    Java process ended: then nothing is known of the lines.

    All checks of lines of one scope are one aggregate over its records, in one scan and one Spark
    job. If that fails, as it does when a column's expression fails on a record, each check is
    evaluated separately, so that only the faulty checks are without a figure; a file that cannot be
    read fails every check. docs/reference/gates.md says what it costs.
    """
    looked: dict[int, Unjudged] = {}
    at_fault: dict[Scope, dict[int, str]] = {"sample": {}, "full": {}}
    scans = 0
    of_scope: dict[Scope, dict[int, ContentCheck]] = {"sample": {}, "full": {}}
    for index, check in enumerate(checks):
        if isinstance(check, ContentCheck):
            of_scope[check.on][index] = check
        else:
            looked[index] = _looked_at_listing(check, evidence.listing)
    for scope, members in of_scope.items():
        if members:
            found, at_fault[scope], read = _look_at_lines(scope, members, evidence)
            looked |= found
            scans += read
    results = judged([looked[index] for index in range(len(checks))])
    for scope, conditions in at_fault.items():
        wrong = {
            index: how
            for index, how in conditions.items()
            if _is_judged_wrong(looked[index], results[index])
        }
        scans += _say_where(scope, wrong, results, evidence.where)
    return SourceVerdict(results, scans)


def _looked_at_listing(check: ListingCheck, of: Listing) -> Unjudged:
    asked = listing.look(check, of)
    try:
        observed: CheckFigures | str = asked.find()
    except Exception as error:
        observed = reason.of_building(error)
    return Unjudged(check.title, check.severity, asked.expected, observed, is_count=True)


def _look_at_lines(
    scope: Scope, checks: Mapping[int, ContentCheck], evidence: SourceEvidence
) -> tuple[dict[int, Unjudged], dict[int, str], int]:
    """Return the observations; SQL for the records that a check counts against itself; and how
    often lines were read."""
    asked: dict[int, Measured] = {}
    looked: dict[int, Unjudged] = {}
    for index, check in checks.items():
        try:
            asked[index] = measured(check, evidence.listing.plan, evidence.topics)
        except Exception as error:
            looked[index] = Unjudged(check.title, check.severity, "", reason.of_building(error))
    figures, scans = _figures(
        scope, {index: one.figures for index, one in asked.items()}, evidence.measure
    )
    for index, one in asked.items():
        check, found = checks[index], figures[index]
        observed = found if isinstance(found, str) else _observed(one, scope, found)
        looked[index] = Unjudged(
            check.title,
            check.severity,
            one.expected,
            observed,
            is_count=is_count(check),
        )
    return looked, {index: one.at_fault for index, one in asked.items() if one.at_fault}, scans


def _is_judged_wrong(check: Unjudged, result: CheckResult) -> bool:
    """Return True if the check was judged and failed, not if it could not be evaluated."""
    return (
        not result.passed
        and isinstance(check.observed, CheckFigures)
        and result.observed == check.observed.words
    )


def _say_where(
    scope: Scope, wrong: Mapping[int, str], results: Sequence[CheckResult], where: Where | None
) -> int:
    """Add to each failed result in which files the records at fault are. Returns how often lines
    were read for it."""
    if not wrong or where is None:
        return 0
    try:
        found = where(scope, {str(index): condition for index, condition in wrong.items()})
    except Exception:  # that the check does not hold is known; where, is a help
        return 1
    for index, files in ((int(name), files) for name, files in found.items() if files):
        results[index].observed += (
            "; most in "
            f"{listed([f'{file} ({count:,})' for file, count in files], most=_MOST_FILES)}"
        )
    return 1


def _observed(one: Measured, scope: Scope, figures: Mapping[str, Any]) -> CheckFigures | str:
    try:
        rows = figures["rows"]
        if not rows and one.figures:
            return CheckFigures((), f"0 rows{content.WHERE[scope]}: nothing to judge by")
        return one.observe(rows, figures)
    except Exception as error:  # figures that are missing, or null
        return f"its figures cannot be read: {type(error).__name__}"


def _figures(
    scope: Scope, wanted: Mapping[int, Mapping[str, str]], measure: Measure
) -> tuple[dict[int, Mapping[str, Any] | str], int]:
    """Return each check's figures, or why it has none; and the number of scans for that."""
    together = {"rows": content.ROWS}
    together |= {
        f"{index}.{name}": aggregate
        for index, own in wanted.items()
        for name, aggregate in own.items()
    }
    try:
        row = measure(scope, together)
    except Exception as error:
        if gone := reason.java_is_gone(error):
            raise SparkUnavailable(gone) from error
        scans = int(type(error).__name__ != "AnalysisException")  # Spark's, before it reads
        fault = reason.of_exception(error)
        if len(wanted) == 1 or isinstance(error, SourceError):
            return dict.fromkeys(wanted, fault), scans
        found: dict[int, Mapping[str, Any] | str] = {}
        for index, own in wanted.items():
            alone, more = _figures(scope, {index: own}, measure)
            found |= alone
            scans += more
        return found, scans
    return {
        index: {"rows": row["rows"]} | {name: row[f"{index}.{name}"] for name in own}
        for index, own in wanted.items()
    }, 1
