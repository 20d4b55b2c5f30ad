"""The delivery gate: figures that were counted in different places and must be the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import pandas as pd
from great_expectations import expectations as gxe

from shipper.config.checks import SumClosesCheck
from shipper.report.results import CheckResult
from spark_jobs.gates.suite import Answer, Question, ask
from spark_jobs.gates.verdict import unevaluated


@dataclass(frozen=True)
class SumRow:
    """One sum that must close: the same records, counted in two places that do not know each other."""

    name: str
    """Of what: ``lines``, or a topic."""
    left: int | None
    """None: nobody counted, and the check cannot be evaluated."""
    left_source: str
    """Where it was counted, to be read after the figure: ``in the ledger, read anew``."""
    right: int | None
    right_source: str


def evaluate_delivery(checks: Sequence[SumClosesCheck], rows: Sequence[SumRow]) -> list[CheckResult]:
    """One result per check and row, with both figures and where they come from. No rows is a check that cannot be evaluated."""
    results: list[CheckResult] = []
    for check in checks:
        match check:
            case SumClosesCheck():
                results += _sum_closes(check, rows)
            case _:
                assert_never(check)
    return results


def _sum_closes(check: SumClosesCheck, rows: Sequence[SumRow]) -> list[CheckResult]:
    """One expectation over all rows, so that thousands of them cost no more than one.

    Which rows disagree is not taken from Great Expectations, since its result format holds no examples; it is compared here,
    and both must find the same number of them.
    """
    if not rows:
        return [unevaluated("sum_closes", "sums that close", "there are no figures to compare")]
    counted = [row for row in rows if row.left is not None and row.right is not None]
    answer = _compared(counted)
    return [_result(check, row, answer) for row in rows]


def _compared(rows: Sequence[SumRow]) -> Answer:
    if not rows:
        return Answer.impossible("nothing was counted")
    frame = pd.DataFrame({"left": [row.left for row in rows], "right": [row.right for row in rows]})

    def equal() -> gxe.ExpectColumnPairValuesToBeEqual:
        return gxe.ExpectColumnPairValuesToBeEqual(column_A="left", column_B="right", ignore_row_if="neither")

    (answer,) = ask([Question(equal, ("left", "right"))], frame)
    if answer.fault is not None:
        return answer
    differ = sum(row.left != row.right for row in rows)
    found = (answer.figures.get("element_count"), answer.figures.get("unexpected_count"), answer.holds)
    if found != (len(rows), differ, differ == 0):
        return Answer.impossible(
            f"Great Expectations looked at {found[0]} sums and found {found[1]} open, instead of {len(rows)} and {differ}"
        )
    return answer


def _result(check: SumClosesCheck, row: SumRow, answer: Answer) -> CheckResult:
    name = f"sum_closes({row.name})"
    expected = f"{_figure(row.right)} {row.right_source}"
    observed = f"{_figure(row.left)} {row.left_source}"
    if row.left is None or row.right is None:
        return unevaluated(name, expected, observed)
    if answer.fault is not None:
        return unevaluated(name, expected, answer.fault)
    closes = row.left == row.right
    return CheckResult(
        check=name,
        severity=check.severity,
        passed=closes,
        expected=expected,
        observed=observed if closes else f"{observed} ({row.left - row.right:+,})",
    )


def _figure(count: int | None) -> str:
    return "not counted" if count is None else f"{count:,}"
