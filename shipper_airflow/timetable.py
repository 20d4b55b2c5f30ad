"""Schedules of pipelines, as Airflow's scheduler knows them."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.utils.types import DagRunType
from pendulum import DateTime, Duration, instance

from shipper import runtime
from shipper.config.schedule import Schedule
from shipper.windows.ticks import Ticks
from shipper.windows.window import partition_key
from shipper_airflow.run_window import in_utc

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun


@lru_cache(maxsize=1024)
def _once(cron: str, timezone: str, settle_seconds: float, together: bool, every: bool) -> Windows:
    """Make a timetable, or return the one of another DAG: nothing changes it. Airflow reads each
    DAG's several times after each parse, and puts each time into words what the cron expression
    says: 8 ms a DAG, two fifths of what it takes to store it."""
    return Windows(cron, timezone, settle_seconds, together=together, every=every)


def _now() -> DateTime:
    return instance(runtime.now())


class Windows(CronDataIntervalTimetable):
    """Windows by a cron expression: those of :class:`shipper.windows.ticks.Ticks`. The run of a
    window begins when the window's last files have settled, so that no task has to wait for them.

    A logical date that is a tick names the window that begins there, in scheduled and in manual
    runs. A manual run may therefore have the tick that the schedule comes to next.

    A run of the schedule has its window as partition key, for Airflow's lists. Which keys its
    assets get is decided when it has delivered: a run may complete several windows, or none. So
    ``partitioned`` stays False: Airflow would announce the run's key whatever became of the window,
    and give the run neither a data interval nor a logical date.

    A run of the schedule is named by its window: Airflow's own name tells when the run could begin,
    and its lists show nothing else of it. (A backfill's run has the window's end in its name;
    Airflow 3.3 asks no timetable for that.)"""

    partitioned_at_runtime = True

    def __init__(
        self,
        cron: str,
        timezone: str,
        settle_seconds: float = 0.0,
        *,
        together: bool = False,
        every: bool = False,
    ) -> None:
        """Make the timetable. ``settle_seconds``: time between a window's end and its run
        (`source.settle`). ``together``: if windows are behind, the next run is over all that have
        settled, up to a day.

        ``every``, of a pipeline without `schedule.start`: the windows begin with the latest one
        that has settled when Airflow first sees the DAG, and none is left out after that. Airflow's
        own choice is between the two: with ``catchup`` the first run is the one at the start date,
        however long ago; without it, each outage leaves out all windows but the last. So the DAG
        says ``catchup=False``, and this says otherwise once there was a run."""
        super().__init__(cron, timezone)
        self._settle = Duration(seconds=settle_seconds)
        self._together, self._every = together, every

    def serialize(self) -> dict[str, Any]:
        own = {"together": self._together, "every": self._every}
        settle_seconds = self._settle.total_seconds()
        return {**super().serialize(), "settle_seconds": settle_seconds, **own}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Windows:
        """Read also what a version wrote that had no ``settle_seconds``: its tasks wait instead."""
        settle = data.get("settle_seconds", 0.0)
        together, every = data.get("together", False), data.get("every", False)
        return _once(data["expression"], data["timezone"], settle, together, every)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if self._every and last_automated_data_interval is not None:
            restriction = restriction._replace(catchup=True)
        info = super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
        # A backfill alone asks up to a last date. Airflow names its runs by `run_after`, its
        # windows are over, and it refuses a run with both a logical date and a key.
        if info is None or info.data_interval is None or restriction.latest:
            return info
        start, end = info.data_interval
        if self._together:
            settled = self._ticks().last_closed(in_utc(_now() - self._settle)).end
            most = self._align_to_prev(start + Duration(days=1))
            end = max(end, min(instance(settled), most))
        return DagRunInfo(
            end + self._settle, DataInterval(start, end), partition_key=partition_key(start)
        )

    def run_info_from_dag_run(self, *, dag_run: DagRun) -> DagRunInfo:
        """Return the run after which the schedule goes on: the last one of the schedule, and the
        ticks that follow it without a hole and have a run: a backfill's, or a manual one.

        Airflow goes on behind the latest run of schedule and backfills. So a backfill ahead of a
        schedule that an outage holds up would leave out all windows between. And it makes no run
        for a tick that a manual run has, but finds the same tick again, for ever."""
        # Asked in the scheduler and the DAG processor alone; a DAG's parse in a task needs neither.
        from airflow.models.dag import DagModel
        from airflow.models.dagrun import DagRun
        from sqlalchemy import select
        from sqlalchemy.orm import object_session

        session = object_session(dag_run)
        if session is None:
            return self._info_of(dag_run)
        of_dag = select(DagRun).where(DagRun.dag_id == dag_run.dag_id)
        scheduled = of_dag.where(DagRun.run_type == DagRunType.SCHEDULED)
        last = session.scalar(scheduled.order_by(DagRun.logical_date.desc()).limit(1))
        found = self._info_of(last or dag_run)
        coming = select(DagModel.next_dagrun).where(DagModel.dag_id == dag_run.dag_id)
        at = dag_run.logical_date
        # A run of another kind has the logical date of the schedule's next one.
        if at and dag_run is not last and at == session.scalar(coming):
            found = self._window_from(instance(at))
        if not found.data_interval:
            return found
        dates = select(DagRun.logical_date).where(
            DagRun.dag_id == dag_run.dag_id, DagRun.logical_date > found.data_interval.start
        )
        taken = set(session.scalars(dates))
        while (start := self._following(found.data_interval)) in taken:
            found = self._window_from(start)
        return found

    def _info_of(self, run: DagRun) -> DagRunInfo:
        """Return what the run says of itself. Airflow's own function finds no data interval in a
        run with a partition key."""
        if run.data_interval_start is None or run.data_interval_end is None:
            return super().run_info_from_dag_run(dag_run=run)
        window = (instance(run.data_interval_start), instance(run.data_interval_end))
        return DagRunInfo(instance(run.run_after), DataInterval(*window))

    def _window_from(self, start: DateTime) -> DagRunInfo:
        return DagRunInfo.interval(start=start, end=self._get_next(start))

    def _following(self, window: DataInterval) -> DateTime:
        """Return the begin of the next window, as :meth:`next_dagrun_info` does."""
        start = self._align_to_prev(window.end)
        return start if start > window.start else self._get_next(start)

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        window = self._ticks().named_by(in_utc(run_after))
        return DataInterval(start=instance(window.start), end=instance(window.end))

    def _skip_to_latest(self, earliest: DateTime | None) -> DateTime:
        """Return the begin of the latest window that has settled. Where windows are shorter than
        ``settle_seconds``, the latest closed window always has to wait: Airflow computes it again
        at each parse, and no run would ever begin."""
        start = instance(self._ticks().last_closed(in_utc(_now() - self._settle)).start)
        return start if earliest is None else max(start, self._align_to_next(earliest))

    def _get_next(self, current: DateTime) -> DateTime:
        return instance(self._ticks().after(in_utc(current)))

    def _get_prev(self, current: DateTime) -> DateTime:
        return instance(self._ticks().before(in_utc(current)))

    def _ticks(self) -> Ticks:
        """Return ticks for this call alone: the API server's threads share the timetable."""
        schedule = Schedule.model_construct(cron=self._expression, timezone=self._timezone.name)
        return Ticks(schedule)

    def generate_run_id(
        self,
        *,
        run_type: DagRunType,
        run_after: DateTime,
        data_interval: DataInterval | None,
        **extra: Any,
    ) -> str:
        if data_interval is None or run_type != DagRunType.SCHEDULED:
            named: str = super().generate_run_id(
                run_type=run_type, run_after=run_after, data_interval=data_interval, **extra
            )
            return named
        start, end = (
            moment.astimezone(dt.UTC) for moment in (data_interval.start, data_interval.end)
        )
        return f"{run_type.value}__{start:%Y-%m-%dT%H:%MZ}--{end:%Y-%m-%dT%H:%MZ}"
