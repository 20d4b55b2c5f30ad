"""Great Expectations' traps: what it does when asked plainly, so that a change there is seen, and
what the gates make of it."""

import itertools

import pytest


def setup_module():
    """Import Great Expectations, which takes seconds, where these tests run: each of pytest's
    workers collects each file."""
    global \
        pd, \
        suite, \
        gx, \
        gxe, \
        Bound, \
        CheckFigures, \
        Unjudged, \
        judged, \
        RESULT_FORMAT, \
        Answer, \
        Question, \
        ask, \
        FRAME
    import pandas as pd

    from spark_jobs.gates import suite
    from spark_jobs.gates.figures import Bound, CheckFigures, Unjudged, judged
    from spark_jobs.gates.suite import RESULT_FORMAT, Answer, Question, ask

    gx, gxe = suite.gx, suite.gxe
    FRAME = pd.DataFrame({"a": [1, 2, 3, 4], "b": [1, None, 3, None]})


def rows(fewest=1, most=None):
    return Question(lambda: gxe.ExpectTableRowCountToBeBetween(min_value=fewest, max_value=most))


def not_null(column, mostly=1.0):
    return Question(
        lambda: gxe.ExpectColumnValuesToNotBeNull(column=column, mostly=mostly), (column,)
    )


def plainly(expectations, frame=None, **options):
    return suite._batch(FRAME if frame is None else frame).validate(
        gx.ExpectationSuite(name="plain", expectations=expectations), **options
    )


def test_an_unknown_expectation_is_dropped_by_gx_and_unwritable_here(monkeypatch):
    with suite.quiet():
        dropped = gx.ExpectationSuite(
            name="x", expectations=[{"type": "expect_nonsense", "kwargs": {}}]
        )
    assert dropped.expectations == []

    class Dropping(gx.ExpectationSuite):
        def __init__(self, name, expectations):
            super().__init__(name=name, expectations=expectations[:-1])

    monkeypatch.setattr(suite.gx, "ExpectationSuite", Dropping)
    kept, lost = ask([rows(), not_null("a")], FRAME)
    assert kept.holds
    assert not lost.holds
    assert "0 results for it instead of 1" in lost.fault


def test_gx_takes_a_figure_that_is_missing_for_right_and_here_it_is_a_fault():
    frame = pd.DataFrame({"share": [None, float("nan")]}, dtype="float64")
    assert plainly(
        [gxe.ExpectColumnValuesToBeBetween(column="share", min_value=0.9)], frame
    ).success
    for missing, counted in itertools.product((None, float("nan")), (False, True)):
        observed = CheckFigures((Bound(missing, min=0.9),), "?")
        (result,) = judged([Unjudged("share", "warn", "≥ 90 %", observed, is_count=counted)])
        assert (result.passed, result.severity) == (False, "block")
        assert (
            result.observed == "could not be evaluated, so it blocks: there is no figure to compare"
        )


def test_an_expectation_that_raises_is_only_a_failure_in_gx_and_a_fault_here():
    raising = gxe.ExpectColumnMeanToBeBetween(column="text", min_value=1)
    frame = FRAME.assign(text=["SECRET"] * 4)
    with suite.quiet():
        (result,) = plainly([raising], frame).results
    assert not result.success
    assert result.result == {}
    answer, other = ask([Question(lambda: raising.copy(), ("text",)), not_null("a")], frame)
    assert not answer.holds
    assert "it raised" in answer.fault
    assert "SECRET" not in answer.fault
    assert other.holds


def test_gx_reorders_results_and_each_still_finds_its_check():
    questions = [not_null("b", 0.5), rows(4, 4), not_null("a"), rows(5), not_null("b", 0.6)]
    plain = plainly([question.build() for question in questions])
    asked = [question.columns for question in questions]
    assert [(r.expectation_config.kwargs.get("column"),) for r in plain.results] != [
        columns or (None,) for columns in asked
    ]

    answers = ask(questions, FRAME)
    assert [answer.holds for answer in answers] == [True, True, True, False, False]
    assert [answer.figures.get("unexpected_count") for answer in answers] == [2, None, 0, None, 2]


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_fewer_results_than_checks_are_faults_of_those_that_lack_one(monkeypatch, kept):
    batch = suite._batch

    class Forgetting:
        def __init__(self, frame):
            self._batch = batch(frame)

        def validate(self, *args, **options):
            found = self._batch.validate(*args, **options)
            found.results = found.results[:kept]
            return found

    monkeypatch.setattr(suite, "_batch", Forgetting)
    answers = ask([rows(), not_null("a"), not_null("b", 0.1)], FRAME)
    assert len(answers) == 3
    assert [answer.holds for answer in answers] == [kept == 2, False, False]
    assert all(answer.fault for answer in answers if not answer.holds)


def test_two_results_for_one_check_are_a_fault(monkeypatch):
    batch = suite._batch

    class Doubling:
        def __init__(self, frame):
            self._batch = batch(frame)

        def validate(self, *args, **options):
            found = self._batch.validate(*args, **options)
            found.results = [*found.results, found.results[-1]]
            return found

    monkeypatch.setattr(suite, "_batch", Doubling)
    (answer,) = ask([not_null("a")], FRAME)
    assert "2 results for it instead of 1" in answer.fault


def test_when_gx_itself_breaks_every_check_is_a_fault(monkeypatch):
    def broken(frame):
        raise RuntimeError("the line was SECRET")

    monkeypatch.setattr(suite, "_batch", broken)
    answers = ask([rows(), not_null("a")], FRAME)
    assert len(answers) == 2
    for answer in answers:
        assert answer.fault is not None
        assert answer.fault.startswith("it raised RuntimeError in spark_jobs/gates/suite.py, line ")
        assert "SECRET" not in answer.fault


def test_gx_quotes_values_unless_told_not_to():
    expectation = gxe.ExpectColumnValuesToBeInSet(column="text", value_set=["x"])
    frame = pd.DataFrame({"text": ["SECRET", "x"]})
    assert "SECRET" in str(plainly([expectation], frame, result_format="SUMMARY"))
    found = plainly([expectation.copy()], frame, result_format=RESULT_FORMAT)
    assert not found.success
    assert "SECRET" not in str(found)
