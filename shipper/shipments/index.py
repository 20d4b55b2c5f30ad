"""The index: one SQLite file that says what became of each window, so that no page has to read
thousands of reports.

It is a cache. The reports in `runs_uri` are the truth, and whoever shows the page brings the index
up to date from them (:mod:`shipper.shipments.feed`); it may be deleted at any time. Runs on the
same machine write their rows into it: the first step that the run has begun, the report step what
became of it.

Four tables hold what runs did. ``runs`` has one row per pipeline, window, run and cluster, and
``looks`` what each of them looked at and left. ``cells`` has one per window and cluster: what the
looks of all runs come to, by the same rule as `shipper gaps` (:mod:`shipper.report.standing`), and
``commits`` when the last record of a window was committed, by which it is late or not. The cluster
``''`` stands for all of a window's clusters, and shows the worst of them. What does not follow from
runs, that a window is due and nobody ran it, is found when somebody asks
(:mod:`shipper.shipments.grid`). ``begun`` holds the runs that have left no report yet. ``ships``
and ``arrivals`` hold what each run sent, as a whole and to each topic, for the page of a cluster.
``looked`` says when somebody last looked for reports that are not in the index.

The file is in WAL mode, so readers never wait; writers wait for each other, at most
:data:`_PATIENCE_SECONDS`. WAL needs a disk of this machine.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shipper.config.pipeline import Pipeline
from shipper.config.rules import original
from shipper.config.schedule import Schedule
from shipper.errors import ShipperError, why_system
from shipper.report.gaps import LastRun
from shipper.report.results import Coverage
from shipper.report.standing import LATE, MISSING, SHIPPED, STATES, THERE, RunSeen, standing
from shipper.shipments.outcomes import Outcome
from shipper.windows.schedule import Ticks
from shipper.windows.window import Window, parse_window

Span = tuple[int, int]
"""Begin and end in seconds since the epoch."""
ALL = ""
"""The cluster that stands for all."""
_VERSION = 7
"""An index of another version is made again: it is a cache."""
_OF_AN_INDEX = {"pipelines", "beginnings", "runs", "cells", "looks"}
"""Tables by which an index of any version is known."""
_PATIENCE_SECONDS = 5.0
CODES = {state: code for code, state in enumerate(STATES)}
GOOD = tuple(CODES[state] for state in THERE)
_SCHEMA = """
CREATE TABLE pipelines (
    pipeline TEXT PRIMARY KEY, owner TEXT, description TEXT, clusters TEXT, runs_uri TEXT,
    cron TEXT, timezone TEXT, settle REAL, deliver_within REAL, key TEXT, last_run TEXT
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
CREATE TABLE looks (
    pipeline TEXT, start INTEGER, "end" INTEGER, run_id TEXT, cluster TEXT, began INTEGER, first INTEGER, passed INTEGER, coverage TEXT,
    closed INTEGER, recreated TEXT, doubt TEXT,
    PRIMARY KEY (cluster, pipeline, start, "end", run_id, passed, began)
) WITHOUT ROWID;
CREATE TABLE looked (began INTEGER, whole INTEGER);
INSERT INTO looked VALUES (0, 0);
CREATE INDEX looks_until ON looks (cluster, pipeline, "end");
CREATE TABLE commits (
    cluster TEXT, pipeline TEXT, start INTEGER, "end" INTEGER, at INTEGER,
    PRIMARY KEY (cluster, pipeline, start, "end")
) WITHOUT ROWID;
"""  # noqa: E501


class IndexUnusable(ShipperError):
    """The index cannot be opened or written. Nothing is lost with it."""

    exit_code = 2
    code = "SHIP-901"


class Known(NamedTuple):
    """Entry of a pipeline in the index, so that no page reads its YAML."""

    pipeline: str
    owner: str
    description: str
    clusters: tuple[str, ...]
    runs_uri: str
    schedule: Schedule | None
    settle: float
    key: str
    """The name under which its results are kept."""
    retired: bool
    """True if the configuration no longer has it."""
    replay_of: str | None
    """The pipeline that it is a replay of, by its present name."""
    last_run: LastRun | None = None
    """The run of its schedule that began last."""

    @property
    def dag_id(self) -> str:
        """DAG whose rights apply: a replay has no DAG of its own."""
        return self.replay_of or self.pipeline


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
                    f"the index {path} does not exist yet. The next run makes it, and so does the "
                    "Shipments page if it may write there."
                )
            self.db = sqlite3.connect(path, timeout=_PATIENCE_SECONDS, isolation_level=None)
            self._prepare(make=make)
        except (OSError, sqlite3.Error) as error:
            why = why_system(error) if isinstance(error, OSError) else str(error)
            raise IndexUnusable(
                f"the index {path} cannot be used: {why}. The index is a cache. Delete it: the "
                "Shipments page makes it again."
            ) from error

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

    def know(
        self,
        pipeline: Pipeline,
        runs_uri: str,
        beginnings: Mapping[str, dt.datetime],
        last_run: LastRun | None,
    ) -> None:
        """Keep what the page needs of the pipeline. ``beginnings``: cluster → begin of the first
        window of its schedule."""
        for name in pipeline.formerly:
            self._rename(name, pipeline.name)
        schedule = pipeline.schedule
        row = (
            pipeline.name,
            pipeline.owner,
            pipeline.description,
            "\n".join(pipeline.clusters),
            runs_uri,
            schedule and schedule.cron,
            schedule and schedule.timezone,
            pipeline.source.settle_seconds,
            schedule and schedule.deliver_within_seconds,
            pipeline.key,
            last_run and last_run.model_dump_json(),
        )
        self.db.execute(
            f"INSERT OR REPLACE INTO pipelines VALUES ({', '.join('?' * len(row))})", row
        )
        first = [
            (pipeline.name, cluster, int(at.timestamp())) for cluster, at in beginnings.items()
        ]
        self.db.executemany("INSERT OR REPLACE INTO beginnings VALUES (?, ?, ?)", first)

    def _rename(self, earlier: str, name: str) -> None:
        """Move the index's entries on a renamed pipeline to its new name."""
        if not self.db.execute("SELECT 1 FROM pipelines WHERE pipeline = ?", (earlier,)).fetchone():
            return
        for table in (
            "runs",
            "begun",
            "ships",
            "arrivals",
            "looks",
            "cells",
            "commits",
            "beginnings",
        ):
            self.db.execute(
                f"UPDATE OR REPLACE {table} SET pipeline = ? WHERE pipeline = ?", (name, earlier)
            )
        self.db.execute("DELETE FROM pipelines WHERE pipeline = ?", (earlier,))

    def forget(self, pipeline: str, before: int) -> None:
        """Remove the windows of the pipeline that ended before."""
        for table in ("runs", "begun", "ships", "arrivals"):
            self.db.execute(
                f'DELETE FROM {table} WHERE pipeline = ? AND start < ? AND "end" < ?',
                (pipeline, before, before),
            )
        clusters = self.db.execute(
            "SELECT cluster FROM beginnings WHERE pipeline = ? UNION SELECT ?", (pipeline, ALL)
        ).fetchall()
        for (cluster,) in clusters:
            for table in ("cells", "commits", "looks"):
                self.db.execute(
                    f"DELETE FROM {table} WHERE cluster = ? AND pipeline = ? AND start < ? AND "
                    '"end" < ?',
                    (cluster, pipeline, before, before),
                )

    def begin_look(self, now: int, pause: int) -> int | None:
        """Claim a look for reports that are not in the index. Return when the last look at all of
        them ended; None if a look began less than ``pause`` seconds ago."""
        claimed = (now, now - pause)
        (due,) = self.db.execute("SELECT began <= ? FROM looked", claimed[1:]).fetchone()
        if not due:  # nobody need wait for those that write
            return None
        with self.writing():
            done = self.db.execute("UPDATE looked SET began = ? WHERE began <= ?", claimed)
            (whole,) = self.db.execute("SELECT whole FROM looked").fetchone()
        return int(whole) if done.rowcount else None

    def looked_at_all(self, now: int) -> None:
        self.db.execute("UPDATE looked SET whole = ?", (now,))

    def is_settled(self, pipeline: str, start: int, end: int) -> bool:
        """Return True if the window is shipped to all clusters, so that no new report about it is
        likely."""
        found = self.db.execute(
            'SELECT state FROM cells WHERE cluster = ? AND pipeline = ? AND start = ? AND "end" = '
            "?",
            (ALL, pipeline, start, end),
        ).fetchone()
        return found is not None and found[0] in (CODES[SHIPPED], CODES[LATE])

    def begun(
        self, pipeline: str, start: int, end: int, run_id: str, clusters: Iterable[str], at: int
    ) -> None:
        """Note that a run over the window has begun, or begun again. Its report takes that back."""
        rows = [(pipeline, start, end, cluster, run_id, at) for cluster in clusters]
        self.db.executemany("INSERT OR REPLACE INTO begun VALUES (?, ?, ?, ?, ?, ?)", rows)

    def begun_over(self, pipeline: str, start: int, end: int) -> list[tuple[str, int]]:
        """Return id and beginning of the runs over the window that have left no report, the latest
        last."""
        return self.db.execute(
            'SELECT run_id, min(at) FROM begun WHERE pipeline = ? AND start = ? AND "end" = ? '
            "GROUP BY run_id ORDER BY 2",
            (pipeline, start, end),
        ).fetchall()

    def running(self, pipeline: str, start: int, end: int) -> dict[str, int]:
        """Return cluster → when the last of these runs began, of those that are for it."""
        return dict(
            self.db.execute(
                'SELECT cluster, max(at) FROM begun WHERE pipeline = ? AND start = ? AND "end" = '
                "? GROUP BY cluster",
                (pipeline, start, end),
            )
        )

    def over(self, pipeline: str, start: int, end: int, run_id: str) -> None:
        """Note that the run has left its report, whatever it says. A run that began before and left
        none was killed: this one stands for it too."""
        (at,) = self.db.execute(
            'SELECT max(at) FROM begun WHERE pipeline = ? AND start = ? AND "end" = ? AND run_id '
            "= ?",
            (pipeline, start, end, run_id),
        ).fetchone()
        self.db.execute(
            'DELETE FROM begun WHERE pipeline = ? AND start = ? AND "end" = ? AND (run_id = ? OR '
            "at <= ?)",
            (pipeline, start, end, run_id, at or 0),
        )

    def add(self, found: Iterable[Outcome], ticks: Ticks | None = None) -> None:
        """Add what a report says; reports may come in any order. ``ticks``: of the pipeline's
        schedule, whose windows a run that looked back has seen too."""
        for outcome in found:
            self.db.execute(
                "INSERT OR REPLACE INTO runs VALUES (:pipeline, :start, :end, :run_id, :cluster, "
                ":code, :began, :ended, :files, :bytes, :records, :there, :cause)",
                {**vars(outcome), "code": CODES[outcome.state]},
            )
            self._arrived(outcome)
            news = self._saw(outcome)
            self._sum_up(outcome, self._decide(outcome, news, ticks))

    def _arrived(self, outcome: Outcome) -> None:
        """Keep what a run sent. A report that is written again, since a task was cleared, takes
        nothing away: what arrived before it arrived then."""
        run = (outcome.pipeline, outcome.start, outcome.end, outcome.run_id, outcome.cluster)
        where = 'WHERE pipeline = ? AND start = ? AND "end" = ? AND run_id = ? AND cluster = ?'
        known = self.db.execute(f"SELECT records FROM ships {where}", run).fetchone()
        if (sent := outcome.sent) is None or (known and known[0] and known[0] >= sent.records):
            return
        for table in ("ships", "arrivals"):
            self.db.execute(f"DELETE FROM {table} {where}", run)
        of = ":pipeline, :start, :end, :run_id, :cluster"
        self.db.execute(
            f"INSERT INTO ships VALUES ({of}, :ended, :seconds, :records, :bytes, :wire_bytes, "
            ":quarantined, :parked, :ledger)",
            {**vars(outcome), **vars(sent)},
        )
        self.db.executemany(
            f"INSERT INTO arrivals VALUES ({of}, :topic, :ended, :records, :bytes, :quarantine, "
            ":parked)",
            [{**vars(outcome), **one} for one in sent.topics],
        )

    def _saw(self, outcome: Outcome) -> set[Span]:
        """Keep what the run came to, and when windows were committed. Return the windows of which
        that is news."""
        run = (outcome.pipeline, outcome.start, outcome.end, outcome.run_id, outcome.cluster)
        self.db.execute(
            'DELETE FROM looks WHERE pipeline = ? AND start = ? AND "end" = ? AND run_id = ? AND '
            "cluster = ?",
            run,
        )
        first = outcome.start
        for seen in outcome.attempts:
            at = seen.at.model_copy(update={"committed": {}}) if seen.at else None
            for one in at.uncovered if at else ():
                del one.files[1:]  # which files, the report says
            begin = int(at.start.timestamp()) if at else outcome.start
            first = min(first, begin)
            row = (
                *run,
                int(at.looked_at.timestamp()) if at and at.looked_at else outcome.began,
                begin,
                seen.passed,
                at and at.model_dump_json(),
                seen.closed,
                seen.recreated,
                seen.doubt,
            )
            self.db.execute(f"INSERT INTO looks VALUES ({', '.join('?' * len(row))})", row)
            if outcome.state in THERE:
                # A run that began before, and has left no result, is dead: a pipeline ships to a
                # cluster once at a time.
                self.db.execute(
                    "DELETE FROM begun WHERE pipeline = ? AND cluster = ? AND start >= ? AND "
                    '"end" <= ? AND at < ?',
                    (outcome.pipeline, outcome.cluster, first, outcome.end, outcome.began),
                )
        news = set()
        for text, moment in outcome.committed.items():
            done = self.db.execute(
                "INSERT INTO commits VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET at = "
                "excluded.at WHERE excluded.at > at",
                (outcome.cluster, outcome.pipeline, *_span(text), _ms(moment)),
            )
            news |= {_span(text)} if done.rowcount else set()
        return news

    def _decide(self, by: Outcome, news: Collection[Span], ticks: Ticks | None) -> set[Span]:
        """Write the cells of the run's window, and of those that it looked at, as all runs over
        them come to by now."""
        looks = [attempt.at for attempt in by.attempts if attempt.at]
        own = (by.start, by.end)
        first = min([by.start, *(int(at.start.timestamp()) for at in looks)])
        where = 'WHERE cluster = ? AND pipeline = ? AND start >= ? AND start < ? AND "end" <= ?'
        cells: dict[Span, int] = {
            (start, end): state
            for start, end, state in self.db.execute(
                f'SELECT start, "end", state FROM cells {where}',
                (by.cluster, by.pipeline, first, by.end, by.end),
            )
        }
        runs = self._runs(by.cluster, by.pipeline, first, by.end)
        noted = [_span(one.window) for at in looks for one in at.uncovered]
        seen = dict.fromkeys([own, *cells])
        if ticks and looks:
            seen |= dict.fromkeys(
                span
                for span in spans(ticks, first, by.end)
                if span[0] >= first and span[1] <= by.end
            )
        changed = {own}
        deadline = self._deadline(by.pipeline)
        takes_back = any(attempt.closed or attempt.recreated for attempt in by.attempts)
        for span in seen:
            is_noted = takes_back or any(start < span[1] and span[0] < end for start, end in noted)
            if (
                span != own
                and cells.get(span) in (CODES[SHIPPED], CODES[LATE])
                and not is_noted
                and span not in news
            ):
                continue
            found = self._standing(by.cluster, by.pipeline, span, runs, deadline)
            if found and (found[0] != cells.get(span) or span == own or span in news):
                state, at = found
                row = (by.cluster, by.pipeline, *span, state, at or by.ended, by.run_id)
                # The run that delivered it stays named.
                keeps = state in GOOD and span != own and cells.get(span) in GOOD
                self.db.execute(
                    "INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                    "state = excluded.state, ended = excluded.ended"
                    + ("" if keeps else ", run_id = excluded.run_id"),
                    row,
                )
                changed.add(span)
        return changed

    def _runs(self, cluster: str, pipeline: str, first: int, end: int) -> list[RunSeen]:
        """Return what each run came to that touches [``first``, ``end``), by time."""
        rows = self.db.execute(
            'SELECT start, "end", run_id, passed, coverage, closed, recreated, doubt FROM looks '
            'WHERE cluster = ? AND pipeline = ? AND "end" > ? AND first < ? ORDER BY '
            "began, run_id, passed DESC",
            (cluster, pipeline, first, end),
        )
        return [
            RunSeen(
                _window((start, over)),
                run_id,
                bool(passed),
                text and Coverage.model_validate_json(text),
                None if closed is None else bool(closed),
                recreated,
                doubt,
            )
            for start, over, run_id, passed, text, closed, recreated, doubt in rows
        ]

    def _deadline(self, pipeline: str) -> Callable[[Window], dt.datetime | None]:
        """Return a function from a window to its deadline; None: it is never late."""
        within, last = self.db.execute(
            "SELECT deliver_within, last_run FROM pipelines WHERE pipeline = ?", (pipeline,)
        ).fetchone() or (None, None)
        since = LastRun.model_validate_json(last).schedule_since if last else None

        def deadline(window: Window) -> dt.datetime | None:
            if within is None or (since and window.end <= since):
                return None
            return window.end + dt.timedelta(seconds=within)

        return deadline

    def _standing(
        self,
        cluster: str,
        pipeline: str,
        span: Span,
        runs: Sequence[RunSeen],
        deadline: Callable[[Window], dt.datetime | None],
    ) -> tuple[int, int | None] | None:
        """Return the cell's state, and when its last record was committed. None: no run decides
        it."""
        commit = self.db.execute(
            'SELECT at FROM commits WHERE cluster = ? AND pipeline = ? AND start = ? AND "end" = ?',
            (cluster, pipeline, *span),
        ).fetchone()
        committed = dt.datetime.fromtimestamp(commit[0] / 1000, dt.UTC) if commit else None
        window = _window(span)
        found = standing(window, runs, committed, deadline(window))
        return found and (CODES[found.state], commit and commit[0] // 1000)

    def _sum_up(self, by: Outcome, touched: Iterable[Span]) -> None:
        """Sum up all clusters' cells of each window: the worst of them counts. A cluster that has
        none, and should, misses the window."""
        known = self.db.execute(
            "SELECT clusters FROM pipelines WHERE pipeline = ?", (by.pipeline,)
        ).fetchone()
        names = known[0].split("\n") if known else [by.cluster]
        first = dict(
            self.db.execute(
                "SELECT cluster, first FROM beginnings WHERE pipeline = ?", (by.pipeline,)
            )
        )
        for start, end in touched:
            worst, ended, run_id = -1, 0, ""
            for name in names:
                cell = self.db.execute(
                    "SELECT state, ended, run_id FROM cells WHERE cluster = ? AND pipeline = ? "
                    'AND start = ? AND "end" = ?',
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

    def pipelines(self, only: Collection[str] | None = None) -> list[Known]:
        """Return the known pipelines by name. ``only``: DAGs that may be seen; None: all."""
        rows: list[tuple[Any, ...]] = self.db.execute(
            "SELECT pipeline, owner, description, clusters, runs_uri, cron, timezone, settle, "
            "deliver_within, key, last_run FROM pipelines ORDER BY pipeline"
        ).fetchall()
        by_key = {key: name for name, *_, key, _ in rows}
        found = []
        for name, owner, about, clusters, uri, cron, zone, settle, within, key, last in rows:
            of = by_key.get(original(key), original(name)) if original(key) != key else None
            if only is not None and (of or name) not in only:
                continue
            gone = self._present is not None and (of or name) not in self._present
            of_clusters = tuple(clusters.split("\n"))
            found.append(
                Known(
                    name,
                    owner,
                    about,
                    of_clusters,
                    uri,
                    _schedule(cron, zone, within),
                    settle or 0.0,
                    key,
                    gone,
                    of,
                    LastRun.model_validate_json(last) if last else None,
                )
            )
        return found

    def beginnings(self, cluster: str = ALL) -> dict[str, int]:
        """Return pipeline → begin of the first window of its schedule: of the cluster, or the
        earliest of all."""
        where, values = ("WHERE cluster = ?", (cluster,)) if cluster else ("", ())
        return dict(
            self.db.execute(
                f"SELECT pipeline, min(first) FROM beginnings {where} GROUP BY pipeline", values
            )
        )

    def has(self, pipeline: str, start: int, end: int, run_id: str) -> bool:
        """Return True if the run's report is in it."""
        found = self.db.execute(
            'SELECT 1 FROM runs WHERE pipeline = ? AND start = ? AND "end" = ? AND run_id = ? '
            "LIMIT 1",
            (pipeline, start, end, run_id),
        )
        return found.fetchone() is not None


def _window(span: Span) -> Window:
    return Window(*(dt.datetime.fromtimestamp(at, dt.UTC) for at in span))


def _ms(at: dt.datetime) -> int:
    return round(at.timestamp() * 1000)


def spans(ticks: Ticks, first: int, end: int) -> Iterator[Span]:
    """Yield the windows of the schedule that touch [first, end), in seconds."""
    moments = (dt.datetime.fromtimestamp(at, dt.UTC) for at in (first, end))
    for window in ticks.windows(*moments):
        yield int(window.start.timestamp()), int(window.end.timestamp())


def _span(text: str) -> Span:
    window = parse_window(text)
    return int(window.start.timestamp()), int(window.end.timestamp())


def _schedule(cron: str | None, timezone: str, deliver_within: float | None) -> Schedule | None:
    if cron is None:
        return None
    # Unchecked construction: the value was checked when the pipeline was read, and a page should
    # not pay for it again.
    return Schedule.model_construct(
        cron=cron, timezone=timezone, deliver_within_seconds=deliver_within
    )
