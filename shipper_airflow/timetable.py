"""The schedule of a pipeline that has no `schedule.start`."""

from __future__ import annotations

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable


class EveryWindow(CronDataIntervalTimetable):
    """Begins with the latest window that has closed when Airflow first sees the DAG, and then leaves none out.

    Airflow's own choice is between the two: with ``catchup`` the first run is the one at the start date, however long ago; without it, each
    outage leaves out all windows but the last. So the DAG says ``catchup=False``, and this says otherwise once there was a run.
    """

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if last_automated_data_interval is not None:
            restriction = restriction._replace(catchup=True)
        return super().next_dagrun_info(last_automated_data_interval=last_automated_data_interval, restriction=restriction)
