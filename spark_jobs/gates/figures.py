"""Figures that checks observe, and the verdict on them: counts are compared here, as the delivery
gate does; figures of records are judged by Great Expectations (docs/adr/0018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shipper.config.checks import SourceGateCheck
from shipper.config.content_checks import is_count
from shipper.driver.gate import unevaluated
from shipper.report.results import CheckResult


@dataclass(frozen=True)
class Bound:
    """A figure, and where it must lie; both ends are right themselves."""

    value: float | None
    min: float | None = None
    max: float | None = None

    @property
    def fault(self) -> str | None:
        """Reason why it cannot be judged; None if it can be."""
        if self.value is None or math.isnan(self.value):
            return "there is no figure to compare"
        if self.min is None and self.max is None:
            return "it has neither `min` nor `max`, so it can never fail; give one of them"
        return None

    @property
    def holds(self) -> bool:
        """Decides for counts. Of other figures it only says which of many are named first."""
        value = self.value
        return (
            value is not None
            and (self.min is None or value >= self.min)
            and (self.max is None or value <= self.max)
        )


@dataclass(frozen=True)
class CheckFigures:
    """Observation of one check. It holds if there are bounds and all of them hold."""

    bounds: tuple[Bound, ...]
    """Bounds; none at all: there was nothing to judge by, and the check does not hold."""
    words: str
    history: tuple[float, ...] = ()


@dataclass(frozen=True)
class Unjudged:
    """Check with its observed figure."""

    check: SourceGateCheck
    expected: str
    observed: CheckFigures | str
    """A text says why it cannot be evaluated."""

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return self.observed.bounds if isinstance(self.observed, CheckFigures) else ()


def judged(checks: Sequence[Unjudged]) -> list[CheckResult]:
    """Return one result per check, in order. Great Expectations, which takes seconds to import, is
    asked only if some check is not about counts."""
    asked = [one for one in checks if not is_count(one.check)]
    if asked:
        from spark_jobs.gates.judging import judged_by_expectations

        answers = iter(judged_by_expectations(asked))
    return [_compared(one) if is_count(one.check) else next(answers) for one in checks]


def _compared(one: Unjudged) -> CheckResult:
    if isinstance(one.observed, str):
        return unevaluated(one.check.title, one.expected, one.observed)
    if fault := next((bound.fault for bound in one.bounds if bound.fault), None):
        return unevaluated(one.check.title, one.expected, fault)
    passed = bool(one.bounds) and all(bound.holds for bound in one.bounds)
    return result_of(one, one.observed, passed=passed)


def result_of(one: Unjudged, observed: CheckFigures, *, passed: bool) -> CheckResult:
    return CheckResult(
        check=one.check.title,
        severity=one.check.severity,
        passed=passed,
        expected=one.expected,
        observed=observed.words,
        history=list(observed.history),
    )
