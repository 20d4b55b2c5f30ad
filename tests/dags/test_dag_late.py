"""Windows that are late, or that nobody ran: who is told, when, why, and that it is once."""

import datetime as dt
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from dag_world import told

from shipper import runtime
from shipper.config.load import load_pipeline
from shipper.report.incomplete import beginnings, gaps_before
from shipper.report.late import Told
from shipper.report.plan_result import PlanResult
from shipper.report.results import Coverage, DeliveryGateResult, GateResult, RunReport, ShipResult
from shipper.report.run_folder import RunFolder
from shipper.windows.window import Window
from tests.samples.results import common

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

SIX = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
HOUR, MINUTE = dt.timedelta(hours=1), dt.timedelta(minutes=1)
FIVE_TO_SIX = Window(SIX - HOUR, SIX)
LATE = '{cron: "0 * * * *", start: 2026-11-01, deliver_within: 45m}'
NOTIFIER = "file_notifier.FileNotifier"


@pytest.fixture
def notices(tmp_path):
    return tmp_path / "notices"


@pytest.fixture
def notify(config, notices):
    def write(*on, notifier=NOTIFIER):
        entries = [
            {"on": each, "notifier": notifier, "with": {"path": f"{notices}{n or ''}"}}
            for n, each in enumerate(on)
        ]
        config.pipeline("web", LATE, f"notify: {json.dumps(entries)}\n")

    return write


class Runs:
    """Runs of the schedule that have ended: what they leave, and the callback of their report.
    (`dag.test` cannot end a run of a DAG with a deadline; tests/dags/test_scheduler.py has a real
    one.)"""

    def __init__(self, config, uri, began=SIX - HOUR, name="web"):
        """``began``: the schedule's first run."""
        self.config, self.uri, self.name = config, uri, name
        beginnings(uri, name, ("near", "far"), Window(SIX - HOUR, SIX), None, began=began)

    def end(
        self,
        end,
        fault="",
        *,
        scheduled=False,
        took=MINUTE,
        run_id="run",
        committed=None,
        empty=False,
    ):
        """A run over the hour before ``end``, that began then or hours later; ``fault``: why near
        got nothing; ``committed``: how long after that hour the last record was; ``empty``: there
        was none."""
        from shipper_airflow.dags.notice import RunEnded

        pipeline = load_pipeline(self.config.folder, self.name)
        folder = RunFolder(self.uri, self.name, Window(end - HOUR, end), run_id)
        of_run = common(Window(end - HOUR, end), run_id, end + took)
        of_run["pipeline"] = self.name
        of_run["started_at"] -= MINUTE
        folder.write("gate_source", GateResult(step="gate_source", **of_run))
        at = end + (took if committed is None else committed)
        known = {} if empty else {str(Window(end - HOUR, end)): at}
        gates = [
            DeliveryGateResult(
                cluster=cluster,
                coverage=Coverage(start=end - HOUR, end=end, committed=known),
                **of_run,
            )
            for cluster in (("far",) if fault else ("near", "far"))
        ]
        for gate in gates:
            folder.write(f"gate_delivery.{gate.cluster}", gate)
        found = gaps_before(self.uri, pipeline, end - HOUR)
        folder.write(
            "report",
            RunReport(
                gaps=found,
                delivery_gates=gates,
                status="failed" if fault else "succeeded",
                error=fault or None,
                page=folder.path("report.html"),
                **of_run,
            ),
        )
        xcom = {
            "window_start": (end - HOUR).isoformat(),
            "window_end": end.isoformat(),
            "run_id": run_id,
            "request": {"scheduled": scheduled},
        }
        states = {"web": {"to_near.ship": "failed"}} if fault else {}
        task = SimpleNamespace(
            xcom_pull=lambda task_ids, key="": xcom if task_ids == "resolve_window" else None,
            get_task_states=lambda **_: states,
            dag_id="web",
            task_id="report",
        )
        RunEnded(pipeline, self.config.folder, failed=False)({"ti": task, "run_id": "web"})


@pytest.fixture
def runs(config, notify):
    notify(["late"])
    return Runs(config, str(config.folder.parent / "runs"))


def test_a_window_that_nobody_ran_is_told_once_by_the_runs_after_it(runs, notices):
    runs.end(SIX)
    assert told(notices) == []
    runs.end(SIX + 3 * HOUR)
    (notice,) = told(notices)
    title, cause, clusters, page, *_ = notice["text"].splitlines()
    assert (
        title == "web 2026-11-01 06:00–08:00 UTC: Late: 2 windows of the schedule are not complete"
    )
    assert cause == "Look at: far: 2026-11-01 06:00–08:00 UTC (2 windows): no run"
    assert clusters.endswith("; near: 2026-11-01 06:00–08:00 UTC (2 windows): no run")
    assert page.endswith(
        "/shipper/shipments?dag_id=web&window=web%202026-11-01T06%3A00%3A00Z%2F2026-11-01T07%3A00%3A00Z"
    )
    runs.end(SIX + 4 * HOUR)
    runs.end(SIX + 4 * HOUR)
    assert len(told(notices)) == 1
    runs.end(SIX + 6 * HOUR)
    assert [notice["text"].partition(": ")[0] for notice in told(notices)[1:]] == [
        "web 2026-11-01 10:00–11:00 UTC"
    ]


def test_a_gap_is_told_by_the_notice_of_one_run_and_not_by_each_later_one(notify, runs):
    """Whoever hears of runs that end well hears of it with the first."""
    from shipper_airflow.dags.notice import _news

    notify(["success"], ["late"])
    new = []
    for hours in (0, 2, 3, 5):
        runs.end(SIX + hours * HOUR)
        at = SIX + hours * HOUR
        report = RunFolder(runs.uri, "web", Window(at - HOUR, at), "run").find("report", RunReport)
        assert report is not None
        assert _news(Told(runs.uri, "web"), report).gaps == []
        new.append({window.start.hour for window in Told(runs.uri, "web").of("gap")})
    assert new == [set(), {6}, {6}, {6, 9}]


def test_a_failed_window_is_told_as_late_to_those_who_did_not_hear_of_the_failure(
    notify, notices, runs
):
    notify(["late"], ["failure", "late"])
    runs.end(SIX, "ship:near: no broker at x answers")
    assert [notice["event"] for notice in told(notices)] == []
    runs.end(SIX + HOUR)
    (late,) = told(notices)
    assert late["text"].splitlines()[:2] == [
        "web 2026-11-01 05:00–06:00 UTC: Late: 1 window of the schedule is not complete",
        "Look at: near: 2026-11-01 05:00–06:00 UTC: its run failed, or has not ended: ship:near: "
        "no broker at x answers",
    ]
    runs.end(SIX + 2 * HOUR)
    assert len(told(notices)) == 1
    assert [notice["event"] for notice in told(Path(f"{notices}1"))] == ["failure"]


def test_a_notice_that_did_not_arrive_is_tried_again_by_the_next_run(notify, notices, runs):
    notify(["late"], notifier="file_notifier.SilentNotifier")
    runs.end(SIX)
    runs.end(SIX + 2 * HOUR)
    assert Told(runs.uri, "web").of("late") == set()
    notify(["late"])
    runs.end(SIX + 3 * HOUR)
    assert [notice["event"] for notice in told(notices)] == ["late"]
    assert Told(runs.uri, "web").of("late") == {Window(SIX, SIX + HOUR)}


def test_windows_that_are_made_up_for_after_an_outage_are_told_by_the_first_of_them(runs, notices):
    """Airflow was away, so no deadline was ever missed: each run of theirs is quick, and hours
    late."""
    for n in range(3):
        runs.end(SIX + n * HOUR, scheduled=True, took=5 * HOUR)
    (notice,) = told(notices)
    title, cause, *_ = notice["text"].splitlines()
    assert title.startswith("web 2026-11-01 05:00–06:00 UTC: Late: delivered ")
    assert title.endswith(" after its window closed, not within 45m")
    assert cause == "Look at: The run began 4h59m after that, and took 1m."


def test_a_window_is_late_by_when_its_last_record_was_committed_and_not_by_when_its_run_ended(
    runs, notices
):
    runs.end(SIX, scheduled=True, took=HOUR, committed=44 * MINUTE)
    assert told(notices) == []
    runs.end(SIX + HOUR, scheduled=True, took=HOUR, committed=46 * MINUTE)
    (notice,) = told(notices)
    assert notice["text"].startswith("web 2026-11-01 06:00–07:00 UTC: Late: delivered 46m after ")


def test_a_window_without_records_is_not_late_however_late_it_is_run_again(runs, notices):
    runs.end(SIX, scheduled=True, took=5 * HOUR, empty=True)
    assert told(notices) == []


def test_a_window_from_before_the_schedules_first_run_is_not_late(config, notify, notices):
    """`schedule.start` in the past, or a backfill over history."""
    notify(["late"])
    runs = Runs(config, str(config.folder.parent / "runs"), began=SIX + 3 * HOUR)
    for n in range(4):
        runs.end(SIX + n * HOUR, scheduled=True, took=(5 - n) * HOUR)
    assert told(notices) == []
    runs.end(SIX + 4 * HOUR, scheduled=True, took=HOUR)
    (notice,) = told(notices)
    assert notice["text"].startswith("web 2026-11-01 09:00–10:00 UTC: Late: delivered 1h after ")


def deadline(config, now=SIX + 45 * MINUTE, **run):
    """What Airflow calls when the run of five to six has missed its deadline."""
    from shipper_airflow.dags.notice import run_is_late

    dag_run = {
        "dag_id": "web",
        "dag_run_id": "scheduled__2026-11-01T06:00:00+00:00",
        "data_interval_start": "2026-11-01T05:00:00Z",
        "data_interval_end": "2026-11-01T06:00:00Z",
        "start_date": "2026-11-01T06:00:04Z",
        "state": "running",
        "conf": {},
        **run,
    }
    context = {"dag_run": dag_run, "deadline": {}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shipper_airflow.dags.notice._now", lambda: now)
        run_is_late(config_dir=str(config.folder), pipeline="web", context=context)


def test_a_late_run_is_told_once_also_when_it_is_cleared_and_late_again(
    notify, notices, config, runs
):
    notify(["late"], ["failure"])
    deadline(config)
    deadline(config)
    (notice,) = told(notices)
    assert notice["event"] == "late"
    start = (
        "web 2026-11-01 05:00–06:00 UTC: Late: not finished within 45m\nLook at: The run is "
        "running since 2026-11-01 06:00:04 UTC.\n"
    )
    assert notice["text"].startswith(start)
    assert "/dags/web/runs/scheduled__2026-11-01T06%3A00%3A00%2B00%3A00" in notice["text"]
    runs.end(SIX + HOUR)
    assert len(told(notices)) == 1, "nor by the run after it"
    assert told(Path(f"{notices}1")) == []


def test_a_late_run_that_waits_for_another_says_so_and_a_broken_file_swallows_no_notice(
    notify, notices, config, airflow
):
    from shipper_airflow.dags.build import read_catalog

    notify(["late"])
    read_catalog(config.folder)  # keeps a copy of the file, as each parse of it does
    config.write("pipelines/web.yaml", "pipeline: web\nsource:")
    deadline(config, state="queued", start_date=None, queued_at="2026-11-01T06:00:01Z")
    (notice,) = told(notices)
    assert (
        "Look at: The run is queued since 2026-11-01 06:00:01 UTC: it waits for the run before "
        "it.\n" in notice["text"]
    )


@pytest.mark.parametrize(
    ("near", "says"),
    [
        (
            None,
            "ship:near has not ended: it is running, or waits for a worker or a pool; far has "
            "everything.",
        ),
        (
            "no broker answers",
            "ship:near failed and is tried again: no broker answers; far has everything.",
        ),
    ],
)
def test_a_late_run_says_where_it_stands(near, says, notices, config, runs):
    folder = RunFolder(runs.uri, "web", FIVE_TO_SIX, "20261101T060005-abcdef")
    of_run = common(FIVE_TO_SIX, folder.run_id, SIX + MINUTE)
    folder.write("plan", PlanResult(**of_run))
    folder.write("gate_source", GateResult(step="gate_source", **of_run))
    folder.write("ship.far", ShipResult(cluster="far", **of_run))
    folder.write("gate_delivery.far", DeliveryGateResult(cluster="far", **of_run))
    if near:
        folder.write("ship.near", ShipResult(cluster="near", status="failed", error=near, **of_run))
    deadline(config)
    assert (
        f"Look at: The run is running since 2026-11-01 06:00:04 UTC; {says}\n"
        in told(notices)[0]["text"]
    )


def test_a_window_whose_failure_was_told_is_not_told_as_late_to_the_same_people(
    notify, notices, config, runs
):
    """Its deadline, the next run, and its own later success each find it late."""
    notify(["failure", "late"], ["late"])
    runs.end(SIX, "ship:near: no broker at x answers", scheduled=True)
    deadline(config, state="failed", end_date="2026-11-01T06:03:10.123456Z")
    runs.end(SIX + HOUR, scheduled=True)
    runs.end(SIX, scheduled=True, run_id="run-2", took=5 * HOUR)
    assert [notice["event"] for notice in told(notices)] == ["failure"]
    (late,) = told(Path(f"{notices}1"))
    assert late["event"] == "late"
    assert "Look at: The run failed at 2026-11-01 06:03:10 UTC.\n" in late["text"]


def test_a_late_run_whose_pipeline_has_no_file_any_more_says_so(
    notify, notices, config, runs, airflow
):
    from shipper_airflow.dags.build import read_catalog

    notify(["late"])
    read_catalog(config.folder)
    runs.end(SIX - HOUR)
    (config.folder / "pipelines" / "web.yaml").unlink()
    deadline(config)
    (notice,) = told(notices)
    look_at = next(line for line in notice["text"].splitlines() if line.startswith("Look at: "))
    assert look_at.startswith("Look at: config/pipelines/web.yaml is gone")
    assert "at work" not in look_at
    assert look_at.endswith("The run is running since 2026-11-01 06:00:04 UTC.")


def test_a_late_run_that_holds_up_its_schedule_says_so(config, runs, notices):
    deadline(config, now=SIX + 4 * HOUR)
    (notice,) = told(notices)
    assert "The schedule stands still: its last run began at 2026-11-01 05:00:00" in notice["text"]


DEAD = "ship:near: no broker at x answers [SHIP-401]"


@pytest.fixture
def many(config, notices, monkeypatch):
    """Pipelines that have one receiver."""
    entry = {"on": ["failure", "late"], "notifier": NOTIFIER, "with": {"path": str(notices)}}
    uri = str(config.folder.parent / "runs")
    names = [f"web{n:02}" for n in range(10)]
    for name in names:
        config.pipeline(name, LATE, f"notify: {json.dumps([entry])}\n")
    return [Runs(config, uri, name=name) for name in names]


def later(monkeypatch, by):
    now = runtime.now()
    monkeypatch.setattr(runtime, "now", lambda: now + by)


def test_a_dead_cluster_is_told_at_once_and_then_together_over_all_pipelines(
    many, notices, monkeypatch
):
    for runs in many:
        runs.end(SIX, DEAD)
    (first,) = told(notices)
    assert first["text"].startswith("web00 2026-11-01 05:00–06:00 UTC: Failed")
    many[9].end(SIX, run_id="run-2")  # whole again
    many[7].end(SIX + HOUR, "ship:near: the handshake failed [SHIP-407]")
    assert len(told(notices)) == 2, "another cause"
    later(monkeypatch, HOUR)
    many[0].end(SIX + HOUR, DEAD)
    *_, together = told(notices)
    assert len(told(notices)) == 3
    assert (together["event"], together["text"].splitlines()[0]) == (
        "failure",
        "9 pipelines: 9 notices of one cause",
    )
    concerned = next(line for line in together["text"].splitlines() if "Concerned: " in line)
    assert concerned.count("05:00–06:00") == 8
    assert "web09" not in concerned
    many[0].end(SIX + 2 * HOUR)
    assert len(told(notices)) == 3, "nothing is left to tell"


def test_what_waits_is_told_by_whichever_run_ends_next(many, notices, monkeypatch):
    many[0].end(SIX, DEAD)
    many[1].end(SIX, DEAD)
    many[2].end(SIX)
    assert len(told(notices)) == 1
    later(monkeypatch, HOUR)
    many[2].end(SIX + HOUR)
    assert [notice["text"].partition(" ")[0] for notice in told(notices)] == ["web00", "web01"]


def test_of_two_that_look_at_once_one_speaks_for_both(many, notices, monkeypatch):
    from shipper_airflow.dags import together

    both, write = threading.Barrier(2, timeout=60), together.write_whole

    def write_and_wait(target, content):
        write(target, content)
        if target.endswith(".json"):
            both.wait()

    monkeypatch.setattr(together, "write_whole", write_and_wait)
    with ThreadPoolExecutor(2) as at_once:
        list(at_once.map(lambda runs: runs.end(SIX, DEAD), many[:2]))
    (notice,) = told(notices)
    assert notice["text"].startswith("2 pipelines: 2 notices of one cause\n")


def test_a_sender_that_dies_keeps_nobody_silent(many, notices, monkeypatch):
    monkeypatch.setattr("file_notifier.FileNotifier.notify", lambda *_: 1 / 0)
    many[0].end(SIX, DEAD)
    monkeypatch.undo()
    many[1].end(SIX, DEAD)
    assert not notices.exists()
    later(monkeypatch, 2 * MINUTE)
    many[2].end(SIX, DEAD)
    (notice,) = told(notices)
    assert notice["text"].startswith("3 pipelines: 3 notices of one cause\n")
