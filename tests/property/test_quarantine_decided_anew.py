"""Each line ends up in one place, whatever runs died in between and however often it was decided anew what belongs into quarantine."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shipper.kafka.limits import TopicLimits
from shipper.ledger.codec import encode_chunk
from shipper.ledger.fold import Chunks
from shipper.ledger.intervals import IntervalSet, decode_ordinals, encode_ordinals
from shipper.ledger.inventory import Tally
from shipper.ledger.records import ChunkKey, ChunkValue, spark_hash
from shipper.types import FileId, LogRecord, SplitId
from shipper.worker import cut as cutter
from shipper.worker import rejected as held
from shipper.worker.assign import Limits
from shipper.worker.order import OrderedSplit, QuarantineOrder
from shipper.worker.receipt import Receipt
from shipper.worker.shipment import Records

SPLIT = SplitId(FileId("a.log", 9, 9), 0)
RULE, REASON = 0, 1
TOPICS = ("t", "u")


class Cluster:
    """Topics and a compacted ledger; the tasks' side of a ship, without Kafka."""

    def __init__(self) -> None:
        self.topics: dict[str, list[bytes]] = {}
        self.headers: list[dict[str, bytes]] = []
        self.ledger: dict[bytes, LogRecord] = {}
        self._offsets = itertools.count()

    def chunks(self) -> Chunks:
        return Chunks("web").feed(sorted(self.ledger.values(), key=lambda record: record.offset))

    def commit(self, first: int, last: int, end: bool, records: Records) -> None:
        count = len(records.values) if records.lines is None else records.lines
        value = ChunkValue(
            last, end, count, 0, records.checksum, "d", 1, "r", "w", reasons=records.reasons, ordinals=records.ordinals,
            without=records.without, filtered=records.filtered,
        )  # fmt: skip
        key, encoded = encode_chunk("web", ChunkKey(SPLIT, first, records.topic), value)
        assert key not in self.ledger, f"{key!r} was there, and compaction would remove it"
        self.ledger[key] = LogRecord(next(self._offsets), 0, key, encoded)
        if records.topic:
            self.topics.setdefault(records.topic, []).extend(records.values[:])


class Shipment:
    """What TaskShipment is to the cutter. Sends what ``commits`` says is not lost."""

    def __init__(self, cluster: Cluster, commits: Any) -> None:
        state = cluster.chunks().splits.get(SPLIT)
        self._state = state
        self._cluster, self._commits = cluster, commits
        self.receipt = Receipt(0)
        self.sent = 0
        self.handed_over: Counter[str] = Counter()

    def quarantines(self, split: SplitId) -> frozenset[str]:
        return self._state.quarantines if self._state else frozenset()

    def gaps(self, split: SplitId, topic: str, first: int, last: int) -> list[tuple[int, int]]:
        return IntervalSet(self._state.intervals(topic) if self._state else ()).gaps(first, last)

    def end_known(self, split: SplitId) -> bool:
        return self._state is not None and self._state.end is not None

    def add(self, split: int, first: int, last: int, end: bool, records: Records) -> None:
        self.handed_over.update(records.reasons or {})
        if self._commits():
            self._cluster.commit(first, last, end, records)
            self.sent += 1

    def send_full(self) -> None:
        pass


def run(cluster: Cluster, lines: list[tuple[bytes, int, bool]], bad: set[int], limit: int, piece: int, commits: Any,
        quarantine: str = "q") -> Shipment:  # fmt: skip
    """``lines``: (value, number of its topic, whether a rule drops it). ``bad``: ordinals that a check sends to quarantine."""
    fates = [RULE if dropped else REASON if ordinal in bad else None for ordinal, (_, _, dropped) in enumerate(lines)]
    batch = pa.record_batch(
        {
            "split": pa.array([7] * len(lines), pa.int64()),
            "value": pa.array([None if line[2] else line[0] for line in lines], pa.binary()),
            "checksum": pa.array([spark_hash(line[0]) - 2**64 * (spark_hash(line[0]) >> 63) for line in lines], pa.int64()),
            "topic": pa.array([line[1] for line in lines], pa.int32()),
            "fate": pa.array(fates, pa.int8()),
        }
    )
    order: Any = SimpleNamespace(
        splits={7: OrderedSplit(SPLIT)}, topics=TOPICS, rules=("rule",), reasons=("check",), bundle=None,
        quarantine=QuarantineOrder(quarantine, 100), limits=dict.fromkeys(TOPICS, limit + 2048), pipeline="web", run_id="r",
    )  # fmt: skip
    shipment: Any = Shipment(cluster, commits)
    cutter.ship(cutter.pieces(iter([batch]), piece), order, shipment, Limits("none", TopicLimits(order.limits)))
    return shipment


@settings(max_examples=300, deadline=None)
@given(data=st.data(), most_runs=st.sampled_from([2, 3, 20_000]))
def test_no_line_is_lost_or_doubled_when_quarantine_is_decided_anew_between_runs(data: st.DataObject, most_runs: int) -> None:
    count = data.draw(st.integers(1, 40))
    sizes = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    topics = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    dropped = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    # Larger lines are too large for a topic with the lower limit.
    lines = [
        (b"%d" % n + b"x" * (3000 * size), topic, drop)
        for n, (size, topic, drop) in enumerate(zip(sizes, topics, dropped, strict=True))
    ]
    cluster = Cluster()
    before = cutter.MOST_RUNS, held.MOST_RUNS
    cutter.MOST_RUNS = held.MOST_RUNS = most_runs  # type: ignore[misc]
    try:
        runs = data.draw(st.integers(0, 4))
        for last in [*[False] * runs, True, True]:
            bad = data.draw(st.sets(st.integers(0, count - 1)))
            limit = data.draw(st.sampled_from([100, 10_000]))
            piece = data.draw(st.sampled_from([1, 5, 50, 100_000]))
            quarantine = data.draw(st.sampled_from(["q", "q2"]))
            done = run(cluster, lines, bad, limit, piece, lambda last=last: last or data.draw(st.booleans()), quarantine)
            split = done.receipt.split(7)
            assert split.records == count
            assert split.settled.get("check", 0) + done.handed_over["check"] == sum(1 for n in bad if not dropped[n])
            assert split.filtered == ({"rule": sum(dropped)} if any(dropped) else {})
    finally:
        cutter.MOST_RUNS, held.MOST_RUNS = before  # type: ignore[misc]
    assert done.sent == 0
    assert split.before == count - sum(dropped)
    there = Counter(value.rstrip(b"x") for values in cluster.topics.values() for value in values)
    assert there == Counter(b"%d" % n for n, drop in enumerate(dropped) if not drop)
    for number, topic in enumerate(TOPICS):
        assert set(cluster.topics.get(topic, [])) <= {line[0] for line in lines if line[1] == number and not line[2]}
    chunks = cluster.chunks()
    assert chunks.splits[SPLIT].complete
    tally = Tally()
    for (_, topic), value in chunks.splits[SPLIT].chunks.items():
        tally.add(topic, value)
    assert tally.filtered.total() == sum(dropped)
    assert tally.reasons.total() == sum(len(cluster.topics.get(name, [])) for name in ("q", "q2"))
    # Spark's sum of what it wants shipped, with what the tasks know better, is that of what lies in the topics, whichever run sent it.
    wanted = sum(spark_hash(line[0]) for n, line in enumerate(lines) if not line[2] and n not in bad)
    in_topics = sum(spark_hash(value) for name in TOPICS for value in cluster.topics.get(name, ()))
    assert (wanted + split.adjusted - in_topics) % 2**64 == 0
    assert chunks.records_by_topic([SPLIT]) == {name: len(values) for name, values in cluster.topics.items()}


@given(st.sets(st.integers(0, 300)))
def test_ordinals_survive_being_written_as_text(ordinals: set[int]) -> None:
    found = IntervalSet((n, n + 1) for n in ordinals)
    assert decode_ordinals(encode_ordinals(found)) == list(found)
