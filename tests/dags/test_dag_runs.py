"""Whole runs of a DAG by ``dag.test()``: Airflow's own scheduling rules, with a Spark side that
does as it is told."""

import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from dag_world import bag_of, told

from shipper.config.pipeline import Pipeline
from tests.waiting import slowness, wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

FIVE, SIX = (dt.datetime(2026, 11, 1, hour, tzinfo=dt.UTC) for hour in (5, 6))
ALL = {
    *("resolve_window", "plan", "gate_source", "delivered", "report"),
    *(f"to_{cluster}.{step}" for cluster in ("near", "far") for step in ("ship", "gate_delivery")),
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch, config):
    monkeypatch.setattr(
        "shipper_airflow.dags.build.RETRIES", {"retries": 2, "retry_delay": dt.timedelta(0)}
    )
    config.pipeline("web")


def parsed(dag_id="web"):
    return bag_of().dags[dag_id]


def run(logical_date=FIVE, dag_id="web", **conf):
    return parsed(dag_id).test(logical_date=logical_date, run_conf=conf)


def states(dag_run):
    return {ti.task_id: str(ti.state) for ti in dag_run.get_task_instances()}


def test_a_run_ships_its_data_interval_step_by_step(spark):
    """All clusters, as the form has them, are none in particular."""
    dag_run = run(clusters=["near", "far"], plan_only=False, rate_limit=None, skip_checks=[])
    assert dag_run.state == "success"
    assert states(dag_run) == dict.fromkeys(ALL, "success")
    assert spark.steps[:2] == ["plan", "gate_source"]
    assert spark.steps[-1] == "report"
    assert sorted(spark.steps[2:-1]) == [
        "gate_delivery:far",
        "gate_delivery:near",
        "ship:far",
        "ship:near",
    ]
    # An hourly interval before the logical date, which dag.test takes for the moment of a manual
    # trigger.
    assert {call["window"] for call in spark.calls} == {
        "2026-11-01T05:00:00+00:00/2026-11-01T06:00:00+00:00"
    }
    assert len({call["run_id"] for call in spark.calls}) == 1
    for call in spark.calls:
        asked = [call[name] for name in ("clusters", "rate_limit", "skip_checks", "plan_only")]
        assert asked == [[], None, [], False]
    [log] = {call["log_url"] for call in spark.calls}
    assert log.endswith(f"/dags/web/runs/{quote(dag_run.run_id, safe='')}")


def test_a_step_gets_its_own_secrets_and_no_others_and_airflow_keeps_none(
    config, spark, airflow, monkeypatch
):
    """Also when whoever parses the DAG knows none of them."""
    references = (
        "{sasl.password: '${NEAR_PASSWORD}', sasl.username: '${airflow:kafka.near.login}', "
        "ssl.key.pem: '${airflow:nowhere.password}'}"
    )
    config.write(
        "clusters/near.yaml", f"cluster: near\nbootstrap: 127.0.0.1:1\nproperties: {references}\n"
    )
    dag = parsed()
    assert "broken-config" not in dag.tags
    monkeypatch.setenv("NEAR_PASSWORD", "canary-near")
    monkeypatch.setenv("OTHER_PASSWORD", "canary-other")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA.NEAR", '{"conn_type": "kafka", "login": "canary-login"}')
    dag_run = dag.test(logical_date=FIVE)
    assert dag_run.state == "success"
    handed_on = spark.environment("plan")
    assert handed_on["NEAR_PASSWORD"] == "canary-near"
    assert json.loads(handed_on["SHIPPER_REFERENCES"]) == {
        "airflow:kafka.near.login": "canary-login"
    }
    assert {"PATH", "HOME"} <= handed_on.keys()
    assert not [name for name in handed_on if name.startswith("AIRFLOW")]
    assert "canary-other" not in json.dumps(handed_on)
    # Logs, XCom and the serialised DAG.
    kept = [
        path for path in airflow.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert any(spark.calls[0]["run_id"].encode() in path.read_bytes() for path in kept), (
        "they are looked at"
    )
    assert [str(path) for path in kept if b"canary-" in path.read_bytes()] == []


def test_what_a_run_is_asked_for_reaches_every_step_with_the_reason_and_who_gave_it(spark, capsys):
    dag_run = run(
        window_start="2026-10-01T00:00:00Z",
        window_end="2026-10-03T12:00:00+02:00",
        reship=True,
        reship_reason="wrong codec",
        new_ledger=True,
        rate_limit="5MB/s",
        skip_checks=["rows"],
        skip_reason="a  half hour\nis right",
    )
    assert dag_run.state == "success"
    for call in spark.calls:
        assert call["window"] == "2026-10-01T00:00:00+00:00/2026-10-03T10:00:00+00:00"
        assert (call["reship"], call["new_ledger"]) == (True, True)
        assert "wrong codec" in call["reship_reason"]
        assert (call["rate_limit"], call["skip_checks"]) == ("5MB/s", ["rows"])
        assert call["skip_reason"] == (f"a half hour is right (dag_test, DAG run {dag_run.run_id})")
    assert len({call["reship_id"] for call in spark.calls}) == 1
    assert (
        "at most 5MB/s to each cluster; without the checks rows: a half hour is right"
        in "".join(capsys.readouterr())
    )


def test_a_reship_that_is_cleared_as_a_whole_is_the_same_reship():
    from airflow.sdk.api.datamodels._generated import DagRun as Seen

    from shipper_airflow.dags.task_operators import reship_of

    asked = {
        "window_start": "2026-10-01T00:00:00Z",
        "window_end": "2026-10-02T00:00:00Z",
        "reship": True,
        "reship_reason": "x",
    }
    first, again, other = (
        Seen.model_construct(dag_id="web", run_id=run_id, conf=asked, clear_number=number)
        for run_id, number in (("manual__1", 0), ("manual__1", 1), ("manual__2", 0))
    )
    assert (
        reship_of(first, "x")["reship_id"]
        == reship_of(again, "x")["reship_id"]
        != reship_of(other, "x")["reship_id"]
    )


def test_what_nobody_can_have_meant_is_refused(spark, capsys):
    dag_run = run(windw_start="2026-10-01T00:00:00Z")
    assert dag_run.state == "failed"
    assert spark.calls == []
    assert "did you mean 'window_start'" in "".join(capsys.readouterr())
    ended = states(dag_run)
    assert [task for task, state in ended.items() if state == "failed"] == ["resolve_window"]
    assert ended["report"] == "skipped"


@pytest.mark.long
def test_a_step_that_hangs_is_stopped_and_the_report_says_so(config, spark, capsys):
    config.pipeline(
        "web",
        schedule=f'{{cron: "0 * * * *", start: 2026-11-01, give_up_after: {12 * slowness():.0f}s}}',
    )
    spark.script(ship_near=["hang"])
    dag_run = run()
    assert dag_run.state == "failed"
    assert states(dag_run)["to_near.ship"] == "failed"
    assert states(dag_run)["report"] == "success"
    assert spark.steps.count("ship:near") == 1
    assert "give_up_after" in "".join(capsys.readouterr())
    wait_until(lambda: not Path(f"/proc/{spark.hanging()}").exists())


def test_a_task_that_begins_while_the_file_is_broken_fails_with_what_is_wrong(
    config, spark, capsys
):
    parsed()
    config.write("pipelines/web.yaml", "pipeline: web\nsorce: logs/\n")
    dag_run = run()
    assert dag_run.state == "failed"
    assert set(states(dag_run)) == ALL
    assert spark.calls == []
    assert "sorce" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "conf",
    [
        {"clusters": []},
        {"clusters": ["nera"]},
        {"rate_limit": "5 lots"},
        {
            "skip_checks": ["sum_closes"],
            "skip_reason": "the sums of the delivery gate hold exactly once",
        },
    ],
)
def test_what_is_no_choice_is_refused_when_the_run_is_asked_for(conf):
    from airflow.sdk.exceptions import ParamValidationError

    dag = parsed()
    with pytest.raises(ParamValidationError):
        dag.params.update(conf)


def test_a_run_of_a_pipeline_without_schedule_is_refused_without_its_window(config):
    from airflow.sdk.exceptions import ParamValidationError

    file = config.folder / "pipelines" / "web.yaml"
    file.write_text("".join(line for line in file.open() if not line.startswith("schedule:")))
    params = parsed().params
    with pytest.raises(ParamValidationError, match="window_start"):
        params.validate()
    params.update({"window_start": "2026-11-01T05:00:00Z", "window_end": "2026-11-01T06:00:00Z"})
    assert params.validate()["plan_only"] is False


def test_a_run_for_some_clusters_skips_the_tasks_of_the_others(spark):
    dag_run = run(clusters=["far"])
    assert dag_run.state == "success"
    skipped = {"to_near.ship": "skipped", "to_near.gate_delivery": "skipped"}
    assert states(dag_run) == dict.fromkeys(ALL, "success") | skipped
    assert spark.steps == ["plan", "gate_source", "ship:far", "gate_delivery:far", "report"]
    assert {tuple(call["clusters"]) for call in spark.calls} == {("far",)}


def test_a_dry_run_plans_and_reports_where_nobody_takes_it_for_a_run(spark, config):
    dag_run = run(plan_only=True)
    assert dag_run.state == "success"
    found = states(dag_run)
    assert {task for task, state in found.items() if state == "success"} == {
        "resolve_window",
        "plan",
        "report",
    }
    assert {
        state for task, state in found.items() if task not in ("resolve_window", "plan", "report")
    } == {"skipped"}
    assert spark.steps == ["plan", "report"]
    runs = config.folder.parent / "runs"
    assert [path.name for path in runs.iterdir()] == ["_dry_runs"]


def test_a_step_refuses_a_run_whose_first_task_was_of_another_version(spark, monkeypatch):
    """A dry run that is under way during an upgrade must not ship."""
    from shipper_airflow.dags import task_operators

    def before(self, *_):
        of_run = {"window_start": "2026-11-01T05:00:00Z", "window_end": "2026-11-01T06:00:00Z"}
        return of_run | {"run_id": "r1", "plan_only": True, "began": "2026-11-01T06:00:00Z"}

    monkeypatch.setattr(task_operators.PipelineOperator, "resolve", before)
    dag_run = run()
    assert dag_run.state == "failed"
    assert states(dag_run)["plan"] == "failed"
    assert spark.calls == []


def test_a_cluster_that_fails_stops_no_other_and_the_run_fails_with_a_report(spark):
    spark.script(ship_near=["fail"])
    dag_run = run()
    assert dag_run.state == "failed"
    failed = {
        "to_near.ship": "failed",
        "to_near.gate_delivery": "upstream_failed",
        "delivered": "upstream_failed",
    }
    assert states(dag_run) == dict.fromkeys(ALL, "success") | failed
    assert spark.steps.count("ship:near") == 3
    assert spark.steps.count("report") == 1


@pytest.mark.parametrize(
    ("scheduled", "lookback", "next_opens", "tries"),
    [
        (True, "1h", SIX, 3),
        (False, "1h", SIX, 5),
        (True, "30m", SIX, 5),
        (True, "1h", dt.datetime(2100, 1, 1, tzinfo=dt.UTC), 5),
    ],
)
def test_a_cluster_that_stays_away_leaves_the_rest_to_the_next_run_that_is_due(
    config, spark, monkeypatch, scheduled, lookback, next_opens, tries
):
    """Otherwise the other cluster would get each window half an hour later than the one before."""
    again = {"retries": 4, "retry_delay": dt.timedelta(0)}
    monkeypatch.setattr("shipper_airflow.dags.build.RETRIES", again)
    operators = "shipper_airflow.dags.task_operators"
    monkeypatch.setattr(f"{operators}._is_scheduled", lambda context: scheduled)
    monkeypatch.setattr(
        f"{operators}.opens_at", lambda window, _: next_opens if window.start == SIX else SIX
    )
    config.pipeline("web", settle=f"10m, lookback: {lookback}")
    spark.script(ship_near=["fail"])
    dag_run = run()
    assert (dag_run.state, spark.steps.count("ship:near")) == ("failed", tries)
    assert states(dag_run)["to_far.gate_delivery"] == "success"


def test_every_task_survives_a_kill_and_a_metrics_backend_that_is_away(spark, monkeypatch):
    from airflow.sdk.observability import stats

    def away(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(stats, "incr", away)
    steps = ("plan", "gate_source", "ship_near", "gate_delivery_near", "report")
    spark.script(**{step: ["killed", "ok"] for step in steps})
    assert run().state == "success"
    assert {spark.steps.count(step.replace("_near", ":near")) for step in steps} == {2}
    assert len({call["run_id"] for call in spark.calls}) == 1


def test_a_run_whose_window_has_just_ended_waits_once_and_until_its_files_have_settled(capsys):
    from airflow.sdk.exceptions import AirflowRescheduleException

    from shipper_airflow.dags.task_operators import ResolveWindow

    now, hour = dt.datetime.now(dt.UTC), dt.timedelta(hours=1)
    pipeline = Pipeline.model_validate(
        {"pipeline": "web", "source": "logs/", "topic": "t", "clusters": ["near"]}
    )
    task = ResolveWindow(task_id="resolve_window", pipeline=pipeline, config_dir=Path("config"))

    def resolved(end, **params):
        interval = {"data_interval_start": end - hour, "data_interval_end": end}
        run = SimpleNamespace(conf=params, dag_id="web", **interval)
        return task.execute({"params": params, "dag_run": run, "run_id": "r"})

    end = now - dt.timedelta(minutes=7)
    with pytest.raises(AirflowRescheduleException) as waits:
        resolved(end)
    assert waits.value.reschedule_date == end + dt.timedelta(minutes=10)
    assert f"{end + dt.timedelta(minutes=10):%Y-%m-%d %H:%M:%S UTC}" in "".join(capsys.readouterr())
    assert resolved(now - dt.timedelta(minutes=11))
    assert resolved(now, window_start=(now - hour).isoformat(), window_end=now.isoformat())
    # A moment is not worth another start of the task, and Airflow could take the end of this one
    # for that of the next.
    settles = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2)
    assert resolved(settles - dt.timedelta(minutes=10))
    assert dt.datetime.now(dt.UTC) >= settles


def test_a_closed_source_gate_ships_nothing_and_each_task_says_why_and_leads_to_report_and_window(
    spark, monkeypatch, capsys
):
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team/")
    spark.script(gate_source=["fail"])
    dag_run = run()
    assert dag_run.state == "failed"
    assert spark.steps == ["plan", "gate_source", "report"], "it is not asked again"
    printed = "".join(capsys.readouterr())
    assert "fake gate_source at work" in printed
    assert "gate_source says why it failed" in printed
    assert "Task exited" in printed
    assert "Traceback" not in printed, "the frames are Airflow's and ours, and say nothing"
    with create_session() as session:
        wanted = (XComModel.run_id == dag_run.run_id) & XComModel.key.in_(
            ["_link_ReportLink", "_link_WindowLink"]
        )
        found = (
            session.execute(select(XComModel.task_id, XComModel.key, XComModel.value).where(wanted))
            .tuples()
            .all()
        )
    links = {
        (task, key): json.loads(link) if link.startswith('"') else link for task, key, link in found
    }
    at = "https://airflow.example/team/shipper"
    report = f"{at}/report/web/20261101T050000Z--20261101T060000Z/{spark.calls[0]['run_id']}"
    window = f"{at}/shipments?dag_id=web&window=web%202026-11-01T05%3A00%3A00Z%2F2026-11-01T06%3A00%3A00Z"  # noqa: E501
    tasks = ("resolve_window", "plan", "gate_source", "report")
    urls = {"_link_ReportLink": report, "_link_WindowLink": window}
    assert links == {(task, key): url for task in tasks for key, url in urls.items()}


def test_a_closed_delivery_gate_is_not_asked_again_and_what_was_delivered_is_an_asset_event(spark):
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    spark.script(gate_delivery_near=["fail", "ok"])
    started = dt.datetime.now(dt.UTC)
    assert run().state == "failed"
    assert (spark.steps.count("ship:near"), spark.steps.count("gate_delivery:near")) == (1, 1)
    with create_session() as session:
        of_asset = select(AssetModel.uri, AssetEvent.extra).join(
            AssetModel, AssetModel.id == AssetEvent.asset_id
        )
        events = session.execute(of_asset.where(AssetEvent.timestamp >= started)).all()
    assert [uri for uri, _ in events] == ["shipper://far/web"]
    extra = events[0][1]
    assert extra["window_end"] == SIX.isoformat()
    assert extra["records"] == extra["sent"] == {"logs.web": 7}
    assert (extra["cluster"], extra["before"], extra["checks"]) == (
        "far",
        {"logs.web": 0},
        {"files": "passed"},
    )
    assert extra["report"].endswith(f"/{extra['run_id']}")
    assert Path(extra["results"], "report.json").exists()
    assert [(one["key"], one["end"]) for one in extra["windows"]] == [
        ("2026-11-01T05:00:00", "2026-11-01T06:00:00Z")
    ]


def test_a_run_in_one_task_does_tells_and_announces_the_same(config, spark, tmp_path):
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    notices = tmp_path / "notices"
    entry = f"{{notifier: file_notifier.FileNotifier, with: {{path: {notices}}}, on: [success]}}"
    one = '{cron: "0 * * * *", start: 2026-11-01, tasks: one}'
    config.pipeline("web", one, f"notify: [{entry}]\n")
    spark.script(report=["gather"])
    started = dt.datetime.now(dt.UTC)
    done = run(clusters=["near"], rate_limit="5MB/s")
    assert (done.state, states(done)) == ("success", {"run": "success"})
    assert spark.steps == ["plan", "gate_source", "ship:near", "gate_delivery:near", "report"]
    assert {call["rate_limit"] for call in spark.calls} == {"5MB/s"}
    (told_once,) = told(notices)
    assert "near" in told_once["text"]
    with create_session() as session:
        wanted = select(AssetEvent).where(AssetEvent.timestamp >= started)
        events = [(one.asset.uri, one.partition_key, one.extra) for one in session.scalars(wanted)]
    ((uri, key, extra),) = events
    assert (uri, key) == ("shipper://near/web", "2026-11-01T05:00:00")
    assert (extra["cluster"], extra["sent"]) == ("near", {"logs.web": 7})
