"""Exit code and result of a step, put together."""

import datetime as dt

import pytest

from shipper.errors import StepResultError
from shipper.report.plan_result import PlanResult
from shipper.report.results import GateResult, RunReport
from shipper.report.run_folder import RunFolder
from shipper.windows.window import Window
from shipper_airflow.dags.step import failure_of, result_of

NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
COMMON = {
    "pipeline": "web",
    "window_start": NOON,
    "window_end": NOON + dt.timedelta(hours=1),
    "run_id": "r1",
    "started_at": NOON,
    "finished_at": NOON,
}


@pytest.fixture
def folder(tmp_path):
    return RunFolder(str(tmp_path), "web", Window(NOON, NOON + dt.timedelta(hours=1)), "r1")


def failed(message):
    return {**COMMON, "status": "failed", "error": message}


def test_success_needs_exit_code_and_result(folder):
    assert failure_of("plan", 0, PlanResult(**COMMON), folder) is None
    missing = failure_of("plan", 0, None, folder)
    assert folder.uri in missing.message


def test_the_steps_own_words_are_the_message(folder):
    failure = failure_of("plan", 1, PlanResult(**failed("no file in s3a://logs")), folder)
    assert failure.message == "no file in s3a://logs"
    assert not failure.final


def test_a_failed_result_is_a_failure_whatever_the_exit_code(folder):
    assert failure_of("plan", 0, PlanResult(**failed("no")), folder) is not None


def test_a_report_that_was_written_is_no_failure_of_the_report(folder):
    """What failed is red already, and fails the run: one cause is one red task."""
    assert (
        failure_of(
            "report", 0, RunReport(**COMMON, status="failed", error="near: broker away"), folder
        )
        is None
    )


@pytest.mark.parametrize(
    ("step", "code", "says", "final"),
    [
        ("plan", 2, False, True),
        ("ship:near", 2, False, True),
        ("plan", 1, True, True),
        ("gate_source", 1, True, True),
        ("gate_source", 1, False, False),
        ("gate_delivery:near", 1, True, True),
        ("gate_delivery:near", 1, False, False),
    ],
)
def test_the_step_itself_says_whether_a_retry_may_help(folder, step, code, says, final):
    failure = failure_of(step, code, GateResult(step=step, **failed("closed"), final=says), folder)
    assert failure.final is final


@pytest.mark.parametrize(
    "step", ["plan", "gate_source", "ship:near", "gate_delivery:near", "report"]
)
@pytest.mark.parametrize(
    ("code", "says"), [(-9, "memory"), (-15, "stopped"), (143, "stopped"), (1, "exit code 1")]
)
def test_an_end_without_a_result_is_explained_and_may_be_tried_again(folder, step, code, says):
    failure = failure_of(step, code, None, folder)
    assert says in failure.message
    assert not failure.final


def test_what_it_said_last_is_why_it_left_no_result(folder):
    """A configuration that is broken when the step begins, which no step has read yet."""
    failure = failure_of(
        "plan", 2, None, folder, "config/pipelines/web.yaml:9:3: a value is missing"
    )
    assert failure.final
    assert failure.message == (
        "plan ended with exit code 2: config/pipelines/web.yaml:9:3: a value is missing [SHIP-003]"
    )


def test_a_result_of_an_earlier_attempt_is_none(folder):
    folder.write("plan", PlanResult(**failed("the first attempt's trouble")))
    assert result_of(folder, "plan", since=NOON + dt.timedelta(seconds=1)) is None
    assert result_of(folder, "plan", since=NOON) is not None


def test_a_result_of_another_run_is_refused(folder):
    folder.write("plan", PlanResult(**{**COMMON, "run_id": "r0"}))
    with pytest.raises(StepResultError, match="r0"):
        result_of(folder, "plan", since=NOON)
