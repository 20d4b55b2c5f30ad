from __future__ import annotations

import gzip
import hashlib
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from shipper_tools.samples.logs import LogFile, LogSummary, write_logs

START = datetime(2026, 11, 1, 22, tzinfo=UTC)
LINES = 5_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> LogSummary:
    return write_logs(tmp_path_factory.mktemp("logs"), start=START, hours=3, lines=LINES, seed=7)


def content(file: LogFile) -> bytes:
    data = file.path.read_bytes()
    return gzip.decompress(data) if file.path.suffix == ".gz" else data


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
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        write_logs(tmp_path / name, start=START, hours=2, lines=500, seed=seed)
        monkeypatch.setattr(
            time, "time", lambda: 1.0
        )  # gzip's header would hold the second of writing

    first = digests(tmp_path / "first")
    assert len(first) == 24
    assert digests(tmp_path / "second") == first
    other = digests(tmp_path / "other")
    assert all(other[name] != digest for name, digest in first.items())


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
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, start: datetime, hours: int, lines: int
) -> None:
    with pytest.raises(ValueError, match=r"whole hour in UTC|cannot write"):
        write_logs(tmp_path, start=start, hours=hours, lines=lines, seed=1)
    assert list(tmp_path.iterdir()) == []
