"""Lookback: the folders of the windows before a scheduled run's own, and the files there that some
cluster lacks.

The run of a window misses a file that arrives later or is still being written; it also ships
nothing if it fails or never takes place. The next run finds such a file here, at the cost of one
more listing and one question to each ledger. Complete files are counted; they are not read and not
named in the plan.

Files that would fail again are left alone, with a warning, so that an old file fails no run but its
own. These are the files of a window whose source gate is closed or whose ship failed for good, and
late files that a run has already tried without success. They wait for a run of their own window.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shipper import runtime
from shipper.driver.context import RunContext
from shipper.driver.decide import Decisions
from shipper.driver.files import ListedFile
from shipper.report.incomplete import beginnings, by_schedule
from shipper.report.past_runs import find_retry_exclusions
from shipper.report.plan_result import LeftOut, LookedBack
from shipper.types import FileId
from shipper.windows.folders import TickFolders
from shipper.windows.window import Window, to_ms


@dataclass
class LookBack:
    """Ticks before a run's window, and the files in their folders."""

    ticks: TickFolders
    before: dt.datetime
    """Begin of the run's own window."""
    folders: Collection[str]
    """The ticks' folders without those that the run's own window names too."""
    since: Mapping[str, dt.datetime]
    """Cluster → begin of the first tick that it is asked about; later than all of them for one that
    came only now."""
    files: dict[FileId, ListedFile] = field(default_factory=dict)
    """Done being written."""
    left_out: list[LeftOut] = field(default_factory=list)
    not_listed: set[Window] = field(default_factory=set)

    def note_problem(self, tick: Window, path: str, why: str, code: str = "") -> None:
        """Note that a folder could not be looked into: that leaves its tick incomplete, and fails
        no run but the tick's own."""
        self.not_listed.add(tick)
        self.left_out.append(
            LeftOut(path=path, reason=why, code=code, warns=True, window=str(tick))
        )

    @property
    def start(self) -> dt.datetime:
        return next(iter(self.ticks.of)).start

    def holds(self, file: ListedFile) -> bool:
        """True if the file belongs to one of these ticks, and not to the run's own window."""
        return (
            file.id.modified_ms < to_ms(self.before)
            if self.ticks.by_modified
            else file.under in self.folders
        )

    def window_of(self, file: ListedFile) -> Window:
        """Return the file's tick. Raises KeyError for a file of no tick before the run's own."""
        if (tick := self.ticks.tick_of(file)) is None:
            raise KeyError(file)
        return tick

    def for_cluster(self, cluster: str) -> list[FileId]:
        """Return the files that the cluster is asked about."""
        since = self.since[cluster]
        return [file.id for file in self.files.values() if self.window_of(file).start >= since]

    def looks_back_to(self, cluster: str) -> dt.datetime | None:
        since = self.since[cluster]
        return next((tick.start for tick in self.ticks.of if tick.start >= since), None)

    def result(self) -> LookedBack:
        return LookedBack(
            start=self.start,
            windows=len(self.ticks.of),
            folders=len(self.folders),
            files=len(self.files),
        )


def look_back(context: RunContext, pattern: str, own: TickFolders) -> LookBack | None:
    """Return where to look; None for a run that does not look back. Raises WindowError for too many
    folders, StepResultError, OSError."""
    pipeline, window, ticks = context.pipeline, context.window, context.ticks
    if (
        not context.request.scheduled
        or context.request.reship
        or pipeline.schedule is None
        or ticks is None
    ):
        return None
    noted = beginnings(
        context.own_runs_uri,
        pipeline.key,
        pipeline.clusters,
        window,
        pipeline.schedule.start,
        began=None if context.is_trial else runtime.now(),
    )
    began = by_schedule(noted, pipeline.schedule)
    start = window.start - dt.timedelta(seconds=pipeline.source.lookback_seconds)
    first = next(
        (
            tick.start
            for tick in ticks.windows(start, window.start)
            if tick.start >= min(began.values())
        ),
        None,
    )
    if first is None:
        return None
    before = TickFolders.named(
        pattern, Window(first, window.start), ticks, by_modified=own.by_modified
    )
    folders = (
        {}
        if own.by_modified
        else dict.fromkeys(path for path in before.paths if path not in own.paths)
    )
    return LookBack(
        before,
        window.start,
        folders,
        {cluster: max(first, began[cluster]) for cluster in pipeline.clusters},
    )


def late_files(
    context: RunContext, back: LookBack, decided: Mapping[str, Decisions], own: Sequence[ListedFile]
) -> dict[FileId, list[str]]:
    """Choose the late files that the run ships: file → the clusters that get it, oldest window
    first. The others are added to ``back.left_out``. ``decided``: what each cluster that could be
    asked lacks, of the run's own files too."""
    wanted: dict[FileId, list[str]] = {}
    left_out = back.left_out
    for cluster, left in decided.items():
        for file in left.left:
            if file in back.files:
                wanted.setdefault(file, []).append(cluster)
        for file, reason in left.refused.items():
            left_out.append(_left_out(back, file, f"{cluster}: {reason}", [cluster]))
    windows = {back.window_of(back.files[file]) for file in wanted}
    held = find_retry_exclusions(
        context.own_runs_uri,
        context.pipeline.key,
        context.pipeline.clusters,
        windows,
        context.window.start,
    )
    for file, clusters in list(wanted.items()):
        window = back.window_of(back.files[file])
        for cluster in list(clusters):
            if why := held.why(cluster, window, file.path):
                left_out.append(
                    _left_out(
                        back, file, f"{why}; run that window when the cause is removed", [cluster]
                    )
                )
                clusters.remove(cluster)
    open_ = [file for file, clusters in wanted.items() if clusters]
    open_.sort(key=lambda file: (back.window_of(back.files[file]).start, file))
    kept = set(_within_limits(context, open_, own))
    left_out += [
        _left_out(back, file, _beyond_limits(context, file), wanted[file])
        for file in open_
        if file not in kept
    ]
    return {file: wanted[file] for file in open_ if file in kept}


def _left_out(back: LookBack, file: FileId, reason: str, clusters: list[str]) -> LeftOut:
    return LeftOut(
        path=file.path,
        reason=reason,
        warns=True,
        window=str(back.window_of(back.files[file])),
        clusters=clusters,
        size_bytes=file.size_bytes,
        modified_ms=file.modified_ms,
    )


def _within_limits(
    context: RunContext, late: Sequence[FileId], own: Sequence[ListedFile]
) -> Iterator[FileId]:
    """Yield the files for which there is room beside the window's own. A file without room does not
    hold up the smaller ones behind it."""
    limits = context.pipeline.limits
    count, size = len(own), sum(file.id.size_bytes for file in own)
    for file in late:
        if count < limits.max_files and (
            limits.max_bytes is None or size + file.size_bytes <= limits.max_bytes
        ):
            count, size = count + 1, size + file.size_bytes
            yield file


def _beyond_limits(context: RunContext, file: FileId) -> str:
    most = context.pipeline.limits.max_bytes
    if most is not None and file.size_bytes > most:
        return (
            f"its {file.size_bytes} bytes are more than `limits.max_bytes` ({most}), so no run "
            "takes it; raise the limit"
        )
    return "more than `limits` allow in one run; a later run takes it"
