"""The ticks of a schedule, and the windows between them: the same ones that Airflow makes runs for,
without Airflow. Pure.

The rules for a zone's summer time are those of Airflow's CronDataIntervalTimetable
(tests/dags/test_dag_schedule.py compares the two): a schedule that fires in every hour goes by
elapsed time, any other by the clock on the wall. When clocks go back, the repeated hour counts as
its second occurrence. When clocks go forward, the missing hour counts as one hour later.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from croniter import croniter

from shipper.config.rules import CRON_PRESETS
from shipper.config.schedule import Schedule
from shipper.windows.window import Window

#: Longest change of clocks.
_NEAR = dt.timedelta(hours=3)


class Ticks:
    """Ticks of one schedule. All moments that go in and come out are UTC. Not for several threads
    at once."""

    def __init__(self, schedule: Schedule) -> None:
        self._expression = CRON_PRESETS.get(schedule.cron, schedule.cron)
        self._zone = ZoneInfo(schedule.timezone)
        self._times = croniter(
            self._expression
        )  # to read an expression takes four times as long as to find a tick
        minutes, hours = self._times.expanded[:2]
        self._every_hour = hours == ["*"]
        self.most_a_day = (60 if minutes == ["*"] else len(minutes)) * (
            24 if self._every_hour else len(hours)
        )
        """The most windows that can begin on one day, but for a change of clocks."""

    def after(self, moment: dt.datetime) -> dt.datetime:
        """Return the first tick after ``moment``."""
        return self._tick(moment, forward=True)

    def before(self, moment: dt.datetime) -> dt.datetime:
        """Return the last tick before ``moment``."""
        return self._tick(moment, forward=False)

    def window_of(self, moment: dt.datetime) -> Window:
        """Return the window that holds ``moment``."""
        start = self.before(moment)
        end = self.after(start)
        return Window(start, end) if moment < end else Window(end, self.after(end))

    def last_closed(self, moment: dt.datetime) -> Window:
        """Return the last window that had ended by ``moment``."""
        end = self.window_of(moment).start
        return Window(self.before(end), end)

    def windows(self, start: dt.datetime, end: dt.datetime) -> Iterator[Window]:
        """Yield the windows that touch [start, end), in order."""
        if start >= end:
            return
        window = self.window_of(start)
        while window.start < end:
            yield window
            window = Window(window.end, self.after(window.end))

    def _tick(self, moment: dt.datetime, *, forward: bool) -> dt.datetime:
        local = self._on_the_wall(moment)
        if self._every_hour:
            found = self._on_from(local, forward=forward)
            return moment.astimezone(dt.UTC) + (found - local)
        # Near a change of clocks the next time on the wall need not be the next tick: one hour back
        # from half past three is half past two, which did not exist and counts as half past three.
        # So begin on the other side of the change, and continue until it is past.
        local = self._beyond_a_change(moment, local, forward=forward)
        while True:
            local = self._on_from(local, forward=forward)
            tick = self._as_utc(local)
            if tick > moment if forward else tick < moment:
                return tick

    def _on_from(self, local: dt.datetime, *, forward: bool) -> dt.datetime:
        find = self._times.get_next if forward else self._times.get_prev
        found: dt.datetime = find(dt.datetime, start_time=local)
        return found

    def _on_the_wall(self, moment: dt.datetime) -> dt.datetime:
        return moment.astimezone(self._zone).replace(tzinfo=None)

    def _beyond_a_change(
        self, moment: dt.datetime, local: dt.datetime, *, forward: bool
    ) -> dt.datetime:
        """Return ``local``, unless clocks change within some hours of it."""
        before, after = (self._on_the_wall(moment + hours) for hours in (-_NEAR, _NEAR))
        if after - before == 2 * _NEAR:
            return local
        return min(before, local) if forward else max(after, local)

    def _as_utc(self, local: dt.datetime) -> dt.datetime:
        before, after = (local.replace(tzinfo=self._zone, fold=fold) for fold in (0, 1))
        skipped = (after.utcoffset() or dt.timedelta()) > (before.utcoffset() or dt.timedelta())
        return (before if skipped else after).astimezone(dt.UTC)
