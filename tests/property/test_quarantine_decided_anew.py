"""Each line ends up in one place, whatever runs died in between and however often it was decided
anew what belongs into quarantine."""

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shipper.kafka.limits import TopicLimit
from shipper.ledger.intervals import IntervalSet, decode_ordinals, encode_ordinals
from shipper.ledger.inventory import Tally
from shipper.ledger.records import spark_hash
from shipper.worker import shipment
from shipper.worker.order import QuarantineOrder
from shipper.worker.receipt import Receipt
from shipper.worker.tuning import Tuning
from tests.doubles.task import SPLIT, FilledTopics, order_with, run_task

RULE, REASON = 0, 1
TOPICS = ("t", "u")


class Cluster(FilledTopics):
    """Topics and their ledger, to which nothing is written twice."""

    def commit(self, chunk):
        key = chunk.ledger_key
        assert key not in self.ledger, f"{key!r} was there, and compaction would remove it"
        super().commit(chunk)


@dataclass
class Ran:
    """What a task did. ``handed_over``: reason → records for quarantine, whether they were sent or
    lost."""

    receipt: Receipt
    sent: int = 0
    handed_over: Counter[str] = field(default_factory=Counter)


def run(cluster, lines, bad, limit, piece, commits, quarantine="q"):
    """``lines``: (value, number of its topic, whether a rule drops it). ``bad``: ordinals that a
    check sends to quarantine. A chunk is lost unless ``commits``."""
    dispositions = [
        RULE if dropped else REASON if ordinal in bad else None
        for ordinal, (_, _, dropped) in enumerate(lines)
    ]
    batch = pa.record_batch(
        {
            "split": pa.array([7] * len(lines) + [7 ^ 1 << 62], pa.int64()),
            "value": pa.array(
                [None if line[2] else line[0] for line in lines] + [None], pa.binary()
            ),
            "checksum": pa.array(
                [spark_hash(line[0]) - 2**64 * (spark_hash(line[0]) >> 63) for line in lines]
                + [None],
                pa.int64(),
            ),
            "topic": pa.array([line[1] for line in lines] + [None], pa.int32()),
            "disposition": pa.array([*dispositions, None], pa.int8()),
        }
    )
    order = order_with(
        limits=dict.fromkeys(TOPICS, TopicLimit(limit + 2048)),
        tuning=Tuning(1, 1000, piece),
        topics=TOPICS,
        splits={7: cluster.split()},
        rules=("rule",),
        reasons=("check",),
        quarantine=QuarantineOrder(quarantine, 100),
    )
    ran = Ran(Receipt(0))

    def submit(chunks):
        for chunk in chunks:
            ran.handed_over.update(chunk.entry.reasons or {})
            if commits():
                cluster.commit(chunk)
                ran.sent += 1

    ran.receipt = run_task(order, batch, submit)
    return ran


@settings(max_examples=settings().max_examples // 2)
@given(data=st.data(), most_runs=st.sampled_from([2, 3, 20_000]))
def test_no_line_is_lost_or_doubled_when_quarantine_is_decided_anew_between_runs(data, most_runs):
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
    before = shipment.MOST_RUNS
    shipment.MOST_RUNS = most_runs
    try:
        runs = data.draw(st.integers(0, 4))
        for last in [*[False] * runs, True, True]:
            bad = data.draw(st.sets(st.integers(0, count - 1)))
            limit = data.draw(st.sampled_from([100, 10_000]))
            piece = data.draw(st.sampled_from([1, 5, 50, 100_000]))
            quarantine = data.draw(st.sampled_from(["q", "q2"]))
            done = run(
                cluster,
                lines,
                bad,
                limit,
                piece,
                lambda last=last: last or data.draw(st.booleans()),
                quarantine,
            )
            split = done.receipt.split(7)
            assert split.records == count
            assert split.already_quarantined.get("check", 0) + done.handed_over["check"] == sum(
                1 for n in bad if not dropped[n]
            )
            assert split.filtered == ({"rule": sum(dropped)} if any(dropped) else {})
    finally:
        shipment.MOST_RUNS = before
    assert done.sent == 0
    assert split.already_committed == count - sum(dropped)
    there = Counter(value.rstrip(b"x") for values in cluster.topics.values() for value in values)
    assert there == Counter(b"%d" % n for n, drop in enumerate(dropped) if not drop)
    for number, topic in enumerate(TOPICS):
        assert set(cluster.topics.get(topic, [])) <= {
            line[0] for line in lines if line[1] == number and not line[2]
        }
    chunks = cluster.chunks()
    assert chunks.splits[SPLIT].complete
    tally = Tally()
    for (_, topic), value in chunks.splits[SPLIT].chunks.items():
        tally.add(topic, value)
    assert tally.filtered.total() == sum(dropped)
    assert tally.reasons.total() == sum(len(cluster.topics.get(name, [])) for name in ("q", "q2"))
    # Spark's sum of what it wants shipped, with what the tasks know better, is that of what lies in
    # the topics, whichever run sent it.
    wanted = sum(
        spark_hash(line[0]) for n, line in enumerate(lines) if not line[2] and n not in bad
    )
    in_topics = sum(spark_hash(value) for name in TOPICS for value in cluster.topics.get(name, ()))
    assert (wanted + split.adjusted - in_topics) % 2**64 == 0
    assert chunks.records_by_topic([SPLIT.file]) == {
        name: len(values) for name, values in cluster.topics.items()
    }


@given(st.sets(st.integers(0, 300)))
def test_ordinals_survive_being_written_as_text(ordinals):
    found = IntervalSet((n, n + 1) for n in ordinals)
    assert decode_ordinals(encode_ordinals(found)) == list(found)
