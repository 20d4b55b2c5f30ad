"""Great Expectations' verdict on figures: each is an expectation of its own, and no comparison of
ours stands beside (docs/adr/0018)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.expectations.expectation import Expectation

from shipper.driver.gate import unevaluated
from shipper.report.results import CheckResult
from spark_jobs.gates.figures import NO_FIGURE, Bound, CheckFigures, Unjudged, result_of
from spark_jobs.gates.suite import Answer, Question, ask

#: It compares floating-point numbers (9 PB, if they are bytes).
_TOLD_APART = 2**53


def judged_by_expectations(checks: Sequence[Unjudged]) -> list[CheckResult]:
    """Return one result per check, in order: a suite with one expectation per bound, over a frame
    of one row with a column per bound."""
    found = {
        (i, j): bound
        for i, one in enumerate(checks)
        for j, bound in enumerate(_bounds(one))
        if bound.is_number  # it takes a null for right: it looks at the values that are there
    }
    frame = pd.DataFrame({_column(key): [bound.value] for key, bound in found.items()})
    questions = [
        Question(partial(_between, _column(key), bound), (_column(key),))
        for key, bound in found.items()
    ]
    answers = dict(zip(found, ask(questions, frame), strict=True))
    return [
        _result(one, [answers.get((i, j), _NO_FIGURE) for j in range(len(_bounds(one)))])
        for i, one in enumerate(checks)
    ]


_NO_FIGURE = Answer.impossible(NO_FIGURE)


def _bounds(one: Unjudged) -> tuple[Bound, ...]:
    return one.observed.bounds if isinstance(one.observed, CheckFigures) else ()


def _column(key: tuple[int, int]) -> str:
    return f"{key[0]}.{key[1]}"


def _between(column: str, bound: Bound) -> Expectation:
    if bound.fault:
        raise ValueError(bound.fault)
    if abs(bound.value or 0) >= _TOLD_APART:
        raise ValueError(
            f"its figure is not below {_TOLD_APART:,}, beyond which Great Expectations takes "
            "neighbours for the same"
        )
    return gxe.ExpectColumnValuesToBeBetween(  # type: ignore[attr-defined]
        column=column, min_value=bound.min, max_value=bound.max
    )


def _result(one: Unjudged, answers: Sequence[Answer]) -> CheckResult:
    if isinstance(one.observed, str):
        return unevaluated(one.title, one.expected, one.observed)
    for answer in answers:
        if answer.fault is not None:
            return unevaluated(one.title, one.expected, answer.fault)
        looked_at = (answer.figures.get("element_count"), answer.figures.get("missing_count"))
        if looked_at != (1, 0):
            return unevaluated(
                one.title,
                one.expected,
                f"Great Expectations looked at {looked_at[0]} figures of it instead of 1",
            )
    return result_of(
        one, one.observed, passed=bool(answers) and all(answer.holds for answer in answers)
    )
