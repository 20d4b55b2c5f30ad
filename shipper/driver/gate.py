"""Verdict of a gate, its message for people, and the way in which checks show figures. Figures are
never rounded in their favour: a share below its limit is never shown as equal to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from shipper.config.units import listed, write_size
from shipper.error_codes import GATE_CLOSED, with_code
from shipper.report.results import CheckResult, GateResult

G = TypeVar("G", bound=GateResult)


def unevaluated(check: str, expected: str, fault: str) -> CheckResult:
    """Return the result of a check that cannot be evaluated. It blocks, whatever its severity,
    since its result is unknown."""
    return CheckResult(
        check=check,
        severity="block",
        passed=False,
        expected=expected,
        observed=f"could not be evaluated, so it blocks: {fault}",
        evaluated=False,
    )


def closed_message(closing: Sequence[CheckResult], what_it_means: str) -> str:
    """Return one paragraph on a closed gate. ``what_it_means`` names the gate and its effect on the
    records, such as ``before shipping: no byte was sent``."""
    named = listed(closing, mark="; ")
    count = "" if len(closing) == 1 else f"{len(closing)} checks failed: "
    # The deciding checks come first: a single shown line is the beginning of this text.
    return (
        f"{count}{named}. The gate is closed {what_it_means}. Remove the cause, or correct "
        "the checks under `gates` in the pipeline's file. Then run again: that sends what "
        "is missing, and nothing twice."
    )


def close_if_needed(result: G, what_it_means: str, *, looked: bool = True) -> G:
    """Return the result of a gate with its verdict: failed, in words, if a check closes the gate.
    A gate without any check is closed.
    ``looked``: False if something was out of reach that may be back later; then another look may
    help, else what the gate looked at will not have changed."""
    none = unevaluated("gate", "≥ 1 check", "there is none")
    if closing := result.closing if result.checks else [none]:
        message = closed_message(closing, what_it_means)
        result.error = with_code(message, GATE_CLOSED[result.step])
        result.status, result.final = "failed", looked
    return result


def between(fewest: str | None, most: str | None, what: str = "") -> str:
    """Return ``≥ 1 file``, ``1–3 files``, ``≤ 3 files`` or ``3 files``. ``what``: the plural."""
    one = {fewest, most} - {None} == {"1"}
    unit = f" {what.removesuffix('s') if one else what}" if what else ""
    if fewest is not None and fewest == most:
        return f"{fewest}{unit}"
    if fewest is not None and most is not None:
        return f"{fewest}–{most}{unit}"
    if most is not None:
        return f"≤ {most}{unit}"
    return f"≥ {fewest}{unit}" if fewest is not None else f"any number of {what}"


def figure(count: int | None) -> str | None:
    return None if count is None else f"{count:,}"


def size(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else write_size(size_bytes)


def share(part: int, whole: int) -> str:
    """Return ``99.9999 %``, rounded down."""
    percent = part * 1_000_000 // whole / 10_000
    # Near 0 and 100 % every digit counts; in the middle four digits would only distract.
    return f"{int(percent * 100) / 100 if 1 <= percent <= 99 else percent:.12g} %"


def rate(value: float) -> str:
    return f"{100 * value:.12g} %"
