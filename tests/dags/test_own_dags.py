"""DAGs that people write themselves, with a pipeline's run in them: `ShipTaskGroup` and
`ShipOperator`, with a Spark side that does as it is told."""

import datetime as dt
import json
from collections import Counter
from types import SimpleNamespace

import pytest
from dag_world import bag_of, told

from shipper_airflow.lineage import folder_id

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

SIX = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
#: `kept` writes down what the task before it left for others.
HEAD = """
import json, pathlib
from datetime import datetime
from airflow.sdk import DAG, task, task_group
from shipper_airflow.operators import ShipOperator, ShipTaskGroup

@task
def kept(task_id, ti=None):
    found = ti.xcom_pull(task_ids=task_id)
    pathlib.Path({folder!r}, task_id + ".json").write_text(json.dumps(found))

def kept_lineage(context, result):
    from airflow.providers.openlineage.extractors.manager import ExtractorManager
    from airflow.utils.state import TaskInstanceState
    ti = context["ti"]
    found = ExtractorManager().extract_metadata(
        context["dag_run"], ti.task, TaskInstanceState.SUCCESS, ti
    )
    names = {{
        "inputs": [[each.namespace, each.name] for each in found.inputs],
        "outputs": [[each.namespace, each.name] for each in found.outputs],
    }}
    pathlib.Path({folder!r}, "lineage.json").write_text(json.dumps(names))

@task
def broken():
    raise ValueError("what else there is")

first = {{"schedule": "0 * * * *", "start_date": datetime(2026, 11, 1)}}
with DAG("shop", **first, default_args={{"retries": 0, "owner": "else"}}):
    {tasks}
"""
NEAR = {"logs.web": 7}


@pytest.fixture(autouse=True)
def at_once(monkeypatch, config):
    for module in ("dags.build", "operators"):
        monkeypatch.setattr(
            f"shipper_airflow.{module}.RETRIES", {"retries": 1, "retry_delay": dt.timedelta(0)}
        )
    config.pipeline("web", settle="1s")


class Shop:
    """The DAG of somebody else."""

    def __init__(self, folder):
        self.folder = folder

    def parsed(self, tasks):
        (self.folder / "shop.py").write_text(HEAD.format(folder=str(self.folder), tasks=tasks))
        return bag_of(self.folder)

    def run(self, tasks, **conf):
        """Return the run's state and that of each task."""
        bag = self.parsed(tasks)
        assert bag.import_errors == {}
        run = bag.dags["shop"].test(logical_date=SIX, run_conf=conf)
        return str(run.state), {ti.task_id: str(ti.state) for ti in run.get_task_instances()}

    def kept(self, task_id):
        found = json.loads((self.folder / f"{task_id}.json").read_text())
        return found


@pytest.fixture
def shop(tmp_path, monkeypatch):
    (tmp_path / "own").mkdir()
    monkeypatch.setattr("airflow.settings.DAGS_FOLDER", str(tmp_path / "own"))
    return Shop(tmp_path / "own")


def windows(spark):
    return {call["window"] for call in spark.calls}


def test_a_group_ships_the_data_interval_and_leaves_receipts(shop, spark):
    spark.script(report=["gather"])
    state, tasks = shop.run(
        'ShipTaskGroup("web", group_id="ship") >> kept("ship.report") '
        '>> kept.override(task_id="near")("ship.to_near.gate_delivery")'
    )
    assert (state, set(tasks.values())) == ("success", {"success"}), tasks
    assert {"ship.resolve_window", "ship.to_far.ship", "ship.delivered"} <= tasks.keys()
    assert windows(spark) == {"2026-11-01T05:00:00+00:00/2026-11-01T06:00:00+00:00"}
    assert len({call["run_id"] for call in spark.calls}) == 1
    run, near = shop.kept("ship.report"), shop.kept("ship.to_near.gate_delivery")
    assert (run["status"], run["clusters"].keys()) == ("succeeded", {"near", "far"})
    assert run["clusters"]["near"]["records"] == near["records"] == NEAR
    assert run["run_id"] == near["run_id"] == spark.calls[0]["run_id"]


@pytest.mark.parametrize("kind", ["group", "operator"])
def test_window_clusters_and_rate_may_be_templates(shop, spark, kind):
    asks = (
        "window_start='{{ params.day }}T00:00:00Z', window_end='{{ params.day }}T12:00:00Z', "
        "clusters=['{{ params.to }}'], rate_limit='5MB/s', reship=True, reship_reason='a test', "
        "skip_checks='closed_delivery_gate', skip_reason='looked at'"
    )
    made = (
        "ShipTaskGroup('web'," if kind == "group" else "ShipOperator(task_id='w', pipeline='web',"
    )
    state, tasks = shop.run(
        f"{made} {asks}) >> kept.override(task_id='then')('web')", day="2026-10-01", to="far"
    )
    assert (state, tasks["then"]) == ("success", "success"), tasks
    assert windows(spark) == {"2026-10-01T00:00:00+00:00/2026-10-01T12:00:00+00:00"}
    assert {"ship:far", "gate_delivery:far"} < set(spark.steps)
    assert "ship:near" not in spark.steps
    asked = {(call["rate_limit"], call["reship"], *call["skip_checks"]) for call in spark.calls}
    assert asked == {("5MB/s", True, "closed_delivery_gate")}


def test_a_group_answers_for_its_own_tasks_alone(shop, config, spark, tmp_path):
    """What else fails in the DAG is not the pipeline's failure, and two groups do not mix."""
    notices = tmp_path / "notices"
    entry = f"{{notifier: file_notifier.FileNotifier, with: {{path: {notices}}}, on: [failure]}}"
    config.pipeline("web", settle="1s", more=f"notify: [{entry}]\n")
    config.pipeline("app", settle="1s", more=f"notify: [{entry}]\n")
    spark.script(ship_near=["fail"], report=["gather"])
    state, tasks = shop.run(
        'broken() >> ShipTaskGroup("web", clusters="far"); '
        'ShipTaskGroup("app", clusters="near") >> kept("app.report")'
    )
    assert state == "failed"
    assert tasks["web.plan"] == "upstream_failed"
    assert (tasks["app.to_near.ship"], tasks["kept"]) == ("failed", "upstream_failed")
    assert tasks["app.report"] == "success"
    by_pipeline = {notice["text"].split()[0]: notice["text"] for notice in told(notices)}
    assert "ship:near says why it failed" in by_pipeline["app"]
    assert "/tasks/app.to_near.ship" in by_pipeline["app"]
    assert "app" not in by_pipeline.get("web", "").replace("shop", "")


def test_a_file_that_is_broken_for_a_moment_leaves_the_group_its_tasks(shop, config, spark):
    before = shop.parsed('ShipTaskGroup("web")').dags["shop"].task_ids
    config.write("pipelines/web.yaml", "pipeline: web\nsorce: logs/\n")
    assert shop.parsed('ShipTaskGroup("web")').dags["shop"].task_ids == before
    state, tasks = shop.run('ShipTaskGroup("web")')
    assert (state, tasks["web.plan"]) == ("failed", "failed")
    assert spark.calls == []
    config.write("pipelines/never.yaml", "pipeline: never\nsorce: logs/\n")
    (error,) = shop.parsed('ShipTaskGroup("never")').import_errors.values()
    assert "never.yaml:2" in error


def test_one_operator_does_the_whole_run_and_updates_the_assets(shop, spark):
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    spark.script(report=["gather"])
    state, tasks = shop.run(
        'ShipOperator(task_id="ship", pipeline="web", post_execute=kept_lineage) >> kept("ship")'
    )
    assert (state, tasks) == ("success", {"ship": "success", "kept": "success"})
    assert spark.steps == [
        *("plan", "gate_source", "ship:near", "gate_delivery:near"),
        *("ship:far", "gate_delivery:far", "report"),
    ]
    receipt = shop.kept("ship")
    assert receipt["clusters"]["far"]["records"] == NEAR
    with create_session() as session:
        events = session.scalars(select(AssetEvent).where(AssetEvent.source_dag_id == "shop")).all()
        extras = {event.asset.uri: event.extra for event in events}
    assert extras["shipper://near/web"]["run_id"] == receipt["run_id"]
    assert extras["shipper://far/web"]["records"] == NEAR
    lineage = shop.kept("lineage")
    assert [namespace for namespace, _ in lineage["inputs"]] == ["file"]
    assert lineage["inputs"][0][1].endswith("/logs")
    assert lineage["outputs"] == [["kafka://127.0.0.1:1", "logs.web"]]


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("s3a://logs/web/{window_start:%Y/%m/%d}/", "s3://logs", "web"),
        ("s3a://logs/*/", "s3://logs", "/"),
        ("hdfs://nn1:8020/logs/web/", "hdfs://nn1:8020", "/logs/web"),
        ("file:///logs/web/{window_end:%H}/", "file", "/logs/web"),
        ("/logs/web*", "file", "/logs"),
    ],
)
def test_a_source_has_the_name_that_other_tools_give_it(path, namespace, name):
    assert folder_id(path) == (namespace, name)


def test_an_operator_fails_with_the_first_cause_and_is_told_of(shop, config, spark, tmp_path):
    notices = tmp_path / "notices"
    entry = f"{{notifier: file_notifier.FileNotifier, with: {{path: {notices}}}, on: [failure]}}"
    config.pipeline("web", settle="1s", more=f"notify: [{entry}]\n")
    spark.script(ship_near=["fail", "ok", "final"], report=["gather"])
    assert shop.run('ShipOperator(task_id="ship", pipeline="web")')[0] == "success", "tried again"
    assert told(notices) == []
    state, _ = shop.run('ShipOperator(task_id="ship", pipeline="web")')
    assert (state, spark.steps.count("ship:near")) == ("failed", 3), "in vain, so not again"
    (notice,) = told(notices)
    assert "ship:near says why it failed" in notice["text"]
    assert "/tasks/ship" in notice["text"]


def test_a_group_may_be_mapped_over_windows(shop, spark):
    spark.script(report=["gather"])
    state, _ = shop.run(
        "day = task_group(group_id='day')(lambda start, end: ShipTaskGroup("
        "'web', clusters='far', window_start=start, window_end=end) and None)\n"
        "    day.expand_kwargs([{'start': f'2026-10-0{n}', 'end': f'2026-10-0{n + 1}'} "
        "for n in (1, 2)])"
    )
    assert state == "success"
    assert Counter(call["window"] for call in spark.calls if call["step"] == "ship:far") == {
        f"2026-10-0{n}T00:00:00+00:00/2026-10-0{n + 1}T00:00:00+00:00": 1 for n in (1, 2)
    }


def test_an_operator_may_be_mapped_over_pipelines_and_windows(shop, config, spark, tmp_path):
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    notices = tmp_path / "notices"
    entry = f"{{notifier: file_notifier.FileNotifier, with: {{path: {notices}}}, on: [failure]}}"
    for name in ("web", "app"):
        config.pipeline(name, settle="1s", more=f"notify: [{entry}]\n")
    hours = [f"2026-10-01T0{n}:00Z/2026-10-01T0{n + 1}:00Z" for n in range(2)]
    spark.script(ship_far=["fail", "ok", "ok", "ok", "final"], report=["gather"])
    state, tasks = shop.run(
        f"hours = task(task_id='hours')(lambda: {hours})()\n"
        "    ShipOperator.partial(task_id='mapped', clusters='far')"
        ".expand(pipeline=['web', 'app'], window=hours)"
    )
    assert (state, tasks.keys()) == ("failed", {"hours", "mapped"}), tasks
    assert spark.steps.count("ship:far") == 5, "one was tried again, and one in vain"
    assert "ship:near" not in spark.steps
    assert {(call["pipeline"], call["window"][11:13]) for call in spark.calls} == {
        (name, hour) for name in ("web", "app") for hour in ("00", "01")
    }
    assert len({call["run_id"] for call in spark.calls}) == 5
    (notice,) = told(notices)
    assert "ship:far says why it failed" in notice["text"]
    assert f"{notice['text'].split()[0]} 2026-10-01 " in notice["text"]
    with create_session() as session:
        found = session.scalars(
            select(AssetEvent).where(AssetEvent.source_task_id == "mapped")
        ).all()
        events = Counter((event.asset.uri, event.partition_key) for event in found)
    assert events.keys() < {
        (f"shipper://far/{name}", f"2026-10-01T{hour}:00:00")
        for name in ("web", "app")
        for hour in ("00", "01")
    }
    assert (len(events), set(events.values())) == (3, {1}), events


def test_a_mapped_operator_has_each_pipelines_assets_and_retries_where_the_file_is_parsed(
    shop, config
):
    config.pipeline("app", settle="1s")
    task = (
        shop.parsed(
            "ShipOperator.partial(task_id='ship', outlets=[]).expand_kwargs("
            "[{'pipeline': 'web', 'window': 'a/b'}, {'pipeline': 'app', 'rate_limit': '1MB/s'}])"
        )
        .dags["shop"]
        .task_dict["ship"]
    )
    assert {asset.uri for asset in task.partial_kwargs["outlets"]} == {
        f"shipper://{cluster}/{name}" for cluster in ("near", "far") for name in ("web", "app")
    }
    assert (task.retries, task.owner) == (1, "edge-team")
    for made, code in (
        ("partial(task_id='s').expand(pipeline=task(task_id='n')(lambda: ['web'])())", "SHIP-101"),
        ("partial(task_id='s').expand(pipeline=['web', 'never'])", "SHIP-2"),
        ("partial(task_id='s', pipeline='web').expand(no_such_field=[1])", "no_such_field"),
        ("(task_id='s', pipeline='web', window='a/b', window_end='b')", "SHIP-224"),
    ):
        (error,) = shop.parsed(
            f"ShipOperator{'.' * made.startswith('p')}{made}"
        ).import_errors.values()
        assert code in error, error


def test_every_field_of_the_form_is_an_argument():
    import inspect

    from shipper_airflow.dags.task_operators import PARAMS
    from shipper_airflow.operators import ShipOperator

    assert set(PARAMS) < inspect.signature(ShipOperator.__init__).parameters.keys()


@pytest.mark.parametrize(
    "made", ["ShipTaskGroup('bare'{})", "ShipOperator(task_id='ship', pipeline='bare'{})"]
)
def test_a_schedule_without_intervals_is_refused_when_the_file_is_parsed(shop, config, made):
    config.pipeline("bare")
    file = config.folder / "pipelines/bare.yaml"
    file.write_text("".join(line for line in file.open() if not line.startswith("schedule:")))
    (error,) = shop.parsed(made.format("")).import_errors.values()
    assert "SHIP-224" in error
    asked = ", window_start='{{ ds }}', window_end='{{ next_ds }}'"
    assert shop.parsed(made.format(asked)).import_errors == {}


def test_a_fault_of_our_own_code_is_not_tried_again(shop, monkeypatch):
    calls = []

    def broken(*arguments):
        calls.append(1)
        raise TypeError("a fault")

    monkeypatch.setattr("shipper_airflow.dags.task_operators.PipelineOperator.resolve", broken)
    state, _ = shop.run('ShipOperator(task_id="ship", pipeline="web")')
    assert (state, calls) == ("failed", [1])


@pytest.mark.parametrize("made", ["ShipTaskGroup('web')", "ShipOperator(task_id='web')"])
def test_a_run_of_a_partition_ships_the_window_that_begins_there(shop, made):
    made = made.replace("task_id='web'", "task_id='web', pipeline='web'")
    dag = shop.parsed(made).dags["shop"]
    task = next(task for task in dag.tasks if hasattr(task, "resolve"))
    run = {"dag_id": "shop", "run_id": "r", "conf": {}, "run_type": "asset_triggered"}
    known = {"run_after": SIX, "logical_date": None, "partition_key": "2026-10-07T03:00:00"}
    context = {"dag_run": SimpleNamespace(**run, **known), "run_id": "r"}
    found = task.resolve(context, task.asks)
    assert (found["window_start"], found["window_end"]) == (
        "2026-10-07T03:00:00+00:00",
        "2026-10-07T04:00:00+00:00",
    )
