"""Windows of the schedule that are not complete on a cluster: by the records that runs left
(:mod:`shipper.report.window_state`), and by the ledger.

A run looks at its own window, and at the windows of its lookback. So a window without a run, or
with a failed one, is complete once a later run has looked at it, except where its own source gate
is closed: then a person has to look. A file that was left out counts as shipped when the ledger has
all of it. If the records of a window are lost, only the ledger remains: the window is complete if
the ledger holds files of it and all of them are complete. A file that never arrived is then not
noticed.

The first run of the schedule writes down the time since which a pipeline is shipped on it, cluster
by cluster (:func:`beginnings`). Earlier windows are not looked at, or called a gap, unless a user
asks for them: a new pipeline, or a new cluster of an old one, must not begin with gaps in its past.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel

from shipper import runtime
from shipper.config.pipeline import Pipeline
from shipper.config.schedule import Schedule
from shipper.ledger.inventory import Inventory
from shipper.report.results import Gap, LeftFile
from shipper.report.run_folder import find_kept, names_in
from shipper.report.window_records import WindowRecord, read_records, recorded_since
from shipper.report.window_state import MISSING, WindowState, contains, window_state
from shipper.types import FileId
from shipper.whole_files import file_system, remove, write_whole
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window, parse_window

#: How far back a run's report looks, so that it costs the same in every year. `shipper gaps` looks
#: at everything.
_REPORT_DAYS, REPORT_WINDOWS = 7, 200
_MOST_LISTINGS = 10


class LastRun(BaseModel):
    """The run of the schedule that began last."""

    schedule_since: dt.datetime
    """Moment when the schedule's first run began."""
    window_start: dt.datetime
    window_end: dt.datetime
    began: dt.datetime

    @property
    def window(self) -> Window:
        return Window(self.window_start, self.window_end)


class KnownSchedule(BaseModel):
    """Knowledge of a pipeline's schedule, as its runs have left it.

    Each of them writes all that is known to a file of its own in `{runs_uri}/{pipeline}/schedule/`,
    and then removes those that it has read. So there is one at any moment, none is ever written
    over, and none becomes so old that a bucket's rule deletes it. If all are lost, the schedule
    begins again with the next run.
    """

    version: int = 1
    first_window: dict[str, dt.datetime] = {}
    """Cluster → begin of the first window that the schedule had for it, UTC. Empty if no run of the
    schedule has been."""
    last_run: LastRun | None = None

    def merged(self, other: KnownSchedule) -> KnownSchedule:
        firsts, runs = dict(self.first_window), [self.last_run, other.last_run]
        for cluster, at in other.first_window.items():
            firsts[cluster] = min(at, firsts.get(cluster, at))
        known = sorted(filter(None, runs), key=lambda run: run.began)
        since = min((run.schedule_since for run in known), default=None)
        last = known[-1].model_copy(update={"schedule_since": since}) if known else None
        return KnownSchedule(first_window=firsts, last_run=last)


def read_schedule(runs_uri: str, pipeline: str) -> KnownSchedule:
    """Read what is known of the schedule. Raises StepResultError, OSError."""
    return _merged(_files(runs_uri, pipeline).values())


def _merged(files: Iterable[KnownSchedule]) -> KnownSchedule:
    return functools.reduce(KnownSchedule.merged, files, KnownSchedule())


def _files(runs_uri: str, pipeline: str) -> dict[str, KnownSchedule]:
    """Return what each file holds, by URL. If one has been removed since they were listed, another
    run has written all that it held to a newer one."""
    about = (
        f"This file holds the start of the schedule of pipeline {pipeline}. Restore the file from "
        "a backup. Or delete it: without any, the next scheduled run counts as the first one, and "
        "looks at nothing before its window."
    )
    folder = _folder(runs_uri, pipeline)
    fs, path = file_system(folder)
    for _ in range(_MOST_LISTINGS):
        fs.invalidate_cache()
        urls = [f"{folder}/{name}" for name in names_in(fs, path) if name.endswith(".json")]
        of_earlier_release = [] if urls else [f"{folder}.json"]
        found = {url: find_kept(url, KnownSchedule, about) for url in urls or of_earlier_release}
        known = {url: file for url, file in found.items() if file}
        if known.keys() >= {*urls}:
            return known
    raise OSError(errno.EAGAIN, "files vanish whenever they are read", path)


def beginnings_of(runs_uri: str, pipeline: Pipeline) -> dict[str, dt.datetime]:
    """Return cluster → begin of its first window, for the present clusters of the pipeline, by its
    present schedule."""
    known = read_schedule(runs_uri, pipeline.key).first_window
    known = {name: at for name, at in known.items() if name in pipeline.clusters}
    return by_schedule(known, pipeline.schedule) if pipeline.schedule else known


def by_schedule(began: Mapping[str, dt.datetime], schedule: Schedule) -> dict[str, dt.datetime]:
    """Return the beginnings by the ticks of ``schedule``. If it has become a daily one on the first
    day, the rest of that day would belong to no window that counts. So the window that holds a
    beginning counts, unless it begins before `schedule.start`."""
    found, least = dict(began), schedule.start
    for name, at in began.items():
        start = Ticks(schedule).window_of(at).start
        if least is None or start >= least:
            found[name] = start
    return found


def beginnings(
    runs_uri: str,
    pipeline: str,
    clusters: Collection[str],
    window: Window,
    schedule_start: dt.datetime | None,
    *,
    began: dt.datetime | None,
) -> dict[str, dt.datetime]:
    """Return cluster → begin of its first window, with what a run over ``window`` adds: a cluster
    that no run had before begins there; and the first run of all, at `schedule.start` if there is
    one. ``began``: when this run of the schedule did; writes it down. None: writes nothing."""
    files = _files(runs_uri, pipeline)
    known = _merged(files.values())
    kept = known.first_window
    first = min(schedule_start, window.start) if schedule_start and not kept else window.start
    found = {cluster: kept.get(cluster, first) for cluster in clusters}
    if began:
        mine = LastRun(
            schedule_since=began, window_start=window.start, window_end=window.end, began=began
        )
        now = known.merged(KnownSchedule(first_window=kept | found, last_run=mine))
        name = f"{began:%Y%m%dT%H%M%SZ}-{runtime.token_hex(4)}.json"
        write_whole(f"{_folder(runs_uri, pipeline)}/{name}", now.model_dump_json(indent=1) + "\n")
        for url in files:
            with contextlib.suppress(OSError):
                remove(url)
    return found


def _folder(runs_uri: str, pipeline: str) -> str:
    return f"{runs_uri.rstrip('/')}/{pipeline}/schedule"


def _window_complete(ledger: Inventory, window: Window) -> bool:
    """Return True if the ledger holds files of the window, all of them complete."""
    over = [tally for name, tally in ledger.windows.items() if contains(parse_window(name), window)]
    return bool(over) and all(tally.complete == tally.files for tally in over)


def files_complete(ledger: Inventory, files: Iterable[LeftFile]) -> bool:
    """Return True if the ledger has all of each file: the very file that was left behind, or one
    that was written on until later. A path alone does not tell: the file that was shipped from
    there may have been replaced since."""
    complete = [file for file, tally in ledger.files.items() if tally.complete]
    exact, newest = {*complete}, dict[str, int]()
    for file in complete:
        newest[file.path] = max(file.modified_ms, newest.get(file.path, file.modified_ms))
    return all(
        newest.get(left.path, left.modified_ms - 1) >= left.modified_ms
        if left.size_bytes is None
        else FileId(left.path, left.size_bytes, left.modified_ms) in exact
        for left in files
    )


def find_gaps(
    windows: Iterable[Window],
    records: Iterable[WindowRecord],
    since: Mapping[str, dt.datetime],
    held: Callable[[str], Inventory | None],
) -> list[Gap]:
    """Find gaps. ``since``: cluster → begin of its first window.
    ``held``: cluster → its ledger, asked only where records do not tell; None if it cannot be
    had."""
    by_day, found = RecordsByDay(records), []
    for window in windows:
        about = by_day.over(window)
        for cluster, first in since.items():
            if window.start >= first and (gap := _gap(window, cluster, about, held)):
                found.append(gap)
    return found


class RecordsByDay:
    """Records by the days that they are about, so that a long history costs what it holds."""

    def __init__(self, records: Iterable[WindowRecord]) -> None:
        self._days: dict[dt.date, list[WindowRecord]] = {}
        for record in sorted(records, key=lambda record: record.order):
            for day in _days(Window(record.since, record.window_end)):
                self._days.setdefault(day, []).append(record)

    def over(self, window: Window) -> Sequence[WindowRecord]:
        """Return those of the window's days, in their order."""
        first, *more = (self._days.get(day, []) for day in _days(window))
        if not more:
            return first
        found = {id(record): record for some in (first, *more) for record in some}
        return sorted(found.values(), key=lambda record: record.order)


def _days(window: Window) -> Iterator[dt.date]:
    day, last = window.start.date(), (window.end - dt.timedelta(microseconds=1)).date()
    while day <= last:
        yield day
        day += dt.timedelta(days=1)


def _gap(
    window: Window,
    cluster: str,
    about: Sequence[WindowRecord],
    held: Callable[[str], Inventory | None],
) -> Gap | None:
    found = window_state(window, on_cluster(about, cluster))
    if found is None:
        left_alone = any(contains(record.window, window) for record in about)
        found = WindowState(
            MISSING, "its run shipped only to other clusters, as asked" if left_alone else "no run"
        )
        ledger = held(cluster)
        if ledger and _window_complete(ledger, window):
            return None
    if found.complete:
        return None
    files = [file for one in found.left for file in one.files]
    ledger = held(cluster) if found.left and not found.distrusted else None
    if (
        ledger
        and files_complete(ledger, files)
        and (all(one.files for one in found.left) or _window_complete(ledger, window))
    ):
        return None
    return Gap(
        cluster=cluster,
        window=str(window),
        why=found.why,
        paths=list(dict.fromkeys(file.path for file in files)),
    )


def on_cluster(records: Iterable[WindowRecord], cluster: str) -> list[WindowRecord]:
    """Return the records about the cluster."""
    return [record for record in records if record.is_about(cluster)]


def stands_still(
    schedule: Schedule,
    settle_seconds: float,
    last: LastRun | None,
    has_run: Callable[[Window], bool],
    now: dt.datetime,
) -> bool:
    """True if no run of the schedule began for longer than two ticks, though the two latest windows
    are due and have no run of any kind either. Airflow may be down, the DAG paused, or the run
    before may hang."""
    if last is None:
        return False
    ticks = Ticks(schedule)
    second = ticks.last_closed(now - dt.timedelta(seconds=settle_seconds))
    first = ticks.last_closed(second.start)
    return (
        first.start >= last.window_end
        and now - last.began > second.end - first.start
        and not (has_run(first) or has_run(second))
    )


def standstill_in_words(last: LastRun) -> str:
    return (
        f"The schedule stands still: its last run began at {last.began:%Y-%m-%d %H:%M:%S} UTC, "
        f"for {last.window}. Later windows wait. Look in Airflow whether the DAG is paused, "
        "the scheduler is up, and that run has ended."
    )


def gaps_before(runs_uri: str, pipeline: Pipeline, until: dt.datetime) -> list[Gap] | None:
    """Return the gaps for a run's report: the incomplete ones of the last windows that ended by
    ``until``, from records alone. None: the pipeline has no schedule, or no run of it yet. Raises
    StepResultError, OSError."""
    if pipeline.schedule is None:
        return None
    began = beginnings_of(runs_uri, pipeline)
    if not began:
        return None
    first = max(min(began.values()), until - dt.timedelta(days=_REPORT_DAYS))
    windows = [
        window for window in Ticks(pipeline.schedule).windows(first, until) if window.end <= until
    ][-REPORT_WINDOWS:]
    if not windows:
        return []
    looked_back = until + dt.timedelta(
        days=1, seconds=pipeline.source.lookback_seconds
    )  # by runs behind them, if this is an old window
    records = read_records(runs_uri, pipeline.key, windows[0].start, looked_back)
    # If records are deleted after some days, nothing can be said about earlier days.
    oldest = recorded_since(runs_uri, pipeline.key) or until
    kept = min([oldest, *(record.since for record in records)])
    return find_gaps(
        [window for window in windows if window.start >= kept],
        records, began, lambda cluster: None,
    )  # fmt: skip


def merged(gaps: Sequence[Gap]) -> list[Gap]:
    """Merge windows that follow each other, with one reason and no file to name, into one: START of
    the first/END of the last."""
    found: list[Gap] = []
    for gap in sorted(gaps, key=lambda one: (one.cluster, one.window)):
        last = found[-1] if found else None
        start, _, end = gap.window.partition("/")
        if (
            last
            and not gap.paths
            and (last.cluster, last.why, last.paths) == (gap.cluster, gap.why, [])
            and last.window.endswith(f"/{start}")
        ):
            found[-1] = last.model_copy(
                update={
                    "window": f"{last.window.partition('/')[0]}/{end}",
                    "windows": last.windows + 1,
                }
            )
        else:
            found.append(gap)
    return found
