"""Files of which no byte can be read are something that is left, and a window of empty files is one
whose source went silent: the source gate passes neither by as if there were nothing to ship."""

import datetime as dt

import pytest

from shipper.driver.context import RunContext
from shipper.driver.gate_source import gate_source
from shipper.errors import SourceError, SourceUnreachable
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.run_folder import RunFolder
from shipper.windows.window import Window
from spark_jobs.spark_engine import SparkEngine
from tests.samples.config import pipeline_of

START = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
WINDOW = Window(START, START + dt.timedelta(hours=1))


def gated(tmp_path, *, passing, on_unreadable="skip_and_fail"):
    pipeline = pipeline_of(
        clusters=["near"],
        source={"path": "/logs/", "on_unreadable": on_unreadable},
        quarantine={"topic": "bad"},
    )
    folder = RunFolder(str(tmp_path), "web", WINDOW, "r")
    context = RunContext(pipeline, {}, tmp_path, WINDOW, folder, SparkEngine(pipeline))
    file = PlannedFile(
        path="/logs/a", size_bytes=9, modified_ms=1, splits=1, left=True,
        problem="its DataNode wants another protection", passing=passing,
    )  # fmt: skip
    plan = PlanResult(**context.common("plan"), started_at=START, finished_at=START, files=[file])
    folder.write("plan", plan)
    return gate_source(context, START).status


@pytest.mark.parametrize(("passing", "kind"), [(True, SourceUnreachable), (False, SourceError)])
def test_a_window_of_which_no_byte_can_be_read_closes_the_source_gate(tmp_path, passing, kind):
    with pytest.raises(kind, match="another protection") as caught:
        gated(tmp_path, passing=passing)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("sizes", "when_empty", "status"),
    [
        ((0, 0), "fail", "failed"),
        ((0, 0), "succeed", "skipped"),
        ((0, 9), "fail", "skipped"),
        ((0,), "fail", "failed"),
    ],
)
def test_a_window_of_nothing_but_empty_files_is_judged(
    tmp_path, monkeypatch, sizes, when_empty, status
):
    pipeline = pipeline_of(
        clusters=["near"],
        source={"path": "/logs/", "when_empty": when_empty},
        gates={"source": [{"check": "rows", "min": 1}]},
    )
    monkeypatch.setattr(SparkEngine, "start_for_sql", lambda engine: None, raising=False)
    folder = RunFolder(str(tmp_path), "web", WINDOW, "r")
    context = RunContext(pipeline, {}, tmp_path, WINDOW, folder, SparkEngine(pipeline))
    files = [
        PlannedFile(path=f"/logs/{n}", size_bytes=size, modified_ms=1, splits=1, left=False)
        for n, size in enumerate(sizes)
    ]
    plan = PlanResult(**context.common("plan"), started_at=START, finished_at=START, files=files)
    folder.write("plan", plan)
    assert gate_source(context, START).status == status


def test_files_that_the_ship_quarantines_close_no_gate(tmp_path):
    assert gated(tmp_path, passing=False, on_unreadable="quarantine") == "skipped"
    with pytest.raises(SourceUnreachable):
        gated(tmp_path, passing=True, on_unreadable="quarantine")
