"""Figures that checks observe, and the verdict on them: counts are compared here, as the delivery
gate does; figures of records are judged by Great Expectations (docs/adr/0018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shipper.config.checks import SourceGateCheck
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

    def result(self, verdicts: Sequence[bool | str]) -> CheckResult:
        """Return the result. ``verdicts``: whether each bound holds, or why nobody knows."""
        check, seen = self.check, self.observed
        if isinstance(seen, str):
            return unevaluated(check.title, self.expected, seen)
        for verdict in verdicts:
            if isinstance(verdict, str):
                return unevaluated(check.title, self.expected, verdict)
        return CheckResult(
            check=check.title,
            severity=check.severity,
            passed=bool(verdicts) and all(verdicts),
            expected=self.expected,
            observed=seen.words,
            history=list(seen.history),
        )
