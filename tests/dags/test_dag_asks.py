"""A closed source gate that asks a person: what is asked, and what becomes of each answer."""

import datetime as dt
from types import SimpleNamespace

import pytest
from dag_world import bag_of, told

from shipper.error_codes import code_of

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

FIVE, SIX = (dt.datetime(2026, 11, 1, hour, tzinfo=dt.UTC) for hour in (5, 6))


@pytest.fixture
def gate(config, tmp_path, monkeypatch):
    """The task, its context with a run whose plan is done, and the questions that reach Airflow."""
    notices = tmp_path / "notices"
    entry = f"{{notifier: file_notifier.FileNotifier, with: {{path: {notices}}}, on: [failure]}}"
    more = f"notify: [{entry}]\ngates: {{on_closed: ask, answer_within: 1h}}\n"
    config.pipeline("web", more=more)
    asked = []
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail",
        lambda **request: asked.append(request),
    )

    def made():
        dag = bag_of().dags["web"]
        of_run = {"window_start": FIVE.isoformat(), "window_end": SIX.isoformat(), "run_id": "r"}
        run = of_run | {"request": {}}
        run["began"] = dt.datetime.now(dt.UTC).isoformat()
        kept = {("resolve_window", "return_value"): run}
        ti = SimpleNamespace(
            id="ti", dag_id="web", task_id="gate_source", try_number=1, map_index=-1,
            log_url="http://airflow/dags/web/runs/x/tasks/gate_source?try_number=1",
            xcom_push=lambda key, value: kept.update({(ti.task_id, key): value}),
            xcom_pull=lambda task_ids, key="return_value", **_: kept.get((task_ids, key)),
        )  # fmt: skip
        of_run = SimpleNamespace(dag_id="web", run_id="x", conf={}, start_date=None)
        context = {"ti": ti, "task_instance": ti, "dag_run": of_run, "run_id": "x", "kept": kept}
        dag.get_task("plan").execute(
            {**context, "ti": SimpleNamespace(**{**vars(ti), "task_id": "plan"})}
        )
        return dag, context, asked

    return made


def answer(options, by="olga", reason="a drill"):
    return {
        "chosen_options": options,
        "params_input": {"reason": reason},
        "responded_at": dt.datetime.now(dt.UTC),
        "responded_by_user": by and {"id": "7", "name": by},
    }


def test_an_open_gate_asks_nobody_and_a_closed_one_asks_with_its_figures(gate, spark, tmp_path):
    from airflow.sdk.exceptions import TaskAwaitingInput

    dag, context, asked = gate()
    dag.get_task("gate_source").execute(context)
    assert asked == []
    spark.script(gate_source=["fail"])
    (spark.folder / "calls").unlink()
    with pytest.raises(TaskAwaitingInput) as waits:
        dag.get_task("gate_source").execute(context)
    assert waits.value.timeout == dt.timedelta(hours=1)
    (request,) = asked
    assert request["options"] == ["Ship all the same", "Skip the failed checks", "Leave it"]
    assert "files: expected >= 1, observed 1" in request["body"]
    assert ("gate_source", "failure") not in context["kept"], "it has not failed"
    (notice,) = told(tmp_path / "notices")
    assert "waits for an answer until" in notice["text"]
    assert "/tasks/gate_source/required_actions" in notice["text"]


@pytest.mark.parametrize(
    ("option", "skips"),
    [("Skip the failed checks", ["files"]), ("Ship all the same", ["files", "rows"])],
)
def test_an_answer_goes_with_every_later_step_and_names_who_and_why(gate, spark, option, skips):
    from airflow.sdk.exceptions import TaskAwaitingInput

    spark.script(gate_source=["fail", "ok"])
    dag, context, _ = gate()
    with pytest.raises(TaskAwaitingInput):
        dag.get_task("gate_source").execute(context)
    dag.get_task("gate_source").execute_complete(context, event=answer([option]))
    dag.get_task("to_near.ship").execute(context)
    *_, again, ship = spark.calls
    assert (again["step"], ship["step"]) == ("gate_source", "ship:near")
    for call in (again, ship):
        assert call["skip_checks"] == skips
        assert call["skip_reason"].startswith(f"{option}: a drill (olga, 20")


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (answer(["Leave it"]), "olga leaves it"),
        (answer(["Leave it"], by=None), "nobody has answered in time"),
        ({"error": "late", "error_type": "timeout"}, "nobody has answered in time"),
    ],
)
def test_without_a_yes_the_run_fails_as_it_does_otherwise(gate, spark, event, says):
    from airflow.sdk.exceptions import TaskAwaitingInput

    from shipper_airflow.dags.faults import StepFailed

    spark.script(gate_source=["fail"])
    dag, context, _ = gate()
    with pytest.raises(TaskAwaitingInput):
        dag.get_task("gate_source").execute(context)
    with pytest.raises(StepFailed, match=says) as failed:
        dag.get_task("gate_source").execute_complete(context, event=event)
    assert failed.value.final
    assert code_of(str(failed.value)) == "SHIP-701"
    assert spark.steps.count("gate_source") == 1
