"""A pipeline's run in a DAG of one's own.

::

    with DAG("shop", schedule="@hourly", ...):
        write_logs() >> ShipTaskGroup("shop_logs") >> tell_the_warehouse()

:class:`ShipTaskGroup` has the same tasks as the DAG that shipper makes of a pipeline;
:class:`ShipOperator` does all of it in one. Both ship the DAG run's data interval, or a window that
is given, and leave a receipt as XCom. The pipeline's file stays as it is: a `schedule` there is for
shipper's own DAG, so leave it out, or leave that DAG paused.

Where Airflow's provider of OpenLineage is installed and has a transport, each task that ships tells
it the source's folder and the topics.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from airflow.sdk import DAG, TaskGroup
from airflow.sdk.configuration import conf

from shipper.config import load_cluster, load_pipeline
from shipper.config.environment import EVERYTHING
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
from shipper_airflow.dags.faults import LastGood
from shipper_airflow.dags.notice import check_notifiers
from shipper_airflow.dags.operators import WholeRun
from shipper_airflow.place import config_dir


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
        window_start: str | None = None,
        window_end: str | None = None,
        clusters: Sequence[str] | str | None = None,
        rate_limit: str | None = None,
        inlets: Sequence[Any] = (),
        outlets: Sequence[Any] = (),
        **kwargs: Any,
    ) -> None:
        """Make the task. ``group_id``: the pipeline's name by default. ``config``: the
        configuration's folder; by default `$SHIPPER_CONFIG` or the `config` beside Airflow's
        folder of DAGs. ``window_start``, ``window_end`` (ISO 8601), ``clusters`` (all by
        default) and ``rate_limit`` may be templates; without a window it is the run's data
        interval. ``inlets``, ``outlets``: assets besides those that the delivery gates update
        (:func:`delivered_asset`)."""
        super().__init__(group_id=group_id or pipeline, **kwargs)
        folder = _folder(config)
        [entry] = read_catalog(folder, only=pipeline) or [CatalogEntry(pipeline)]
        if entry.pipeline and not entry.faults:
            LastGood(folder).keep(pipeline)
        # A file that was never right is the DAG's import error.
        found = entry.pipeline or load_pipeline(folder, pipeline, EVERYTHING)
        check_notifiers(found, folder)
        with self:
            asks = _asks(window_start, window_end, clusters, rate_limit)
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
        window_start: str | None = None,
        window_end: str | None = None,
        clusters: Sequence[str] | str | None = None,
        rate_limit: str | None = None,
        **kwargs: Any,
    ) -> None:
        """See :class:`ShipTaskGroup`. Raises ConfigError if the pipeline's file is wrong."""
        folder = _folder(config)
        found = load_pipeline(folder, pipeline, EVERYTHING)
        for name in found.clusters:
            load_cluster(folder, name, EVERYTHING)
        check_notifiers(found, folder)
        asks = _asks(window_start, window_end, clusters, rate_limit)
        super().__init__(
            pipeline=found,
            config_dir=folder,
            assets={name: delivered_asset(pipeline, name) for name in found.clusters},
            asks=asks,
            **{**RETRIES, "owner": found.owner, **kwargs},
        )
        _check_window(self.get_dag(), found, asks)
        tell_of_run(self)

    @classmethod
    def partial(cls, **kwargs: Any) -> NoReturn:
        """Raise UsageError: Airflow knows neither assets nor retries of a mapped task."""
        raise UsageError(
            f"{cls.__name__} cannot be mapped by partial() and expand(): its assets are those of "
            "one pipeline. Make a task of each pipeline: `for name in NAMES: "
            f"{cls.__name__}(task_id=name, pipeline=name)`. For windows, put a ShipTaskGroup with "
            "`window_start` and `window_end` into a mapped @task_group."
        )


def _folder(config: str | Path | None) -> Path:
    if config is not None:
        return Path(config).absolute()
    return config_dir(Path(conf.get("core", "dags_folder")))


def _check_window(dag: DAG | None, pipeline: Pipeline, asks: Mapping[str, Any]) -> None:
    """Raise WindowError if no run of the DAG would have a window."""
    timetable = getattr(dag, "timetable", None)
    if timetable is None or pipeline.schedule or asks["window_start"]:
        return
    for each in getattr(timetable, "timetables", None) or (timetable,):
        if getattr(each, "interval", None) == dt.timedelta(0):
            raise WindowError(
                f"DAG {dag and dag.dag_id} has a schedule whose runs have no data interval, and "
                f"pipeline {pipeline.name} has no `schedule`: no run would have a window. Give the "
                "DAG a CronDataIntervalTimetable, or give `window_start` and `window_end`.",
                code="SHIP-224",
            )


def _asks(
    window_start: str | None,
    window_end: str | None,
    clusters: Sequence[str] | str | None,
    rate_limit: str | None,
) -> dict[str, Any]:
    return {
        "window_start": window_start,
        "window_end": window_end,
        "clusters": [clusters] if isinstance(clusters, str) else clusters and list(clusters),
        "rate_limit": rate_limit,
    }
