"""What checks found, and Great Expectations' verdict on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.expectations.expectation import Expectation

from shipper.report.results import CheckResult
from spark_jobs.gates.question import Answer, Question
from spark_jobs.gates.suite import ask
from spark_jobs.gates.verdict import unevaluated

Figure = float | int


@dataclass(frozen=True)
class Bound:
    """A figure, and where it must lie; both ends are right themselves."""

    value: Figure | None
    min: Figure | None = None
    max: Figure | None = None

    @property
    def holds(self) -> bool:
        value = self.value
        return value is not None and (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


@dataclass(frozen=True)
class Finding:
    """What one check observed. It holds if there are bounds and all of them hold."""

    bounds: tuple[Bound, ...]
    """None at all: there was nothing to judge by, and the check does not hold."""
    observed: str
    history: tuple[float, ...] = ()

    @property
    def holds(self) -> bool:
        """As far as the figures go; Great Expectations has the last word."""
        return bool(self.bounds) and all(bound.holds for bound in self.bounds)


@dataclass(frozen=True)
class Looked:
    """A check that was looked at."""

    title: str
    severity: Literal["block", "quarantine", "warn"]
    expected: str
    finding: Finding | str
    """A text says why it cannot be evaluated."""


def judged(checks: Sequence[Looked]) -> list[CheckResult]:
    """One result per check, in order: a suite with one expectation per bound, over a frame of one row with a column per bound."""
    found = {(i, j): bound for i, one in enumerate(checks) for j, bound in enumerate(_bounds(one)) if _is_number(bound.value)}
    frame = pd.DataFrame({_column(key): [bound.value] for key, bound in found.items()})
    questions = [
        Question(lambda key=key, bound=bound: _between(_column(key), bound), (_column(key),)) for key, bound in found.items()
    ]
    answers = dict(zip(found, ask(questions, frame), strict=True))
    return [_result(one, [answers.get((i, j), _NO_FIGURE) for j in range(len(_bounds(one)))]) for i, one in enumerate(checks)]


_NO_FIGURE = Answer.impossible("there is no figure to compare")


def _bounds(one: Looked) -> tuple[Bound, ...]:
    return one.finding.bounds if isinstance(one.finding, Finding) else ()


def _is_number(value: Figure | None) -> bool:
    """Great Expectations takes a null for right: it looks at the values that are there."""
    return value is not None and not math.isnan(value)


def _column(key: tuple[int, int]) -> str:
    return f"{key[0]}.{key[1]}"


def _between(column: str, bound: Bound) -> Expectation:
    if bound.min is None and bound.max is None:
        raise ValueError("it has neither `min` nor `max`, so nothing could fail it; give one of them")
    return gxe.ExpectColumnValuesToBeBetween(column=column, min_value=bound.min, max_value=bound.max)


def _result(one: Looked, answers: Sequence[Answer]) -> CheckResult:
    if isinstance(one.finding, str):
        return unevaluated(one.title, one.expected, one.finding)
    for bound, answer in zip(one.finding.bounds, answers, strict=True):
        if answer.fault is not None:
            return unevaluated(one.title, one.expected, answer.fault)
        looked_at = (answer.figures.get("element_count"), answer.figures.get("missing_count"), answer.holds)
        if looked_at != (1, 0, bound.holds):
            return unevaluated(one.title, one.expected, "Great Expectations and a plain comparison disagree on it")
    return CheckResult(
        check=one.title,
        severity=one.severity,
        passed=bool(answers) and all(answer.holds for answer in answers),
        expected=one.expected,
        observed=one.finding.observed,
        history=list(one.finding.history),
    )
