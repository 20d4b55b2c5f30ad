"""Plain graph → Airflow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import (
    DAG,
    Asset,
    BaseOperator,
    CronDataIntervalTimetable,
    DeadlineAlert,
    DeadlineReference,
    Param,
    SyncCallback,
    TaskGroup,
)

from shipper.config.pipeline import Pipeline, Schedule
from shipper.errors import ConfigError
from shipper.runner import GATE_DELIVERY, REPORT
from shipper_factory.catalog import Broken, describe, read_catalog
from shipper_factory.graph import DELIVERED, TaskSpec, group_id, pipeline_tasks
from shipper_factory.notice import RunEnded, RunTimedOut, check_notifiers, run_is_late
from shipper_factory.operators import BrokenConfig, ResolveWindow, ShipperStep

# Where the pipeline names no start, its first window is the latest closed one, however long ago this is. It must be a constant:
# a start that moves with the clock makes Airflow store a new version of the DAG at every parse.
_LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_RETRY_DELAY = dt.timedelta(minutes=1)
#: What a process that was told to stop may take, and a report after it.
_TO_STOP = dt.timedelta(minutes=5)
_BROKEN, _BROKEN_TAG = "configuration broken", "broken-config"


def build_dags(config_dir: Path, only: str | None = None) -> Iterator[DAG]:
    """A DAG for every pipeline, and one for everything that cannot be read or built."""
    for entry in read_catalog(config_dir, only):
        broken = entry if isinstance(entry, Broken) else None
        pipeline = broken.last_good if broken else entry
        try:
            if pipeline is None or (broken and broken.dag_id != pipeline.name):
                raise _NothingToShow
            dag = pipeline_dag(pipeline, config_dir, broken.faults if broken else ())
            dag.validate()
        except Exception as error:  # one pipeline must not take down the others
            dag = broken_dag(broken or Broken(pipeline.name, (describe(error),)))
        yield dag


class _NothingToShow(Exception):
    """There is no earlier state of a broken pipeline that could stand in its place."""


def pipeline_dag(pipeline: Pipeline, config_dir: Path, faults: Sequence[str] = ()) -> DAG:
    """With ``faults``, ``pipeline`` is what its file said before it was broken: every task is there, and fails with them."""
    schedule = pipeline.schedule
    check_notifiers(pipeline, config_dir)
    dag = DAG(
        dag_id=pipeline.name,
        dag_display_name=f"{pipeline.name} ({_BROKEN})" if faults else pipeline.name,
        description=pipeline.description or None,
        schedule=schedule and _timetable(schedule),
        start_date=schedule and (schedule.start or _LONG_AGO),
        catchup=bool(schedule and schedule.start and schedule.catchup),
        max_active_runs=1,
        default_args={"owner": pipeline.owner, "retry_delay": _RETRY_DELAY},
        tags=["shipper", *(f"cluster:{name}" for name in pipeline.clusters), *([_BROKEN_TAG] if faults else [])],
        doc_md="\n".join([*([_faults(faults)] if faults else []), _doc(pipeline)]),
        auto_register=False,  # one that turns out to be broken must not be found in the module all the same
        params=_params(),
        deadline=_deadline(pipeline, config_dir),
        access_control={role: set(may) for role, may in pipeline.access_control.items()} or None,
        **_end_of_patience(pipeline, config_dir),
    )
    with dag:
        groups = {
            cluster: TaskGroup(group_id(cluster), tooltip=f"What goes to {cluster}, whatever becomes of the others")
            for cluster in pipeline.clusters
        }
        for spec in pipeline_tasks(pipeline.clusters):
            with groups[spec.cluster] if spec.cluster else nullcontext():
                task = _operator(spec, pipeline, config_dir, tuple(faults))
            for task_id in spec.after:
                dag.get_task(task_id) >> task
    return dag


def _timetable(schedule: Schedule) -> Any:
    """Airflow's own, where it can say what the pipeline wants. Raises ConfigError if shipper's is wanted and not registered."""
    if schedule.start or not schedule.catchup:
        return CronDataIntervalTimetable(schedule.cron, timezone=schedule.timezone)
    if not entry_points(group="airflow.plugins", name="shipper"):
        raise ConfigError(
            "a schedule without `start` needs shipper's timetable, which Airflow finds in the installed package only: install shipper (`pip "
            "install`) where Airflow's scheduler, API server and DAG processor run, or give `schedule.start`"
        )
    from shipper_airflow.timetable import EveryWindow

    return EveryWindow(schedule.cron, timezone=schedule.timezone)


def broken_dag(broken: Broken) -> DAG:
    """A DAG in the place of one that cannot be made. It has no schedule: a red run every hour would say no more."""
    dag = DAG(
        dag_id=broken.dag_id,
        dag_display_name=f"{broken.dag_id} ({_BROKEN})",
        schedule=None,
        tags=["shipper", _BROKEN_TAG],
        doc_md=_faults(broken.faults),
    )
    with dag:
        BrokenConfig(task_id="show_faults", faults=broken.faults, retries=0)
    return dag


def _faults(faults: Sequence[str]) -> str:
    text = "\n\n".join(f"```\n{fault}\n```" for fault in faults)
    return f"# The configuration is broken\n\nNothing is shipped until it is mended; `shipper validate` checks it.\n\n{text}\n"


def _operator(spec: TaskSpec, pipeline: Pipeline, config_dir: Path, faults: tuple[str, ...]) -> BaseOperator:
    options: dict[str, Any] = {"task_id": spec.name, "retries": spec.retries}
    give_up_after = pipeline.schedule and pipeline.schedule.give_up_after_seconds
    if spec.name == DELIVERED:
        return EmptyOperator(**options)
    if spec.step is None:
        return ResolveWindow(settle_seconds=pipeline.source.settle_seconds, give_up_after_seconds=give_up_after, **options)
    if spec.one_at_a_time:
        options["max_active_tis_per_dag"] = 1
    if spec.name == GATE_DELIVERY:
        # Data of a window is there for others when its gate says so.
        asset = Asset(f"shipper://{spec.cluster}/{pipeline.name}")
        options |= {"asset": asset, "outlets": [asset]}
    if spec.name == REPORT and pipeline.notify:
        options["on_success_callback"] = RunEnded(pipeline, config_dir, failed=False)
        options["on_failure_callback"] = RunEnded(pipeline, config_dir, failed=True)
    if give_up_after and not spec.always:
        options |= {"give_up_after_seconds": give_up_after, "execution_timeout": dt.timedelta(seconds=give_up_after) + _TO_STOP}
    task = ShipperStep(pipeline=pipeline, config_dir=config_dir, step=spec.step, faults=faults, **options)
    # A teardown runs even when somebody stops the run by marking it failed; one that fails leaves no green run.
    return task.as_teardown(on_failure_fail_dagrun=True) if spec.always else task


def _deadline(pipeline: Pipeline, config_dir: Path) -> DeadlineAlert | None:
    """Counted from the moment when a run is queued: a backfill of last month is not late before it has begun."""
    within = pipeline.schedule and pipeline.schedule.deliver_within_seconds
    if not within:
        return None
    told = SyncCallback(run_is_late, kwargs={"config_dir": str(config_dir), "pipeline": pipeline.name})
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, dt.timedelta(seconds=within), told, name="deliver_within")


def _end_of_patience(pipeline: Pipeline, config_dir: Path) -> dict[str, Any]:
    """Each step gives up by itself, and the report says so. Airflow's own time-out is for what no step can end: a task that nobody
    starts. It skips the report too, so the notice comes from here."""
    after = pipeline.schedule and pipeline.schedule.give_up_after_seconds
    if not after:
        return {}
    ended = RunTimedOut(pipeline, config_dir)
    return {
        "dagrun_timeout": dt.timedelta(seconds=pipeline.source.settle_seconds + after) + 2 * _TO_STOP,
        "on_failure_callback": ended if pipeline.notify else None,
    }


def _params() -> dict[str, Param]:
    moment = {"type": ["null", "string"], "format": "date-time"}
    return {
        "window_start": Param(None, **moment, description="First moment of the window. Empty: the run's data interval."),
        "window_end": Param(None, **moment, description="First moment after the window. Empty: the run's data interval."),
        "reship": Param(
            False,
            type="boolean",
            title="Send everything again",
            description="Sends EVERY file of the window once more, whole, also what is there already: readers will see those records "
            "twice, and nothing can be taken back. To finish a window, or after an error, leave it off: then only what is missing is "
            "sent. It is done once in this DAG run, whatever is cleared or tried again.",
        ),
        "reship_reason": Param(
            None,
            type=["null", "string"],
            title="Why everything is sent again",
            description="Needed with the one above. It is kept in the ledger and in the report, with the name of whoever triggers the run.",
        ),
        "new_ledger": Param(
            False,
            type="boolean",
            title="Give a lost ledger up",
            description="Only after a run has said that the ledger is gone or was made anew: goes on with a new one, to which every file of "
            "every window that is run counts as never shipped. What the topics hold already is then sent a second time.",
        ),
    }


def _doc(pipeline: Pipeline) -> str:
    schedule, gates = pipeline.schedule, pipeline.gates
    rows = {
        "schedule": f"`{schedule.cron}` ({schedule.timezone}), by data interval" if schedule else "none: by hand",
        "files": f"`{pipeline.source.path}`",
        "topics": ", ".join(f"`{route.topic}`" for route in pipeline.routes),
        "clusters": ", ".join(f"`{name}`" for name in pipeline.clusters),
        "gate before": ", ".join(f"`{check.check}`" for check in gates.source),
        "gate after": ", ".join(f"`{check.check}`" for check in gates.delivery),
        "reports": f"`{pipeline.runs_uri}`, below `{pipeline.name}/`; the last line of the task `report` names the page",
        "configuration": f"`pipelines/{pipeline.name}.yaml`",
        "owner": pipeline.owner,
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"""\
{pipeline.description or "Ships log files to Kafka."}

| | |
|---|---|
{table}

Clearing a task, running a window again or backfilling over it ships what is not there yet, and nothing twice.
To ship some other window, trigger the DAG with `window_start` and `window_end`.
"""
