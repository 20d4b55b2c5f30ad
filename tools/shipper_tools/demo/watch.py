"""Following a DAG run from outside: which task is at work, how long each took, what a failed one
said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from shipper_tools.dev.airflow import Airflow, AirflowError

_LOG_LINES = 30


def find_dag(airflow: Airflow, dag_id: str) -> bool | None:
    """True if Airflow knows the DAG, None if not yet. Raises AirflowError if it cannot read the
    file."""
    errors = airflow.call("GET", "importErrors")["import_errors"]
    if errors:
        raise AirflowError(
            f"Airflow cannot read {errors[0]['filename']}: {errors[0]['stack_trace'][-2000:]}"
        )
    return any(dag["dag_id"] == dag_id for dag in airflow.call("GET", "dags")["dags"]) or None


def scheduled_run(airflow: Airflow, dag_id: str) -> str | None:
    """The id of the run that the scheduler made, or None if it has not yet."""
    runs = airflow.call("GET", f"dags/{dag_id}/dagRuns?run_type=scheduled")["dag_runs"]
    return str(runs[0]["dag_run_id"]) if runs else None


def follow(airflow: Airflow, dag_id: str, run_id: str, console: Console) -> None:
    """Shows the tasks of a run as they end, and returns when the run has succeeded.

    Raises AirflowError with the failed task's last lines if it fails, ServerDied if Airflow makes
    no progress.
    """
    url = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
    shown: set[str] = set()

    def over() -> bool | None:
        state = airflow.call("GET", url)["state"]
        tasks = airflow.call("GET", f"{url}/taskInstances?order_by=start_date")["task_instances"]
        for task in tasks:
            if task["end_date"] and task["state"] in _MARKS and task["task_id"] not in shown:
                shown.add(task["task_id"])
                console.print(_line(task))
        if state == "failed":
            raise AirflowError(_why(airflow, url, tasks))
        return state == "success" or None

    with console.status("Airflow is at work"):
        airflow.wait(f"finish the run {run_id}", over)


_MARKS = {
    "success": ("✓", "green"),
    "failed": ("✗", "red"),
    "upstream_failed": ("–", "yellow"),
    "skipped": ("–", "yellow"),
}


def _line(task: Mapping[str, Any]) -> Text:
    mark, colour = _MARKS[task["state"]]
    return Text.assemble(
        "  ", (mark, colour), f" {task['task_id']:<24}", (f"{task['duration'] or 0:6.1f} s", "dim")
    )


def _why(airflow: Airflow, url: str, tasks: list[dict[str, Any]]) -> str:
    """The end of the log of the task that failed first."""
    failed = [task for task in tasks if task["state"] == "failed"]
    if not failed:
        return (
            f"the run failed, and no task says why; Airflow's logs are in {airflow.home / 'logs'}"
        )
    task = failed[0]
    log = airflow.call("GET", f"{url}/taskInstances/{task['task_id']}/logs/{task['try_number']}")
    lines = [_event(entry) for entry in log["content"]][-_LOG_LINES:]
    where = f"(all of it, and the other tasks': {airflow.home / 'logs'})"
    return "\n".join([f"task {task['task_id']} failed. The end of its log:", *lines, where])


def _event(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    errors = [
        f"{error['exc_type']}: {error['exc_value']}" for error in entry.get("error_detail") or ()
    ]
    return "\n".join([str(entry.get("event", "")), *errors])
