"""The index: one SQLite file that says what became of each window, so that no page has to read thousands of reports.

It is a cache. The reports in `runs_uri` are the truth, and `shipper index` makes it anew from them; it may be deleted at any time. Each report
step writes its rows into it (:func:`feed`), and the first step of a run that it has begun.

Two tables hold what runs did. ``runs`` has one row per pipeline, window, run and cluster. ``cells`` has one per window and cluster, by the run
that decides about it: the last one over the window itself; or a later one that looked back, or was over a longer window, and found or made all of
it complete. The cluster ``''`` stands for all of a window's clusters, and shows the worst of them. What does not follow from runs, that a window
is due and nobody ran it, is found when somebody asks (:mod:`shipper.shipments.grid`). ``begun`` holds the runs that have left no report yet.
``ships`` and ``arrivals`` hold what each ship sent, as a whole and to each topic, for the page of a cluster.

The file is in WAL mode, so readers never wait; writers wait for each other, at most :data:`_PATIENCE_SECONDS`. WAL needs a disk of this machine.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from shipper.config.pipeline import Pipeline
from shipper.config.schedule import Schedule
from shipper.errors import ShipperError, why_system
from shipper.shipments.outcomes import BLOCKED, MISSING, SHIPPED, STATES, THERE, Outcome
from shipper.windows.schedule import Ticks
from shipper.windows.window import parse_window

ALL = ""
"""The cluster that stands for all."""
_VERSION = 2
_FIRST_WITH_ARRIVALS = 2
"""An index of before is read as it is, and gets the tables that it lacks when a run writes to it."""
_PATIENCE_SECONDS = 5.0
CODES = {state: code for code, state in enumerate(STATES)}
GOOD = tuple(CODES[state] for state in THERE)
_SCHEMA = """
CREATE TABLE pipelines (
    pipeline TEXT PRIMARY KEY, owner TEXT, description TEXT, clusters TEXT, runs_uri TEXT,
    cron TEXT, timezone TEXT, settle REAL, deliver_within REAL, retired INTEGER DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE beginnings (pipeline TEXT, cluster TEXT, first INTEGER, PRIMARY KEY (pipeline, cluster)) WITHOUT ROWID;
CREATE TABLE runs (
    pipeline TEXT, start INTEGER, "end" INTEGER, run_id TEXT, cluster TEXT, state INTEGER, began INTEGER, ended INTEGER,
    files INTEGER, bytes INTEGER, records INTEGER, there INTEGER, cause TEXT,
    PRIMARY KEY (pipeline, start, "end", run_id, cluster)
) WITHOUT ROWID;
CREATE TABLE cells (
    cluster TEXT, pipeline TEXT, start INTEGER, "end" INTEGER, state INTEGER, ended INTEGER, run_id TEXT,
    PRIMARY KEY (cluster, pipeline, start, "end")
) WITHOUT ROWID;
CREATE TABLE begun (
    pipeline TEXT, start INTEGER, "end" INTEGER, cluster TEXT, run_id TEXT, at INTEGER,
    PRIMARY KEY (pipeline, start, "end", cluster, run_id)
) WITHOUT ROWID;
"""
_ARRIVALS = """
CREATE TABLE ships (
    pipeline TEXT, start INTEGER, "end" INTEGER, run_id TEXT, cluster TEXT, ended INTEGER, seconds REAL, records INTEGER, bytes INTEGER,
    wire_bytes INTEGER, quarantined INTEGER, parked INTEGER, ledger INTEGER,
    PRIMARY KEY (pipeline, start, "end", run_id, cluster)
) WITHOUT ROWID;
CREATE INDEX ships_on ON ships (cluster, ended);
CREATE TABLE arrivals (
    pipeline TEXT, start INTEGER, "end" INTEGER, run_id TEXT, cluster TEXT, topic TEXT, ended INTEGER, records INTEGER, bytes INTEGER,
    quarantine INTEGER, parked INTEGER,
    PRIMARY KEY (pipeline, start, "end", run_id, cluster, topic)
) WITHOUT ROWID;
CREATE INDEX arrivals_on ON arrivals (cluster, ended);
"""


class IndexUnusable(ShipperError):
    """The index cannot be opened or written. Nothing is lost with it."""

    exit_code = 2


class Known(NamedTuple):
    """What the index keeps of a pipeline, so that no page reads its YAML."""

    pipeline: str
    owner: str
    description: str
    clusters: tuple[str, ...]
    runs_uri: str
    schedule: Schedule | None
    settle: float
    retired: bool
    """Whether the configuration had it no more when it was last read."""


class Index:
    """An open index. Use it as a context; one per thread."""

    def __init__(self, path: Path, *, make: bool = False) -> None:
        """``make``: for writing, with its folder where there is none. Raises IndexUnusable."""
        self.path = path
        try:
            if make:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise IndexUnusable(
                    f"there is no index {path} yet: `shipper index` makes it from the reports, and so does the next run"
                )
            self.db = sqlite3.connect(path, timeout=_PATIENCE_SECONDS, isolation_level=None)
            self._prepare(make=make)
        except (OSError, sqlite3.Error) as error:
            why = why_system(error) if isinstance(error, OSError) else str(error)
            raise IndexUnusable(
                f"the index {path} cannot be used: {why}. It is a cache: delete it, and `shipper index` makes it anew"
            ) from error

    def _prepare(self, *, make: bool) -> None:
        (version,) = self.db.execute("PRAGMA user_version").fetchone()
        self.has_arrivals = make or version >= _FIRST_WITH_ARRIVALS
        if version == _VERSION or (version == 1 and not make):
            return
        if version not in (0, 1):
            raise IndexUnusable(
                f"the index {self.path} is of another version of shipper: delete it, and `shipper index` makes it anew"
            )
        if not make:
            raise IndexUnusable(f"{self.path} is no index: `shipper index` makes one")
        self.db.execute("PRAGMA journal_mode = WAL")
        with self.writing():
            (version,) = self.db.execute("PRAGMA user_version").fetchone()
            if version < _VERSION:  # nobody else was faster
                for statement in ((_SCHEMA if version == 0 else "") + _ARRIVALS).split(";\n"):
                    self.db.execute(statement)
                self.db.execute(f"PRAGMA user_version = {_VERSION}")

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction. Raises sqlite3.Error, also if others write for longer than this one waits."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def know(self, pipeline: Pipeline, runs_uri: str, beginnings: Mapping[str, dt.datetime]) -> None:
        """Keeps what the page needs of the pipeline. ``beginnings``: cluster → begin of the first window of its schedule."""
        schedule = pipeline.schedule
        row = (
            pipeline.name, pipeline.owner, pipeline.description, "\n".join(pipeline.clusters), runs_uri, schedule and schedule.cron,
            schedule and schedule.timezone, pipeline.source.settle_seconds, schedule and schedule.deliver_within_seconds,
        )  # fmt: skip
        self.db.execute(f"INSERT OR REPLACE INTO pipelines VALUES ({', '.join('?' * len(row))}, 0)", row)
        first = [(pipeline.name, cluster, int(at.timestamp())) for cluster, at in beginnings.items()]
        self.db.executemany("INSERT OR REPLACE INTO beginnings VALUES (?, ?, ?)", first)

    def forget(self, pipeline: str, before: int) -> None:
        """Remove the windows of the pipeline that ended before."""
        for table in ("runs", "begun", "ships", "arrivals"):
            self.db.execute(f'DELETE FROM {table} WHERE pipeline = ? AND start < ? AND "end" < ?', (pipeline, before, before))
        clusters = self.db.execute("SELECT cluster FROM beginnings WHERE pipeline = ? UNION SELECT ?", (pipeline, ALL)).fetchall()
        for (cluster,) in clusters:
            self.db.execute(
                'DELETE FROM cells WHERE cluster = ? AND pipeline = ? AND start < ? AND "end" < ?',
                (cluster, pipeline, before, before),
            )

    def retire(self, present: Collection[str]) -> None:
        """Marks the pipelines that the configuration has no more; their runs stay."""
        for known in self.pipelines():
            self.db.execute(
                "UPDATE pipelines SET retired = ? WHERE pipeline = ?", (known.pipeline not in present, known.pipeline)
            )

    def begun(self, pipeline: str, start: int, end: int, run_id: str, clusters: Iterable[str], at: int) -> None:
        """A run over the window has begun. Its report takes that back."""
        rows = [(pipeline, start, end, cluster, run_id, at) for cluster in clusters]
        self.db.executemany("INSERT OR IGNORE INTO begun VALUES (?, ?, ?, ?, ?, ?)", rows)

    def begun_over(self, pipeline: str, start: int, end: int) -> list[tuple[str, int]]:
        """Id and beginning of the runs over the window that have left no report, the latest last."""
        return self.db.execute(
            'SELECT run_id, min(at) FROM begun WHERE pipeline = ? AND start = ? AND "end" = ? GROUP BY run_id ORDER BY 2',
            (pipeline, start, end),
        ).fetchall()

    def running(self, pipeline: str, start: int, end: int) -> dict[str, int]:
        """Cluster → when the last of these runs began, of those that are for it."""
        return dict(
            self.db.execute(
                'SELECT cluster, max(at) FROM begun WHERE pipeline = ? AND start = ? AND "end" = ? GROUP BY cluster',
                (pipeline, start, end),
            )
        )

    def over(self, pipeline: str, start: int, end: int, run_id: str) -> None:
        """The run has left its report, whatever it says. A run that began before and left none was killed: this one stands for it too."""
        self.db.execute(
            'DELETE FROM begun WHERE pipeline = ?1 AND start = ?2 AND "end" = ?3 AND (run_id = ?4 OR at <= '
            'coalesce((SELECT max(at) FROM begun WHERE pipeline = ?1 AND start = ?2 AND "end" = ?3 AND run_id = ?4), 0))',
            (pipeline, start, end, run_id),
        )

    def add(self, found: Iterable[Outcome], ticks: Ticks | None = None) -> None:
        """What a report says, in whatever order reports come. ``ticks``: of the pipeline's schedule, whose windows a run that looked back has
        seen too."""
        for outcome in found:
            row = (
                outcome.pipeline, outcome.start, outcome.end, outcome.run_id, outcome.cluster, CODES[outcome.state], outcome.began,
                outcome.ended, outcome.files, outcome.bytes, outcome.records, outcome.there, outcome.cause,
            )  # fmt: skip
            self.db.execute(f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * len(row))})", row)
            self._arrived(outcome)
            if outcome.state == BLOCKED:
                self._forget_looked_back(outcome)
            self._put(outcome, outcome.start, outcome.end, CODES[outcome.state])
            self._sum_up(outcome, {(outcome.start, outcome.end), *self._cover(outcome, ticks)})

    def _arrived(self, outcome: Outcome) -> None:
        """A ship's figures in place of those that an earlier report of the same run had."""
        run = (outcome.pipeline, outcome.start, outcome.end, outcome.run_id, outcome.cluster)
        for table in ("ships", "arrivals"):
            self.db.execute(
                f'DELETE FROM {table} WHERE pipeline = ? AND start = ? AND "end" = ? AND run_id = ? AND cluster = ?', run
            )
        if (sent := outcome.sent) is None:
            return
        self.db.execute(
            "INSERT INTO ships VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *run, outcome.ended, sent.seconds, sent.records, sent.bytes, sent.wire_bytes, sent.quarantined, sent.parked, sent.ledger
            ),
        )  # fmt: skip
        self.db.executemany(
            "INSERT INTO arrivals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*run, one.topic, outcome.ended, one.records, one.bytes, one.quarantine, one.parked) for one in sent.topics],
        )

    def _forget_looked_back(self, blocked: Outcome) -> None:
        """A window whose source gate is closed is not shipped because a run behind it looked back, also if that one's report came first."""
        self.db.execute(
            'DELETE FROM cells WHERE cluster = ?1 AND pipeline = ?2 AND start = ?3 AND "end" = ?4 AND NOT EXISTS (SELECT 1 FROM runs '
            'WHERE runs.pipeline = ?2 AND runs.start <= ?3 AND runs."end" >= ?4 AND runs.run_id = cells.run_id)',
            (blocked.cluster, blocked.pipeline, blocked.start, blocked.end),
        )

    def _put(self, by: Outcome, start: int, end: int, state: int) -> None:
        """The window's cell, unless a later run has decided."""
        self.db.execute(
            'INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (cluster, pipeline, start, "end") DO UPDATE SET '
            "state = excluded.state, ended = excluded.ended, run_id = excluded.run_id "
            "WHERE excluded.ended >= cells.ended OR excluded.run_id = cells.run_id",
            (by.cluster, by.pipeline, start, end, state, by.ended, by.run_id),
        )

    def _cover(self, by: Outcome, ticks: Ticks | None) -> set[tuple[int, int]]:
        """Windows before the run's own, and within it, that the run found complete or made so: those that were not are shipped now. One whose
        own source gate is closed stays so until a run over all of it; a person has to look."""
        if by.covers_from is None:
            return set()
        first = min(by.covers_from, by.start)
        known = {
            (start, end): (state, ended)
            for start, end, state, ended in self.db.execute(
                'SELECT start, "end", state, ended FROM cells WHERE cluster = ? AND pipeline = ? AND start >= ? AND start < ? AND "end" <= ?',
                (by.cluster, by.pipeline, first, by.end, by.end),
            )
        }
        not_there = {_span(text) for text in by.uncovered}
        seen = {span: None for span in known if span != (by.start, by.end)}
        if ticks and (first < by.start or not known.keys() - {(by.start, by.end)}):
            seen |= dict.fromkeys(span for span in spans(ticks, first, by.end) if span[0] >= first and span[1] <= by.end)
        changed = set()
        for span in seen:
            state, ended = known.get(span, (None, 0))
            within = span[0] >= by.start
            if span in not_there or span == (by.start, by.end) or state in GOOD or ended > by.ended:
                continue
            if state == CODES[BLOCKED] and not within:
                continue
            self._put(by, *span, CODES[SHIPPED])
            changed.add(span)
        return changed

    def _sum_up(self, by: Outcome, touched: Iterable[tuple[int, int]]) -> None:
        """All clusters' cell of each window: the worst of them. A cluster that has none, and should, misses the window."""
        known = self.db.execute("SELECT clusters FROM pipelines WHERE pipeline = ?", (by.pipeline,)).fetchone()
        names = known[0].split("\n") if known else [by.cluster]
        first = dict(self.db.execute("SELECT cluster, first FROM beginnings WHERE pipeline = ?", (by.pipeline,)))
        for start, end in touched:
            worst, ended, run_id = -1, 0, ""
            for name in names:
                cell = self.db.execute(
                    'SELECT state, ended, run_id FROM cells WHERE cluster = ? AND pipeline = ? AND start = ? AND "end" = ?',
                    (name, by.pipeline, start, end),
                ).fetchone()
                if cell is None and first.get(name, start + 1) > start:
                    continue
                state, at, run = cell or (CODES[MISSING], 0, "")
                worst, run_id = (state, run) if state > worst else (worst, run_id)
                ended = max(ended, at)
            if worst >= 0:
                self.db.execute(
                    "INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (ALL, by.pipeline, start, end, worst, ended, run_id),
                )

    def pipelines(self) -> list[Known]:
        rows = self.db.execute(
            "SELECT pipeline, owner, description, clusters, runs_uri, cron, timezone, settle, deliver_within, retired FROM pipelines "
            "ORDER BY pipeline"
        )
        return [
            Known(
                name, owner, about, tuple(clusters.split("\n")), uri, _schedule(cron, zone, within), settle or 0.0, bool(retired)
            )
            for name, owner, about, clusters, uri, cron, zone, settle, within, retired in rows
        ]

    def beginnings(self, cluster: str = ALL) -> dict[str, int]:
        """Pipeline → begin of the first window of its schedule: of the cluster, or the earliest of all."""
        where, values = ("WHERE cluster = ?", (cluster,)) if cluster else ("", ())
        return dict(self.db.execute(f"SELECT pipeline, min(first) FROM beginnings {where} GROUP BY pipeline", values))

    def has(self, pipeline: str, start: int, end: int, run_id: str) -> bool:
        """Whether the run's report is in it."""
        found = self.db.execute(
            'SELECT 1 FROM runs WHERE pipeline = ? AND start = ? AND "end" = ? AND run_id = ? LIMIT 1',
            (pipeline, start, end, run_id),
        )
        return found.fetchone() is not None


def spans(ticks: Ticks, first: int, end: int) -> Iterator[tuple[int, int]]:
    """The windows of the schedule that touch [first, end), in seconds."""
    moments = (dt.datetime.fromtimestamp(at, dt.UTC) for at in (first, end))
    for window in ticks.windows(*moments):
        yield int(window.start.timestamp()), int(window.end.timestamp())


def _span(text: str) -> tuple[int, int]:
    window = parse_window(text)
    return int(window.start.timestamp()), int(window.end.timestamp())


def _schedule(cron: str | None, timezone: str, deliver_within: float | None) -> Schedule | None:
    if cron is None:
        return None
    # By construction: it was checked when the pipeline was read, and a page should not pay for it again.
    return Schedule.model_construct(cron=cron, timezone=timezone, deliver_within_seconds=deliver_within)
