"""What checks observed, and Great Expectations' verdict on it: each figure is an expectation of its
own, and no comparison of ours stands beside (docs/adr/0018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.expectations.expectation import Expectation

from shipper.driver.gate import unevaluated
from shipper.report.results import CheckResult
from spark_jobs.gates.suite import Answer, Question, ask

#: It compares floating-point numbers (9 PB, if they are bytes).
_TOLD_APART = 2**53


@dataclass(frozen=True)
class Bound:
    """A figure, and where it must lie; both ends are right themselves."""

    value: float | None
    min: float | None = None
    max: float | None = None

    @property
    def looks_right(self) -> bool:
        """For the choice of words: which of many figures are named first. It decides nothing."""
        value = self.value
        return (
            value is not None
            and (self.min is None or value >= self.min)
            and (self.max is None or value <= self.max)
        )


@dataclass(frozen=True)
class CheckFigures:
    """What one check observed. It holds if there are bounds and all of them hold."""

    bounds: tuple[Bound, ...]
    """None at all: there was nothing to judge by, and the check does not hold."""
    words: str
    history: tuple[float, ...] = ()


@dataclass(frozen=True)
class Unjudged:
    """A check with what it observed."""

    title: str
    severity: Literal["block", "quarantine", "warn"]
    expected: str
    observed: CheckFigures | str
    """A text says why it cannot be evaluated."""


def judged(checks: Sequence[Unjudged]) -> list[CheckResult]:
    """One result per check, in order: a suite with one expectation per bound, over a frame of one
    row with a column per bound."""
    found = {
        (i, j): bound
        for i, one in enumerate(checks)
        for j, bound in enumerate(_bounds(one))
        if _is_number(bound.value)
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


_NO_FIGURE = Answer.impossible("there is no figure to compare")


def _bounds(one: Unjudged) -> tuple[Bound, ...]:
    return one.observed.bounds if isinstance(one.observed, CheckFigures) else ()


def _is_number(value: float | None) -> bool:
    """Great Expectations takes a null for right: it looks at the values that are there."""
    return value is not None and not math.isnan(value)


def _column(key: tuple[int, int]) -> str:
    return f"{key[0]}.{key[1]}"


def _between(column: str, bound: Bound) -> Expectation:
    if bound.min is None and bound.max is None:
        raise ValueError(
            "it has neither `min` nor `max`, so nothing could fail it; give one of them"
        )
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
    return CheckResult(
        check=one.title,
        severity=one.severity,
        passed=bool(answers) and all(answer.holds for answer in answers),
        expected=one.expected,
        observed=one.observed.words,
        history=list(one.observed.history),
    )
