"""Whether a gate is open, and what to tell people if it is not."""

from __future__ import annotations

from collections.abc import Sequence

from shipper.report.results import CheckResult

_MOST_NAMED = 5


def unevaluated(check: str, expected: str, fault: str) -> CheckResult:
    """A check that cannot be evaluated blocks, whatever its severity: nobody knows what it would have said."""
    return CheckResult(
        check=check, severity="block", passed=False, expected=expected, observed=f"could not be evaluated, so it blocks: {fault}"
    )


def closed(results: Sequence[CheckResult]) -> list[CheckResult]:
    """The results that close the gate; empty if it is open. A gate without any result is closed."""
    if not results:
        return [CheckResult(check="gate", severity="block", passed=False, expected="≥ 1 check", observed="0 checks evaluated")]
    return [result for result in results if not result.passed and result.severity == "block"]


def closed_message(closing: Sequence[CheckResult], what_it_means: str) -> str:
    """One paragraph for GateClosed. ``what_it_means`` says which gate and what that did to the records, such as
    ``before shipping: not one byte was sent``."""
    named = "; ".join(f"{one.check}: expected {one.expected}, observed {one.observed}" for one in closing[:_MOST_NAMED])
    more = f"; and {len(closing) - _MOST_NAMED} more" if len(closing) > _MOST_NAMED else ""
    count = "" if len(closing) == 1 else f"{len(closing)} checks do not hold: "
    # What decided comes first: whoever shows one line of this shows its beginning.
    return (
        f"{count}{named}{more}. The gate is closed {what_it_means}. Clear up what they point to, or correct the checks under "
        "`gates` in the pipeline's file; then run the window again: it sends what is missing, and nothing twice."
    )
