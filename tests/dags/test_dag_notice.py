"""Who is told what when a run ends, by a real notifier of Airflow's; and what is wrong with one,
before anything runs."""

import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from dag_world import HOURLY, bag_of, told

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

FIVE = dt.datetime(2026, 11, 1, 5, tzinfo=dt.UTC)
WINDOW = "2026-11-01 05:00–06:00 UTC"


FIELDS = {
    name: f"{{{{ notice.{name} }}}}" for name in ("window", "cause", "at", "report", "page", "log")
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch, spark):
    monkeypatch.setattr(
        "shipper_airflow.dags.build.RETRIES", {"retries": 2, "retry_delay": dt.timedelta(0)}
    )
    spark.script(report=["gather"])


@pytest.fixture
def notices(tmp_path):
    return tmp_path / "notices"


def entry(path, *on, notifier="file_notifier.FileNotifier", **more):
    return {
        "on": list(on) or ["failure"],
        "notifier": notifier,
        "with": {"path": str(path), **more},
    }


@pytest.fixture
def notify(config):
    def write(*entries, schedule=HOURLY):
        config.pipeline("web", schedule, f"notify: {json.dumps(entries)}\n")

    return write


def dags():
    return bag_of().dags


def run(**conf):
    return dags()["web"].test(logical_date=FIVE, run_conf=conf)


def test_failed_run_is_told_with_first_cause_and_links(notify, notices, spark):
    notify(entry(notices))
    spark.script(ship_near=["fail"], report=["gather"])
    began = dt.datetime.now(dt.UTC)
    dag_run = run()
    assert dag_run.state == "failed"
    (notice,) = told(notices)
    assert notice["event"] == "failure"
    title, *facts = notice["text"].splitlines()
    assert (
        title == f"web {WINDOW}: Failed while shipping to near, after 7 records; far has everything"
    )
    found = dict(line.split(": ", 1) for line in facts)
    assert found["First cause"] == "ship:near says why it failed"
    assert found["Clusters"] == "near: failed, 7 delivered; far: shipped, 7 delivered"
    (folder,) = notices.parent.glob("runs/web/2*/*")
    assert (
        urlsplit(found["Report"]).path == f"/shipper/report/web/{folder.parent.name}/{folder.name}"
    )
    page = urlsplit(found["Window"])
    assert (page.path, page.fragment) == ("/shipper/shipments", "")
    assert parse_qs(page.query) == {
        "dag_id": ["web"],
        "window": ["web 2026-11-01T05:00:00Z/2026-11-01T06:00:00Z"],
    }
    failed_at = dt.datetime.strptime(found["Failed at"], "%Y-%m-%d %H:%M:%S UTC").replace(
        tzinfo=dt.UTC
    )
    second = dt.timedelta(seconds=1)
    assert began <= failed_at + second <= dt.datetime.now(dt.UTC) + second
    assert found["Log"].endswith(
        f"/dags/web/runs/{dag_run.run_id.replace('+', '%2B').replace(':', '%3A')}/tasks/to_near.ship"  # noqa: E501
    )
    assert found["Owner"] == "edge-team"


@pytest.mark.parametrize(
    ("gate", "told_to", "title"),
    [
        ("ok", {"success", "both"}, "Shipped 7 records to each of near and far\n"),
        ("warn", {"success", "warning", "both"}, ""),
    ],
)
def test_a_good_run_is_told_once_to_those_who_want_to_hear_it(
    gate, told_to, title, notify, notices, spark
):
    people = {
        "failure": ["failure"],
        "warning": ["warning"],
        "success": ["success"],
        "both": ["warning", "success"],
    }
    silent = entry(notices, *people["both"], notifier="file_notifier.SilentNotifier")
    notify(silent, *(entry(notices.with_name(who), *on) for who, on in people.items()))
    spark.script(gate_source=[gate], report=["gather"])
    assert run().state == "success"
    found = {who: told(notices.with_name(who)) for who in people}
    assert {who for who, heard in found.items() if heard} == told_to
    for who in told_to:
        (notice,) = found[who]
        assert notice["event"] == ("success" if gate == "ok" else "warning")
        assert notice["text"].startswith(f"web {WINDOW}: {title}")
        look = "Look at: Source: files: expected >= 1, observed 1"
        assert (look in notice["text"]) == (gate == "warn")


def test_a_run_whose_window_was_never_resolved_is_told_with_its_window_and_the_words_of_that_task(
    notify, notices
):
    """What an error quotes is no template."""
    notify(entry(notices, fields=FIELDS))
    asked = {"window_start": "2026-10-01T00:00:00Z", "window_end": "2026-10-02T00:00:00Z"}
    assert run(**asked, **{"{{ 6 * 7 }}": 1}).state == "failed"
    (notice,) = told(notices)
    (window,) = parse_qs(urlsplit(notice["page"]).query)["window"]
    assert window == "web 2026-10-01T00:00:00Z/2026-10-02T00:00:00Z"
    assert "{{ 6 * 7 }}" in notice["cause"]
    assert urlsplit(notice["log"]).path.endswith("/tasks/resolve_window")
    assert notice["report"] == "None"


def test_a_run_without_any_window_is_told_in_the_words_of_the_task_that_looked_for_one(
    notify, notices
):
    notify(entry(notices, fields=FIELDS))
    assert (
        dags()["web"]
        .test(logical_date=None, run_conf={"window_start": "2026-10-01T00:00:00Z"})
        .state
        == "failed"
    )
    (notice,) = told(notices)
    assert (notice["window"], "window_end" in notice["cause"]) == ("None", True)
    assert urlsplit(notice["log"]).path.endswith("/tasks/resolve_window")


@pytest.mark.long
def test_pipelines_that_fail_of_one_dead_cluster_are_told_by_the_first_of_them(
    config, notices, spark
):
    for name in ("web", "app", "db"):
        config.pipeline(name, HOURLY, f"notify: {json.dumps([entry(notices)])}\n")
    spark.script(ship_near=["dead", "dead", "dead"], report=["gather"])
    for name in ("web", "app"):
        assert dags()[name].test(logical_date=FIVE).state == "failed"
    spark.script(ship_far=["dead", "dead", "dead"], report=["gather"])
    assert dags()["db"].test(logical_date=FIVE).state == "failed"
    assert [notice["text"].partition(" ")[0] for notice in told(notices)] == ["web", "db"]


@pytest.mark.long
def test_a_window_that_fails_again_in_the_same_way_is_told_once(notify, notices, spark):
    notify(entry(notices, "failure", "success", fields=FIELDS))
    for script, told_then in (
        ({"ship_near": ["usage"]}, ["failure"]),
        ({"ship_near": ["usage"]}, []),
        ({"gate_source": ["fail"]}, ["failure"]),
        ({}, ["success"]),
        ({"gate_source": ["fail"]}, ["failure"]),
    ):
        before = len(told(notices))
        spark.script(**script, report=["gather"])
        run()
        assert [notice["event"] for notice in told(notices)[before:]] == told_then, script


def test_report_that_died_is_told_without_its_words(notify, notices, spark):
    notify(entry(notices))
    spark.script(report=["killed"])
    run()
    (notice,) = told(notices)
    assert notice["text"].startswith(f"web {WINDOW}: Failed\nFirst cause: report was killed")


def test_report_task_that_airflow_found_dead_is_a_failure_whatever_its_report_says(notify, notices):
    """Then the DAG processor calls the callback: without an exception, after the report may have
    been written."""
    from shipper_airflow.dags.notice import RunEnded

    notify(entry(notices))
    dag = dags()["web"]
    dag_run = dag.test(logical_date=FIVE, run_conf={})
    (callback,) = dag.get_task("report").on_failure_callback
    assert isinstance(callback, RunEnded)
    window = {
        "window_start": "2026-11-01T05:00:00+00:00",
        "window_end": "2026-11-01T06:00:00+00:00",
    }
    (folder,) = notices.parent.glob("runs/web/2*/*")

    class Task:
        log_url = "http://airflow/dags/web/runs/r/tasks/report"

        def xcom_pull(self, task_ids, key):
            assert (task_ids, key) == ("resolve_window", "return_value")
            return {**window, "run_id": folder.name}

    assert dag_run.state == "success"
    callback({"ti": Task()})
    (notice,) = told(notices)
    assert notice["event"] == "failure"
    assert notice["text"].startswith(
        f"web {WINDOW}: Failed\nFirst cause: the report task died and left no message\n"
    )


WRONG = [
    (
        "file_notifier.NoSuchNotifier",
        {},
        "cannot be imported (module 'file_notifier' has no attribute 'NoSuchNotifier')",
    ),
    (
        "airflow.providers.pigeon.PigeonNotifier",
        {},
        "cannot be imported (No module named 'airflow.providers.pigeon')",
    ),
    (
        "file_notifier.NoNotifier",
        {},
        "is no notifier: a subclass of airflow.sdk.BaseNotifier is needed",
    ),
    ("file_notifier.FileNotifier", {}, "missing a required argument: 'path'; see `with`"),
    (
        "file_notifier.FileNotifier",
        {"path": "x", "tekst": "y"},
        "got an unexpected keyword argument 'tekst'; see `with`",
    ),
]


def test_wrong_notifiers_break_their_own_pipelines_and_no_other(config):
    faults = []
    for number, (notifier, arguments, says) in enumerate(WRONG):
        notify = json.dumps([{"notifier": notifier, "with": arguments}])
        config.pipeline(f"w{number}", more=f"notify: {notify}\n")
        where = f"config/pipelines/w{number}.yaml:8:23: notify[0].notifier"
        faults.append(f"{where}: {notifier}: {says}")
    config.pipeline("good")
    found = dags()
    assert "plan" in found.pop("good").task_ids
    assert len(found) == len(WRONG)
    for dag, fault in zip((found[name] for name in sorted(found)), faults, strict=True):
        assert dag.task_ids == ["show_faults"]
        assert fault in dag.doc_md
    done = validate(config)
    assert (done.returncode, json.loads(done.stdout)["pipelines"]) == (2, ["good"])
    shown = json.loads(done.stdout)["faults"]
    assert len(shown) == len(faults)
    assert all(any(fault in one for one in shown) for fault in faults)


def validate(config, *options, python=sys.executable, **environment):
    """`shipper validate`, by its exit code and its words."""
    paths = {"PYTHONPATH": str(Path(__file__).parent), **environment}
    command = [
        python,
        "-m",
        "shipper",
        "validate",
        "--no-sql",
        "--config",
        str(config.folder),
        *(options or ["--json"]),
    ]
    return subprocess.run(command, env=os.environ | paths, capture_output=True, text=True)


def test_validate_without_airflow_says_that_it_checked_no_notifier(
    config, notify, notices, tmp_path
):
    notify(entry(notices, notifier="file_notifier.NoSuchNotifier"))
    hidden = tmp_path / "without" / "sitecustomize.py"
    hidden.parent.mkdir()
    hidden.write_text("import sys\nsys.modules['airflow'] = None\n")
    done = validate(config, PYTHONPATH=str(hidden.parent))
    assert (done.returncode, json.loads(done.stdout)["notifiers_checked"]) == (0, False)
    assert (
        "notifiers were not checked"
        in validate(config, "--no-secrets", PYTHONPATH=str(hidden.parent)).stdout
    )


def test_parsing_makes_no_notifier(notify, notices, monkeypatch):
    import file_notifier

    def reaches_out(self, **_):
        raise AssertionError("made while parsing")

    monkeypatch.setattr(file_notifier.FileNotifier, "__init__", reaches_out)
    notify({"notifier": "file_notifier.FileNotifier"})
    assert "plan" in dags()["web"].task_ids


LATE = '{cron: "0 * * * *", start: 2026-11-01, deliver_within: 45m}'


def test_deadline_survives_serialisation_and_counts_from_the_windows_end(notify, notices):
    from airflow.serialization.serialized_objects import DagSerialization

    notify(entry(notices, "late"), schedule=LATE)
    stored = json.loads(json.dumps(DagSerialization.to_dict(dags()["web"])))
    (deadline,) = DagSerialization.from_dict(stored).deadline
    assert deadline["reference"] == {
        "reference_type": "WindowClosed",
        "settle_seconds": 600.0,
        "__class_path": "shipper_airflow.deadline.WindowClosed",
    }
    assert deadline["interval"]["__data__"] == 45 * 60
    assert deadline["callback"]["__data__"]["path"] == "shipper_airflow.dags.notice.run_is_late"
    # Windows end at six, and have settled at ten past.
    assert deadlines(deadline) == {"scheduled": "06:45", "manual": "06:55", "backfill": "06:55"}


def deadlines(alert):
    """Of runs that are queued at ten past six, as Airflow computes them."""
    from airflow.models import DagRun
    from airflow.serialization.decoders import decode_deadline_alert
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType

    found, decoded = {}, decode_deadline_alert(alert)
    with create_session() as session:
        for kind in (DagRunType.SCHEDULED, DagRunType.MANUAL, DagRunType.BACKFILL_JOB):
            run_id, at = f"deadline__{kind.value}", dt.datetime(2026, 11, 1, 6, 10, tzinfo=dt.UTC)
            session.add(
                DagRun(
                    dag_id="web",
                    run_id=run_id,
                    run_type=kind,
                    queued_at=at,
                    run_after=at,
                    state="queued",
                )
            )
            session.flush()
            asked = {"dag_id": "web", "run_id": run_id}
            found[kind.value] = (
                f"{decoded.reference.evaluate_with(session=session, interval=decoded.interval, **asked):%H:%M}"  # noqa: E501
            )
        session.rollback()
    return found


def test_a_failure_that_is_tried_again_for_ten_minutes_is_told_once(
    config, spark, notices, monkeypatch
):
    """Also if another step of the run comes to it; and that no retry is left is told besides."""
    again = {"retries": 6, "retry_delay": dt.timedelta(0)}
    monkeypatch.setattr("shipper_airflow.dags.build.RETRIES", again)
    entries = [entry(notices, "failure", fields={"headline": "{{ notice.headline }}"})]
    config.pipeline("web", "{cron: '0 * * * *'}", f"notify: {json.dumps(entries)}\n")
    spark.script(plan=["fail"] * 5 + ["ok"], ship_far=["fail"] * 7, report=["gather"])
    run = bag_of().dags["web"].test(logical_date=FIVE)
    assert str(run.state) == "failed"
    first, last = (notice["headline"] for notice in told(notices))
    assert "plan" in first
    assert "far" in last
