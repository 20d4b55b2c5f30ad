"""What a task writes to the ledger of what it read, and whether a later run can rely on it."""

from collections import Counter

import pyarrow as pa
import pytest

from shipper.errors import RecordUnshippable
from shipper.kafka.limits import TopicLimit
from shipper.ledger.records import spark_hash
from shipper.worker.order import QuarantineOrder
from tests.doubles.task import SPLIT, FilledTopics, order_with, run_task

NUMBER = 7
END_ROW = NUMBER ^ 1 << 62


class Cluster(FilledTopics):
    """One topic, and a quarantine."""

    def ship(
        self,
        lines,
        *,
        bad=(),
        ends=True,
        sizes=None,
        counts_bytes=False,
        commits=lambda chunk: True,
        quarantine=True,
        header=b"",
        transactional=True,
    ):
        """Ship ``lines`` as one task. The lines ``bad`` belong into quarantine; the split ends with
        them if ``ends``, and then the reader says ``sizes``: the bytes that it took from the file,
        and those of the lines."""
        rows = [
            *(
                (NUMBER, line, _signed(spark_hash(line)), 0 if line in bad else None)
                for line in lines
            )
        ]
        rows += [(END_ROW, b"%d %d" % sizes if sizes else None, None, None)] if ends else []
        types = {
            "split": pa.int64(),
            "value": pa.binary(),
            "checksum": pa.int64(),
            "disposition": pa.int8(),
        }
        columns = zip(*rows, strict=True)
        named = {
            name: pa.array(column, of)
            for (name, of), column in zip(types.items(), columns, strict=True)
        }
        if header:
            of = pa.struct({"h": pa.binary(), "none": pa.binary()})
            named["headers"] = pa.array([{"h": header}] * len(rows), of)
        batch = pa.record_batch(named)
        order = order_with(
            transactional=transactional,
            limits={"t": TopicLimit(10_000)},
            splits={NUMBER: self.split(counts_bytes=counts_bytes)},
            reasons=("check",),
            quarantine=QuarantineOrder("q", 100) if quarantine else None,
        )

        def submit(chunks):
            for chunk in filter(commits, chunks):
                self.commit(chunk)

        run_task(order, batch, submit)


def _signed(number):
    return number - (1 << 64) if number >= 1 << 63 else number


def test_a_split_whose_stream_was_cut_off_is_finished_by_the_next_run():
    """Spark closes the stream when Java fails, and Arrow takes that for the end."""
    lines = [b"one", b"two", b"three", b"four"]
    cluster = Cluster()
    cluster.ship(lines[:2], ends=False)
    assert not cluster.chunks().splits[SPLIT].complete
    cluster.ship(lines)
    assert cluster.chunks().splits[SPLIT].complete
    assert cluster.topics == {"t": lines}


def test_a_record_that_is_there_fails_no_later_run_that_would_not_send_it_any_more():
    """Its time has aged beyond the topic's bounds meanwhile, say. Without a quarantine such a run
    could never finish the file."""
    lines = [b"one", b"two", b"three", b"four"]
    cluster = Cluster()
    cluster.ship(lines[:2], ends=False)
    with pytest.raises(RecordUnshippable, match=r"record 4: .*check"):
        cluster.ship(lines, bad=[b"one", b"four"], quarantine=False)
    assert cluster.topics == {"t": lines[:2]}
    cluster.ship(lines, bad=[b"one"], quarantine=False)
    assert cluster.topics == {"t": lines}
    assert cluster.chunks().splits[SPLIT].complete


def test_a_record_that_leaves_quarantine_hides_no_chunk_that_was_committed_before():
    """The first run sends line 0 to quarantine, and dies before that. The topic's own chunk may
    then not have the key of line 0."""
    lines = [b"zero", b"one", b"two"]
    cluster = Cluster()
    cluster.ship(lines, bad=[b"zero"], commits=lambda chunk: chunk.topic != "q")
    assert cluster.topics == {"t": [b"one", b"two"]}
    for _ in range(2):
        cluster.ship(lines)
    assert Counter(cluster.topics["t"]) == Counter(lines)
    assert cluster.chunks().records_by_topic([SPLIT.file]) == {"t": 3}


@pytest.mark.parametrize(
    ("value", "header", "transactional", "topic"),
    [
        (4_900, 4_900, True, "t"),
        (5_000, 5_000, True, "q"),
        (9_910, 0, True, "t"),
        (9_910, 0, False, "q"),
    ],
)
def test_headers_count_where_a_record_may_be_too_large(value, header, transactional, topic):
    """Without transactions each record has two of shipper's own."""
    cluster = Cluster()
    lines = [b"small", b"x" * value]
    cluster.ship(lines, header=b"h" * header, transactional=transactional)
    assert {name: len(found) for name, found in cluster.topics.items()} == (
        {"t": 2} if topic == "t" else {"t": 1, "q": 1}
    )


@pytest.mark.parametrize(
    ("lines", "sizes", "counts_bytes", "read"),
    [
        ([b"abc", b"defg"], None, True, 9),
        ([b"abc", b"defg"], (4, 9), False, 4),
        ([b"abc", b"defg"], (4, 8), False, 4),
        ([b"abc", b"defg"], (-1, 9), False, None),
        ([], (27, 0), False, 27),
        ([], None, True, 0),
    ],
    ids=[
        "plain",
        "packed",
        "packed-without-a-last-end",
        "bzip2",
        "packed-and-empty",
        "a-split-without-a-line",
    ],
)
def test_the_end_of_a_split_says_how_many_bytes_of_the_file_it_accounts_for(
    lines, sizes, counts_bytes, read
):
    cluster = Cluster()
    cluster.ship(lines, sizes=sizes, counts_bytes=counts_bytes)
    state = cluster.chunks().splits[SPLIT]
    assert (state.complete, state.end, state.read) == (True, len(lines), read)


def test_a_split_of_which_the_task_saw_other_bytes_than_the_reader_made_has_no_end():
    """Of a packed file only the reader knows what it unpacked."""
    cluster = Cluster()
    cluster.ship([b"abc"], sizes=(4, 9))
    assert not cluster.chunks().splits[SPLIT].complete
    cluster.ship([b"abc", b"defg"], sizes=(4, 9))
    assert cluster.chunks().splits[SPLIT].complete
    assert cluster.topics["t"] == [b"abc", b"defg"]
