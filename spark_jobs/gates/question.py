"""A question to Great Expectations and its answer, for those who may not need to ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation


@dataclass(frozen=True)
class Question:
    """One check, as an expectation."""

    build: Callable[[], Expectation]
    """Its errors are faults of the check, so bounds that contradict each other need no care elsewhere."""
    columns: tuple[str, ...] = ()
    """What it looks at; empty for a question about the number of rows."""


@dataclass(frozen=True)
class Answer:
    """``figures`` is the result as Great Expectations gives it, and ``rows``, the number of rows in the frame."""

    holds: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    fault: str | None = None
    """Why the question could not be answered. Then ``holds`` is False and ``figures`` empty."""

    @classmethod
    def impossible(cls, fault: str) -> Answer:
        return cls(False, {}, fault)
