import time

import pytest

from shipper.config.checks import SumClosesCheck
from spark_jobs.gates import SumRow, closed, delivery, evaluate_delivery
from spark_jobs.gates.suite import Answer

SUM = SumClosesCheck(check="sum_closes")


def row(name, left, right):
    return SumRow(name, left, "in the ledger, read anew", right, "delivered + before, by the receipts")


def test_sums_that_close():
    results = evaluate_delivery([SUM], [row("lines", 1_200_000, 1_200_000), row("logs.web", 0, 0)])
    assert [(result.check, result.passed) for result in results] == [("sum_closes(lines)", True), ("sum_closes(logs.web)", True)]
    assert results[0].expected == "1,200,000 delivered + before, by the receipts"
    assert results[0].observed == "1,200,000 in the ledger, read anew"
    assert closed(results) == []


@pytest.mark.parametrize(("left", "difference"), [(999, "-1"), (1001, "+1"), (0, "-1,000"), (2**62, f"{2**62 - 1000:+,}")])
def test_each_disagreement_has_both_figures_and_their_sources(left, difference):
    results = evaluate_delivery([SUM], [row("lines", 5, 5), row("logs.web", left, 1000), row("errors.web", 7, 7)])
    assert [result.passed for result in results] == [True, False, True]
    (closing,) = closed(results)
    assert closing.check == "sum_closes(logs.web)"
    assert closing.expected == "1,000 delivered + before, by the receipts"
    assert closing.observed == f"{left:,} in the ledger, read anew ({difference})"


def test_numbers_that_a_float_cannot_tell_apart_are_told_apart():
    (result,) = evaluate_delivery([SUM], [row("lines", 2**60, 2**60 + 1)])
    assert not result.passed


def test_two_topics_that_differ_the_opposite_way_do_not_make_up_for_each_other():
    assert len(closed(evaluate_delivery([SUM], [row("a", 9, 10), row("b", 11, 10)]))) == 2


def test_a_figure_that_nobody_counted_blocks_even_if_the_check_would_only_warn():
    warn = SumClosesCheck(check="sum_closes", severity="warn")
    results = evaluate_delivery([warn], [row("a", 1, 2), row("b", None, 10), row("c", 10, None)])
    assert [result.severity for result in results] == ["warn", "block", "block"]
    assert results[1].observed == "could not be evaluated, so it blocks: not counted in the ledger, read anew"
    assert results[2].expected == "not counted delivered + before, by the receipts"
    assert closed(results) == results[1:]
    assert closed(evaluate_delivery([warn], [row("b", None, None)]))


def test_no_figures_at_all_block():
    (result,) = evaluate_delivery([SUM], [])
    assert closed([result])
    assert "no figures to compare" in result.observed


def test_when_great_expectations_and_plain_comparison_disagree_nothing_passes(monkeypatch):
    lenient = {"element_count": 2, "unexpected_count": 0}
    monkeypatch.setattr(delivery, "ask", lambda questions, frame: [Answer(True, lenient)])
    results = evaluate_delivery([SUM], [row("a", 1, 1), row("b", 9, 10)])
    assert [result.passed for result in results] == [False, False]
    assert "instead of 2 and 1" in results[0].observed


def test_thousands_of_sums_cost_no_more_than_one():
    many = [row(f"topic-{i}", i, i + (i == 77)) for i in range(10_000)]
    started = time.monotonic()
    results = evaluate_delivery([SUM], many)
    assert time.monotonic() - started < 5
    assert [result.check for result in closed(results)] == ["sum_closes(topic-77)"]
