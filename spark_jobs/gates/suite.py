"""A Great Expectations suite that people bring, over records themselves: the check `expectations`
(docs/adr/0018). Its results hold no value of a record, unless the pipeline allows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shipper.config.content_checks import ExpectationsCheck
from shipper.config.suites import read_suite
from shipper.config.units import listed, plural
from shipper.driver.gate import share, unevaluated
from shipper.errors import ConfigError, SourceError, SparkUnavailable
from shipper.report.results import CheckResult
from spark_jobs import reason
from spark_jobs.gates.content import WHERE
from spark_jobs.session import quiet

if TYPE_CHECKING:
    import pandas as pd

    from spark_jobs.gates.source_view import SourceView

#: Of a result, what is no value of a record.
_FIGURES = frozenset(
    {
        *("element_count", "missing_count", "missing_percent"),
        *("unexpected_count", "unexpected_percent"),
        *("unexpected_percent_total", "unexpected_percent_nonmissing"),
    }
)


def judge_suite(
    check: ExpectationsCheck, view: SourceView, config_dir: Path
) -> tuple[CheckResult, dict[str, Any] | None]:
    """Return the result, and Great Expectations' own document of it; None if there is none. What
    cannot be evaluated blocks. Raises SparkUnavailable if Spark's Java process ended."""
    expected = "every expectation of the suite holds"
    try:
        suite = read_suite(config_dir, check.suite)
        frame = view.pandas(check.on, check.max_rows)
        if not len(frame):
            raise SourceError(f"0 rows{WHERE[check.on]}: nothing to judge by")
        document = _validated(suite, frame, values=check.values)
    except Exception as error:
        if gone := reason.java_is_gone(error):
            raise SparkUnavailable(gone.text, code=gone.code) from error
        own = isinstance(error, ConfigError | SourceError)
        says = str(error) if own else reason.of_exception(error).text
        return unevaluated(check.title, expected, says), None
    results = document["results"]
    raised = [one for one in results if _raised(one)]
    if raised or len(results) != len(suite["expectations"]):
        says = (
            f"{len(results)} of {plural(len(suite['expectations']), 'expectation')} have a result"
            if not raised
            else f"{_name(raised[0])} cannot be evaluated"
        )
        return unevaluated(check.title, expected, says), document
    failed = [one for one in results if not one["success"]]
    first = " the first" if len(frame) == check.max_rows else ""
    of_rows = f"; over{first} {plural(len(frame), 'row')}{WHERE[check.on]}"
    named = listed([*map(_in_words, failed)], mark="; ")
    observed = (
        f"{len(failed)} of {plural(len(results), 'expectation')} "
        f"{'does' if len(failed) == 1 else 'do'} not hold{': ' if failed else ''}{named}"
    )
    return CheckResult(
        check=check.title,
        severity=check.severity,
        passed=not failed,
        expected=expected,
        observed=observed + of_rows,
    ), document


def _validated(suite: dict[str, Any], frame: pd.DataFrame, *, values: bool) -> dict[str, Any]:
    import great_expectations as gx

    from spark_jobs.gates.judging import RESULT_FORMAT, batch

    with quiet():
        built = gx.ExpectationSuite(**suite)
        found = batch(frame).validate(built, result_format="SUMMARY" if values else RESULT_FORMAT)
    made = found.to_json_dict()  # type: ignore[no-untyped-call]  # Great Expectations' own
    document: dict[str, Any] = json.loads(json.dumps(made, default=str))
    for one in document["results"] if not values else ():
        kept = {key: value for key, value in one["result"].items() if key in _FIGURES}
        one["result"], raised = kept, _raised(one)
        one["exception_info"] = {
            "raised_exception": raised, "exception_traceback": None, "exception_message": None,
        }  # fmt: skip
    return document


def _raised(one: dict[str, Any]) -> bool:
    """True if the expectation could not be evaluated."""
    return reason.of_exception_info(one["exception_info"] or {}) is not None


def _name(one: dict[str, Any]) -> str:
    config = one["expectation_config"]
    column = config["kwargs"].get("column")
    return str(config["type"]) + (f"({column})" if column else "")


def _in_words(one: dict[str, Any]) -> str:
    result = one["result"]
    count, of = result.get("unexpected_count"), result.get("element_count")
    if count is None or not of:
        return _name(one)
    return f"{_name(one)}: {count:,} of {plural(of, 'row')} ({share(count, of)})"
