"""Looking back: the folders of the windows before a scheduled run's own, and the files there that some cluster lacks.

A file is missed by the run of its own window when it arrives later, is still being written then, or when that run fails or never is. The run
after it finds it here: one listing more, and one question to each ledger. Files that are complete are counted, and neither read nor named in
the plan.

What would fail again is left alone, with a warning, so that an old file fails no run but its own: the files of a window whose source gate is
closed or whose ship failed for good, and late files that a run tried in vain. They wait for a run of their own window.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shipper.driver.context import RunContext
from shipper.driver.files import ListedFile, NotTaken
from shipper.driver.pending import Pending
from shipper.report.gaps import beginnings
from shipper.report.past_runs import not_again
from shipper.report.plan_result import LeftOut, LookedBack
from shipper.types import FileId
from shipper.windows.schedule import Ticks
from shipper.windows.window import Window, source_paths, to_ms


@dataclass
class LookBack:
    """The windows that are looked at, oldest first, and what is there."""

    windows: list[Window]
    folders: dict[str, Window]
    """Those that the run's own window does not touch → the last window that does, in whose run their files should have been."""
    folders_of: Mapping[Window, frozenset[str]]
    since: Mapping[str, dt.datetime]
    """Cluster → begin of the first window that it is asked about; later than all of them for one that came only now."""
    by_modified: bool = False
    """Whether a file's window is the one in which it was last modified, wherever it lies."""
    listed: set[str] = field(default_factory=set)
    """Folders with a file in them; windows, where folders do not tell."""
    files: dict[FileId, ListedFile] = field(default_factory=dict)
    """Done being written."""
    left_out: list[LeftOut] = field(default_factory=list)

    def holds(self, file: ListedFile) -> bool:
        """Whether it is of one of these windows, and not of the run's own."""
        return file.id.modified_ms < to_ms(self.windows[-1].end) if self.by_modified else file.under in self.folders

    def note(self, listed: Iterable[ListedFile]) -> None:
        """What was found, of whatever window."""
        if self.by_modified:
            self.listed = {str(self.window_of(file)) for file in listed if self.holds(file)}
        else:
            self.listed = {file.under for file in listed}

    def take(self, files: Iterable[ListedFile], left_out: Iterable[NotTaken]) -> None:
        """Of what is left out only what may be complete later is of interest: a name that nobody wants is nothing new. What is open is modified
        once more when it is closed, and then of a later window where that decides."""
        self.files = {file.id: file for file in files}
        for found in left_out:
            if found.state == "unsettled" or (found.state == "open" and not self.by_modified):
                window = str(self.window_of(found.file))
                file = found.file.id
                self.left_out.append(
                    LeftOut(path=file.path, reason=found.reason, warns=True, window=window, modified_ms=file.modified_ms)
                )

    def window_of(self, file: ListedFile) -> Window:
        """Raises StopIteration, KeyError for a file of no window before the run's own."""
        if self.by_modified:
            return next(window for window in reversed(self.windows) if to_ms(window.start) <= file.id.modified_ms)
        return self.folders[file.under]

    def for_cluster(self, cluster: str) -> list[FileId]:
        """The files that the cluster is asked about."""
        since = self.since[cluster]
        return [file.id for file in self.files.values() if self.window_of(file).start >= since]

    def looks_back_to(self, cluster: str) -> dt.datetime | None:
        since = self.since[cluster]
        return next((window.start for window in self.windows if window.start >= since), None)

    def result(self) -> LookedBack:
        empty = [str(window) for window, folders in self.folders_of.items() if not folders & self.listed]
        return LookedBack(
            start=self.windows[0].start,
            windows=len(self.windows),
            folders=len(self.folders),
            files=len(self.files),
            empty=empty,
        )


def look_back(context: RunContext, pattern: str, own: Sequence[str]) -> LookBack | None:
    """Where to look; None for a run that does not. Raises WindowError for too many folders, StepResultError, OSError."""
    pipeline = context.pipeline
    schedule, window = pipeline.schedule, context.window
    if not context.scheduled or context.reship or schedule is None:
        return None
    began = beginnings(
        context.own_runs_uri, pipeline.name, pipeline.clusters, window.start, schedule.start, keep=not context.is_trial
    )
    start = window.start - dt.timedelta(seconds=pipeline.source.lookback_seconds)
    windows = [
        Window(found.start, min(found.end, window.start))
        for found in Ticks(schedule).windows(start, window.start)
        if found.start >= min(began.values())
    ]
    if not windows:
        return None
    since = {cluster: max(windows[0].start, began[cluster]) for cluster in pipeline.clusters}
    if pipeline.source.window_by == "modified":
        return LookBack(windows, {}, {found: frozenset({str(found)}) for found in windows}, since, by_modified=True)
    folders_of = {found: frozenset(source_paths(pattern, found)) for found in windows}
    folders = {path: found for found, paths in folders_of.items() for path in sorted(paths) if path not in own}
    return LookBack(windows, folders, folders_of, since)


@dataclass
class Late:
    """What the run ships of the files that it found when it looked back."""

    files: dict[FileId, list[str]]
    """File → the clusters that get it, oldest window first."""
    left_out: list[LeftOut]


def late_files(context: RunContext, back: LookBack, pending: Mapping[str, Pending], own: Sequence[ListedFile]) -> Late:
    """``pending``: what each cluster that could be asked lacks, of the run's own files too."""
    wanted: dict[FileId, list[str]] = {}
    left_out: list[LeftOut] = []
    for cluster, left in pending.items():
        for file in left.left:
            if file in back.files:
                wanted.setdefault(file, []).append(cluster)
        for file, reason in left.refused.items():
            left_out.append(_left_out(back, file, f"{cluster}: {reason}", [cluster]))
    windows = {back.window_of(back.files[file]) for file in wanted}
    held = not_again(context.own_runs_uri, context.pipeline.name, context.pipeline.clusters, windows, context.window.start)
    for file, clusters in list(wanted.items()):
        window = back.window_of(back.files[file])
        for cluster in list(clusters):
            if why := held.why(cluster, window, file.path):
                left_out.append(_left_out(back, file, f"{why}; run that window when it is cleared up", [cluster]))
                clusters.remove(cluster)
    open_ = [file for file, clusters in wanted.items() if clusters]
    open_.sort(key=lambda file: (back.window_of(back.files[file]).start, file))
    kept = set(_within_limits(context, open_, own))
    left_out += [_left_out(back, file, _beyond_limits(context, file), wanted[file]) for file in open_ if file not in kept]
    return Late({file: wanted[file] for file in open_ if file in kept}, left_out)


def _left_out(back: LookBack, file: FileId, reason: str, clusters: list[str]) -> LeftOut:
    return LeftOut(
        path=file.path, reason=reason, warns=True, window=str(back.window_of(back.files[file])), clusters=clusters,
        size_bytes=file.size_bytes, modified_ms=file.modified_ms,
    )  # fmt: skip


def _within_limits(context: RunContext, late: Sequence[FileId], own: Sequence[ListedFile]) -> Iterator[FileId]:
    """Yield the files for which there is room beside the window's own. A file without room does not hold up the smaller ones behind it."""
    limits = context.pipeline.limits
    count, size = len(own), sum(file.id.size_bytes for file in own)
    for file in late:
        if count < limits.max_files and (limits.max_bytes is None or size + file.size_bytes <= limits.max_bytes):
            count, size = count + 1, size + file.size_bytes
            yield file


def _beyond_limits(context: RunContext, file: FileId) -> str:
    most = context.pipeline.limits.max_bytes
    if most is not None and file.size_bytes > most:
        return f"its {file.size_bytes} bytes are more than `limits.max_bytes` ({most}), so no run takes it; raise the limit"
    return "more than `limits` allow in one run; a later run takes it"
