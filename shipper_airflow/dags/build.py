"""DAGs from the configuration: the pipelines that can be read; for each broken file, its faults and
the last good version; and the graph of each pipeline as Airflow's operators.

::

    resolve_window ─▶ plan ─▶ gate_source ─▶ to_CLUSTER: ship ─▶ gate_delivery ─┐
                                        └──▶ to_OTHER:   ship ─▶ gate_delivery ─┴▶ delivered
                                                                                └▶ report

Clusters know nothing of each other: one that fails stops none of the others. ``delivered`` does
nothing: its state says whether the window is on every cluster that the run was for, and with it the
run's. ``report`` runs always, and fails, the run too, only if there is no report.
"""

from __future__ import annotations

import datetime as dt
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import (  # type: ignore[attr-defined]  # its stub lacks what has to do with deadlines, and ParamsDict
    DAG,
    Asset,
    BaseOperator,
    DeadlineAlert,
    Param,
    ParamsDict,
    SyncCallback,
    TaskGroup,
    TriggerRule,
)
from pydantic.fields import FieldInfo

from shipper.config.cluster import Cluster
from shipper.config.environment import EVERYTHING
from shipper.config.load import load_all, load_cluster, load_pipeline
from shipper.config.pipeline import Pipeline
from shipper.config.schedule import Schedule
from shipper.errors import ShipperError
from shipper.request import CHOICES, FORM, Form, RunRequest
from shipper.runner import GATE_DELIVERY, GATE_SOURCE, PLAN, REPORT, SHIP
from shipper_airflow.dags import docs
from shipper_airflow.dags.faults import keep_faults
from shipper_airflow.dags.last_good import LastGood, removed
from shipper_airflow.dags.notice import (
    RunEnded,
    check_notifiers,
    run_is_late,
    run_timed_out,
    step_in_trouble,
)
from shipper_airflow.dags.task_operators import (
    RESOLVE_WINDOW,
    RUN,
    AskingGate,
    BrokenConfig,
    ResolveWindow,
    ShipperStep,
    WholeRun,
)
from shipper_airflow.deadline import WindowClosed
from shipper_airflow.timetable import Windows

# Where the pipeline names no start, its first window is the latest closed one, however long ago
# this is. It must be a constant: a start that moves with the clock makes Airflow store a new
# version of the DAG at every parse.
_LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
#: Retries of every task. A step itself says if a retry is useless. The pauses double from half a
#: minute to five minutes, so that ten of them wait for more than 37 minutes. Four kills use up only
#: the short ones: the remaining six still wait for half an hour.
RETRIES: dict[str, Any] = {
    "retries": 10,
    "retry_delay": dt.timedelta(seconds=30),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": dt.timedelta(minutes=5),
}
#: Time for a process to stop after it was told to, and for a report after it.
_TO_STOP = dt.timedelta(minutes=5)
CONFIG_DAG_ID, DELIVERED = "shipper_config", "delivered"
_BROKEN, _BROKEN_TAG = "configuration broken", "broken-config"
_REMOVED, _REMOVED_TAG = "file removed", "removed"


@dataclass(frozen=True)
class CatalogEntry:
    """One pipeline of the configuration; with ``faults``, a configuration that cannot become a
    pipeline's DAG."""

    dag_id: str
    pipeline: Pipeline | None = None
    """Pipeline; with faults, as it was when its file could last be read."""
    pools: Mapping[str, str] = field(default_factory=dict)
    """Cluster → the pool of Airflow's that its ships take a slot of, of clusters that name one."""
    faults: tuple[str, ...] = ()
    """One message for each fault."""
    removed: bool = False
    """True if the file is gone: it was removed, most likely on purpose."""


def read_catalog(config_dir: Path, only: str | None = None) -> list[CatalogEntry]:
    """Read all pipelines. Never raises. With ``only``, a DAG's id, its pipeline alone is read if
    it can be. What secrets and other references stand for need not be known here: the steps know
    it."""
    if only is not None:
        try:
            pipeline = load_pipeline(config_dir, only, EVERYTHING)
            return [_ready(pipeline, lambda name: load_cluster(config_dir, name, EVERYTHING))]
        except (
            Exception
        ):  # whatever it is, reading everything shows it, as it did when the DAG was made
            return [entry for entry in read_catalog(config_dir) if entry.dag_id == only]
    try:
        config = load_all(config_dir, EVERYTHING)
    except Exception as error:
        return [CatalogEntry(CONFIG_DAG_ID, faults=(describe(error),))]
    free, copies = _free_ids(set(config.pipelines)), LastGood(config_dir)
    for name in config.pipelines:
        copies.keep(name)
    entries = [
        _ready(pipeline, config.clusters.__getitem__) for pipeline in config.pipelines.values()
    ]
    entries += (
        CatalogEntry(free(stem), copies.find(stem), faults=tuple(map(str, found)))
        for stem, found in config.broken.items()
    )
    here = config.pipelines.values()
    gone = [
        CatalogEntry(name, last_good, faults=(removed(config_dir, name, here),), removed=True)
        for name in copies.removed({*config.pipelines, *config.broken})
        if (last_good := copies.find(name)) and free(name) == name
    ]
    nothing = CatalogEntry(CONFIG_DAG_ID, faults=tuple(map(str, config.faults)))
    return [*(entries or [nothing]), *gone]


def _ready(pipeline: Pipeline, cluster: Callable[[str], Cluster]) -> CatalogEntry:
    pools = {name: pool for name in pipeline.clusters if (pool := cluster(name).airflow_pool)}
    return CatalogEntry(pipeline.name, pipeline, pools)


def describe(error: Exception) -> str:
    return str(error) if isinstance(error, ShipperError) else f"{type(error).__name__}: {error}"


def _free_ids(taken: set[str]) -> Callable[[str], str]:
    """Return a function from file stem to a legal DAG id that nothing else has: that of its
    pipeline, when the file was right."""

    def free(stem: str) -> str:
        dag_id = re.sub(r"[^\w.-]", "_", stem, flags=re.ASCII)[:200] or CONFIG_DAG_ID
        while dag_id in taken:
            dag_id += "_broken"
        taken.add(dag_id)
        return dag_id

    return free


def build_dags(config_dir: Path, only: str | None = None) -> Iterator[DAG]:
    """Yield a DAG for every pipeline, and one for everything that cannot be read or built."""
    faults: dict[str, tuple[str, ...]] = {}
    for entry in read_catalog(config_dir, only):
        dag, found = None, entry.faults
        if entry.pipeline is not None and entry.dag_id == entry.pipeline.name:
            try:
                dag = pipeline_dag(
                    entry.pipeline, config_dir, found, entry.pools, removed=entry.removed
                )
                dag.validate()  # type: ignore[no-untyped-call]  # Airflow's own, without types
            except Exception as error:  # one pipeline must not take down the others
                dag, found = None, found or (describe(error),)
        if found and not entry.removed:
            faults[entry.dag_id] = found
        yield dag or broken_dag(entry.dag_id, found)
    if only is None:
        keep_faults(config_dir, faults)


def pipeline_dag(
    pipeline: Pipeline,
    config_dir: Path,
    faults: Sequence[str] = (),
    pools: Mapping[str, str] = MappingProxyType({}),
    *,
    removed: bool = False,
) -> DAG:
    """Make the DAG of a pipeline. With ``faults``, ``pipeline`` is what its file said before it was
    broken: every task exists, and fails with them. ``pools``: see :class:`CatalogEntry`.
    ``removed``: there will be no new run of the schedule."""
    schedule = None if removed else pipeline.schedule
    label, tag = (_REMOVED, _REMOVED_TAG) if removed else (_BROKEN, _BROKEN_TAG)
    check_notifiers(pipeline, config_dir)
    dag = DAG(
        dag_id=pipeline.name,
        dag_display_name=f"{pipeline.name} ({label})" if faults else pipeline.name,
        description=pipeline.description or None,
        schedule=_timetable(schedule, pipeline.source.settle_seconds) if schedule else None,
        start_date=(schedule.start or _LONG_AGO) if schedule else None,
        catchup=bool(schedule and schedule.start and schedule.catchup),
        max_active_runs=1,
        tags=[
            "shipper",
            *(f"cluster:{name}" for name in pipeline.clusters),
            *([tag] if faults else []),
        ],
        doc_md="\n".join(
            [
                *([_faults(faults)] if faults else []),
                docs.page(pipeline, None if faults else config_dir, pools),
            ]
        ),
        # one that turns out to be broken must not be found in the module all the same
        auto_register=False,
        params=_params(pipeline),
        deadline=_deadline(pipeline, config_dir),
        access_control={role: set(may) for role, may in pipeline.access_control.items()} or None,
        **_end_of_patience(pipeline, config_dir),
    )
    with dag:
        if schedule and schedule.tasks == "one":
            _add_one_task(pipeline, config_dir, tuple(faults), pools)
        else:
            add_tasks(pipeline, config_dir, tuple(faults), pools)
    return dag


def _add_one_task(
    pipeline: Pipeline, config_dir: Path, faults: tuple[str, ...], pools: Mapping[str, str]
) -> None:
    options: dict[str, Any] = {**_slot(next(iter(pools.values()), None)), **_time_limit(pipeline)}
    task = WholeRun(
        task_id=RUN,
        pipeline=pipeline,
        config_dir=config_dir,
        assets={name: delivered_asset(pipeline.name, name) for name in pipeline.clusters},
        faults=faults,
        owner=pipeline.owner,
        max_active_tis_per_dag=1,
        **RETRIES,
        **options,
    )
    tell_of_run(task)
    task.params = ParamsDict()


def tell_of_run(task: WholeRun) -> None:
    """Have the pipeline's notices sent of what becomes of the task."""
    pipeline, folder = task.pipeline, task.config_dir
    if not pipeline.notify:
        return
    ended = partial(RunEnded, pipeline, folder, resolved_by=task.task_id, key=RUN)
    again = partial(step_in_trouble, pipeline, folder, task.task_id, RUN)
    task.on_success_callback = [*task.on_success_callback, ended(failed=False)]
    task.on_failure_callback = [*task.on_failure_callback, ended(failed=True)]
    task.on_retry_callback = [*task.on_retry_callback, again]


def add_tasks(
    pipeline: Pipeline,
    config_dir: Path,
    faults: tuple[str, ...],
    pools: Mapping[str, str],
    asks: Mapping[str, Any] | None = None,
) -> tuple[BaseOperator, BaseOperator]:
    """Add the pipeline's tasks to the DAG or the group of tasks that is being made, and return the
    tasks `plan` and `delivered`. ``asks``: see :class:`ResolveWindow`; None: what the DAG run was
    asked for."""
    # Whatever the DAG's default arguments say.
    common: dict[str, Any] = {"owner": pipeline.owner, **RETRIES}
    of_run = {"pipeline": pipeline, "config_dir": config_dir, **common}
    resolve = ResolveWindow(task_id=RESOLVE_WINDOW, asks=asks, **of_run)

    again = partial(step_in_trouble, pipeline, config_dir, resolve.task_id, "return_value")
    retried: dict[str, Any] = {"on_retry_callback": again} if pipeline.notify else {}

    def step(name: str, cluster: str | None = None, **options: Any) -> ShipperStep:
        asks_person = name == GATE_SOURCE and pipeline.gates.on_closed == "ask"
        return (AskingGate if asks_person else ShipperStep)(
            task_id=name,
            step=f"{name}:{cluster}" if cluster else name,
            resolved_by=resolve.task_id,
            faults=faults,
            **of_run,
            **retried,
            **options,
        )

    limit = _time_limit(pipeline)
    plan, gate_source = step(PLAN, **limit), step(GATE_SOURCE, **limit)
    resolve >> plan >> gate_source
    # A step that was skipped, since the run was for other clusters, is no failure; without any step
    # there is nothing to report.
    delivered = EmptyOperator(
        task_id=DELIVERED, trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS, **common
    )
    ended = partial(RunEnded, pipeline, config_dir, resolved_by=resolve.task_id)
    told: dict[str, Any] = {
        "on_success_callback": ended(failed=False),
        "on_failure_callback": ended(failed=True),
        "on_skipped_callback": ended(failed=True),  # the run has no window
    }
    # A teardown runs even when somebody stops the run by marking it failed; one that fails leaves
    # no green run.
    report = step(REPORT, **(told if pipeline.notify else {})).as_teardown(
        on_failure_fail_dagrun=True
    )
    tasks: list[BaseOperator] = [resolve, plan, gate_source, delivered, report]
    for cluster in pipeline.clusters:
        ship, gate = _of_cluster(step, pipeline, cluster, pools.get(cluster))
        gate_source >> ship >> gate >> [delivered, report]
        tasks += [ship, gate]
    for task in tasks:
        # A copy of the DAG's, to which Airflow turns anyway. To serialise it for every task was
        # four fifths of a parse: each is held against its JSON Schema, and that against the schema
        # of schemas.
        task.params = ParamsDict()
    return plan, delivered


def _of_cluster(
    step: Callable[..., ShipperStep], pipeline: Pipeline, cluster: str, pool: str | None
) -> tuple[ShipperStep, ShipperStep]:
    """Add the two steps of a cluster."""
    limit = _time_limit(pipeline)
    with TaskGroup(
        group_id(cluster),
        tooltip=f"Steps that ship to {cluster}, independent of the other clusters",
    ):
        # Backfills overlap scheduled runs: one waits for the ship of the other.
        ship = step(SHIP, cluster, max_active_tis_per_dag=1, **_slot(pool), **limit)
        # A window's data is released to others when its gate passes.
        asset = delivered_asset(pipeline.name, cluster)
        return ship, step(GATE_DELIVERY, cluster, asset=asset, outlets=[asset], **limit)


def group_id(cluster: str) -> str:
    """Return ``to_frankfurt``; the prefix keeps a cluster named ``plan`` from taking a task's
    id."""
    return f"to_{cluster}"


def _time_limit(pipeline: Pipeline) -> dict[str, Any]:
    after = pipeline.schedule and pipeline.schedule.give_up_after_seconds
    if not after:
        return {}
    timeout = dt.timedelta(seconds=after) + _TO_STOP
    return {"give_up_after_seconds": after, "execution_timeout": timeout}


def _slot(pool: str | None) -> dict[str, str]:
    """Return the arguments of a task that takes a slot of an Airflow pool."""
    if pool is None:
        return {}
    doc = (
        f"Takes a slot of the pool `{pool}`, which the cluster's file names (`airflow_pool`). If "
        "it stays *scheduled*, other ships have all slots, or there is no such pool: `airflow "
        f"pools set {shlex.quote(pool)} 4 'ships to a cluster'` makes one of four slots."
    )
    return {"pool": pool, "doc_md": doc}


def _timetable(schedule: Schedule, settle_seconds: float) -> Windows:
    """Return the timetable: its runs are named by their windows and begin when these have
    settled."""
    return Windows(
        schedule.cron,
        schedule.timezone,
        settle_seconds,
        together=schedule.catchup == "together",
        every=bool(schedule.catchup and not schedule.start),
    )


def broken_dag(dag_id: str, faults: tuple[str, ...]) -> DAG:
    """Make a DAG in place of one that cannot be made. It has no schedule: a failed run every hour
    would add no information."""
    dag = DAG(
        dag_id=dag_id,
        dag_display_name=f"{dag_id} ({_BROKEN})",
        schedule=None,
        tags=["shipper", _BROKEN_TAG],
        doc_md=_faults(faults),
    )
    with dag:
        BrokenConfig(task_id="show_faults", faults=faults, retries=0)
    return dag


def _faults(faults: Sequence[str]) -> str:
    text = "\n\n".join(f"```\n{fault}\n```" for fault in faults)
    return (
        "# This DAG ships nothing\n\nIf its file is broken, `shipper validate` checks what you "
        f"correct.\n\n{text}\n"
    )


def delivered_asset(pipeline: str, cluster: str) -> Asset:
    """Return the asset that is updated for each window of the pipeline that is complete on the
    cluster: its begin is the event's partition key, and the receipt the ``extra``."""
    return Asset(f"shipper://{cluster}/{pipeline}")


def _deadline(pipeline: Pipeline, config_dir: Path) -> DeadlineAlert | None:
    """Return the deadline: counted from the window's end for a scheduled run, which is queued when
    its files have settled; for any other from when it is queued."""
    within = pipeline.schedule and pipeline.schedule.deliver_within_seconds
    if not within:
        return None
    told = SyncCallback(
        run_is_late, kwargs={"config_dir": str(config_dir), "pipeline": pipeline.name}
    )
    return DeadlineAlert(
        WindowClosed(pipeline.source.settle_seconds),
        dt.timedelta(seconds=within),
        told,
        name="deliver_within",
    )


def _end_of_patience(pipeline: Pipeline, config_dir: Path) -> dict[str, Any]:
    """Return Airflow's own time-out. Each step gives up by itself, and the report says so.
    Airflow's own time-out is for a fault that no step can end: a task that is never started. It
    skips the report too, so the notice comes from here."""
    after = pipeline.schedule and pipeline.schedule.give_up_after_seconds
    if not after:
        return {}
    return {
        "dagrun_timeout": dt.timedelta(seconds=pipeline.source.settle_seconds + after)
        + 2 * _TO_STOP,
        "on_failure_callback": partial(run_timed_out, pipeline, config_dir)
        if pipeline.notify
        else None,
    }


def _params(pipeline: Pipeline) -> dict[str, Param]:
    """Return the DAG's params: the window, and the fields of a request that people set. Every type
    allows null: Airflow's form marks a field without it as required. What has a section is folded
    there."""
    # A run of a pipeline without schedule needs its window: Airflow refuses one without.
    moment: dict[str, Any] = {
        **({"default": None} if pipeline.schedule else {}),
        "type": ["null", "string"] if pipeline.schedule else "string",
        "format": "date-time",
    }
    empty = (
        "Leave both empty to use the run's data interval. For a manual run, that is the last "
        "complete window of the schedule."
        if pipeline.schedule
        else "This pipeline has no schedule, so a run needs both."
    )
    return {
        "window_start": Param(
            **moment,
            title="Window from",
            description=(
                "First moment of the window. A window given here overrides Airflow's Logical "
                "Date and Data Interval."
            ),
        ),
        "window_end": Param(
            **moment, title="Window to", description=f"First moment after the window. {empty}"
        ),
        **{name: _param(name, RunRequest.model_fields[name], pipeline) for name in FORM},
    }


#: Type of a field of a request → type of its param; "string" for the others.
_KINDS = {bool: "boolean", int: "integer", float: "number"}


def _param(name: str, field: FieldInfo, pipeline: Pipeline) -> Param:
    """Return the param of a field. Airflow's form offers the words of ``examples``; other words are
    refused when the run is requested."""
    default, types = field.default, get_args(field.annotation) or (field.annotation,)
    kind = next((kind for type, kind in _KINDS.items() if type in types), "string")
    more = {
        key: value
        for each in field.metadata
        if isinstance(each, Form)
        for key, value in each.items()
    }
    if isinstance(default, tuple):
        words = list(CHOICES[name](pipeline))
        more |= {"items": {"type": "string", "enum": words}, "examples": words}
        kind, default = "array", words if "minItems" in more else []
    return Param(
        default, type=["null", kind], title=field.title, description=field.description, **more
    )
