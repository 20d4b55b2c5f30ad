"""What Airflow makes of ``dags/``: every pipeline a DAG, whatever is wrong with the others."""

import datetime as dt
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from dag_world import CLUSTER, bag_of

from shipper.config.load import load_pipeline
from shipper.driver.checks import machine
from shipper.driver.checks.catalogue import CheckTarget

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]


def bag():
    loaded = bag_of()
    assert {Path(name).name for name in loaded.import_errors} <= {"shipper_faults.py"}, (
        loaded.import_errors
    )
    return loaded


def faults():
    """What Airflow's list of import errors says."""
    bag()  # the DAGs' file leaves what it finds to the other one
    return "".join(bag().import_errors.values())


def serialized(dag):
    from airflow.serialization.serialized_objects import DagSerialization

    stored = DagSerialization.serialize_dag(dag)
    DagSerialization.deserialize_dag(stored)
    return stored


def test_a_broken_file_becomes_a_dag_that_says_so_and_harms_no_other(config):
    config.pipeline("web")
    config.pipeline("app")
    config.write(
        "pipelines/sad file.yaml", "pipeline: sad\nsorce: logs/\ntopic: t\nclusters: [near]\n"
    )
    dags = bag().dags
    assert set(dags) == {"web", "app", "sad_file"}
    assert "sorce" in dags["sad_file"].doc_md
    assert "broken-config" in dags["sad_file"].tags
    assert not any("broken-config" in dags[name].tags for name in ("web", "app"))
    said = faults()
    assert "sad_file:" in said
    assert "sorce" in said
    (config.folder / "pipelines" / "sad file.yaml").unlink()
    assert faults() == ""


def test_a_broken_file_does_not_take_the_place_of_a_pipeline(config):
    config.pipeline("my_web")
    config.write("pipelines/my web.yaml", "nonsense")
    dags = bag().dags
    assert [name for name, dag in dags.items() if "broken-config" not in dag.tags] == ["my_web"]
    assert [name for name, dag in dags.items() if "broken-config" in dag.tags] == ["my_web_broken"]


def test_a_broken_cluster_breaks_the_pipelines_that_name_it_and_no_other(config, monkeypatch):
    config.pipeline("web")
    config.write("clusters/far.yaml", "cluster: far\nbotstrap: x\n")
    config.write("pipelines/app.yaml", "pipeline: app\nsource: logs/\ntopic: t\nclusters: [near]\n")
    dags = bag().dags
    assert [name for name, dag in dags.items() if "broken-config" in dag.tags] == ["web"]
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "web")
    assert bag().dags["web"].task_ids == ["show_faults"]


def test_a_pipeline_that_breaks_keeps_its_tasks_and_its_schedule(config):
    """A DAG without them would make Airflow remove the tasks of runs in progress and end their
    processes."""
    config.pipeline("web")
    whole = bag().dags["web"]
    config.write("pipelines/web.yaml", "pipeline: web\nsorce: logs/\n")
    broken = bag().dags["web"]
    assert set(broken.task_dict) == set(whole.task_dict)
    assert broken.schedule == whole.schedule
    assert "broken-config" in broken.tags
    assert "broken" in broken.dag_display_name
    assert "sorce" in broken.doc_md
    serialized(broken)
    config.pipeline("web")
    assert serialized(bag().dags["web"]) == serialized(whole)


@pytest.mark.parametrize("breaks", ["pipelines/web.yaml", "shipper.yaml"])
def test_a_pipeline_that_lives_by_the_platforms_defaults_keeps_its_tasks_too(config, breaks):
    """Its own file says neither when it runs nor where to; and the platform's file can be the one
    that breaks, for all pipelines at once."""
    config.write(
        "shipper.yaml",
        "defaults: {schedule: {cron: '7 * * * *', start: 2026-11-01}, clusters: [near], owner: "
        "platform}\n"
        f"allow: {{sources: ['{config.folder.parent}/logs/']}}\n",
    )
    config.write("pipelines/web.yaml", "pipeline: web\nsource: logs/\ntopic: t\n")
    whole = bag().dags["web"]
    assert "broken-config" not in whole.tags
    kept = (config.folder / breaks).read_text()
    config.write(breaks, f"{kept}nonsense: [\n")
    broken = bag().dags["web"]
    assert "broken-config" in broken.tags
    assert set(broken.task_dict) == set(whole.task_dict)
    assert (broken.schedule, broken.owner) == (whole.schedule, whole.owner)
    config.write(breaks, kept)
    assert serialized(bag().dags["web"]) == serialized(whole)


def test_a_run_is_given_up_before_it_holds_up_the_ones_after_it(config):
    config.pipeline("web", schedule='{cron: "0 * * * *", start: 2026-11-01, give_up_after: 3h}')
    dag = bag().dags["web"]
    hours = dt.timedelta(hours=3)
    assert hours < dag.dagrun_timeout < 2 * hours
    times = {name: task.execution_timeout for name, task in dag.task_dict.items()}
    assert times.pop("report") is None
    assert times.pop("resolve_window") is None
    assert times.pop("delivered") is None
    assert all(hours < time < dag.dagrun_timeout for time in times.values())
    serialized(dag)


def test_retries_fit_an_outage_of_half_an_hour_and_some_kills_before_it(config):
    """By Airflow's own arithmetic of each pause; what a try itself takes comes on top."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.serialization.serialized_objects import DagSerialization

    config.pipeline("web")
    dag = DagSerialization.deserialize_dag(serialized(bag().dags["web"]))
    for task_id, task in dag.task_dict.items():
        pauses = []
        for number in range(1, task.retries + 1):
            ended = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
            at = SimpleNamespace(
                task=task,
                dag_id="web",
                task_id=task_id,
                logical_date=ended,
                try_number=number,
                end_date=ended,
                retry_delay_override=None,
                state=None,
            )
            pauses.append((TaskInstance.next_retry_datetime(at) - ended).total_seconds() / 60)
        assert pauses == sorted(pauses)
        assert pauses[0] <= 1, "what is over at once is not waited for"
        assert max(pauses) <= 5, "nor is a cluster that is back"
        assert sum(pauses[4:]) >= 30, (task_id, pauses)


def test_roles_reach_the_dag(config):
    config.pipeline(
        "web", more="access_control: {edge-team: [can_read, can_edit], guests: [can_read]}\n"
    )
    dag = bag().dags["web"]
    assert dag.access_control == {
        "edge-team": {"DAGs": {"can_read", "can_edit"}},
        "guests": {"DAGs": {"can_read"}},
    }
    serialized(dag)


def test_a_pipeline_that_cannot_be_built_breaks_its_own_dag_only(config, monkeypatch):
    """Such as one with a cron expression that shipper takes and Airflow does not."""
    from airflow.exceptions import AirflowTimetableInvalid
    from airflow.timetables.interval import CronDataIntervalTimetable

    def refuse(timetable):
        if timetable.summary == "7 * * * *":
            raise AirflowTimetableInvalid("not at seven")

    monkeypatch.setattr(CronDataIntervalTimetable, "validate", refuse)
    config.pipeline("web")
    config.pipeline("late", schedule='{cron: "7 * * * *", start: 2026-11-01}')
    dags = bag().dags
    assert set(dags) == {"web", "late"}
    assert "not at seven" in dags["late"].doc_md
    assert "broken-config" not in dags["web"].tags


def test_a_parse_costs_little_beside_what_airflow_does(config):
    """Every parse has a process of its own: the second file imports no model. The timetable that
    Airflow reads back for each DAG several times at each parse is one object."""
    from airflow.serialization.serialized_objects import DagSerialization

    config.pipeline("web", schedule='{cron: "5 * * * *"}')
    config.pipeline("app", schedule='{cron: "5 * * * *"}')
    file = Path(__file__).parents[2] / "dags" / "shipper_faults.py"
    code = "import sys, runpy; runpy.run_path(sys.argv[1]); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code, file], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "shipper_airflow.dags.faults" in loaded
    assert {"pydantic", "ruamel.yaml", "shipper.config.pipeline"} & {*loaded} == set()
    web, app = (
        DagSerialization.deserialize_dag(serialized(dag)).timetable for dag in bag().dags.values()
    )
    assert web is app


def test_a_missing_config_folder_is_one_import_error_and_changes_no_dag(tmp_path, monkeypatch):
    monkeypatch.setenv("SHIPPER_CONFIG", str(tmp_path / "nowhere"))
    found = bag_of()
    ((file, error),) = found.import_errors.items()
    assert (found.dags, Path(file).name) == ({}, "shipper_faults.py")
    assert "SHIPPER_CONFIG" in error


def test_a_dag_is_as_the_pipeline_says(config):
    config.pipeline(
        "web",
        schedule='{cron: "0 6 * * *", timezone: Europe/Berlin, start: 2026-11-01, catchup: true}',
    )
    dag = bag().dags["web"]
    assert dag.catchup
    assert dag.start_date == dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    assert dag.max_active_runs == 1
    assert dag.owner == "edge-team"
    assert dag.task_dict["to_near.ship"].max_active_tis_per_dag == 1
    assert set(dag.task_dict) == {
        "resolve_window",
        "plan",
        "gate_source",
        "delivered",
        *(f"to_{name}.{step}" for name in ("near", "far") for step in ("ship", "gate_delivery")),
        "report",
    }
    serialized(dag)


def test_ships_take_a_slot_of_their_clusters_pool_and_nothing_else_does(config, monkeypatch):
    config.write("clusters/near.yaml", CLUSTER.format(name="near") + "airflow_pool: to near\n")
    config.pipeline("web")
    tasks = bag().dags["web"].task_dict
    assert "airflow pools set 'to near'" in tasks["to_near.ship"].doc_md
    pools = {task_id: task.pool for task_id, task in tasks.items()}
    assert pools.pop("to_near.ship") == "to near"
    assert set(pools.values()) == {"default_pool"}
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "web")
    alone = bag().dags["web"]
    assert alone.task_dict["to_near.ship"].pool == "to near"
    assert "pool `to near`" in alone.doc_md


def test_what_airflow_stores_does_not_change_from_parse_to_parse(config):
    """A DAG that differs at every parse gets a new version each time."""
    config.pipeline("web")
    assert serialized(bag().dags["web"]) == serialized(bag().dags["web"])


def test_the_trigger_form_asks_for_nothing_that_has_a_default_and_says_each_thing_once(config):
    """Airflow's form puts a star at each field whose type lacks "null", and opens the fields
    without a section alone."""
    config.pipeline("web")
    params = bag().dags["web"].params
    fields = {name: params.get_param(name) for name in params}
    assert [name for name, field in fields.items() if "null" not in field.schema["type"]] == []
    said = [
        sentence
        for field in fields.values()
        for sentence in re.split(r"(?<=[.:;]) ", field.description or "")
    ]
    assert sorted(said) == sorted(set(said))
    assert [name for name, field in fields.items() if "section" not in field.schema] == [
        "window_start", "window_end", "plan_only", "clusters", "rate_limit"
    ]  # fmt: skip


def test_a_task_parses_its_own_pipeline_only(config, monkeypatch):
    for name in ("web", "app"):
        config.pipeline(name)
    config.write("pipelines/sad.yaml", "pipeline: sad\n")
    for name in ("web", "sad"):
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", name)
        assert list(bag().dags) == [name], "also if the file is broken"


@pytest.mark.long
def test_the_doctor_sees_what_airflow_sees(config, tmp_path, monkeypatch):
    """By a Python of its own, with the DAG folder that Airflow is configured with."""
    config.write("clusters/near.yaml", CLUSTER.format(name="near") + "airflow_pool: to near\n")
    config.pipeline("web")
    web = load_pipeline(config.folder, "web")
    seen, waits = machine.airflow(CheckTarget(config.folder, web, 120))
    assert (seen.severity, "makes the DAG web" in seen.text) == ("ok", True), seen
    assert (
        waits.severity,
        "pool to near" in waits.text,
        "ships of web would never begin" in waits.text,
    ) == ("fail", True, True)
    assert "airflow pools set 'to near'" in waits.remedy
    (absent,) = machine.airflow(
        CheckTarget(config.folder, web.model_copy(update={"name": "app"}), 120)
    )
    assert (absent.severity, "makes no DAG app" in absent.text) == ("fail", True), absent
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "shipper_dags.py").write_text(
        "from airflow.sdk import DAG\nimport nothing_of_that_name\n"
    )
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(broken))
    (unimportable,) = machine.airflow(CheckTarget(config.folder, web, 120))
    assert unimportable.severity == "fail"
    assert "nothing_of_that_name" in unimportable.text


def test_a_removed_pipeline_keeps_its_tasks_for_a_day_so_that_a_run_on_its_way_ends(
    config, monkeypatch, airflow
):
    """Airflow ends no run of a DAG that it does not find any more."""
    config.pipeline("web")
    config.pipeline("other")
    tasks = bag().dags["web"].task_ids
    (config.folder / "pipelines" / "web.yaml").unlink()
    found = bag()
    web = found.dags["web"]
    assert (sorted(found.dags), web.task_ids, web.schedule) == (["other", "web"], tasks, None)
    assert ("removed" in web.tags, "broken-config" in web.tags) == (True, False)
    assert found.import_errors == {}, "nothing is wrong"
    dag_run = web.test(logical_date=dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC))
    assert dag_run.state == "failed"
    assert {task.task_id: task.state for task in dag_run.get_task_instances()}["plan"] == "failed"
    config.pipeline("site", more="formerly: web\n")
    assert "Pipeline web is called site now" in bag().dags["web"].doc_md
    (config.folder / "pipelines" / "site.yaml").unlink()
    with monkeypatch.context() as a_day_later:
        a_day_later.setattr("shipper_airflow.dags.last_good.SHOWN_SECONDS", 0.0)
        assert sorted(bag().dags) == ["other"]
    assert sorted(bag().dags) == ["other"], "its copy is gone"
    config.pipeline("web")
    assert bag().dags["web"].schedule is not None
