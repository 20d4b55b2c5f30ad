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
from shipper.config.units import plural
from shipper.driver.gate import rate, unevaluated
from shipper.ledger.incarnations import RecreatedTopic
from shipper.report.results import CheckResult, ShipResult
from shipper.verify.reconcile import LEDGER, TOPIC, CountRow, CountTable

#: Number of files to name, of thousands that do not add up.
_MOST_OPEN = 20


def evaluate_delivery(
    checks: Sequence[DeliveryCheck],
    table: CountTable,
    recreated: Iterable[RecreatedTopic] = (),
) -> list[CheckResult]:
    """Return one result per check and row, with all figures and their sources; the rows of files,
    and of partitions, that agree are one result together. A check without anything to compare
    cannot be evaluated. ``recreated``: topics that do not hold what the ledger says."""
    results = [_recreated(lost) for lost in recreated]
    for check in checks:
        match check:
            case SumClosesCheck() | ChecksumCheck():
                results += _rows(check, table)
            case ReadBackCheck():
                if table.unread:
                    expected = "what was sent, as consumers see it"
                    results.append(unevaluated("read_back", expected, table.unread.text))
                else:
                    results += _rows(check, table)
            case QuarantineRateCheck():
                results.append(_quarantine_rate(check, table.ship))
            case _:
                assert_never(check)
    return results


def _recreated(lost: RecreatedTopic) -> CheckResult:
    """Return a check that fails whatever checks the pipeline has: by the ledger, records were
    delivered that are in no topic."""
    return CheckResult(
        check=f"recreated({lost.topic})",
        severity="block",
        passed=False,
        expected="topics keep their records",
        observed=f"{lost}. `delivery.on_recreated: resend` sends these records again",
    )


def _expired(row: CountRow) -> CheckResult:
    """Return a warning: the records were sent and were there, and consumers had as long to read
    them as the topic's settings allow."""
    sent, seen = row.figures[LEDGER] or 0, row.figures[TOPIC] or 0
    return CheckResult(
        check=f"expired({row.name})",
        severity="warn",
        passed=False,
        expected=f"{plural(sent, 'record')} that this ship sent",
        observed=f"{sent - seen:,} of them expired: {row.remark}; `retention.ms` or "
        "`retention.bytes` of the topic, or delete-records",
    )


def _rows(check: DeliveryCheck, table: CountTable) -> list[CheckResult]:
    rows = [row for row in table.rows if row.check == check.check]
    expired = [row for row in table.rows if row.check == "expired" and check.check == "read_back"]
    if not rows and not expired:
        return [unevaluated(check.check, "figures that agree", "there are no figures to compare")]
    many = {what: [row for row in rows if row.subject == what] for what in ("file", "partition")}
    results = [_result(check, row) for row in rows if row.subject not in many]
    for what, of_many in many.items():
        results += _many(check, f"{what}s", of_many)
    return [*results, *map(_expired, expired)]


def _result(check: DeliveryCheck, row: CountRow) -> CheckResult:
    """Compare: expected is the figure of most places; among equals that of the first. Observed:
    what the others do."""
    name = f"{check.check}({row.name})"
    known = {where: figure for where, figure in row.figures.items() if figure is not None}
    missing = [where for where in row.figures if where not in known]
    if missing or len(known) < 2:
        fault = (
            " and ".join(f"not counted {where}" for where in missing) or "counted in one place only"
        )
        return unevaluated(name, _places(row, known) if known else "a figure", fault)
    *others, last = known
    # Where others write too, the last figure has no say.
    voters = others if row.at_least else known
    reference = Counter(known[where] for where in voters).most_common(1)[0][0]
    differences = {
        where: figure - reference
        for where, figure in known.items()
        if figure < reference or (figure > reference and not (row.at_least and where == last))
    }
    if differences:
        expected = {where: known[where] for where in known if where not in differences}
        observed = "; ".join(
            _places(row, {where: known[where]}) + ("" if row.is_checksum else f" ({difference:+,})")
            for where, difference in differences.items()
        )
    else:
        # The first place serves as the one that the others are compared with.
        (first, figure), *rest = known.items()
        expected = {first: figure}
        observed = (
            "; ".join(_places(row, {where: figure}) for where, figure in rest)
            if row.at_least
            else _places(row, dict(rest))
        )
    return CheckResult(
        check=name,
        severity=check.severity,
        passed=not differences,
        expected=("≥ " if row.at_least else "") + _places(row, expected),
        observed=observed + (f"; {row.remark}" if row.remark else ""),
    )


def _places(row: CountRow, figures: Mapping[str, int]) -> str:
    """Return ``1,000 by the tasks' receipts and in the ledger, read anew``: the places of equal
    figures."""
    return f"{row.write(next(iter(figures.values())))} {' and '.join(figures)}"


def _many(check: DeliveryCheck, what: str, rows: Sequence[CountRow]) -> list[CheckResult]:
    """Return the rows that do not agree, one by one, and the others in one result."""
    results = [_result(check, row) for row in rows]
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
        expected=f"all of {len(rows):,} sums agree",
        observed=f"{len(not_passed):,} do not{unnamed}" if not_passed else "they do",
    )
    return [*shown, rest]


def _quarantine_rate(check: QuarantineRateCheck, ship: ShipResult) -> CheckResult:
    count, read = sum(ship.quarantined.values()), ship.read
    # Rounded up, so that a share above the limit never looks like the limit.
    share = -(-count * 100_000_000 // read) / 1_000_000 if read else 0
    return CheckResult(
        check="quarantine_rate",
        severity=check.severity,
        passed=(count / read if read else float(count > 0)) <= check.max_rate,
        expected=f"≤ {rate(check.max_rate)} of the lines that were read",
        observed=f"{count:,} of {read:,} ({share:.12g} %)",
    )
