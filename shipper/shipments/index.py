"""The index: one SQLite file with the records of windows of all pipelines, so that no page has to
read thousands of files.

It is a cache. The records in `runs_uri` are the truth (:mod:`shipper.report.window_records`), and
whoever shows the page brings the index up to date from them (:mod:`shipper.shipments.feed`); it may
be deleted at any time.

``pipelines`` holds the configuration as it was last read, ``records`` the records, and ``cells``
what they come to, by the same fold as `shipper gaps` (:mod:`shipper.report.window_state`): one row
per pipeline, window and cluster. The cluster ``''`` stands for all of a window's clusters, and
shows the worst of them. What only the clock knows is found when somebody asks
(:mod:`shipper.shipments.grid`). ``looked`` says when somebody last looked for records.

The file is in WAL mode, so readers never wait; writers wait for each other, at most
:data:`_PATIENCE_SECONDS`. WAL needs a disk of this machine.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from shipper.config.schedule import Schedule
from shipper.errors import ShipperError, why_system
from shipper.report.coverage import touches
from shipper.report.incomplete import LastRun, RecordsByDay
from shipper.report.late import due, late_after
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import RecordFile, WindowRecord
from shipper.report.window_state import (
    LATE,
    MISSING,
    SHIPPED,
    SHIPPING,
    STATES,
    THERE,
    TROUBLE,
    contains,
    window_state,
)
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window

Span = tuple[int, int]
"""Begin and end in seconds since the epoch."""
ALL = ""
"""The cluster that stands for all."""
_VERSION = 8
"""An index of another version is made again: it is a cache."""
_OF_AN_INDEX = {"pipelines", "cells"}
"""Tables by which an index of any version is known."""
_PATIENCE_SECONDS = 20.0
CODES = {state: code for code, state in enumerate(STATES)}
GOOD = tuple(CODES[state] for state in THERE)
UNDER_WAY = (CODES[SHIPPING], CODES[TROUBLE])
_SCHEMA = """
CREATE TABLE pipelines (key TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID;
CREATE TABLE records (
    key TEXT, name TEXT, place INTEGER, cluster TEXT, step TEXT, run_id TEXT, start INTEGER, "end" INTEGER, since INTEGER, ended INTEGER, body TEXT,
    PRIMARY KEY (key, name, place)
) WITHOUT ROWID;
CREATE INDEX records_until ON records (key, "end");
CREATE INDEX reports_on ON records (cluster, ended) WHERE step = 'report';
CREATE TABLE cells (
    cluster TEXT, key TEXT, start INTEGER, "end" INTEGER, state INTEGER, ended INTEGER, run_id TEXT, complete INTEGER,
    PRIMARY KEY (cluster, key, start, "end")
) WITHOUT ROWID;
CREATE TABLE looked (began INTEGER, whole INTEGER);
INSERT INTO looked VALUES (0, 0);
"""  # noqa: E501


class IndexUnusable(ShipperError):
    """The index cannot be opened or written. Nothing is lost with it."""

    exit_code = 2
    code = "SHIP-901"


def unusable(path: Path, error: Exception) -> IndexUnusable:
    return IndexUnusable(
        f"the index {path} cannot be used: {why_system(error)}. The index is a cache. Delete it: "
        "the Shipments page makes it again."
    )


class Known(BaseModel):
    """A pipeline as the configuration had it, so that no page reads its YAML."""

    model_config = ConfigDict(frozen=True)

    pipeline: str
    key: str
    """The name under which its results are kept."""
    owner: str = ""
    description: str = ""
    clusters: tuple[str, ...] = ()
    formerly: tuple[str, ...] = ()
    runs_uri: str = ""
    cron: str | None = None
    timezone: str = "UTC"
    deliver_within: float | None = None
    settle: float = 0.0
    first: dict[str, int] = {}
    """Cluster → begin of the first window of the schedule."""
    last_run: LastRun | None = None
    """The run of its schedule that began last."""
    replay_of: str | None = None
    """The pipeline that it is a replay of."""
    fault: str = ""
    """First fault of its file."""
    retired: bool = False
    """True if the configuration no longer has it."""

    @property
    def dag_id(self) -> str:
        """DAG whose rights apply: a replay has no DAG of its own."""
        return self.replay_of or self.pipeline

    @functools.cached_property
    def schedule(self) -> Schedule | None:
        if self.cron is None:
            return None
        # Unchecked: the value was checked when the pipeline was read.
        return Schedule.model_construct(
            cron=self.cron, timezone=self.timezone, deliver_within_seconds=self.deliver_within
        )

    def folder(self, window: Window, run_id: str) -> RunFolder:
        """Return the folder of a run. Raises UsageError for what is no id of a run."""
        return RunFolder(self.runs_uri, self.key, window, run_id)

    @property
    def scheduled_since(self) -> dt.datetime | None:
        return self.last_run.schedule_since if self.last_run else None

    def first_on(self, cluster: str) -> int | None:
        """Return the begin of the first window that is due on the cluster, or on any."""
        if self.schedule is None or self.retired:
            return None
        return self.first.get(cluster) if cluster else min(self.first.values(), default=None)

    def due(self, window: Window) -> dt.datetime | None:
        """Return the window's deadline; None without a schedule."""
        if self.schedule is None:
            return None
        return due(self.schedule, self.settle, window, self.scheduled_since)

    def late_after(self, window: Window) -> dt.datetime | None:
        """Return the moment after which a record of the window is late; None: none ever is."""
        of = self.schedule
        return late_after(of, window, self.scheduled_since) if of else None


class Index:
    """An open index. Use it as a context; one per thread."""

    def __init__(
        self, path: Path, *, make: bool = False, present: Collection[str] | None = None
    ) -> None:
        """Open the index. ``make``: for writing, with its folder if there is none. ``present``: the
        pipelines that have a file now, whose windows alone are due; None: unknown. Raises
        IndexUnusable."""
        self.path, self._present = path, present
        try:
            if make:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise IndexUnusable(
                    f"the index {path} does not exist yet. The Shipments page makes it if it may "
                    "write there."
                )
            self.db = sqlite3.connect(path, timeout=_PATIENCE_SECONDS, isolation_level=None)
            self._prepare(make=make)
        except (OSError, sqlite3.Error) as error:
            raise unusable(path, error) from error

    def _prepare(self, *, make: bool) -> None:
        (version,) = self.db.execute("PRAGMA user_version").fetchone()
        if version == _VERSION:
            return
        if not make:
            raise IndexUnusable(f"{self.path} is not an index of this version of shipper.")
        self.db.execute("PRAGMA journal_mode = WAL")
        with self.writing():
            (version,) = self.db.execute("PRAGMA user_version").fetchone()
            if version == _VERSION:  # somebody else was faster
                return
            found = self.db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            tables = {name for (name,) in found}
            if tables and not tables >= _OF_AN_INDEX:
                raise IndexUnusable(
                    f"{self.path} is a database of another program, and stays as it is. Name "
                    "another file as `index` in config/shipper.yaml."
                )
            for table in tables:
                self.db.execute(f'DROP TABLE "{table}"')
            for statement in _SCHEMA.split(";\n"):
                self.db.execute(statement)
            self.db.execute(f"PRAGMA user_version = {_VERSION}")

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold one transaction. Raises sqlite3.Error, also if others write for longer than this one
        waits."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def know(self, known: Known) -> None:
        """Keep what the page needs of the pipeline."""
        row = (known.key, known.model_dump_json(exclude_defaults=True))
        self.db.execute("INSERT OR REPLACE INTO pipelines VALUES (?, ?)", row)

    def forget(self, key: str, before: int) -> None:
        """Remove the windows of the pipeline that ended before."""
        for table in ("records", "cells"):
            self.db.execute(f'DELETE FROM {table} WHERE key = ? AND "end" < ?', (key, before))

    def begin_look(self, now: int, pause: int) -> int | None:
        """Claim a look for records that are not in the index. Return when the last look at all of
        them ended; None if a look began less than ``pause`` seconds ago."""
        claimed = (now, now - pause)
        (is_due,) = self.db.execute("SELECT began <= ? FROM looked", claimed[1:]).fetchone()
        if not is_due:  # nobody need wait for those that write
            return None
        with self.writing():
            done = self.db.execute("UPDATE looked SET began = ? WHERE began <= ?", claimed)
            (whole,) = self.db.execute("SELECT whole FROM looked").fetchone()
        return int(whole) if done.rowcount else None

    def looked_at_all(self, now: int) -> None:
        self.db.execute("UPDATE looked SET whole = ?", (now,))

    def names(self, key: str) -> set[str]:
        """Return the files whose records it has."""
        rows = self.db.execute("SELECT DISTINCT name FROM records WHERE key = ?", (key,))
        return {name for (name,) in rows}

    def add(self, known: Known, found: Iterable[tuple[RecordFile, Sequence[WindowRecord]]]) -> None:
        """Add records, in whatever order, and write anew the cells that they are about."""
        new: list[WindowRecord] = []
        for file, records in found:
            new += records
            self.db.executemany(
                f"INSERT OR REPLACE INTO records VALUES ({', '.join('?' * 11)})",
                [_row(known.key, file, place, record) for place, record in enumerate(records)],
            )
        touched = set[Span]()
        for cluster in known.clusters:
            if about := [record for record in new if record.is_about(cluster)]:
                touched |= self._decide(known, cluster, about)
        self._sum_up(known, touched)

    def _decide(self, known: Known, cluster: str, new: Sequence[WindowRecord]) -> set[Span]:
        """Write the cells of the new records' windows, and of those that they looked at, as all
        records come to by now."""
        first = min(_seconds(record.since) for record in new)
        end = max(_seconds(record.window_end) for record in new)
        cells = {
            (begin, over): cell
            for begin, over, *cell in self.db.execute(
                'SELECT start, "end", state, ended FROM cells WHERE cluster = ? AND key = ? AND '
                '"end" > ? AND start < ?',
                (cluster, known.key, first, end),
            )
        }
        spans = {*cells, *(_span(record.window) for record in new)}
        looked = [record for record in new if record.start or record.step == "begun"]
        if known.schedule and looked:
            begin = min(_seconds(record.since) for record in looked)
            spans |= {
                span
                for span in spans_of(Ticks(known.schedule), begin, end)
                if begin <= span[0] and span[1] <= end
            }
        spans = {span for span in spans if _is_news(window_of(span), cells.get(span), new)}
        if not spans:
            return spans
        rows = self.db.execute(
            "SELECT body FROM records WHERE key = ? AND cluster IN (?, '') AND "
            '"end" > ? AND since < ?',
            (known.key, cluster, min(start for start, _ in spans), max(end for _, end in spans)),
        )
        by_day = RecordsByDay(
            record
            for (body,) in rows
            if (record := WindowRecord.model_validate_json(body)).is_about(cluster)
        )
        for span in spans:
            window = window_of(span)
            found = window_state(window, by_day.over(window), known.late_after(window))
            if found is None:
                continue
            run, ended = found.under_way, found.at
            state = found.state
            if run:
                state, ended = TROUBLE if run.error else SHIPPING, run.began
            row = (cluster, known.key, *span, CODES[state], ended and _seconds(ended))
            self.db.execute(
                "INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, run.run_id if run else found.run_id, found.complete),
            )
        return spans

    def cells_of(self, known: Known, span: Span) -> dict[str, Sequence[Any]]:
        """Return state, end, run and completeness of a window on each cluster. If any cluster has a
        cell, one that has none, and should, misses the window."""
        cells = {
            cluster: rest
            for cluster, *rest in self.db.execute(
                "SELECT cluster, state, ended, run_id, complete FROM cells WHERE cluster != '' AND "
                'key = ? AND start = ? AND "end" = ?',
                (known.key, *span),
            )
        }
        for name in known.clusters if cells else ():
            if known.first.get(name, span[1]) <= span[0]:
                cells.setdefault(name, [CODES[MISSING], None, "", False])
        return {name: cells[name] for name in known.clusters if name in cells}

    def _sum_up(self, known: Known, touched: Iterable[Span]) -> None:
        """Sum up all clusters' cells of each window: the worst of them counts."""
        for start, end in touched:
            of = [*self.cells_of(known, (start, end)).values()]
            if not of:
                continue
            worst = max(of, key=lambda cell: cell[0])
            ended = worst[1] if worst[0] in UNDER_WAY else max(cell[1] or 0 for cell in of)
            self.db.execute(
                "INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (ALL, known.key, start, end, worst[0], ended, worst[2], all(c[3] for c in of)),
            )

    def pipelines(self, only: Collection[str] | None = None) -> list[Known]:
        """Return all pipelines by name: those of the index, and those that have a file now.
        ``only``: DAGs that may be seen; None: all."""
        found = [
            Known.model_validate_json(body)
            for (body,) in self.db.execute("SELECT body FROM pipelines")
        ]
        present = self._present
        if present is not None:
            names = {one.pipeline for one in found}
            gone = {"retired": True, "fault": ""}  # of a file that is not there any more
            found = [one if one.dag_id in present else one.model_copy(update=gone) for one in found]
            found += [Known(pipeline=name, key=name) for name in set(present) - names]
        shown = (one for one in found if only is None or one.dag_id in only)
        return sorted(shown, key=lambda one: one.pipeline)


def _row(key: str, file: RecordFile, place: int, record: WindowRecord) -> tuple[Any, ...]:
    return (
        key,
        file.name,
        place,
        record.cluster,
        record.step,
        record.run_id,
        *_span(record.window),
        _seconds(record.since),
        _seconds(record.finished),
        record.model_dump_json(exclude_defaults=True),
    )


def _is_news(window: Window, cell: Sequence[int] | None, new: Iterable[WindowRecord]) -> bool:
    """Return True if new records may change the window's cell. Most of them are of runs that looked
    back at windows which were complete before."""
    if cell is None or cell[0] not in (CODES[SHIPPED], CODES[LATE]):
        return True
    name = str(window)
    return any(
        contains(record.window, window)
        or (name in record.committed and _seconds(record.committed[name]) != cell[1])
        or any(touches(note.window, window) for note in record.uncovered)
        for record in new
    )


def _seconds(at: dt.datetime) -> int:
    return int(at.timestamp())


def _span(window: Window) -> Span:
    return _seconds(window.start), _seconds(window.end)


def window_of(span: Span) -> Window:
    return Window(*(dt.datetime.fromtimestamp(at, dt.UTC) for at in span))


def spans_of(ticks: Ticks, first: int, end: int) -> Iterator[Span]:
    """Yield the windows of the schedule that touch [first, end), in seconds."""
    moments = (dt.datetime.fromtimestamp(at, dt.UTC) for at in (first, end))
    for window in ticks.windows(*moments):
        yield _span(window)
