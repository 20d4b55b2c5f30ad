"""Plain graph → Airflow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    CronDataIntervalTimetable,
    DeadlineAlert,
    DeadlineReference,
    Param,
    SyncCallback,
    TaskGroup,
)

from shipper.config.models import Pipeline
from shipper.runner import GATE_DELIVERY, REPORT
from shipper_factory.catalog import Broken, describe, read_catalog
from shipper_factory.graph import TaskSpec, group_id, pipeline_tasks
from shipper_factory.notice import RunEnded, check_notifiers, run_is_late
from shipper_factory.operators import BrokenConfig, ResolveWindow, ShipperStep

# Without catchup the scheduler runs the latest closed window only, however long ago the schedule starts. It must be a
# constant: a start that moves with the clock makes Airflow store a new version of the DAG at every parse.
_LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_RETRY_DELAY = dt.timedelta(minutes=1)


def build_dags(config_dir: Path, only: str | None = None) -> Iterator[DAG]:
    """A DAG for every pipeline, and one for everything that cannot be read or built."""
    for entry in read_catalog(config_dir, only):
        if isinstance(entry, Broken):
            yield broken_dag(entry)
            continue
        try:
            dag = pipeline_dag(entry, config_dir)
            dag.validate()
        except Exception as error:  # one pipeline must not take down the others
            dag = broken_dag(Broken(entry.name, (describe(error),)))
        yield dag


def pipeline_dag(pipeline: Pipeline, config_dir: Path) -> DAG:
    schedule = pipeline.schedule
    check_notifiers(pipeline, config_dir)
    dag = DAG(
        dag_id=pipeline.name,
        description=pipeline.description or None,
        schedule=schedule and CronDataIntervalTimetable(schedule.cron, timezone=schedule.timezone),
        start_date=schedule and (schedule.start or _LONG_AGO),
        catchup=bool(schedule and schedule.catchup),
        max_active_runs=1,
        default_args={"owner": pipeline.owner, "retry_delay": _RETRY_DELAY},
        tags=["shipper", *(f"cluster:{name}" for name in pipeline.clusters)],
        doc_md=_doc(pipeline),
        auto_register=False,  # one that turns out to be broken must not be found in the module all the same
        params=_params(),
        deadline=_deadline(pipeline, config_dir),
    )
    with dag:
        groups = {
            cluster: TaskGroup(group_id(cluster), tooltip=f"What goes to {cluster}, whatever becomes of the others")
            for cluster in pipeline.clusters
        }
        for spec in pipeline_tasks(pipeline.clusters):
            with groups[spec.cluster] if spec.cluster else nullcontext():
                task = _operator(spec, pipeline, config_dir)
            for task_id in spec.after:
                dag.get_task(task_id) >> task
    return dag


def broken_dag(broken: Broken) -> DAG:
    """A DAG in the place of one that cannot be made. It has no schedule: a red run every hour would say no more."""
    text = "\n\n".join(f"```\n{fault}\n```" for fault in broken.faults)
    dag = DAG(
        dag_id=broken.dag_id,
        schedule=None,
        tags=["shipper", "broken-config"],
        doc_md=f"# The configuration is broken\n\nNothing is shipped until it is mended; `shipper validate` checks it.\n\n{text}",
    )
    with dag:
        BrokenConfig(task_id="show_faults", faults=broken.faults, retries=0)
    return dag


def _operator(spec: TaskSpec, pipeline: Pipeline, config_dir: Path) -> ResolveWindow | ShipperStep:
    options: dict[str, Any] = {"task_id": spec.name, "retries": spec.retries}
    if spec.step is None:
        return ResolveWindow(settle_seconds=pipeline.source.settle_seconds, **options)
    if spec.one_at_a_time:
        options["max_active_tis_per_dag"] = 1
    if spec.name == GATE_DELIVERY:
        # Data of a window is there for others when its gate says so.
        asset = Asset(f"shipper://{spec.cluster}/{pipeline.name}")
        options |= {"asset": asset, "outlets": [asset]}
    if spec.name == REPORT and pipeline.notify:
        options["on_success_callback"] = RunEnded(pipeline, config_dir, failed=False)
        options["on_failure_callback"] = RunEnded(pipeline, config_dir, failed=True)
    task = ShipperStep(pipeline=pipeline, config_dir=config_dir, step=spec.step, **options)
    # A teardown runs even when somebody stops the run by marking it failed.
    return task.as_teardown(on_failure_fail_dagrun=True) if spec.always else task


def _deadline(pipeline: Pipeline, config_dir: Path) -> DeadlineAlert | None:
    """Counted from the moment when a run is queued: a backfill of last month is not late before it has begun."""
    within = pipeline.schedule and pipeline.schedule.deliver_within_seconds
    if not within:
        return None
    told = SyncCallback(run_is_late, kwargs={"config_dir": str(config_dir), "pipeline": pipeline.name})
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, dt.timedelta(seconds=within), told, name="deliver_within")


def _params() -> dict[str, Param]:
    moment = {"type": ["null", "string"], "format": "date-time"}
    return {
        "window_start": Param(None, **moment, description="First moment of the window. Empty: the run's data interval."),
        "window_end": Param(None, **moment, description="First moment after the window. Empty: the run's data interval."),
        "reship": Param(
            False,
            type="boolean",
            description="Ship files again that were shipped before under another transform. Their records will be there twice.",
        ),
    }


def _doc(pipeline: Pipeline) -> str:
    topics = ", ".join(f"`{route.topic}`" for route in pipeline.routes)
    return f"""\
{pipeline.description or "Ships log files to Kafka."}

| | |
|---|---|
| files | `{pipeline.source.path}` |
| topics | {topics} |
| clusters | {", ".join(f"`{name}`" for name in pipeline.clusters)} |
| owner | {pipeline.owner} |

Clearing a task, running a window again or backfilling over it ships what is not there yet, and nothing twice.
To ship some other window, trigger the DAG with `window_start` and `window_end`.
"""
