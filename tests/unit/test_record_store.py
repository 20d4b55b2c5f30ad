"""What is moved out of the ledger's topic is on the disk before the topic forgets it."""

import os
from pathlib import Path

import pytest

from shipper.ledger.codec import encode_chunk
from shipper.ledger.records import ChunkKey
from shipper.ledger.snapshot import Origin, RecordStore
from shipper.types import FileId, LogRecord, SplitId
from tests.samples.ledger import chunk_value

VALUE = chunk_value(last=9, records=9, bytes=90)


@pytest.mark.parametrize("durable", [True, False], ids=["archive", "snapshot"])
def test_an_archive_survives_a_power_failure_and_a_snapshot_need_not(
    tmp_path, monkeypatch, durable
):
    synced = []
    really = os.fsync

    def fsync(handle):
        path = Path(f"/proc/self/fd/{handle}").readlink()
        name = path.name.partition(".part")[0].rpartition(".")[0]  # before it was renamed
        whole = path.with_name(name) if path.suffix == ".part" else path
        synced.append((whole, path.stat().st_size if path.is_file() else 0))
        really(handle)

    monkeypatch.setattr("os.fsync", fsync)
    store = RecordStore(str(tmp_path / "archive"), "web", durable=durable)
    record = LogRecord(
        0, 0, *encode_chunk("web", ChunkKey(SplitId(FileId("/a", 9, 9), 0), 0, "t"), VALUE)
    )
    name, _, _ = store.write(
        None,
        {"/a": {record.key: record}},
        Origin("web", "near", "_shipper.web", "cluster-id", "topic-id"),
        0,
        1,
        [],
    )
    written = {
        path: path.stat().st_size for path in (tmp_path / "archive").rglob("*") if path.is_file()
    }
    assert {path.name for path in written} > {name}, "the manifest, and a shard at least"
    if durable:
        assert written.items() <= dict(synced).items(), "each file whole"
        folders = [path for path, _ in synced if path.is_dir()]
        assert {tmp_path / "archive", tmp_path / "archive" / "shards"} <= set(folders), (
            "the names of the files too"
        )
    else:
        assert synced == []
