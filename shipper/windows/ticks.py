"""The ticks of a schedule, and the windows between them. Airflow's scheduler takes them from here,
too (shipper_airflow/timetable.py). Pure.

A schedule goes by the clock on the wall. When clocks go back, a schedule that fires in every hour
fires in both of the repeated hours, any other in the second one alone. When clocks go forward, the
times of the missing hour count as one hour later.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from croniter import croniter

from shipper.config.rules import CRON_PRESETS
from shipper.config.schedule import Schedule
from shipper.windows.window import Window

#: Longest change of clocks.
_NEAR = dt.timedelta(hours=3)
_DAY, _SECOND = dt.timedelta(days=1), dt.timedelta(seconds=1)


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
        self._of_a_day = [
            dt.timedelta(hours=hour, minutes=minute)
            for hour in (range(24) if self._every_hour else sorted(hours))
            for minute in (range(60) if minutes == ["*"] else sorted(minutes))
        ]
        """Times on the wall of each day that has any."""
        self._has_any: dict[dt.date, bool] = {}
        self.most_a_day = len(self._of_a_day)
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

    def named_by(self, moment: dt.datetime) -> Window:
        """Return the window that a logical date names: it begins there; if ``moment`` is no tick,
        the last one that had ended by then."""
        window = self.window_of(moment)
        return window if window.start == moment else self.last_closed(moment)

    def windows(self, start: dt.datetime, end: dt.datetime) -> Iterator[Window]:
        """Yield the windows that touch [start, end), in order."""
        if start >= end:
            return
        window = self.window_of(start)
        while window.start < end:
            yield window
            window = Window(window.end, self.after(window.end))

    def _tick(self, moment: dt.datetime, *, forward: bool) -> dt.datetime:
        # Ticks and changes of clocks are at whole seconds, and so are all steps between them.
        whole = moment.replace(microsecond=0)
        moment = whole if forward or whole == moment else whole + _SECOND
        if self._every_hour:
            return self._tick_on_the_wall(moment, forward=forward)
        # Around a change of clocks the next time on the wall need not be the next tick: one hour
        # back from half past three is half past two, which did not exist and counts as half past
        # three. So begin on the other side of the change, and go on until it is past.
        back = -1 if forward else 1
        local = self._on_the_wall(moment) + back * self._shift_near(moment)
        found: dt.datetime | None = None
        while found is None or abs(local - self._on_the_wall(found)) <= self._shift_near(found):
            local = self._on_from(local, forward=forward)
            tick = self._as_utc(local)
            if tick > moment if forward else tick < moment:
                nearest = min if forward else max
                found = nearest(found or tick, tick)
                if not self._shift_near(found):
                    break
        return found

    def _tick_on_the_wall(self, moment: dt.datetime, *, forward: bool) -> dt.datetime:
        """Return the next moment at which the wall shows a time of the expression."""
        local = self._on_the_wall(moment)
        found = self._on_from(local, forward=forward)
        if abs(found - local) > 2 * _DAY:  # at most one change of clocks is left on the way
            moment = self._as_utc(found) + (-_DAY if forward else _DAY)
            local = self._on_the_wall(moment)
        tick = moment + (found - local)
        if self._on_the_wall(tick) == found:
            return tick
        change = self._change(min(moment, tick), max(moment, tick))
        local = (
            self._on_the_wall(change) if forward else self._on_the_wall(change - _SECOND) + _SECOND
        )
        found = self._on_from(local - _SECOND if forward else local, forward=forward)
        return change + (found - local)

    def _change(self, before: dt.datetime, after: dt.datetime) -> dt.datetime:
        """Return the moment between the two at which clocks change."""
        ahead = self._on_the_wall(before) - before.replace(tzinfo=None)
        while after - before > _SECOND:
            middle = before + (after - before) // (2 * _SECOND) * _SECOND
            if self._on_the_wall(middle) - middle.replace(tzinfo=None) == ahead:
                before = middle
            else:
                after = middle
        return after

    def _on_from(self, local: dt.datetime, *, forward: bool) -> dt.datetime:
        midnight = local.replace(hour=0, minute=0, second=0)
        if self._is_due_on(midnight):
            times, time = self._of_a_day, local - midnight
            place = bisect_right(times, time) if forward else bisect_left(times, time) - 1
            if 0 <= place < len(times):
                return midnight + times[place]
        find = self._times.get_next if forward else self._times.get_prev
        found: dt.datetime = find(dt.datetime, start_time=local)
        return found

    def _is_due_on(self, midnight: dt.datetime) -> bool:
        """Return True if the schedule fires on the day. croniter needs 80 µs to say so."""
        day = midnight.date()
        if (found := self._has_any.get(day)) is None:
            first: dt.datetime = self._times.get_next(dt.datetime, start_time=midnight - _SECOND)
            found = self._has_any[day] = first.date() == day
        return found

    def _on_the_wall(self, moment: dt.datetime) -> dt.datetime:
        return moment.astimezone(self._zone).replace(tzinfo=None)

    def _shift_near(self, moment: dt.datetime) -> dt.timedelta:
        """Return by how much clocks change within some hours of ``moment``."""
        before, after = (self._on_the_wall(moment + hours) for hours in (-_NEAR, _NEAR))
        return abs(after - before - 2 * _NEAR)

    def _as_utc(self, local: dt.datetime) -> dt.datetime:
        first, second = (
            local.replace(tzinfo=self._zone, fold=fold).astimezone(dt.UTC) for fold in (0, 1)
        )
        return max(first, second)
