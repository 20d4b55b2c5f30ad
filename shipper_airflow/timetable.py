"""Schedules of pipelines, as Airflow's scheduler knows them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.utils.types import DagRunType
from pendulum import DateTime


class Windows(CronDataIntervalTimetable):
    """A run of the schedule is named by its window: Airflow's own name tells when the run could begin, and its lists show nothing else of it.
    (A backfill's run has the window's begin in its name; Airflow 3.3 asks no timetable for that.)"""

    def generate_run_id(
        self, *, run_type: DagRunType, run_after: DateTime, data_interval: DataInterval | None, **extra: Any
    ) -> str:
        if data_interval is None or run_type != DagRunType.SCHEDULED:
            named: str = super().generate_run_id(run_type=run_type, run_after=run_after, data_interval=data_interval, **extra)
            return named
        start, end = (moment.astimezone(dt.UTC) for moment in (data_interval.start, data_interval.end))
        return f"{run_type.value}__{start:%Y-%m-%dT%H:%MZ}--{end:%Y-%m-%dT%H:%MZ}"


class EveryWindow(Windows):
    """Of a pipeline without `schedule.start`: begins with the latest window that has closed when Airflow first sees the DAG, and then leaves
    none out.

    Airflow's own choice is between the two: with ``catchup`` the first run is the one at the start date, however long ago; without it, each
    outage leaves out all windows but the last. So the DAG says ``catchup=False``, and this says otherwise once there was a run.
    """

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if last_automated_data_interval is not None:
            restriction = restriction._replace(catchup=True)
        return super().next_dagrun_info(last_automated_data_interval=last_automated_data_interval, restriction=restriction)
