"""The plain graph: which tasks, in which order. No Airflow here."""

from __future__ import annotations

from shipper_factory.graph import TaskSpec, pipeline_tasks

from shipper.runner import step_names


def ancestors(tasks: list[TaskSpec], task_id: str) -> set[str]:
    by_id = {task.task_id: task for task in tasks}
    direct = set(by_id[task_id].after)
    return direct.union(*(ancestors(tasks, parent) for parent in direct))


def test_tasks_are_the_steps_of_a_run_in_order() -> None:
    steps = [task.step for task in pipeline_tasks(["near", "far"]) if task.step]
    assert steps == step_names(["near", "far"])


def test_a_task_comes_after_all_it_depends_on() -> None:
    seen: set[str] = set()
    for task in pipeline_tasks(["near", "far"]):
        assert set(task.after) <= seen
        seen.add(task.task_id)


def test_clusters_do_not_depend_on_each_other() -> None:
    before_far = ancestors(pipeline_tasks(["near", "far"]), "to_far.gate_delivery")
    assert before_far == {"resolve_window", "plan", "gate_source", "to_far.ship"}


def test_the_report_comes_last_and_always() -> None:
    tasks = pipeline_tasks(["near", "far"])
    assert ancestors(tasks, "report") == {task.task_id for task in tasks} - {"report", "delivered"}
    assert [task.task_id for task in tasks if task.always] == ["report"]


def test_a_cluster_may_have_the_name_of_a_step() -> None:
    ids = [task.task_id for task in pipeline_tasks(["plan", "report"])]
    assert len(set(ids)) == len(ids)


def test_nothing_is_sent_before_the_source_gate() -> None:
    tasks = pipeline_tasks(["near"])
    assert "gate_source" in ancestors(tasks, "to_near.ship")
