"""`shipper ledger show --json`: one document with each chunk, whatever is in names of files."""

import json
from types import SimpleNamespace

import pytest

from shipper.cli.open_ledger import of_each_ledger
from shipper.errors import ClusterError, LedgerDamaged
from shipper.ledger.codec import encode_chunk
from shipper.ledger.control import Control
from shipper.ledger.fold import FileRecords, LedgerRecords
from shipper.ledger.heads import Heads
from shipper.ledger.records import ChunkKey
from shipper.types import FileId, LogRecord, SplitId
from tests.samples.config import write_config
from tests.samples.ledger import chunk_value

HOSTILE = "/logs/x\x1b]52;c;aGk=\x07\u202egol\x9b31m é.log"
WINDOWS = ("2026-11-01T06:00:00Z/2026-11-01T07:00:00Z", "2026-11-02T06:00:00Z/2026-11-02T07:00:00Z")


def ledger(name, read=None):
    """Return a ledger of two chunks, each of a window of its own."""
    records = [
        LogRecord(
            offset,
            0,
            *encode_chunk(
                "web",
                ChunkKey(SplitId(FileId(HOSTILE, 9, 9), 0), first, "t"),
                chunk_value(last=first + 9, records=9, window=window),
            ),
        )
        for offset, (first, window) in enumerate(zip((0, 10), WINDOWS, strict=True))
    ]
    found = LedgerRecords(FileRecords("web").feed(records), [], Heads("web"), Control("web"), 2, 1)
    return SimpleNamespace(
        read=read or (lambda: found),
        check_identity=lambda: None,
        cluster=SimpleNamespace(name=name),
        pipeline=SimpleNamespace(key="web", name="web"),
        client=SimpleNamespace(present_ids=lambda topics: dict.fromkeys(topics, "id")),
        log=SimpleNamespace(topic="_shipper.web", snapshot=lambda: None),
    )


@pytest.fixture
def show(monkeypatch, tmp_path, shipper):
    def run(*ledgers, window=None):
        by_name = {one.cluster.name: one for one in ledgers}
        web = f"pipeline: web\nsource: logs\ntopic: t\nclusters: [{', '.join(by_name)}]\n"
        clusters = {
            f"clusters/{name}": f"cluster: {name}\nbootstrap: 127.0.0.1:9092\n" for name in by_name
        }
        write_config(tmp_path, {"pipelines/web": web} | clusters)
        monkeypatch.setattr(
            "shipper.cli.open_ledger._opened", lambda config, pipeline, name: by_name[name]
        )
        more = ("--window", window) if window else ()
        return shipper("ledger", "show", "web", "--json", "--config", str(tmp_path), *more)

    return run


def test_each_chunk_of_each_cluster_is_in_one_document_in_a_line_of_its_own(show):
    done = show(ledger("near"), ledger("far"))
    documents = json.loads(done.stdout)
    assert {name: len(one["chunks"]) for name, one in documents.items()} == {"near": 2, "far": 2}
    first, second = documents["near"]["chunks"]
    assert (first["path"], first["split"], first["first"], first["last"]) == (HOSTILE, 0, 0, 9)
    assert (second["topic"], second["offset"], second["archived"]) == ("t", 1, False)
    assert len([line for line in done.stdout.splitlines() if '"path"' in line]) == 4
    assert done.stdout.isascii()
    assert not {"\x1b", "\x07"} & set(done.stdout)


def test_only_chunks_of_the_asked_window_are_listed(show):
    documents = json.loads(show(ledger("near"), window="2026-11-02").stdout)
    assert [chunk["first"] for chunk in documents["near"]["chunks"]] == [10]


def test_a_ledger_that_cannot_be_read_leaves_an_error_and_no_half_of_a_document(show):
    def read():
        raise ClusterError("it does not answer")

    done = show(ledger("near"), ledger("far", read))
    assert (done.returncode, json.loads(done.stdout)["code"]) == (1, "SHIP-401")


def test_a_cluster_that_cannot_be_asked_hides_no_other(monkeypatch, tmp_path, capsys):
    web = "pipeline: web\nsource: logs\ntopic: t\nclusters: [down, near]\n"
    of_cluster = {
        f"clusters/{name}": f"cluster: {name}\nbootstrap: 127.0.0.1:9092\n"
        for name in ("down", "near")
    }
    write_config(tmp_path, {"pipelines/web": web} | of_cluster)

    def exists(log):
        if log.cluster.name == "down":
            raise ClusterError("cluster down: no answer")
        return True

    monkeypatch.setattr("shipper.cli.open_ledger.LedgerLog.exists", exists)
    asked = []

    def damaged(ledger):
        asked.append(ledger.cluster.name)
        raise LedgerDamaged("cluster near: a record is damaged")

    with pytest.raises(ClusterError, match="down"):
        of_each_ledger(tmp_path, "web", None, damaged)
    assert asked == ["near"]
    assert "a record is damaged" in capsys.readouterr().err
