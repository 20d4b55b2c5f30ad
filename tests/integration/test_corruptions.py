"""Ways in which a source goes wrong, each planted in the files and caught by the real source gate.

The gate is asked without a cluster. That a closed one lets no byte leave is tested end to end in
test_bad_input.py.
"""

import datetime as dt
import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import RunReport
from shipper.report.run_folder import RunFolder
from shipper.windows.window import Window
from tests.integration.source_world import END, Logs
from tests.samples.results import closed

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "gates.md"
HOURS = range(6, 12)
LINES_PER_HOUR = 240
HOSTS = ["web1", "web2", "web3"]
LINE = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ web\d+ [A-Z]+ /\S* \d{3} r\d+$"

ALL_OR_NOTHING = {"path": "logs", "on_unreadable": "fail"}
ACCESS = {
    "records": {
        "columns": {
            "at": "get(split(value, ' '), 0)",
            "host": "nullif(get(split(value, ' '), 1), '-')",
            "status": "try_cast(get(split(value, ' '), 4) AS INT)",
        }
    },
    "routes": [
        {"topic": "errors.web", "when": "status >= 500"},
        {"topic": "audit.web", "when": "value LIKE '% /admin/%'"},
        {"topic": "logs.web"},
    ],
}
ACCESS_CHECKS = [
    {"check": "files", "min": 4, "max": 12},
    {"check": "total_bytes", "min": "30kB", "max": "300kB"},
    {"check": "freshness", "max_age": "30m"},
    {"check": "files_per", "every": "1h", "time": "/%Y/%m/%d/%H/"},
    {"check": "size_vs_history"},
    {"check": "duplicate_files"},
    {"check": "no_bom"},
    {"check": "rows", "min": 1300, "max": 3000},
    {"check": "not_null", "column": "host"},
    {"check": "matches", "regex": LINE},
    {"check": "allowed", "column": "host", "values": HOSTS},
    {"check": "in_window", "column": "at"},
    {"check": "max_gap", "column": "at", "max": "10m"},
    {"check": "line_length", "p50": "100B", "p99": "200B", "max": "8kB"},
    {"check": "route_rate", "topics": {"errors.web": {"min": 0.001, "max": 0.2}}},
    {"check": "schema", "columns": 6, "delimiter": " "},
    {"check": "condition", "name": "known_status", "sql": "status BETWEEN 100 AND 599"},
    {"check": "condition", "name": "utf8", "sql": "is_valid_utf8(value)"},
    {"check": "condition", "name": "no_carriage_return", "sql": r"NOT endswith(value, '\r')"},
    {"check": "unique", "min_rate": 0.99},
    {"check": "expectations", "suite": "usual.json"},
]
#: The suite: nothing that the checks of one record at a time could say.
USUAL = [
    {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "status", "min_value": 200, "max_value": 230},
    }
]
EVENTS = {"records": {"columns": {"kind": "get_json_object(value, '$.kind')"}}}
EVENTS_CHECKS = [
    {"check": "json"},
    {"check": "schema", "fields": ["id", "kind", "user"], "optional": ["note"]},
    {"check": "allowed", "column": "kind", "values": ["view", "buy"]},
]


OF_LINES = {
    "rows",
    "not_null",
    "matches",
    "json",
    "allowed",
    "in_window",
    "max_gap",
    "line_length",
    "route_rate",
    "schema",
    "condition",
    "unique",
    "expectations",
}


def access(hour, seed="", day="2026-11-01"):
    def line(i):
        path, status = (
            ("/admin/login" if i % 20 == 0 else f"/items/{i}"),
            (503 if i % 30 == 1 else 200),
        )
        return (
            f"{day}T{hour:02}:{i // 4:02}:{i % 60:02}Z {HOSTS[i % 3]} GET {path} {status} "
            f"r{seed}{hour:02}{i:04}"
        )

    return "".join(f"{line(i)}\n" for i in range(LINES_PER_HOUR)).encode()


def event(i, **more):
    return (
        json.dumps(
            {"id": i, "kind": "buy" if i % 9 == 0 else "view", "user": f"u{i}", **more}
        ).encode()
        + b"\n"
    )


def name(hour, file="web.log"):
    return f"2026/11/01/{hour:02}/{file}"


class World:
    """A healthy source, to be corrupted: six hours of access logs, and a pipeline of events as JSON
    lines."""

    def __init__(self, spark, folder):
        (folder / "access").mkdir()
        (folder / "events").mkdir()
        self.access = Logs(
            spark, folder / "access", hours=len(HOURS), **ACCESS, source=ALL_OR_NOTHING
        )
        self.events = Logs(spark, folder / "events", hours=len(HOURS), **EVENTS)
        (self.access.root / "usual.json").write_text(json.dumps({"expectations": USUAL}))
        for hour in HOURS:
            self.write(hour, access(hour), "web.log.gz" if hour == 7 else "web.log")
        self.write_events([event(i) for i in range(300)])
        size = self.access.plan().total_bytes
        for day in range(1, 6):
            self._past_run(day, round(size * (0.9 + 0.05 * day)))

    def write(self, hour, content, file="web.log"):
        return self.access.write(
            name(hour, file), content, age_seconds=(END.hour - hour - 1) * 3600 + 60
        )

    def read(self, hour):
        return (self.access.folder / name(hour)).read_bytes()

    def path(self, hour, file="web.log"):
        return self.access.folder / name(hour, file)

    def write_events(self, lines):
        self.events.write("events.log", b"".join(lines))

    def each_line(self, hour, change):
        lines = self.read(hour).splitlines(keepends=True)
        self.write(hour, b"".join(change(i, line) for i, line in enumerate(lines)))

    def everywhere(self, old, new):
        for hour in HOURS:
            if hour == 7:
                self.write(hour, access(hour).replace(old, new), "web.log.gz")
            else:
                self.write(hour, self.read(hour).replace(old, new))

    def _past_run(self, days_ago, size):
        end = END - dt.timedelta(days=days_ago)
        common = {
            "pipeline": "web",
            "window_start": end - dt.timedelta(hours=len(HOURS)),
            "window_end": end,
            "run_id": "r1",
        }
        common |= {"started_at": end, "finished_at": end}
        files = [PlannedFile(path="/l/a", size_bytes=size, modified_ms=0, splits=1)]
        folder = RunFolder(
            str(self.access.root / "runs"), "web", Window(common["window_start"], end), "r1"
        )
        folder.write("report", RunReport(**common, plan=PlanResult(**common, files=files)))

    def closed_by(self, pipeline):
        """Check → what it observed, of all that close the gate."""
        logs, checks = {
            "access": (self.access, ACCESS_CHECKS),
            "events": (self.events, EVENTS_CHECKS),
        }[pipeline]
        evaluation, _ = logs.evaluation(
            [{**check, "on": "full"} if check["check"] in OF_LINES else check for check in checks]
        )
        assert len(evaluation) == len(checks)
        return {result.check: result.observed for result in closed(evaluation)}


@dataclass(frozen=True)
class Corruption:
    what: str
    caught_by: str
    """The check, with its subject, that must close the gate; others may as well."""
    plant: Callable[[World], object]
    says: str = ""
    """In what the check observed."""
    pipeline: str = "access"


def truncate(path, keep):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(bytes(content))


def stale(world):
    for hour in HOURS:
        file = "web.log.gz" if hour == 7 else "web.log"
        world.access.set_age(name(hour, file), 7 * 3600)


def only_some_lines(world, share):
    for hour in HOURS:
        if hour != 7:
            world.each_line(hour, lambda i, line: line if i % 100 < 100 * share else b"")


def ten_times_the_lines(world):
    for hour in HOURS:
        for copy in range(3):
            world.write(hour, access(hour, seed=str(copy)), f"more{copy}.log")


def recompressed(world):
    path = world.path(7, "web.log.gz")
    world.write(7, b"")
    world.path(7).unlink()
    world.path(7, "again.log.gz").write_bytes(
        gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1, mtime=7)
    )


CORRUPTIONS = [
    Corruption(
        "an hour is missing", "files_per", lambda w: w.path(9).unlink(), "2026-11-01T09:00Z has 0"
    ),
    Corruption(
        "half of the files are missing",
        "files",
        lambda w: [w.path(h).unlink() for h in (6, 8, 9)],
        "3 files",
    ),
    Corruption(
        "thousands of tiny files",
        "files",
        lambda w: [w.write(6, b"%d\n" % i, f"part-{i}.log") for i in range(40)],
        "46 files",
    ),
    Corruption(
        "a file lies there under two names",
        "duplicate_files",
        lambda w: w.write(8, w.read(8), "web-copy.log"),
        "web-copy.log",
    ),
    Corruption(
        "a file lies there twice, compressed anew", "unique(value)", recompressed, "repeat another"
    ),
    Corruption(
        "a file holds its lines twice, one part after the other",
        "unique(value)",
        lambda w: w.write(8, w.read(8) * 2),
    ),
    Corruption(
        "every line of a file came twice",
        "unique(value)",
        lambda w: w.each_line(8, lambda i, line: line * 2),
    ),
    Corruption(
        "a gzip file is cut off",
        "rows",
        lambda w: truncate(w.path(7, "web.log.gz"), 0.5),
        "SHIP-301",
    ),
    Corruption(
        "a gzip file has a broken byte",
        "rows",
        lambda w: flip(w.path(7, "web.log.gz"), 300),
        "web.log.gz: ",
    ),
    Corruption(
        "a .gz file is plain text",
        "rows",
        lambda w: w.path(7, "web.log.gz").write_bytes(access(7)),
        "cannot be read",
    ),
    Corruption(
        "timestamps are shifted by a day",
        "in_window(at)",
        lambda w: w.write(8, access(8, day="2026-10-31")),
        "240 of",
    ),
    Corruption(
        "timestamps of one host are an hour ahead",
        "in_window(at)",
        lambda w: w.write(11, access(11).replace(b"T11:5", b"T12:5")),
    ),
    Corruption(
        "yesterday's file under today's name",
        "in_window(at)",
        lambda w: w.write(11, access(11, day="2026-10-31")),
    ),
    Corruption(
        "nobody wrote for a quarter of an hour",
        "max_gap(at)",
        lambda w: w.write(9, re.sub(rb"(?m)^.{14}(2|30|31|32|33|34).*\n", b"", access(9))),
        "16m1s without a record, from 2026-11-01T09:19:19Z",
    ),
    Corruption(
        "a topic is silent",
        "route_rate",
        lambda w: w.everywhere(b" /admin/login ", b" /items/7 "),
        "audit.web 0 %",
    ),
    Corruption(
        "nearly everything is an error",
        "route_rate",
        lambda w: w.everywhere(b" 200 ", b" 502 "),
        "errors.web 100 %",
    ),
    Corruption(
        "a file begins with a byte order mark",
        "no_bom",
        lambda w: w.write(8, b"\xef\xbb\xbf" + w.read(8)),
        "web.log",
    ),
    Corruption(
        "a byte order mark amid a file, where two were joined",
        "matches(value)",
        lambda w: w.each_line(8, lambda i, line: b"\xef\xbb\xbf" + line if i == 100 else line),
        "1 of",
    ),
    Corruption(
        "a file is UTF-16",
        "rows",
        lambda w: w.write(8, w.read(8).decode().encode("utf-16")),
        "source.encoding",
    ),
    Corruption(
        "a file is Latin-1 and not UTF-8",
        "condition(utf8)",
        lambda w: w.each_line(8, lambda i, line: line.replace(b"items", b"st\xfchle")),
    ),
    Corruption(
        "binary garbage in a file",
        "matches(value)",
        lambda w: w.write(8, w.read(8) + bytes(range(256)) * 20),
    ),
    Corruption(
        "a block of zeros at a file's end, after a crash",
        "matches(value)",
        lambda w: w.write(8, w.read(8) + bytes(4096)),
    ),
    Corruption(
        "lines without an end: newlines are lost",
        "line_length",
        lambda w: w.write(8, w.read(8).replace(b"\n", b" ")),
    ),
    Corruption(
        "a few very long lines",
        "line_length",
        lambda w: w.write(8, w.read(8) + b"x" * 20_000 + b"\n"),
        "20,000 bytes",
    ),
    Corruption(
        "many long lines",
        "line_length",
        lambda w: w.each_line(8, lambda i, line: line.replace(b"/items/", b"/items/" + b"y" * 300)),
    ),
    Corruption(
        "lines end with CR LF",
        "condition(no_carriage_return)",
        lambda w: w.write(8, w.read(8).replace(b"\n", b"\r\n")),
    ),
    Corruption(
        "a column is empty",
        "not_null(host)",
        lambda w: w.write(8, w.read(8).replace(b" web2 ", b" - ")),
        "80 of",
    ),
    Corruption(
        "a value that nobody knows",
        "allowed(host)",
        lambda w: w.write(8, w.read(8).replace(b" web2 ", b" web9 ")),
        "80 of",
    ),
    Corruption(
        "a number out of its range",
        "condition(known_status)",
        lambda w: w.write(8, w.read(8).replace(b" 200 ", b" 999 ")),
    ),
    Corruption(
        "the usual answers change, and each is a known one",
        "expectations(usual.json)",
        lambda w: w.everywhere(b" 200 ", b" 304 "),
        "1 of 1 expectation does not hold: expect_column_mean_to_be_between(status); over 1,440",
    ),
    Corruption(
        "another delimiter", "schema(value)", lambda w: w.write(8, w.read(8).replace(b" ", b";"))
    ),
    Corruption(
        "a new column in the lines",
        "schema(value)",
        lambda w: w.write(8, w.read(8).replace(b" GET ", b" GET HTTP/1.1 ")),
    ),
    Corruption(
        "stack traces between the lines",
        "matches(value)",
        lambda w: w.each_line(
            8,
            lambda i, line: line + b"\tat com.example.Main(Main.java:1)\n" if i % 50 == 0 else line,
        ),
    ),
    Corruption(
        "an error page in place of a log",
        "matches(value)",
        lambda w: w.write(8, b"<html>\n<h1>404</h1>\n</html>\n" * 60),
    ),
    Corruption("an empty file", "rows", lambda w: w.write(8, b""), "1,200 rows"),
    Corruption("too few lines", "rows", lambda w: only_some_lines(w, 0.6), "rows in all files"),
    Corruption("nearly nothing in the files", "total_bytes", lambda w: only_some_lines(w, 0.1)),
    Corruption("the source stopped writing hours ago", "freshness", stale, "7h before"),
    Corruption(
        "four times the usual size", "size_vs_history(bytes)", ten_times_the_lines, "times that"
    ),
    Corruption(
        "a third of the usual size",
        "size_vs_history(bytes)",
        lambda w: only_some_lines(w, 0.25),
        "times that",
    ),
    Corruption(
        "JSON with a new field",
        "schema(value)",
        lambda w: w.write_events([event(i, region="eu") for i in range(300)]),
        "new field",
        "events",
    ),
    Corruption(
        "JSON without a field that was always there",
        "schema(value)",
        lambda w: w.write_events([event(i).replace(b'"user"', b'"usr"') for i in range(300)]),
        "without an expected field",
        "events",
    ),
    Corruption(
        "JSON cut off in mid-line",
        "json(value)",
        lambda w: w.write_events([event(i)[:-9] + b"\n" for i in range(300)]),
        "300 of",
        "events",
    ),
    Corruption(
        "an event of a new kind",
        "allowed(kind)",
        lambda w: w.write_events([event(i, kind="refund") for i in range(300)]),
        "300 of",
        "events",
    ),
]


@pytest.fixture
def world(spark, tmp_path):
    return World(spark, tmp_path)


def test_a_healthy_source_passes_every_check(world):
    assert world.closed_by("access") == world.closed_by("events") == {}


@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda each: each.what)
@pytest.mark.long
def test_a_corrupted_source_closes_the_gate(world, corruption):
    corruption.plant(world)
    found = world.closed_by(corruption.pipeline)
    assert corruption.caught_by in found, found
    assert corruption.says in found[corruption.caught_by], found


def test_the_table_in_the_docs_is_this_list():
    rows = re.findall(
        r"^\| (.+?) \| `(.+?)` \|$",
        DOCS.read_text().partition("## What catches what")[2],
        re.MULTILINE,
    )
    assert rows == [(corruption.what, corruption.caught_by) for corruption in CORRUPTIONS]
