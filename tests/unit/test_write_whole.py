"""Files are written whole, or stay as they were: on a full disk, and where a rename leaves alone
what is there."""

import datetime as dt
import errno
import json
import os
from contextlib import suppress
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shipper.config.replay_request import Replay
from shipper.errors import StepResultError, UsageError
from shipper.ledger.codec import encode_chunk
from shipper.ledger.identity import LedgerIdentity
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import ChunkKey
from shipper.ledger.snapshot import LedgerFolder, Origin
from shipper.report.late import Told
from shipper.report.replays import keep_replay
from shipper.report.results import GateResult
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import begun, write_records
from shipper.types import FileId, LogRecord, SplitId
from shipper.whole_files import output_file, write_whole
from shipper.windows.window import Window
from tests.doubles.memory_log import MemoryLog
from tests.samples.config import cluster_of
from tests.samples.ledger import chunk_value
from tests.samples.results import common


class SaysNothing(LocalFileSystem):
    """As WebHDFS: its RENAME answers false, and fsspec does not look at the answer."""

    protocol = "says-nothing"

    def mv(self, path1, path2, **options):
        if not Path(path2).exists():
            Path(path1).rename(path2)


class Refuses(LocalFileSystem):
    """As HDFS through Arrow."""

    protocol = "refuses"

    def mv(self, path1, path2, **options):
        if Path(path2).exists():
            raise OSError(f"cannot rename {path1} to {path2}")
        Path(path1).rename(path2)


class Keeps(SaysNothing):
    """Nothing can be removed either."""

    protocol = "keeps"

    def rm_file(self, path):
        pass


class Full(LocalFileSystem):
    """The disk is full after ``room`` more bytes."""

    protocol = "full"
    room = 0

    def pipe_file(self, path, value, **options):
        room, Full.room = Full.room, max(0, Full.room - len(value))
        with suppress(FileExistsError):
            Path(path).touch(exist_ok=False)
        Path(path).write_bytes(value[:room])
        if room < len(value):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


for kind in (SaysNothing, Refuses, Keeps, Full):
    fsspec.register_implementation(kind.protocol, kind, clobber=True)


@pytest.mark.parametrize("protocol", ["file", "says-nothing", "refuses"])
def test_a_later_result_replaces_the_one_before_it(tmp_path, protocol):
    for text in ("failed\n", "succeeded\n"):
        write_whole(f"{protocol}://{tmp_path}/run/plan.json", text)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["plan.json"]
    assert (tmp_path / "run" / "plan.json").read_text() == "succeeded\n"


def test_a_result_that_cannot_replace_the_one_before_it_is_an_error(tmp_path):
    write_whole(f"keeps://{tmp_path}/run/plan.json", "failed\n")
    with pytest.raises(OSError, match="cannot be replaced"):
        write_whole(f"keeps://{tmp_path}/run/plan.json", "succeeded\n")


def test_a_local_disk_that_is_full_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    write_whole(str(tmp_path / "plan.json"), "before")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(str(tmp_path / "plan.json"), "after", durable=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"plan.json": "before"}


_NOW = dt.datetime(2026, 11, 1, 7, tzinfo=dt.UTC)
_WINDOW = Window(_NOW - dt.timedelta(hours=1), _NOW)


def _identity(runs):
    folder, log = LedgerFolder(runs, "web", "c"), MemoryLog()
    LedgerIdentity(LedgerLog(log, cluster_of(), "web", folder), new_ledger=False).remember(
        "r1", "now"
    )


def _store(runs, kind):
    folder = LedgerFolder(runs, "web", "c")
    record = LogRecord(
        0,
        0,
        *encode_chunk(
            "web", ChunkKey(SplitId(FileId("/a", 9, 9), 0), 0, "t"), chunk_value(last=9, records=9)
        ),
    )
    getattr(folder, kind).write(
        None, {"/a": {record.key: record}}, Origin("web", "c", "t", "c", "t"), 0, 1, []
    )


def _result(runs):
    folder = RunFolder(runs, "web", _WINDOW, "r1")
    folder.write("gate_source", GateResult(step="gate_source", **common(_WINDOW, "r1")))


def _told(runs):
    Told(runs, "web").add("late", [_WINDOW], _NOW, "why")


KEPT = {
    "ledger.json": _identity,
    "snapshot": lambda runs: _store(runs, "snapshots"),
    "archive": lambda runs: _store(runs, "archives"),
    "result": _result,
    "told": _told,
    "replay.json": lambda runs: keep_replay(runs, "web", Replay.model_construct(id="x")),
    "windows": lambda runs: write_records(runs, "web", [begun(_WINDOW, "r1", _NOW, (), _NOW)]),
}


@pytest.mark.parametrize("kind", KEPT)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1))
def test_a_disk_that_fills_up_at_any_byte_leaves_no_cut_file_and_no_part(
    tmp_path_factory, kind, share
):
    folder = tmp_path_factory.mktemp("runs")
    Full.room = whole = 1_000_000
    KEPT[kind](f"full://{folder}/whole")
    sizes = {
        key: path.stat().st_size
        for path in (folder / "whole").rglob("*")
        for key in (path.suffix, path.name)
        if path.is_file()
    }
    needed = whole - Full.room
    Full.room = min(int(share * needed), needed - 1)
    with pytest.raises((OSError, StepResultError)):
        KEPT[kind](f"full://{folder}/cut")
    for path in (folder / "cut").rglob("*"):
        assert path.suffix != ".part"
        whole = sizes.get(path.name, sizes.get(path.suffix, 0))
        assert path.is_dir() or path.stat().st_size >= whole - 8, "ids may be shorter"


def test_a_disk_that_fills_up_during_a_run_is_the_cause_and_claims_nothing_of_what_was_sent(
    config, tmp_path, shipper, monkeypatch
):
    (config / "pipelines" / "web.yaml").write_text(
        "pipeline: web\nsource: logs\ntopic: t\nclusters: [local]\n"
        f"runs_uri: full://{tmp_path}/runs\n"
    )

    class FillsUp:
        def __init__(self, *_, **__):
            Full.room = 0

        def wait(self):
            return 1

    Full.room = 1_000_000
    monkeypatch.setattr("shipper.runner.subprocess.Popen", FillsUp)
    done = shipper("run", "web", "--window", "2026-11-01/2026-11-02", "--config", str(config))
    assert done.returncode == 1
    assert "SHIP-005" in done.stderr
    assert "SHIP-003" not in done.stderr
    assert "Nothing was sent" not in done.stderr


def test_an_output_file_replaces_nothing_unless_it_is_forced(tmp_path):
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("mine")
    link.symlink_to(there)
    (dangling := tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path in (there, link, dangling):
        with pytest.raises(UsageError) as refused, output_file(path, force=False):
            raise AssertionError("refused before anything is done")
        assert refused.value.code == "SHIP-103"
    assert there.read_text() == "mine"
    with output_file(link, force=True) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert there.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "link", "there"]


def test_an_output_file_makes_its_folder(tmp_path):
    with output_file(path := tmp_path / "new" / "folder" / "out") as part:
        part.write_text("ours")
    assert path.read_text() == "ours"
    with pytest.raises(UsageError, match="SHIP-104"), output_file(path / "below a file"):
        raise AssertionError("refused before anything is done")


def test_an_output_file_that_came_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "out"

    def write():
        with output_file(path) as part:
            part.write_text("ours")
            path.write_text("theirs")

    with pytest.raises(UsageError, match="SHIP-103"):
        write()
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("out", "theirs")]


def test_what_is_no_regular_file_is_written_into(tmp_path):
    reading, writing = os.pipe()
    link = tmp_path / "stdout"
    link.symlink_to(f"/proc/self/fd/{writing}")
    with output_file(link, force=False) as part:
        part.write_text("rows")
    os.close(writing)
    assert os.read(reading, 100) == b"rows"
    os.close(reading)
    assert link.is_symlink()
    null = Path("/dev/null")
    with output_file(null, force=False) as part:
        part.write_text("rows")
    assert null.is_char_device()


def test_an_output_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "out"
    path.write_text("before")

    def write():
        with output_file(path, force=True) as part:
            part.write_text("half")
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(UsageError, match="SHIP-104"):
        write()
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("out", "before")]


def test_an_empty_identity_is_written_anew_only_if_the_ledger_holds_something(tmp_path):
    folder, log = LedgerFolder(str(tmp_path), "web", "c"), MemoryLog()

    def identity():
        return LedgerIdentity(LedgerLog(log, cluster_of(), "web", folder), new_ledger=False)

    identity().remember("r1", "now")
    file = tmp_path / "web" / "ledger.c" / "ledger.json"
    whole = file.read_text()
    for cut in ("", whole[: len(whole) // 2]):
        file.write_text(cut)
        for exists in (True, False):  # made anew, or gone: nobody knows
            with pytest.raises(Exception, match="SHIP-007"):
                identity().check(exists=exists)
        log.append("_shipper.web", 0, [(b"lease", b"")])
        with pytest.raises(Exception, match="SHIP-007"):
            identity().check(exists=False)
        identity().check(exists=True)
        identity().remember("r2", "now")
        assert json.loads(file.read_text())["topic_id"] == log.topic_id
        log.recreate()
        with pytest.raises(Exception, match="SHIP-503"):
            identity().check(exists=True)
