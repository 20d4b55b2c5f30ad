"""The delivery gate's verdict: figures that were counted in different places and must be the same.
A plain comparison decides (docs/adr/0018): it needs no library, and holds numbers of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from shipper.config.checks import (
    ChecksumCheck,
    DeliveryCheck,
    QuarantineRateCheck,
    ReadBackCheck,
    SumClosesCheck,
)
from shipper.driver.gate import rate, unevaluated
from shipper.report.markup import plural
from shipper.report.plan_result import RecreatedTopic
from shipper.report.results import CheckResult
from shipper.verify.reconcile import Expired, Observed, Reconciliation, Sum

#: Number of files to name, of thousands that do not add up.
_MOST_OPEN = 20


def evaluate_delivery(
    checks: Sequence[DeliveryCheck],
    account: Reconciliation,
    recreated: Iterable[RecreatedTopic] = (),
) -> list[CheckResult]:
    """Return one result per check and sum, with all figures and their sources; the sums of files,
    and of partitions, that agree are one result together. A check without anything to compare
    cannot be evaluated. ``recreated``: topics that do not hold what the ledger says."""
    results = [_recreated(lost) for lost in recreated]
    for check in checks:
        match check:
            case SumClosesCheck():
                results += _sums(check, account.sums, {"files": account.files})
            case ChecksumCheck():
                results += _sums(check, account.checksums, {"files": account.file_checksums})
            case ReadBackCheck():
                if account.read_back_fault is not None:
                    expected = "what was sent, as consumers see it"
                    results.append(unevaluated("read_back", expected, account.read_back_fault))
                else:
                    if account.read_back or account.partitions or not account.expired:
                        results += _sums(
                            check, account.read_back, {"partitions": account.partitions}
                        )
                    results += map(_expired, account.expired)
            case QuarantineRateCheck():
                results.append(_quarantine_rate(check, account))
            case _:
                assert_never(check)
    return results


def _recreated(lost: RecreatedTopic) -> CheckResult:
    """Return a check that fails whatever checks the pipeline has: by the ledger, records were
    delivered that are in no topic."""
    now = (
        f"it was deleted and created again: its id is {lost.now}"
        if lost.now
        else "it was deleted: no topic has its name"
    )
    return CheckResult(
        check=f"recreated({lost.topic})",
        severity="block",
        passed=False,
        expected=f"topic {lost.topic} with the id {lost.before}, which took "
        f"{plural(lost.records, 'record')} of {plural(lost.files, 'file')}",
        observed=f"{now}. `delivery.on_recreated: resend` sends these records again",
    )


def _expired(gone: Expired) -> CheckResult:
    """Return a warning: the records were sent and were there, and consumers had as long to read
    them as the topic's settings allow."""
    return CheckResult(
        check=f"expired({gone.name})",
        severity="warn",
        passed=False,
        expected=f"{plural(gone.sent, 'record')} that this ship sent",
        observed=f"{gone.missing:,} of them expired: {gone.where}; `retention.ms` or "
        "`retention.bytes` of the topic, or delete-records",
    )


def _sums(
    check: DeliveryCheck, single: Sequence[Sum], many: Mapping[str, Sequence[Sum]]
) -> list[CheckResult]:
    if not single and not any(many.values()):
        return [unevaluated(check.check, "figures that agree", "there are no figures to compare")]
    results = [_result(check, one) for one in single]
    for what, sums in many.items():
        results += _many(check, what, sums)
    return results


def _counted(one: Sum) -> bool:
    return len(one.figures) > 1 and all(figure.value is not None for figure in one.figures)


def _reference(one: Sum) -> int | str:
    """Return the figure of most places; among equals the first. Of a sum with `at_least` the last
    figure has no say."""
    values = [
        figure.value
        for figure in (one.figures[:-1] if one.at_least else one.figures)
        if figure.value is not None
    ]
    return Counter(values).most_common(1)[0][0]


def _fits(one: Sum, figure: Observed) -> bool:
    reference = _reference(one)
    if (
        one.at_least
        and figure is one.figures[-1]
        and isinstance(figure.value, int)
        and isinstance(reference, int)
    ):
        return figure.value >= reference
    return figure.value == reference


def _result(check: DeliveryCheck, one: Sum) -> CheckResult:
    """Compare: expected is the figure of most places. Observed: what the others do."""
    name = f"{check.check}({one.name})"
    if not _counted(one):
        missing = [figure for figure in one.figures if figure.value is None]
        known = [figure for figure in one.figures if figure.value is not None]
        fault = (
            " and ".join(f"not counted {figure.where}" for figure in missing)
            or "counted in one place only"
        )
        return unevaluated(name, _places(known) if known else "a figure", fault)
    agree = [figure for figure in one.figures if _fits(one, figure)]
    differ = [figure for figure in one.figures if not _fits(one, figure)]
    # If all agree, the first place serves as the one that the others are compared with.
    expected, observed = (agree, differ) if differ else (one.figures[:1], one.figures[1:])
    said = (
        "; ".join(f"{_places([figure])}{_difference(figure, one)}" for figure in differ)
        if differ
        else _observed(one, observed)
    )
    return CheckResult(
        check=name,
        severity=check.severity,
        passed=not differ,
        expected=("≥ " if one.at_least else "") + _places(expected),
        observed=said + (f"; {one.remark}" if one.remark else ""),
    )


def _observed(one: Sum, figures: Sequence[Observed]) -> str:
    return "; ".join(_places([figure]) for figure in figures) if one.at_least else _places(figures)


def _places(figures: Sequence[Observed]) -> str:
    """Return ``1,000 by the tasks' receipts and in the ledger, read anew``: the places of equal
    figures."""
    return f"{_written(figures[0].value)} {' and '.join(figure.where for figure in figures)}"


def _difference(figure: Observed, one: Sum) -> str:
    reference = _reference(one)
    both_numbers = isinstance(figure.value, int) and isinstance(reference, int)
    return f" ({figure.value - reference:+,})" if both_numbers else ""  # type: ignore[operator]


def _written(value: int | str | None) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _many(check: DeliveryCheck, what: str, sums: Sequence[Sum]) -> list[CheckResult]:
    """Return the sums that do not agree, one by one, and the others in one result."""
    results = [_result(check, one) for one in sums]
    if not results:
        return []
    not_passed = [result for result in results if not result.passed]
    shown = not_passed[:_MOST_OPEN]
    unnamed = (
        f", of which {len(not_passed) - _MOST_OPEN:,} are not shown"
        if len(not_passed) > _MOST_OPEN
        else ""
    )
    severity = (
        "block" if any(result.severity == "block" for result in not_passed) else check.severity
    )
    rest = CheckResult(
        check=f"{check.check}({what})",
        severity=severity,
        passed=not not_passed,
        expected=f"all of {len(sums):,} sums agree",
        observed=f"{len(not_passed):,} do not{unnamed}" if not_passed else "they do",
    )
    return [*shown, rest]


def _quarantine_rate(check: QuarantineRateCheck, account: Reconciliation) -> CheckResult:
    quarantined = (
        account.quarantined / account.read if account.read else float(account.quarantined > 0)
    )
    # Rounded up, so that a share above the limit never looks like the limit.
    share = -(-account.quarantined * 100_000_000 // account.read) / 1_000_000 if account.read else 0
    return CheckResult(
        check="quarantine_rate",
        severity=check.severity,
        passed=quarantined <= check.max_rate,
        expected=f"≤ {rate(check.max_rate)} of the lines that were read",
        observed=f"{account.quarantined:,} of {account.read:,} ({share:.12g} %)",
    )
