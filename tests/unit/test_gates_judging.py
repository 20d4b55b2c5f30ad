"""Great Expectations' traps: what it does when asked plainly, so that a change there is seen, and
what the gates make of it."""

import itertools
from types import SimpleNamespace

import pytest

from shipper.config.checks import FilesCheck
from shipper.config.content_checks import NotNullCheck


def setup_module():
    """Import Great Expectations, which takes seconds, where these tests run: each of pytest's
    workers collects each file."""
    global pd, judging, gx, gxe, Bound, CheckFigures, Unjudged, judged
    import pandas as pd

    from spark_jobs.gates import judging
    from spark_jobs.gates.figures import Bound, CheckFigures, Unjudged
    from spark_jobs.gates.source import judged

    gx, gxe = judging.gx, judging.gxe


def plainly(expectations, frame, **options):
    return judging.batch(frame).validate(
        gx.ExpectationSuite(name="plain", expectations=expectations), **options
    )


def asked(*values, severity="block"):
    """Return the results of checks that ask for at least 1, of these values in turn."""
    return judged(
        [
            Unjudged(
                NotNullCheck(check="not_null", column=f"c{index}", severity=severity),
                "≥ 1",
                CheckFigures((Bound(value, min=1),), "seen"),
            )
            for index, value in enumerate(values)
        ]
    )


def answered(monkeypatch, change):
    """Let Great Expectations give results that were changed."""
    real = judging.batch

    def batch(frame):
        def validate(*args, **options):
            found = real(frame).validate(*args, **options)
            return SimpleNamespace(results=change(list(found.results)))

        return SimpleNamespace(validate=validate)

    monkeypatch.setattr(judging, "batch", batch)


def test_an_unknown_expectation_is_dropped_by_gx_and_a_fault_here(monkeypatch):
    with judging.quiet():
        dropped = gx.ExpectationSuite(
            name="x", expectations=[{"type": "expect_nonsense", "kwargs": {}}]
        )
    assert dropped.expectations == []
    answered(monkeypatch, lambda results: results[:1])
    kept, lost = asked(1, 2)
    assert kept.passed
    assert not lost.passed
    assert "0 results for it instead of 1" in lost.observed


def test_gx_takes_a_figure_that_is_missing_for_right_and_here_it_is_a_fault():
    frame = pd.DataFrame({"share": [None, float("nan")]}, dtype="float64")
    assert plainly(
        [gxe.ExpectColumnValuesToBeBetween(column="share", min_value=0.9)], frame
    ).success
    kinds = NotNullCheck(check="not_null", column="a"), FilesCheck(check="files")
    for missing, kind in itertools.product((None, float("nan")), kinds):
        warned = kind.model_copy(update={"severity": "warn"})
        observed = CheckFigures((Bound(missing, min=0.9),), "?")
        (result,) = judged([Unjudged(warned, "≥ 90 %", observed)])
        assert (result.passed, result.severity) == (False, "block")
        assert "no figure to compare" in result.observed


def test_an_expectation_that_raises_is_only_a_failure_in_gx_and_a_fault_here(monkeypatch):
    raising = gxe.ExpectColumnMeanToBeBetween(column="text", min_value=1)
    with judging.quiet():
        (plain,) = plainly([raising], pd.DataFrame({"text": ["SECRET"] * 4})).results
    assert (plain.success, plain.result) == (False, {})

    def raised(results):
        results[0].exception_info, results[0].result = plain.exception_info, {}
        return results

    answered(monkeypatch, raised)
    failed, other = asked(1, 1, severity="warn")
    assert (failed.passed, failed.severity) == (False, "block")
    assert "it raised" in failed.observed
    assert "SECRET" not in failed.observed
    assert other.passed


def test_each_result_finds_its_check_in_whatever_order_they_come(monkeypatch):
    answered(monkeypatch, lambda results: results[::-1])
    assert [result.passed for result in asked(0, 1, 2, 0.5)] == [False, True, True, False]


def test_two_results_for_one_check_are_a_fault(monkeypatch):
    answered(monkeypatch, lambda results: [*results, results[-1]])
    assert "2 results for it instead of 1" in asked(1)[0].observed


@pytest.mark.parametrize(
    "looked", [{}, {"element_count": 0, "missing_count": 0}, {"element_count": 1}]
)
def test_great_expectations_must_have_looked(monkeypatch, looked):
    def blind(results):
        results[0].result = looked
        return results

    answered(monkeypatch, blind)
    assert "Great Expectations looked at " in asked(1)[0].observed


def test_great_expectations_decides(monkeypatch):
    def refused(results):
        results[0].success = False
        return results

    answered(monkeypatch, refused)
    assert not asked(1)[0].passed


def test_when_gx_itself_breaks_every_check_is_a_fault(monkeypatch):
    def broken(frame):
        raise RuntimeError("the line was SECRET")

    monkeypatch.setattr(judging, "batch", broken)
    for result in asked(1, 2):
        assert not result.passed
        assert "it raised RuntimeError in spark_jobs/gates/judging.py, line " in result.observed
        assert "SECRET" not in result.observed


def test_gx_quotes_values_unless_told_not_to():
    expectation = gxe.ExpectColumnValuesToBeInSet(column="text", value_set=["x"])
    frame = pd.DataFrame({"text": ["SECRET", "x"]})
    assert "SECRET" in str(plainly([expectation], frame, result_format="SUMMARY"))
    found = plainly([expectation.copy()], frame, result_format=judging.RESULT_FORMAT)
    assert not found.success
    assert "SECRET" not in str(found)
