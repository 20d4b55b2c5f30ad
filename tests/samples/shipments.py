"""Reports of a pipeline's windows, as runs leave them, and the index that they feed."""

import contextlib
import datetime as dt
import http.server
import random
import threading
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from shipper.report.plan_result import ClusterPlan, PlannedFile, PlanResult
from shipper.report.progress import ShipProgress, file_of
from shipper.report.results import (
    Coverage,
    DeliveryGateResult,
    GateResult,
    LeftFile,
    RunReport,
    ShipResult,
    TopicAccount,
    Uncovered,
)
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import records_of, write_records
from shipper.report.window_state import SHIPPED, STATES
from shipper.request import RunRequest
from shipper.shipments.app import respond
from shipper.shipments.feed import look
from shipper.shipments.index import ALL, CODES, Index, Known
from shipper.windows.window import Window
from tests.samples.results import checked, common

START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
PIPELINE = """\
pipeline: {name}
owner: edge-team
schedule: {{cron: "0 * * * *", start: 2026-11-01}}
source: {{path: "logs/{{window_start:%Y/%m/%d/%H}}/", settle: 10m}}
topic: logs.web
clusters: [{clusters}]
"""


def at(hour: float) -> dt.datetime:
    return START + hour * HOUR


def seconds(hour: float) -> int:
    return int(at(hour).timestamp())


class World:
    """A folder with a configuration and the runs beside it."""

    def __init__(self, root: Path):
        self.config, self.runs, self.index = (
            root / "config",
            root / "runs",
            root / "runs" / "shipments.sqlite",
        )

    def write(self, path: str, text: str):
        file = self.config / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def pipeline(
        self, name: str = "web", clusters: tuple[str, ...] = ("near", "far"), more: str = ""
    ):
        if not (self.config / "shipper.yaml").exists():
            self.write("shipper.yaml", "keep: 36500d\n")  # these windows do not get older
        self.write(
            f"pipelines/{name}.yaml",
            PIPELINE.format(name=name, clusters=", ".join(clusters)) + more,
        )
        for cluster in clusters:
            self.write(f"clusters/{cluster}.yaml", f"cluster: {cluster}\nbootstrap: 127.0.0.1:1\n")

    def beginning(
        self, name: str = "web", clusters: tuple[str, ...] = ("near", "far"), hour: float = 0
    ):
        """As the first run of the schedule leaves it."""
        file = self.runs / name / "schedule" / "1.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        first = ", ".join(f'"{cluster}": "{at(hour).isoformat()}"' for cluster in clusters)
        file.write_text(f'{{"version": 1, "first_window": {{{first}}}}}')

    def report(
        self, hour: float, run_id: str = "r1", name: str = "web", **options: Any
    ) -> RunReport:
        """The run's report, in its folder with a page."""
        found = run_report(hour, run_id, name, **options)
        folder = RunFolder(str(self.runs), name, found.window, run_id)
        folder.write("report", found)
        leave(self.runs, found)
        folder.write_text(
            "report.html",
            f"<!doctype html><title>{name} {run_id}</title><h1>Report of {run_id}</h1>",
        )
        return found

    def feed(self, *reports: RunReport):
        """Leave what the steps of these reports do beside the runs, and bring the index up to
        date after each."""
        for report in reports:
            leave(self.runs, report)
            look(self.config)

    def begin(self, hour: float, run_id: str, now: float, name: str = "web", hours: float = 1):
        """As the first step of a run leaves it."""
        folder = RunFolder(str(self.runs), name, Window(at(hour), at(hour + hours)), run_id)
        folder.note_begin(Window(at(hour), at(hour + hours)), at(now), ())
        look(self.config)


def leave(runs: Path, report: RunReport, name: str = ""):
    """Leave beside the runs what the steps of a report do."""
    parts = [report.plan, report.gate_source, *report.ships, *report.delivery_gates, report]
    for part in parts:
        if part is not None:
            write_records(str(runs), name or report.pipeline, records_of(part))


def run_report(
    hour: float,
    run_id: str = "r1",
    name: str = "web",
    *,
    hours: float = 1,
    after: float = 0.25,
    clusters: tuple[str, ...] = ("near", "far"),
    failed: tuple[str, ...] = (),
    closed: bool = False,
    looks_back: float = 0,
    uncovered: tuple[float, ...] = (),
    empty: tuple[float, ...] = (),
    records: int = 7,
    others: tuple[str, ...] = (),
) -> RunReport:
    """Of the window of ``hours`` that begins at ``hour``; it ended ``after`` hours after the
    window. ``others``: clusters that it was asked to leave alone. ``failed``: those whose ship did.
    ``looks_back``: hours before the window that it
    found complete, without the windows that begin at ``uncovered``, of which it left a file out; or
    those that begin at ``empty``, which hold none. The files of a longer window are of its last
    hour."""
    ended = at(hour + hours + after)
    common = {
        "pipeline": name,
        "window_start": at(hour),
        "window_end": at(hour + hours),
        "run_id": run_id,
        "started_at": ended - dt.timedelta(minutes=2),
        "finished_at": ended,
        "asked": RunRequest(clusters=[*clusters], other_clusters=[*others]) if others else None,
    }
    tick = _window(hour + hours - 1) if hours > 1 else None
    files = [
        PlannedFile(
            path=f"/logs/{i}.log",
            size_bytes=1000,
            modified_ms=0,
            splits=1,
            tick=tick,
            missing_on=tuple(clusters),
        )
        for i in range(3)
    ]
    plan = PlanResult(
        **common,
        files=files,
        clusters=[ClusterPlan(cluster=cluster, left_files=3) for cluster in clusters],
    )
    check = checked("files", not closed, ">= 4" if closed else ">= 1", "3")
    gate = GateResult(
        **common,
        step="gate_source",
        checks=[check],
        status="failed" if closed else "succeeded",
        error="3 files" if closed else None,
    )
    ships, gates = [], []
    for cluster in () if closed else clusters:
        bad = cluster in failed
        sent = 0 if bad else records
        topics = [
            TopicAccount(
                topic="logs.web",
                delivered=sent,
                delivered_bytes=sent * 137,
                ledger=None if bad else records,
            )
        ]
        error = f"{cluster} does not answer" if bad else None
        ships.append(
            ShipResult(
                **common,
                cluster=cluster,
                read=records,
                topics=topics,
                status="failed" if bad else "succeeded",
                error=error,
                wire_bytes=sent * 20,
                ship_seconds=30.0,
                chunks_end=int(hour) * 8,
            )
        )
        left = [
            Uncovered(window=_window(one), why="young", files=[LeftFile(path="/logs/young.log")])
            for one in uncovered
        ]
        left += [Uncovered(window=_window(one), why="it had no file") for one in empty]
        coverage = Coverage(
            start=at(hour - looks_back),
            end=at(hour + hours),
            looked_at=plan.started_at,
            uncovered=left,
        )
        if not bad:
            gates.append(
                DeliveryGateResult(**common, cluster=cluster, topics=topics, coverage=coverage)
            )
    cause = (
        "gate_source: 3 files"
        if closed
        else next((f"ship:{name}: {name} does not answer" for name in failed), None)
    )
    return RunReport(
        **common,
        status="failed" if cause else "succeeded",
        error=cause,
        plan=plan,
        gate_source=gate,
        ships=ships,
        delivery_gates=gates,
    )


def _window(hour):
    return str(Window(at(hour), at(hour + 1)))


def large_index(
    path: Path,
    now: int,
    *,
    pipelines: int = 500,
    days: int = 60,
    clusters: tuple[str, ...] = ("near", "far"),
):
    """An index of hourly pipelines, as their runs would have made it: of 100 windows one is
    missing, and five have some other state. ``now``: seconds since the epoch; the last window ends
    in the hour before it."""
    chance, end = random.Random(7), now // 3600 * 3600
    starts = range(end - days * 86_400, end, 3600)

    def windows():
        for start in starts:
            if (luck := chance.random()) < 0.99:
                yield start, start + 3600, SHIPPED if luck < 0.95 else chance.choice(STATES[1:])

    names = [f"stream_{number:03}" for number in range(pipelines)]
    invented_index(path, {name: windows() for name in names}, starts[0], clusters=clusters)


def invented_index(
    path: Path,
    windows: Mapping[str, Iterable[tuple[int, int, str]]],
    first: int,
    *,
    clusters: tuple[str, ...] = ("near", "far"),
    cron: str = "0 * * * *",
    settle: float = 600,
):
    """Write an index of pipelines whose windows (begin, end, state) are these. ``first``: begin of
    the schedule's first window. A pipeline with a dot in its name is a replay, and one that ends in
    "_by_hand" has no schedule: none of their windows is due."""
    with Index(path, make=True) as index, index.writing():
        for name, found in windows.items():
            known = Known(
                pipeline=name,
                key=name,
                owner="edge-team",
                clusters=clusters,
                runs_uri=str(path.parent),
                cron=None if "." in name or name.endswith("_by_hand") else cron,
                settle=settle,
                first=dict.fromkeys(clusters, first),
                replay_of=name.partition(".")[0] if "." in name else None,
            )
            index.know(known)
            rows = (
                (ALL, name, start, end, CODES[state], end + (end - start) // 3, "r1", 1)
                for start, end, state in found
            )
            index.db.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def fill(world: World, hours: int = 24):
    """Four pipelines with every state, over the first ``hours`` hours: most of them in the index
    alone, and `web` with reports to open."""
    world.pipeline("web")
    world.pipeline("audit", ("near",))
    world.pipeline("billing_events")
    world.pipeline("edge")
    for name, clusters in (
        ("web", ("near", "far")),
        ("audit", ("near",)),
        ("billing_events", ("near", "far")),
        ("edge", ("near", "far")),
    ):
        world.beginning(name, clusters, hour=6 if name == "edge" else 0)
        reports = []
        for hour in range(6 if name == "edge" else 0, hours):
            match name, hour:
                case "web", 10:
                    reports += [
                        world.report(10, "r1", failed=("far",)),
                        world.report(10, "r2", after=0.5, failed=("far",), records=0),
                    ]
                case "web", 12:
                    reports.append(world.report(12, closed=True))
                case "edge", 14 | 15 | 16:
                    continue  # nobody ran them
                case _:
                    reports.append(
                        run_report(
                            hour,
                            f"h{hour}",
                            name,
                            clusters=clusters,
                            after=0.2 + hour % 5 / 10,
                            records=100_000 + hour,
                        )
                    )
        if name == "web":
            world.report(11, "r11")
        for report in reports:
            leave(world.runs, report)
    now = (dt.datetime.now(dt.UTC) - START) / HOUR
    world.begin(hours, "now", now, "audit")
    under_way(world, hours)


def under_way(world: World, hour: int, records: int = 400_000, **more: Any):
    """How far the run of `audit` that is not over has come, as its ship leaves it every few
    seconds."""
    folder, now = (
        RunFolder(str(world.runs), "audit", Window(at(hour), at(hour + 1)), "now"),
        dt.datetime.now(dt.UTC),
    )
    figures = {
        "cluster": "near",
        "began": now - dt.timedelta(seconds=60),
        "at": now,
        "records": records,
        "bytes": records * 137,
        "wire_bytes": records * 20,
        "records_per_second": 9000.0,
        "splits": 40,
        "splits_done": 10,
        "share": 0.25,
        "parked": ["audit.late"],
    }
    folder.write_text(file_of("near"), ShipProgress(**{**figures, **more}).model_dump_json())
    folder.write("plan", PlanResult(**common(Window(at(hour), at(hour + 1)), "now", now, "audit")))


class Everything:
    """Rights to see all, and to run what a test says."""

    def __init__(self, *, may_run: bool = False):
        self._may_run = may_run

    def pipelines(self):
        return None

    def may(self, what: str, pipeline: str) -> bool:
        return self._may_run or what != "run"


@contextlib.contextmanager
def serving(index: Path, *, may_run: bool = False) -> Iterator[str]:
    """Serve the page of an index on loopback, as Airflow does to a person who sees everything.
    Yields its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            asked = urlsplit(self.path)
            query = dict(parse_qsl(asked.query))
            found = respond(index, unquote(asked.path[1:]), query, Everything(may_run=may_run))
            self.send_response(found.status)
            for name, value in {**found.headers, "Content-Length": str(len(found.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, *_: object):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/shipments"
        finally:
            server.shutdown()


class Page(HTMLParser):
    """What a drawn part of the page holds: its rows, links and words."""

    def __init__(self, body: bytes | str):
        super().__init__()
        self.rows: list[str] = []
        self.links: list[tuple[str, dict[str, str]]] = []
        """Words and attributes of each."""
        self.ids: dict[str, dict[str, str]] = {}
        self.states: list[str] = []
        self._words: list[str] = []
        self._link: tuple[int, dict[str, str]] | None = None
        self.feed(body if isinstance(body, str) else body.decode())
        self.text = " ".join(" ".join(self._words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]):
        said = {name: value or "" for name, value in attrs}
        self.ids |= {said["id"]: said} if "id" in said else {}
        self.rows += [said["data-pipeline"]] if "data-pipeline" in said else []
        kind, _, state = said.get("class", "").partition(" ")
        self.states += [state] if kind == "state" else []
        if tag == "a":
            self._link = len(self._words), said

    def handle_endtag(self, tag: str):
        if tag == "a" and self._link:
            first, said = self._link
            self.links.append((" ".join(" ".join(self._words[first:]).split()), said))

    def handle_data(self, data: str):
        self._words.append(data)

    def windows(self) -> list[tuple[int, int, str]]:
        """Begin, end and state of the windows of a row, as `windows` lists them."""
        return [
            (int(one["data-start"]), int(one["data-end"]), one["class"]) for _, one in self.links
        ]


def windows_of(
    index: Path, name: str, start: int, end: int, cluster: str = "", **more: Any
) -> list[tuple[int, int, str]]:
    """Begin, end and state of a pipeline's windows in a stretch, as the page lists them."""
    query = {"of": name, "first": str(start), "last": str(end), "cluster": cluster}
    found = respond(index, "windows", query, Everything(), **more)
    assert found.status == HTTPStatus.OK, found.body
    return Page(found.body).windows()
