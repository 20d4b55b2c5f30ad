"""A pipeline's run in a DAG of one's own.

::

    with DAG("shop", schedule="@hourly", ...):
        write_logs() >> ShipTaskGroup("shop_logs") >> tell_the_warehouse()

:class:`ShipTaskGroup` has the same tasks as the DAG that shipper makes of a pipeline;
:class:`ShipOperator` does all of it in one. Both ship the DAG run's data interval, the window of
its partition key, or one that is given, and leave a receipt as XCom. The pipeline's file stays as
it is: a `schedule` there is for shipper's own DAG, so leave it out, or leave that DAG paused.

Where Airflow's provider of OpenLineage is installed and has a transport, each task that ships tells
it the source's folder and the topics.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, TaskGroup
from airflow.sdk.configuration import conf

from shipper.config.environment import EVERYTHING
from shipper.config.load import load_cluster, load_pipeline
from shipper.config.pipeline import Pipeline
from shipper.errors import UsageError, WindowError
from shipper_airflow.dags.build import (
    RETRIES,
    CatalogEntry,
    add_tasks,
    delivered_asset,
    read_catalog,
    tell_of_run,
)
from shipper_airflow.dags.last_good import LastGood
from shipper_airflow.dags.notice import check_notifiers
from shipper_airflow.dags.task_operators import PARAMS, WholeRun
from shipper_airflow.place import config_dir

if TYPE_CHECKING:
    from airflow.sdk.definitions.mappedoperator import MappedOperator, OperatorPartial


class ShipTaskGroup(TaskGroup):
    """Ships a window of a pipeline: plan, gate, ship and gate for each cluster, report.

    What depends on the group begins when each cluster has the window and its gate has closed it.
    The receipt of a cluster is the XCom of ``GROUP.to_CLUSTER.gate_delivery``, that of the run the
    XCom of ``GROUP.report``. The pipeline's own notices are sent; deadlines are the DAG's business.

    While the pipeline's file is broken the DAG stays, and its tasks fail and say why. Raises
    ConfigError where it never could be read.
    """

    def __init__(
        self,
        pipeline: str,
        *,
        group_id: str | None = None,
        config: str | Path | None = None,
        inlets: Sequence[Any] = (),
        outlets: Sequence[Any] = (),
        **kwargs: Any,
    ) -> None:
        """Make the tasks. ``group_id``: the pipeline's name by default. ``config``: the
        configuration's folder; by default `$SHIPPER_CONFIG` or the `config` beside Airflow's
        folder of DAGs. ``inlets``, ``outlets``: assets besides those that the delivery gates update
        (:func:`delivered_asset`). The fields of the DAG's form are arguments, too:
        ``window_start`` and ``window_end`` (ISO 8601), or ``window`` (START/END) for both;
        ``clusters`` (all by default), ``rate_limit``, ``plan_only``, ``skip_checks`` and
        ``skip_reason``, ``reship`` and ``reship_reason``, ``new_ledger``. They may be templates.
        Without a window it is the one of the run's partition key, else its data interval."""
        asks = _asks({name: kwargs.pop(name, None) for name in ("window", *PARAMS)})
        super().__init__(group_id=group_id or pipeline, **kwargs)
        folder = _folder(config)
        [entry] = read_catalog(folder, only=pipeline) or [CatalogEntry(pipeline)]
        if entry.pipeline and not entry.faults:
            LastGood(folder).keep(pipeline)
        # A file that was never right is the DAG's import error.
        found = entry.pipeline or load_pipeline(folder, pipeline, EVERYTHING)
        check_notifiers(found, folder)
        with self:
            _check_window(self.dag, found, asks)
            plan, delivered = add_tasks(found, folder, entry.faults, entry.pools, asks)
        plan.add_inlets(inlets)
        delivered.add_outlets(outlets)


class ShipOperator(WholeRun):
    """Ships a window of a pipeline in one task: the steps of ``shipper run``. A retry ships the
    missing records.

    Its XCom is the run's receipt: the window, the run's id, the report's address and, for each
    cluster, the completed windows, the records of each topic (in total, sent by this run, and there
    before), and the result of each check. It updates the asset of each cluster that it ships to
    (:func:`delivered_asset`).
    """

    template_fields: Sequence[str] = ("asks",)
    ui_color = "#d6e9f8"

    def __init__(
        self,
        *,
        pipeline: str,
        config: str | Path | None = None,
        window: str | None = None,
        window_start: str | None = None,
        window_end: str | None = None,
        clusters: Sequence[str] | str | None = None,
        rate_limit: str | None = None,
        plan_only: bool = False,
        skip_checks: Sequence[str] | str | None = None,
        skip_reason: str | None = None,
        reship: bool = False,
        reship_reason: str | None = None,
        new_ledger: bool = False,
        outlets: Sequence[Any] = (),
        **kwargs: Any,
    ) -> None:
        """See :class:`ShipTaskGroup`. Raises ConfigError if the pipeline's file is wrong."""
        given = locals()
        asks = _asks({name: given[name] for name in ("window", *PARAMS)})
        folder = _folder(config)
        found = load_pipeline(folder, pipeline, EVERYTHING)
        for name in found.clusters:
            load_cluster(folder, name, EVERYTHING)
        check_notifiers(found, folder)
        super().__init__(
            pipeline=found,
            config_dir=folder,
            assets={name: delivered_asset(pipeline, name) for name in found.clusters},
            asks=asks,
            # A mapped task is made with the assets of all pipelines.
            outlets=[each for each in outlets if not _is_delivered(each)],
            **{**RETRIES, "owner": found.owner, **kwargs},
        )
        _check_window(self.get_dag(), found, asks)
        tell_of_run(self)

    @classmethod
    def partial(cls, **kwargs: Any) -> ShipPartial:  # type: ignore[override]
        """Prepare a task of each of several pipelines or windows: see :class:`ShipPartial`."""
        return ShipPartial(super().partial, kwargs)


class ShipPartial:
    """Tasks that :meth:`ShipOperator.partial` has prepared. Airflow reads assets, retries and owner
    of mapped tasks where the DAG is parsed, so the pipelines must be named there."""

    def __init__(self, prepare: Callable[..., OperatorPartial], kwargs: Mapping[str, Any]) -> None:
        self._prepare, self._kwargs = prepare, kwargs

    def expand(self, **mapped: Any) -> MappedOperator:
        """Make a task of each, as of any operator: `pipeline=[…]`, `window=[…]`, both for each
        window of each pipeline. Raises ConfigError, UsageError, WindowError."""
        return self._partial(mapped.get("pipeline"), mapped).expand(**mapped)

    def expand_kwargs(self, kwargs: Any, *, strict: bool = True) -> MappedOperator:
        """Make a task of each mapping of arguments. Raises as :meth:`expand` does."""
        each = kwargs if isinstance(kwargs, Sequence) else []
        names = None if "pipeline" in self._kwargs else [one.get("pipeline") for one in each]
        mapped = {name for one in each for name in one} if each else {"window"}
        return self._partial(names, mapped).expand_kwargs(kwargs, strict=strict)

    def _partial(self, names: Any, mapped: Container[str]) -> OperatorPartial:
        names = names or [self._kwargs.get("pipeline")]
        if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
            raise UsageError(
                "ShipOperator is mapped over pipelines that are not known where the DAG is parsed. "
                "Write their names into the DAG, and let the tasks before it give the windows.",
                code="SHIP-101",
            )
        folder = _folder(self._kwargs.get("config"))
        found = [load_pipeline(folder, name, EVERYTHING) for name in dict.fromkeys(names)]
        assets = [
            delivered_asset(each.name, cluster) for each in found for cluster in each.clusters
        ]
        of_us = {
            **RETRIES,
            "owner": ", ".join(sorted({each.owner for each in found})),
            **self._kwargs,
            "outlets": [*self._kwargs.get("outlets", ()), *assets],
        }
        made = self._prepare(**of_us)
        if "window" not in mapped and "window_start" not in mapped:
            for pipeline in found:
                _check_window(made.kwargs["dag"], pipeline, _asks(self._kwargs))
        return made


def _is_delivered(asset: Any) -> bool:
    return str(getattr(asset, "uri", "")).startswith("shipper://")


def _folder(config: str | Path | None) -> Path:
    if config is not None:
        return Path(config).absolute()
    return config_dir(Path(conf.get("core", "dags_folder")))


def _check_window(dag: DAG | None, pipeline: Pipeline, asks: Mapping[str, Any]) -> None:
    """Raise WindowError if no run of the DAG would have a window."""
    timetable = getattr(dag, "timetable", None)
    if timetable is None or pipeline.schedule or asks["window"] or asks["window_start"]:
        return
    for each in getattr(timetable, "timetables", None) or (timetable,):
        if getattr(each, "interval", None) == dt.timedelta(0):
            raise WindowError(
                f"DAG {dag and dag.dag_id} has a schedule whose runs have no data interval, and "
                f"pipeline {pipeline.name} has no `schedule`: no run would have a window. Give the "
                "DAG a CronDataIntervalTimetable, or give `window_start` and `window_end`.",
                code="SHIP-224",
            )


def _asks(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run. Raises WindowError if a window is given twice."""
    asks = {name: given.get(name) for name in ("window", *PARAMS)}
    if asks["window"] and (asks["window_start"] or asks["window_end"]):
        raise WindowError(
            "`window` and `window_start` or `window_end` contradict each other. Give `window`, or "
            "both of the others.",
            code="SHIP-224",
        )
    for name in ("clusters", "skip_checks"):
        value = asks[name]
        asks[name] = [value] if isinstance(value, str) else value and list(value)
    return asks
