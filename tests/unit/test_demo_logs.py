from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import re
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from shipper_tools.samples.logs import LogFile, LogSummary, write_logs

START = datetime(2026, 11, 1, 22, tzinfo=UTC)
LINES = 20_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> LogSummary:
    return write_logs(tmp_path_factory.mktemp("logs"), start=START, hours=3, lines=LINES, seed=7)


def content(file: LogFile) -> bytes:
    data = file.path.read_bytes()
    return gzip.decompress(data) if file.path.suffix == ".gz" else data


def lines_of(logs: LogSummary, service: str) -> list[tuple[LogFile, str]]:
    return [(file, line) for file in logs.files if file.service == service for line in content(file).decode().split("\n")[:-1]]


def test_the_summary_tells_what_lies_there(logs: LogSummary) -> None:
    assert logs.lines == LINES
    for file in logs.files:
        data = content(file)
        assert data.endswith(b"\n")
        assert (data.count(b"\n"), len(data)) == (file.lines, file.size_bytes)
    assert sum(logs.lines_by_service.values()) == LINES
    assert set(logs.lines_by_service) == {"web", "api", "payments", "system", "search"}


def test_files_lie_in_the_folder_of_their_hour_and_have_settled(logs: LogSummary) -> None:
    for file in logs.files:
        folder = file.path.parent
        assert f"{folder.parent.name}/{folder.name}" == f"{file.hour:%Y-%m-%d/%H}"
        assert file.path.name.removesuffix(".gz") == f"{file.service}-{file.host}.log"
        assert file.path.stat().st_mtime == (file.hour + timedelta(hours=1)).timestamp()
    assert {f"{file.hour:%m-%d/%H}" for file in logs.files} == {"11-01/22", "11-01/23", "11-02/00"}
    assert {file.path.suffix for file in logs.files} == {".log", ".gz"}


def digests(root: Path) -> dict[str, str]:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        write_logs(tmp_path / name, start=START, hours=2, lines=2000, seed=seed)
        monkeypatch.setattr(time, "time", lambda: 1.0)  # gzip's header would hold the second of writing

    first = digests(tmp_path / "first")
    assert len(first) == 24
    assert digests(tmp_path / "second") == first
    other = digests(tmp_path / "other")
    assert all(other[name] != digest for name, digest in first.items())


PATTERNS = {
    "web": (
        r'[0-9a-f.:]+ - (?:-|\w+) \[(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d) \+0000\] "(?:GET|POST|HEAD) \S+ HTTP/[12]\.[01]" '
        r'\d{3} \d+ "[^"]+" "[^"]+"',
        "%d/%b/%Y:%H:%M:%S",
    ),
    "search": (
        r'ts=([\d-]{10}T[\d:]{8}\.\d{3})Z service=search host=\S+ level=\w+ query="[^"]+" hits=\d+ took_ms=[\d.]+ '
        r"cache=\w+ lang=\w\w",
        "%Y-%m-%dT%H:%M:%S.%f",
    ),
    "system": (r"(Nov [ \d]\d \d\d:\d\d:\d\d) \S+ [\w.]+(?:\[\d+\])?: .+", "%b %d %H:%M:%S"),
}


@pytest.mark.parametrize("service", PATTERNS)
def test_every_line_has_its_services_format_and_a_time_of_its_hour(logs: LogSummary, service: str) -> None:
    pattern, stamp = re.compile(PATTERNS[service][0]), PATTERNS[service][1]
    last: dict[Path, datetime] = {}
    for file, line in lines_of(logs, service):
        match = pattern.fullmatch(line)
        assert match, line
        moment = datetime.strptime(f"2026 {match[1]}", f"%Y {stamp}" if "%Y" not in stamp else f"2026 {stamp}")
        assert moment.replace(tzinfo=UTC, year=2026, minute=0, second=0, microsecond=0) == file.hour
        assert last.get(file.path, moment) <= moment
        last[file.path] = moment


def test_json_lines_are_json_that_says_who_wrote_them(logs: LogSummary) -> None:
    statuses = set()
    for file, line in lines_of(logs, "api"):
        entry = json.loads(line)
        assert (entry["service"], entry["host"]) == ("api", file.host)
        assert datetime.fromisoformat(entry["ts"]).replace(minute=0, second=0, microsecond=0) == file.hour
        statuses.add(entry["status"])
    assert {200, 404, 500} <= statuses


def test_java_logs_hold_whole_stack_traces(logs: LogSummary) -> None:
    kinds = [
        "event" if re.match(r"[\d-]{10} [\d:]{8},\d{3} (INFO |DEBUG|WARN |ERROR) \[", line) else
        "frame" if line.startswith("\t") else "cause" if line.startswith("Caused by: ") else "error"
        for _, line in lines_of(logs, "payments")
    ]  # fmt: skip
    assert kinds.count("event") > 1500
    assert kinds.count("error") > 5
    for before, after in itertools.pairwise(kinds):
        assert (before, after) in {
            ("event", "event"), ("event", "error"), ("error", "frame"), ("frame", "frame"), ("frame", "cause"),
            ("cause", "frame"), ("frame", "event"),
        }  # fmt: skip


def test_some_lines_are_ascii_and_some_are_not(logs: LogSummary) -> None:
    for service in ("web", "api", "payments", "search"):
        ascii_lines = [line.isascii() for _, line in lines_of(logs, service)]
        assert 0.01 < ascii_lines.count(False) / len(ascii_lines) < 0.9, service


def test_days_are_busier_than_nights(tmp_path: Path) -> None:
    summary = write_logs(tmp_path, start=datetime(2026, 11, 1, tzinfo=UTC), hours=24, lines=10_000, seed=1)
    by_hour = [sum(file.lines for file in summary.files if file.hour.hour == hour) for hour in range(24)]
    assert by_hour[15] > 3 * by_hour[3]


@pytest.mark.parametrize("lines", [0, 1, 5])
def test_few_lines_make_few_files(tmp_path: Path, lines: int) -> None:
    summary = write_logs(tmp_path, start=START, hours=1, lines=lines, seed=1)
    assert summary.lines == lines
    assert len(summary.files) <= lines


@pytest.mark.parametrize(
    ("start", "hours", "lines"),
    [
        (datetime(2026, 11, 1), 1, 1),
        (datetime(2026, 11, 1, tzinfo=timezone(timedelta(hours=1))), 1, 1),
        (datetime(2026, 11, 1, 0, 30, tzinfo=UTC), 1, 1),
        (START, 0, 1),
        (START, 1, -1),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, start: datetime, hours: int, lines: int) -> None:
    with pytest.raises(ValueError, match=r"whole hour in UTC|cannot write"):
        write_logs(tmp_path, start=start, hours=hours, lines=lines, seed=1)
    assert list(tmp_path.iterdir()) == []
