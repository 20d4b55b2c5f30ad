import time

import pytest

from shipper.config.checks import ChecksumCheck, QuarantineRateCheck, ReadBackCheck, SumClosesCheck
from shipper.driver.judge_delivery import evaluate_delivery
from shipper.finding import fail
from shipper.ledger.incarnations import RecreatedTopic
from shipper.ledger.inventory import LedgerFigures
from shipper.report.results import ShipResult
from shipper.verify.reconcile import LEDGER, RECEIPTS, SPARK, TOPIC, CountRow, CountTable
from tests.samples.results import closed, common
from tests.waiting import slowness

SUM = SumClosesCheck(check="sum_closes")


def row(name, receipts, ledger, check="sum_closes", subject="topic", at_least=False, **more):
    figures = {RECEIPTS: receipts, LEDGER: ledger, **more}
    return CountRow(check, subject, name, figures, at_least)


def of_file(name, receipts, ledger):
    return row(f"file {name}", receipts, ledger, subject="file")


def table(*rows, **ship):
    result = ShipResult(cluster="c", **common(), **ship)
    return CountTable(result, LedgerFigures(), list(rows))


def evaluate(*rows, check=SUM):
    return evaluate_delivery([check], table(*rows))


@pytest.mark.parametrize(
    ("receipts", "ledger", "spark", "expected", "observed"),
    [
        (9, 10, 10, f"10 {LEDGER} and {SPARK}", f"9 {RECEIPTS} (-1)"),
        (10, 9, 10, f"10 {RECEIPTS} and {SPARK}", f"9 {LEDGER} (-1)"),
        (10, 10, 12, f"10 {RECEIPTS} and {LEDGER}", f"12 {SPARK} (+2)"),
        (8, 9, 10, f"8 {RECEIPTS}", f"9 {LEDGER} (+1); 10 {SPARK} (+2)"),
    ],
)
def test_the_place_that_disagrees_with_the_others_is_named(
    receipts, ledger, spark, expected, observed
):
    (result,) = evaluate(row("read", receipts, ledger, **{SPARK: spark}))
    assert (result.passed, result.expected, result.observed) == (False, expected, observed)


def test_numbers_that_a_float_cannot_tell_apart_are_told_apart():
    (result,) = evaluate(row("lines", 2**60, 2**60 + 1))
    assert not result.passed


def test_two_topics_that_differ_the_opposite_way_do_not_make_up_for_each_other():
    assert len(closed(evaluate(row("a", 9, 10), row("b", 11, 10)))) == 2


def test_a_figure_that_nobody_counted_blocks_even_if_the_check_would_only_warn():
    warn = SumClosesCheck(check="sum_closes", severity="warn")
    results = evaluate(row("a", 1, 2), row("b", 10, None), row("c", None, 10), check=warn)
    assert [result.severity for result in results] == ["warn", "block", "block"]
    assert results[1].observed == f"could not be evaluated, so it blocks: not counted {LEDGER}"
    assert closed(results) == results[1:]
    assert closed(evaluate(row("b", None, None), check=warn))
    assert closed(evaluate(CountRow("sum_closes", "topic", "alone", {RECEIPTS: 1}), check=warn))


@pytest.mark.parametrize(
    "check", [SUM, ChecksumCheck(check="checksum"), ReadBackCheck(check="read_back")]
)
def test_no_figures_at_all_block(check):
    (result,) = evaluate_delivery([check], table())
    assert closed([result])
    assert "no figures to compare" in result.observed


def test_thousands_of_files_are_one_result_and_the_open_ones_are_named():
    files = [of_file(f"f{n}", n, n + (n == 77)) for n in range(3_000)]
    started = time.monotonic()
    results = evaluate(row("lines", 1, 1), *files)
    assert time.monotonic() - started < 10 * slowness()
    assert [result.check for result in results] == [
        "sum_closes(lines)",
        "sum_closes(file f77)",
        "sum_closes(files)",
    ]
    assert (results[2].expected, results[2].observed, results[2].passed) == (
        "all of 3,000 sums agree",
        "1 do not",
        False,
    )
    healthy = evaluate(row("lines", 1, 1), *(one for one in files if one.name != "file f77"))
    assert [(result.check, result.passed) for result in healthy] == [
        ("sum_closes(lines)", True),
        ("sum_closes(files)", True),
    ]


def test_a_file_that_nobody_counted_closes_a_gate_that_would_only_warn():
    warn = SumClosesCheck(check="sum_closes", severity="warn")
    files = [of_file(f"f{n}", n, n) for n in range(30)]
    results = evaluate(*files, of_file("x", 1, None), check=warn)
    assert [result.check for result in closed(results)] == [
        "sum_closes(file x)",
        "sum_closes(files)",
    ]


def read_back(receipts, ledger, found):
    figures = {TOPIC: found}
    of_topic = row("logs.web", receipts, ledger, "read_back", at_least=True, **figures)
    return evaluate(of_topic, check=ReadBackCheck(check="read_back", mode="full"))


@pytest.mark.parametrize(("found", "passed"), [(999, False), (1000, True), (1016, True)])
def test_where_others_write_too_at_least_as_many_are_expected(found, passed):
    (result,) = read_back(1000, 1000, found)
    assert result.passed == passed
    assert result.expected.startswith("≥ 1,000 ")
    assert f"{found:,} {TOPIC}" in result.observed


def test_others_records_do_not_make_up_for_a_ledger_that_disagrees_with_the_receipts():
    (result,) = read_back(1000, 1010, 2000)
    assert not result.passed


def test_a_read_back_that_could_not_be_done_blocks_with_its_reason():
    counts = table()
    counts.unread = fail("no broker answers")
    (result,) = evaluate_delivery([ReadBackCheck(check="read_back", mode="full")], counts)
    assert closed([result])
    assert result.observed == "could not be evaluated, so it blocks: no broker answers"


@pytest.mark.parametrize(
    ("quarantined", "read", "passed", "observed"),
    [
        (0, 0, True, "0 of 0 (0 %)"),
        (0, 1000, True, "0 of 1,000 (0 %)"),
        (1, 1000, True, "1 of 1,000 (0.1 %)"),
        (10_001, 10_000_000, False, "10,001 of 10,000,000 (0.10001 %)"),
        (2, 1000, False, "2 of 1,000 (0.2 %)"),
        (1, 0, False, "1 of 0 (0 %)"),
    ],
)
def test_the_rate_of_quarantined_lines(quarantined, read, passed, observed):
    check = QuarantineRateCheck(check="quarantine_rate", max_rate=0.001)
    (result,) = evaluate_delivery([check], table(read=read, quarantined={"other": quarantined}))
    assert (result.check, result.passed, result.observed) == ("quarantine_rate", passed, observed)
    assert result.expected == "≤ 0.1 % of the lines that were read"


@pytest.mark.parametrize(
    ("now", "observed"), [("B", "created again (its id was A, and is B)"), (None, "(its id was A)")]
)
def test_a_topic_that_was_created_anew_closes_the_gate_by_name(now, observed):
    lost = RecreatedTopic(topic="logs.web", before="A", now=now, records=193_677, files=3)
    (closing,) = closed(evaluate_delivery([SUM], table(row("lines", 5, 5)), [lost]))
    assert closing.check == "recreated(logs.web)"
    assert observed in closing.observed
    assert "193,677 records of 3 files" in closing.observed
