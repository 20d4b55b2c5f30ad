"""The source gate: the typed checks of a pipeline, looked at and then judged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shipper.config.content_checks import ContentCheck, ExpectationsCheck, SourceCheck, is_count
from shipper.config.units import listed
from shipper.errors import SourceError, SparkUnavailable
from shipper.report.results import CheckResult
from spark_jobs import reason
from spark_jobs.gates.content import ROWS, WHERE, Measured, Scope, measured
from spark_jobs.gates.figures import Bound, CheckFigures, Unjudged
from spark_jobs.gates.listing_checks import look
from spark_jobs.gates.suite import judge_suite

if TYPE_CHECKING:
    from spark_jobs.gates.source_view import SourceView

_MOST_FILES = 3


def judge_all(
    checks: Sequence[SourceCheck], view: SourceView, config_dir: Path
) -> tuple[list[CheckResult], dict[str, str]]:
    """Judge the source: one result per check. Beside them the documents of people's own suites, by
    the names of their files. Raises SparkUnavailable: see :func:`judge_source`."""
    found: dict[int, CheckResult] = {}
    documents: dict[str, str] = {}
    for index, check in enumerate(checks):
        if isinstance(check, ExpectationsCheck):
            found[index], document = judge_suite(check, view, config_dir)
            if document:
                name = f"expectations.{Path(check.suite).stem}.{index}.json"
                documents[name] = json.dumps(document, indent=1)
    others = [check for index, check in enumerate(checks) if index not in found]
    rest = iter(judge_source(others, view) if others else ())
    return [found[i] if i in found else next(rest) for i in range(len(checks))], documents


def judge_source(checks: Sequence[SourceCheck], view: SourceView) -> list[CheckResult]:
    """Judge the source by all checks but suites: one result per check. A check that cannot be
    evaluated blocks. Raises SparkUnavailable if Spark's Java process ended: then nothing is known
    of the lines.

    All checks of lines of one scope are one aggregate over its records, in one scan and one Spark
    job. If that fails, as it does when a column's expression fails on a record, each check is
    evaluated separately, so that only the faulty checks are without a figure; a file that cannot be
    read fails every check. docs/reference/gates.md says what it costs.
    """
    looked: dict[int, Unjudged] = {}
    asked: dict[Scope, dict[int, Measured]] = {"sample": {}, "full": {}}
    for index, check in enumerate(checks):
        if isinstance(check, ContentCheck):
            topics = tuple(view.pipeline.fixed_topics())
            asked[check.on][index] = measured(check, view.plan, topics)
            continue
        expected, find = look(check, view)
        observed: CheckFigures | str
        try:
            observed = find()
        except Exception as error:
            observed = reason.of_building(error)
        looked[index] = Unjudged(check, expected, observed)
    for scope, members in asked.items():
        figures = _figures(scope, members, view) if members else {}
        for index, found in figures.items():
            observed = found if isinstance(found, str) else _observed(members[index], scope, found)
            looked[index] = Unjudged(checks[index], members[index].expected, observed)
    results = judged([looked[index] for index in range(len(checks))])
    for scope, members in asked.items():
        wrong = {
            str(index): one.at_fault
            for index, one in members.items()
            if one.at_fault and results[index].evaluated and not results[index].passed
        }
        _say_where(scope, wrong, results, view)
    return results


def judged(checks: Sequence[Unjudged]) -> list[CheckResult]:
    """Return one result per check, in order. Great Expectations, which takes seconds to import, is
    asked only if some check is not about counts."""
    verdicts: dict[str, bool | str] = {}
    asked = dict[str, Bound]()
    for index, one in enumerate(checks):
        bounds = {f"{index}.{place}": bound for place, bound in enumerate(one.bounds)}
        if is_count(one.check):
            verdicts |= {name: bound.fault or bound.holds for name, bound in bounds.items()}
        else:
            asked |= bounds
    if asked:
        from spark_jobs.gates.judging import verdicts_of

        verdicts |= verdicts_of(asked)
    return [
        one.result([verdicts[f"{index}.{place}"] for place in range(len(one.bounds))])
        for index, one in enumerate(checks)
    ]


def _say_where(
    scope: Scope, wrong: Mapping[str, str], results: Sequence[CheckResult], view: SourceView
) -> None:
    """Add to each failed result in which files the records at fault are."""
    try:
        found = view.where(scope, wrong) if wrong else {}
    except Exception:  # that the check does not hold is known; where, is a help
        return
    for name, files in found.items():
        if files:
            counted = [f"{file} ({count:,})" for file, count in files]
            results[int(name)].observed += f"; most in {listed(counted, most=_MOST_FILES)}"


def _observed(one: Measured, scope: Scope, figures: Mapping[str, Any]) -> CheckFigures | str:
    try:
        rows = figures["rows"]
        if not rows and one.figures:
            return CheckFigures((), f"0 rows{WHERE[scope]}: nothing to judge by")
        return one.observe(rows, figures)
    except Exception as error:  # figures that are missing, or null
        return f"its figures cannot be read: {type(error).__name__}"


def _figures(
    scope: Scope, wanted: Mapping[int, Measured], view: SourceView
) -> dict[int, Mapping[str, Any] | str]:
    """Return each check's figures, or why it has none."""
    together = {"rows": ROWS}
    for index, one in wanted.items():
        together |= {f"{index}.{name}": aggregate for name, aggregate in one.figures.items()}
    try:
        row = view.measure(scope, together)
    except Exception as error:
        if gone := reason.java_is_gone(error):
            raise SparkUnavailable(gone.text, code=gone.code) from error
        if len(wanted) == 1 or isinstance(error, SourceError):
            return dict.fromkeys(wanted, reason.of_exception(error).text)
        return {
            index: found
            for index, one in wanted.items()
            for found in _figures(scope, {index: one}, view).values()
        }
    return {
        index: {"rows": row["rows"]} | {name: row[f"{index}.{name}"] for name in one.figures}
        for index, one in wanted.items()
    }
