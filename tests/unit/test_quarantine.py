"""Rules, parsing and quarantine: what the digest covers, what the ledger says."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from shipper.config.load import load_pipeline
from shipper.driver.account import records_behind, too_many_quarantined
from shipper.driver.checks.refusals import absent_topics
from shipper.errors import LedgerDamaged
from shipper.kafka.limits import TopicLimit, TopicLimits
from shipper.ledger.codec import decode, encode_chunk
from shipper.ledger.control import Control
from shipper.ledger.fold import Chunks, FileRecords, LedgerRecords
from shipper.ledger.heads import Heads
from shipper.ledger.inventory import entries, findings
from shipper.ledger.quarantine_headers import QuarantineHeaders, decode_headers
from shipper.ledger.quarantined import RecordPosition, in_quarantine
from shipper.ledger.records import Alias, ChunkKey, ChunkValue
from shipper.report.results import ShipResult, TopicAccount
from shipper.types import FileId, LogRecord, SplitId
from shipper.worker.assign import RecordLimits
from tests.doubles.task import order_with
from tests.samples.config import pipeline_of
from tests.samples.results import common

SHORTEST = "pipeline: web\nsource: s3a://logs/web/\ntopic: logs.web\nclusters: [local]\n"
WINDOW = "2026-11-01T06:00:00Z/2026-11-01T07:00:00Z"


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("pipelines", "clusters"):
        (tmp_path / "config" / folder).mkdir(parents=True)
    Path("config/clusters/local.yaml").write_text("cluster: local\nbootstrap: 127.0.0.1:9092\n")
    return Path("config")


def written(config, more):
    (config / "pipelines" / "web.yaml").write_text(SHORTEST + more)
    return config


def test_the_quarantine_topic_must_be_on_the_cluster(config):
    pipeline = load_pipeline(written(config, "quarantine: {topic: q}\n"), "web")
    assert absent_topics(pipeline, {"logs.web": 1}) == ["q"]


# Too large or not.


def limits(compression, limit=1_000_000, asked=None):
    known = TopicLimits(
        {"t": TopicLimit(limit)},
        lambda topics: {} if asked is None else dict.fromkeys(topics, TopicLimit(asked)),
    )
    return RecordLimits(known, order_with(compression))


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_a_record_is_too_large_only_if_it_does_not_fit_compressed(compression):
    assert limits(compression).fits("t", b"x" * 2_000_000)
    assert not limits(compression).fits("t", random.Random(1).randbytes(1_000_000))
    assert limits(compression).fits("t", random.Random(1).randbytes(985_000))


@pytest.mark.parametrize(("asked", "fits"), [(3_000_000, True), (500_000, False), (None, True)])
def test_a_topic_that_is_not_known_before_reading_is_asked_for_its_limit(asked, fits):
    found = limits("none", asked=asked)
    assert found.uncompressed_limit("other") < 16_000
    assert found.fits("other", b"x" * 1_000_000) is fits


# The ledger.

FILE = FileId("s3a://logs/a.log", 100, 7)
SPLIT = SplitId(FILE, 0)
GOOD = ChunkValue(10, True, 5, 50, 0, "d", 3, "run-1", WINDOW, without="2,4-5")
BAD = ChunkValue(
    6,
    False,
    3,
    30,
    0,
    "d",
    3,
    "run-1",
    WINDOW,
    reasons={"too_large": 1, "unparseable": 2},
    ordinals="2,4-5",
)
DROPPED = ChunkValue(10, False, 2, 0, 0, "d", 3, "run-1", WINDOW, filtered={"health": 2})


def ledger(*extra):
    chunks = [
        (ChunkKey(SPLIT, 0, "t"), GOOD),
        (ChunkKey(SPLIT, 2, "q"), BAD),
        (ChunkKey(SPLIT, 0, ""), DROPPED),
    ]
    records = [*(encode_chunk("web", key, value) for key, value in chunks), *extra]
    log = [LogRecord(offset, 0, key, value) for offset, (key, value) in enumerate(records)]
    return LedgerRecords(
        FileRecords("web").feed(log), [], Heads("web"), Control("web"), 0, len(log)
    )


def test_an_ordinal_that_two_quarantine_chunks_have_is_found():
    twice = encode_chunk(
        "web",
        ChunkKey(SPLIT, 5, "q"),
        replace(BAD, records=1, ordinals="5", reasons={"unparseable": 1}),
    )
    [of_path] = entries(ledger(twice))
    assert "overlap" in {finding.code for finding in findings(of_path, lambda file: [0])}


def test_a_record_is_found_in_quarantine_by_its_place():
    found = in_quarantine(ledger())
    assert found.topics == ["q"]
    assert found.find(RecordPosition(FILE.path, 0, 5)) is found.chunks[0]
    assert found.find(RecordPosition(FILE.path, 0, 4)) is None  # ordinal 3 was shipped


def test_a_record_of_a_development_version_that_sent_corrected_records_is_refused():
    """It has the key of a chunk, so it must not count as one."""
    key, value = encode_chunk("web", ChunkKey(SPLIT, 0, "t"), replace(GOOD, last=1, records=1))
    with pytest.raises(LedgerDamaged, match="replay"):
        decode("web", LogRecord(9, 0, key, value[:-1] + b',"replay":true}'))


# The limit.


@pytest.mark.parametrize(
    ("sent", "before", "dropped", "fails"),
    [(1, 0, 0, False), (2, 0, 0, True), (0, 2, 0, True), (1, 0, 1, True)],
)
def test_more_than_the_limit_in_quarantine_fails_the_run_by_whichever_run_it_came_there(
    sent, before, dropped, fails
):
    pipeline = pipeline_of(quarantine={"topic": "q", "max_rate": 0.01})
    assert pipeline.quarantine is not None
    result = ShipResult(
        **common(),
        cluster="c",
        read=60,
        unread=40,
        filtered={"rule": dropped},
        topics=[TopicAccount(topic="q", quarantine=True, delivered=sent, before=before)],
    )
    assert bool(too_many_quarantined(result, pipeline.quarantine)) is fails


@pytest.mark.parametrize(
    ("unreadable_bytes", "swallowed", "behind"), [(5_000, None, 99), (50, None, 0), (50, 100, 101)]
)
def test_a_record_that_stands_for_more_weighs_as_many_records_as_it_hides(
    unreadable_bytes, swallowed, behind
):
    """A file that cannot be read: as many as its bytes would hold. A row of CSV with a stray quote:
    the rows that it swallowed."""
    pipeline = pipeline_of(quarantine={"topic": "q", "max_rate": 0.02})
    assert pipeline.quarantine is not None
    result = ShipResult(
        **common(),
        cluster="c",
        read=100,
        unread=1,
        topics=[TopicAccount(topic="q", quarantine=True, before=1)],
    )
    good, bad, elsewhere = (
        FileId(*id, 1) for id in (("good", 5_000), ("bad", unreadable_bytes), ("elsewhere", 9_000))
    )
    chunks = Chunks("web")
    for file, value in (
        (good, replace(BAD, swallowed=swallowed)),
        (bad, replace(BAD, reasons={"unreadable": 1})),
        (elsewhere, BAD),
    ):
        chunks.add(ChunkKey(SplitId(file, 0), 0, "q"), value)
    assert records_behind(result, {good, bad}, chunks) == behind
    assert bool(too_many_quarantined(result, pipeline.quarantine, behind)) is bool(behind)
    assert not records_behind(result, {bad}, chunks), (
        "nothing else is there: all of it is in quarantine already"
    )
    renamed, chunks = FileId("good.1", 5_000, 1), Chunks("web")
    alias = Alias(
        *good, whole=True, sum="5000:0000000100000002", read=5_000, generation=2, run_id="r",
        window="w", records={"q": 1}, topic_ids={}, swallowed=swallowed,
    )  # fmt: skip
    chunks.add_alias(renamed, alias)
    assert records_behind(result, {renamed}, chunks) == (swallowed or 0)


def test_a_record_that_somebody_else_wrote_into_quarantine_is_passed_over():
    ours = QuarantineHeaders(
        "web",
        "/logs/a",
        0,
        3,
        "too_large",
        "r1",
        None,
        False,
        b"\xff",
        7,
        (("a", b"\xfe"), ("b", b"")),
    )
    written = dict(ours.encode())
    assert decode_headers(written.items()) == ours
    before = {name: value for name, value in written.items() if name != "shipper-cut"}
    assert decode_headers(before.items()) == replace(ours, cut=True), (
        "nobody noted it, so nothing is guessed"
    )
    no_numbers = {"shipper-record": b"three", "shipper-split": b"", "shipper-timestamp": b"x"}
    for foreign in (
        {},
        {"shipper-pipeline": b"web"},
        *(written | {name: text} for name, text in no_numbers.items()),
    ):
        assert decode_headers(foreign.items()) is None
