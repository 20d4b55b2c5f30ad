"""The DAG under a real scheduler: on schedule, by hand, as a backfill, late and stopped, told by
notices and counted in metrics. The Spark side is a stand-in."""

import datetime as dt
import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest
from dag_world import CLUSTER, told
from drills import airflow_on_postgres, wait_for
from otlp import receiver
from rich.console import Console
from shipper_tools.demo.watch import follow
from shipper_tools.dev.airflow import AirflowError, AirflowSilent

from shipper.report.markup import window as window_in_words

pytestmark = [pytest.mark.airflow, pytest.mark.scheduler]

DAY = dt.timedelta(days=1)
SETTLE, HOUR = dt.timedelta(seconds=80), dt.timedelta(hours=1)
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def otlp():
    with receiver() as received:
        yield received


@pytest.fixture
def standalone(tmp_path, config, spark, otlp):
    environment = {
        "SHIPPER_CONFIG": str(config.folder),
        "SPARK_FAKE": str(spark.folder),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        ),
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "AIRFLOW__METRICS__METRICS_ALLOW_LIST": r"^shipper\.",
        "OTEL_EXPORTER_OTLP_ENDPOINT": otlp.url,
    }
    with airflow_on_postgres(tmp_path, environment) as server:
        yield server


def dag_runs(airflow):
    runs = airflow.call("GET", "dags/web/dagRuns?order_by=run_after")["dag_runs"]
    return runs


def wait_for_runs(airflow, count):
    def done():
        runs = dag_runs(airflow)
        ended = [run for run in runs if run["state"] in ("success", "failed")]
        return runs if len(runs) >= count and len(ended) == len(runs) else None

    runs = wait_for(airflow, done)
    return runs


def import_errors(airflow):
    """File → what is wrong with it, in red above Airflow's list of DAGs."""
    found = airflow.call("GET", "importErrors")["import_errors"]
    return {Path(error["filename"]).name: error["stack_trace"] for error in found}


def until_taken(airflow, ask):
    """Asks again where the scheduler had locked SQLite: Airflow takes back what it began, and says
    so (REST with a 503). And where a busy Airflow did not answer in time: it may have done it."""
    silent = False

    def taken():
        nonlocal silent
        try:
            ask()
        except AirflowSilent:
            silent = True
            return False
        except AirflowError as error:
            if silent and "refused" in str(error) and ": 409 " in str(error):
                return True
            if "database is locked" not in str(error).lower():
                raise
            return False
        return True

    wait_for(airflow, taken)


def window(start):
    return f"{start.isoformat()}/{(start + DAY).isoformat()}"


def shipped_windows(spark):
    return Counter(call["window"] for call in spark.calls if call["step"] == "ship:near")


def test_schedule_backfill_trigger_and_stop(standalone, config, spark, otlp, tmp_path):
    """One Airflow for all of it, since it takes half a minute to start."""
    notices = tmp_path / "notices"
    notify = [
        {
            "on": ["failure", "late"],
            "notifier": "file_notifier.FileNotifier",
            "with": {"path": str(notices)},
        }
    ]
    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    yesterday, before = today - DAY, today - 2 * DAY
    config.write("pipelines/sad.yaml", "pipeline: sad\n")
    schedule = (
        f'{{cron: "0 0 * * *", start: "{yesterday.isoformat()}", catchup: true, deliver_within: '
        "90s}"
    )
    config.write("clusters/near.yaml", CLUSTER.format(name="near") + "airflow_pool: to_near\n")
    config.pipeline("web", schedule, f"notify: {json.dumps(notify)}\n", settle="80s")
    wait_for(
        standalone,
        lambda: {dag["dag_id"] for dag in standalone.call("GET", "dags")["dags"]} == {"web", "sad"},
    )
    wait_for(standalone, lambda: import_errors(standalone))
    ((file, said),) = import_errors(standalone).items()
    assert (file, "pipelines/sad.yaml" in said) == ("shipper_faults.py", True), said
    (config.folder / "pipelines" / "sad.yaml").unlink()

    # Tomorrow's run is not due when its window ends, but when its files have settled.
    web = standalone.call("GET", "dags/web")
    waits = dt.datetime.fromisoformat(web["next_dagrun_run_after"]) - dt.datetime.fromisoformat(
        web["next_dagrun_data_interval_end"]
    )
    assert waits == SETTLE
    until_taken(standalone, lambda: standalone.cli("dags", "unpause", "web", "--yes"))
    # A ship waits for ever for a pool that is not there, and its page says so.
    wait_for(standalone, lambda: dag_runs(standalone))
    of_ship = f"dags/web/dagRuns/{quote(dag_runs(standalone)[0]['dag_run_id'])}/taskInstances/to_near.ship"  # noqa: E501
    wait_for(standalone, lambda: standalone.call("GET", of_ship)["state"] == "scheduled")
    blocked = standalone.call("GET", f"{of_ship}/dependencies")["dependencies"]
    assert "Tasks using non-existent pool 'to_near' will not be scheduled" in [
        each["reason"] for each in blocked
    ]
    standalone.call("POST", "pools", {"name": "to_near", "slots": 1})
    runs = wait_for_runs(standalone, 1)
    assert [run["state"] for run in runs] == ["success"]
    assert (
        runs[0]["dag_run_id"] == f"scheduled__{yesterday:%Y-%m-%dT%H:%MZ}--{today:%Y-%m-%dT%H:%MZ}"
    )
    tasks = standalone.call("GET", "dags/web/dagRuns/~/taskInstances")["task_instances"]
    assert [task["task_id"] for task in tasks if task["pool"] == "to_near"] == ["to_near.ship"]
    assert shipped_windows(spark) == Counter({window(yesterday): 1})
    # Each task's process sends its metrics on its way out.
    wait_for(
        standalone,
        lambda: 7 in otlp.of("airflow.shipper.records_delivered", pipeline="web", cluster="near"),
    )
    assert wait_for(
        standalone, lambda: otlp.of("airflow.shipper.lag_seconds", pipeline="web", cluster="far")
    )

    # A day that began yesterday was there only today, and is said to be late once, whoever noticed
    # it first.
    of_yesterday = f"web {window_in_words(yesterday, today)}: Late: "

    def late(title):
        return [
            notice["text"]
            for notice in told(notices)
            if notice["event"] == "late" and notice["text"].startswith(title)
        ]

    wait_for(standalone, lambda: late(of_yesterday))

    # From before the schedule's start, and over a window that has run already.
    asked = {
        "dag_id": "web",
        "from_date": before.isoformat(),
        "to_date": yesterday.isoformat(),
        "reprocess_behavior": "completed",
    }
    until_taken(standalone, lambda: standalone.call("POST", "backfills", asked))
    runs = wait_for(
        standalone, lambda: len(dag_runs(standalone)) >= 2 and wait_for_runs(standalone, 2)
    )
    assert [run["state"] for run in runs] == ["success", "success"]
    assert shipped_windows(spark) == Counter({window(before): 1, window(yesterday): 2})
    assert len({call["run_id"] for call in spark.calls}) == 3

    # Somebody asks for an hour that ended so lately that its files have not settled: the run waits
    # once, and says until when.
    settled = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(seconds=75)
    fresh = {
        "dag_run_id": "fresh",
        "logical_date": (settled - SETTLE).isoformat(),
        "data_interval_start": (settled - SETTLE - dt.timedelta(hours=1)).isoformat(),
        "data_interval_end": (settled - SETTLE).isoformat(),
    }
    until_taken(standalone, lambda: standalone.call("POST", "dags/web/dagRuns", fresh))
    first = "dags/web/dagRuns/fresh/taskInstances/resolve_window"
    wait_for(standalone, lambda: standalone.call("GET", first)["state"] == "up_for_reschedule")
    assert f"waiting until {settled:%Y-%m-%d %H:%M:%S} UTC" in json.dumps(
        standalone.call("GET", f"{first}/logs/1")
    )
    wait_for(
        standalone, lambda: standalone.call("GET", first)["state"] == "success", within_seconds=240
    )
    runs = wait_for_runs(standalone, 3)
    assert [run["state"] for run in runs] == ["success"] * 3
    assert standalone.call("GET", first)["try_number"] == 1
    assert dt.datetime.fromisoformat(standalone.call("GET", first)["end_date"]) >= settled

    spark.script(ship_near=["hang"])
    both_days = {"window_start": before.isoformat(), "window_end": today.isoformat()}
    until_taken(
        standalone,
        lambda: standalone.cli(
            "dags", "trigger", "web", "--conf", json.dumps(both_days), "--run-id", "by_hand"
        ),
    )
    pid = wait_for(standalone, spark.hanging)
    title = f"web {window_in_words(before, today)}: "

    def said(event):
        return [
            notice["text"]
            for notice in told(notices)
            if notice["event"] == event and notice["text"].startswith(title)
        ]

    # Somebody saves half of the file while the run is at it, and has nothing to begin meanwhile.
    far = "dags/web/dagRuns/by_hand/taskInstances/to_far.gate_delivery"
    wait_for(standalone, lambda: standalone.call("GET", far)["state"] == "success")
    whole = (config.folder / "pipelines" / "web.yaml").read_text()
    config.write("pipelines/web.yaml", "pipeline: web\nsource:")
    wait_for(standalone, lambda: "broken" in standalone.call("GET", "dags/web")["dag_display_name"])
    time.sleep(
        10
    )  # in which Airflow removed the tasks of a DAG that had lost them, and ended their processes
    assert Path(f"/proc/{pid}").exists()
    at_work = standalone.call("GET", "dags/web/dagRuns/by_hand/taskInstances")["task_instances"]
    assert {task["state"] for task in at_work if task["task_id"] in ("to_near.ship", "plan")} == {
        "running",
        "success",
    }
    config.write("pipelines/web.yaml", whole)
    wait_for(
        standalone, lambda: "broken" not in standalone.call("GET", "dags/web")["dag_display_name"]
    )
    wait_for(standalone, lambda: not import_errors(standalone))

    (told_late,) = wait_for(standalone, lambda: late(title), within_seconds=240)
    assert told_late.startswith(f"{title}Late: not finished within 1m30s")
    assert " has not ended: it is running, or waits" in told_late
    assert f"{standalone.url}/dags/web/runs/by_hand" in told_late
    assert said("failure") == []
    task = "dags/web/dagRuns/by_hand/taskInstances/to_near.ship"
    standalone.call("PATCH", task, {"new_state": "failed"})
    wait_for(standalone, lambda: not Path(f"/proc/{pid}").exists(), within_seconds=240)
    runs = wait_for_runs(standalone, 4)
    assert Counter(run["state"] for run in runs) == {"success": 3, "failed": 1}
    assert spark.steps[-1] == "report"
    (failure,) = wait_for(standalone, lambda: said("failure"))
    assert failure.startswith(f"{title}Failed\nFirst cause: ")
    assert f"{standalone.url}/dags/web/runs/by_hand/tasks/to_near.ship" in failure
    log = json.dumps(standalone.call("GET", f"{task}/logs/1"))
    assert "fake ship:near at work" in log
    assert f"Results: {standalone.url}/shipper/shipments?dag_id=web&window=" in log

    assert len(late(of_yesterday)) == len(late(title)) == 1, (
        "also of a window that was run once more, and after a failure"
    )

    # What the demo shows of such a run.
    with pytest.raises(
        AirflowError,
        match=r"(?s)task to_near.ship failed.*fake ship:near at work.*stopped from outside",
    ):
        follow(standalone, "web", "by_hand", Console(quiet=True))

    a_person_opens_a_closed_gate(standalone, config, spark, yesterday)


@pytest.mark.long
def test_a_run_whose_pipeline_is_removed_ends_and_a_wide_run_completes_another_teams_day(
    standalone, config, spark, tmp_path
):
    """One Airflow for both."""
    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    notices = tmp_path / "notices"
    remove_the_file_during_a_run(standalone, config, spark, today, notices)
    another_team_starts_when_a_day_is_complete(standalone, config, spark, today - DAY)


def remove_the_file_during_a_run(airflow, config, spark, today, notices):
    """The run ends, and is told as what it is."""
    file = {"notifier": "file_notifier.FileNotifier", "with": {"path": str(notices)}}
    notify = json.dumps([{"on": ["failure"], **file}])
    config.pipeline("web", '{cron: "0 0 * * *", start: 2099-01-01}', f"notify: {notify}\n")
    wait_for(
        airflow, lambda: "web" in {dag["dag_id"] for dag in airflow.call("GET", "dags")["dags"]}
    )
    until_taken(airflow, lambda: airflow.cli("dags", "unpause", "web", "--yes"))
    spark.script(ship_near=["hang"])
    window = {
        "window_start": (today - 4 * DAY).isoformat(),
        "window_end": (today - 3 * DAY).isoformat(),
    }
    until_taken(
        airflow,
        lambda: airflow.cli(
            "dags", "trigger", "web", "--conf", json.dumps(window), "--run-id", "removed"
        ),
    )
    pid = wait_for(airflow, spark.hanging)
    (config.folder / "pipelines" / "web.yaml").unlink()
    wait_for(airflow, lambda: "removed" in airflow.call("GET", "dags/web")["dag_display_name"])
    title = f"web {window_in_words(today - 4 * DAY, today - 3 * DAY)}: "
    os.kill(pid, signal.SIGKILL)
    wait_for(
        airflow,
        lambda: airflow.call("GET", "dags/web/dagRuns/removed")["state"] == "failed",
        within_seconds=240,
    )
    steps = [
        call["step"]
        for call in spark.calls
        if call["window"].startswith(window["window_start"][:13])
    ]
    assert "report" not in steps, "nothing is started of a pipeline that is gone"
    (failure,) = wait_for(
        airflow,
        lambda: [
            notice["text"]
            for notice in told(notices)
            if notice["event"] == "failure" and notice["text"].startswith(title)
        ],
    )
    assert "config/pipelines/web.yaml is gone" in failure


def another_team_starts_when_a_day_is_complete(airflow, config, spark, day):
    """By the example. Of the first day 24 windows are tried and 23 of them complete, by one run;
    the last one by a later run, which is asked for by its partition key."""
    example = EXAMPLES / "downstream" / "web_access_day.py"
    text = example.read_text().replace("frankfurt", "near").replace("web_access", "hours")
    (airflow.dags / "hours_day.py").write_text(text)
    spark.script(gate_delivery_near=["left", "ok"])
    (spark.folder / "calls").unlink(missing_ok=True)  # the words are for calls to come
    config.pipeline("hours", '{cron: "0 * * * *", start: 2099-01-01}', settle="0s")

    def parsed():
        return {dag["dag_id"] for dag in airflow.call("GET", "dags")["dags"]}

    wait_for(airflow, lambda: {"hours", "hours_day"} <= parsed())
    for dag_id in ("hours", "hours_day"):
        until_taken(airflow, lambda dag_id=dag_id: airflow.cli("dags", "unpause", dag_id, "--yes"))

    def keys():
        found = airflow.call("GET", "assets/events?limit=200")["asset_events"]
        return Counter(one["partition_key"] for one in found if one["source_dag_id"] == "hours")

    def days():
        runs = airflow.call("GET", "dags/hours_day/dagRuns")["dag_runs"]
        return [run["partition_key"] for run in runs]

    def ask(body):
        until_taken(airflow, lambda: airflow.call("POST", "dags/hours/dagRuns", body))

    def hour(at):
        return f"{day + at * HOUR:%Y-%m-%dT%H:%M:%S}"

    near, far = Counter(hour(n) for n in range(1, 24)), Counter(hour(n) for n in range(24))
    wide = {"window_start": day.isoformat(), "window_end": (day + DAY).isoformat()}
    ask({"logical_date": None, "conf": wide, "dag_run_id": "wide"})
    wait_for(airflow, lambda: keys() == near + far, within_seconds=400)
    assert days() == []
    ask({"logical_date": None, "partition_key": hour(0), "dag_run_id": "late"})
    wait_for(airflow, lambda: days() == [f"{day:%Y-%m-%d}"], within_seconds=400)
    late = Counter({hour(0): 2})
    wait_for(airflow, lambda: keys() == near + far + late)
    assert days() == [f"{day:%Y-%m-%d}"]


def a_person_opens_a_closed_gate(airflow, config, spark, day):
    """If an answer comes before the scheduler has seen the task's process end, Airflow takes the
    task for a failed one, and asks again."""
    spark.script(gate_source=["closed"])
    (spark.folder / "calls").unlink(missing_ok=True)
    asks = "gates: {on_closed: ask, answer_within: 1h}\n"
    config.pipeline("asks", '{cron: "0 * * * *", start: 2099-01-01}', asks, settle="0s")
    wait_for(
        airflow, lambda: "asks" in {dag["dag_id"] for dag in airflow.call("GET", "dags")["dags"]}
    )
    until_taken(airflow, lambda: airflow.cli("dags", "unpause", "asks", "--yes"))
    key = f"{day:%Y-%m-%dT%H:%M:%S}"
    body = {"logical_date": None, "partition_key": key, "dag_run_id": "closed"}
    until_taken(airflow, lambda: airflow.call("POST", "dags/asks/dagRuns", body))
    task = "dags/asks/dagRuns/closed/taskInstances/gate_source"
    answer = {"chosen_options": ["Skip the failed checks"], "params_input": {"reason": "a drill"}}
    run, question = "dags/asks/dagRuns/closed", f"{task}/-1/hitlDetails"

    def ended():
        waits = airflow.call("GET", task)["state"] == "awaiting_input"
        if waits and not airflow.call("GET", question)["response_received"]:
            time.sleep(5)  # as a person does, who has to read
            until_taken(airflow, lambda: airflow.call("PATCH", question, answer))
        return airflow.call("GET", run)["state"] in ("success", "failed")

    wait_for(airflow, ended)
    assert airflow.call("GET", run)["state"] == "success"
    (ship,) = [call for call in spark.calls if call["step"] == "ship:near"]
    assert ship["skip_checks"] == ["files"]
    assert ship["skip_reason"].startswith("Skip the failed checks: a drill (")
