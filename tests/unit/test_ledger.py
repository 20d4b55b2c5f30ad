"""The ledger's records, and what is concluded from them."""

import itertools
from dataclasses import replace

import pytest

from shipper.errors import LedgerDamaged, LedgerOutdated, SourceError
from shipper.ledger.codec import (
    decode,
    encode_attempt,
    encode_chunk,
    encode_generation,
    encode_invalidation,
    encode_lease,
)
from shipper.ledger.control import Control
from shipper.ledger.fold import Chunks, FileRecords, Invalidated, LedgerRecords, add_up
from shipper.ledger.heads import Heads
from shipper.ledger.inventory import Inventory, entries, findings
from shipper.ledger.log import CONTROL_NOW, LedgerLog, ask_files, ask_state
from shipper.ledger.records import (
    CHUNKS,
    CONTROL,
    Attempt,
    AttemptKey,
    ChunkKey,
    Generation,
    GenerationKey,
    Invalidation,
    InvalidationKey,
    Lease,
)
from shipper.types import FileId, LogRecord, SplitId
from tests.doubles.memory_log import MemoryLog
from tests.samples.config import cluster_of
from tests.samples.decisions import decided
from tests.samples.ledger import announced, chunk_value

FILE = FileId("s3a://logs/a\u00e4\n.log", 100, 1_700_000_000_000)
SPLIT = SplitId(FILE, 0)
VALUE = chunk_value(
    last=50, end=False, records=50, bytes=500, checksum=7, digest="d1", generation=3, partition=2
)


def log(*records, start=0, step_ms=1000):
    return [
        LogRecord(start + n, (start + n) * step_ms, *record) for n, record in enumerate(records)
    ]


def chunk(first, last, records, *, topic="t", end=False, split=SPLIT, **fields):
    value = replace(VALUE, last=last, records=records, end=end, **fields)
    return encode_chunk("web", ChunkKey(split, first, topic), value)


@pytest.mark.parametrize(
    ("encoded", "decoded"),
    [
        (encode_chunk("web", ChunkKey(SPLIT, 7, "t"), VALUE), (ChunkKey(SPLIT, 7, "t"), VALUE)),
        (
            encode_generation("web", GenerationKey("c", "r"), Generation("r", 2, 8)),
            (GenerationKey("c", "r"), Generation("r", 2, 8)),
        ),
        (
            encode_generation("web", GenerationKey("c", "r"), Generation("r", 2, 8, ("/x/",))),
            (GenerationKey("c", "r"), Generation("r", 2, 8, ("/x/",))),
        ),
        (encode_generation("web", GenerationKey("c", "r"), None), (GenerationKey("c", "r"), None)),
        (
            encode_lease("web", Lease("r", "h", 1, True, 30.0)),
            ("r", Lease("r", "h", 1, True, 30.0)),
        ),
        (encode_attempt("web", AttemptKey(1, 3, 9), Attempt()), (AttemptKey(1, 3, 9), Attempt())),
        (
            encode_invalidation("web", FILE, 4, Invalidation("r")),
            (InvalidationKey(FILE, 4), Invalidation("r")),
        ),
    ],
)
def test_records_come_back_as_they_were_written(encoded, decoded):
    assert decode("web", LogRecord(0, 0, *encoded)) == decoded
    assert decode("other", LogRecord(0, 0, *encoded)) is None


class TestRemaining:
    def left(self, chunks, **options):
        return decided([FILE], chunks, **{"digest": "d1"} | options)

    def test_a_file_begun_under_another_transform_is_refused(self):
        with pytest.raises(SourceError, match=r"in part under another transform.*--reship"):
            self.left(Chunks("web").feed(log(chunk(0, 50, 50))), digest="d2")

    def test_an_object_with_another_etag_is_another_file(self):
        chunks = Chunks("web").feed(log(chunk(0, 50, 50, end=True, etag="one")))
        assert self.left(chunks, etags={FILE: "one"}).complete == [FILE]
        with pytest.raises(
            SourceError,
            match="replaced after being shipped: size, modification time or ETag differ",
        ):
            self.left(chunks, etags={FILE: "two"})
        with pytest.raises(SourceError, match="replaced after being shipped"):
            self.left(chunks, etags={FILE: "two"}, digest="d2")
        assert self.left(chunks, etags={FILE: "two"}, on_replaced="skip").of("skip") == [FILE]
        anew = self.left(chunks, etags={FILE: "two"}, on_replaced="reship")
        assert (anew.left, set(anew.void)) == ([FILE], {FILE})

        chunks.invalidate({FILE: Invalidated(5, frozenset("r"))})
        chunks.feed(log(chunk(0, 30, 30, generation=6, etag="two")))
        assert self.left(chunks, etags={FILE: "two"}, on_replaced="reship").partial == [FILE], (
            "begun anew, and finished"
        )

    def test_of_several_invalidations_the_highest_generation_counts_whichever_comes_last(self):
        """A reship of generation 5 was paused; 9 took over and finished; 5 wakes up and writes its
        own."""
        late = [
            encode_invalidation("web", FILE, 9, Invalidation("b")),
            encode_invalidation("web", FILE, 5, Invalidation("a")),
        ]
        chunks = [
            chunk(0, 50, 50, generation=6),
            chunk(0, 50, 50, topic="u", generation=9, end=True),
        ]
        state = add_up(
            LedgerRecords(
                FileRecords("web").feed(log(*late, *chunks)), [], Heads("web"), Control("web"), 0, 0
            )
        )
        assert state.invalidated == {FILE: Invalidated(9, frozenset("ab"))}
        assert state.chunks.splits[SPLIT].lines == 50

    def test_a_replaced_file_is_an_error_skipped_or_shipped_anew(self):
        older = FILE._replace(modified_ms=1)
        chunks = Chunks("web").feed(log(chunk(0, 50, 50, end=True, split=SplitId(older, 0))))
        with pytest.raises(SourceError, match="replaced after being shipped"):
            self.left(chunks)
        assert self.left(chunks, on_replaced="skip").of("skip") == [FILE]
        found = self.left(chunks, on_replaced="reship")
        assert found.left == [FILE]
        assert older in found.void


class TestBytes:
    """A file of which other bytes were read than it has: every record that the tasks saw is there,
    and it is not complete."""

    def chunks(self, *reads, **fields):
        count, digest = len(reads), fields.pop("digest", "d1")
        return Chunks("web").feed(
            log(
                *(
                    chunk(
                        0,
                        5,
                        5,
                        end=True,
                        read=read,
                        split=SplitId(FILE, start),
                        splits=count,
                        digest=digest,
                        **fields,
                    )
                    for start, read in enumerate(reads)
                )
            )
        )

    def remaining(self, chunks, splits, **settings):
        return decided([FILE], chunks, splits=splits, **{"digest": "d1"} | settings)

    @pytest.mark.parametrize(
        "reads", [(100,), (101,), (40, 60), (40, 61), (0, 100), (None,), (7, None)]
    )
    def test_bytes_that_fit_or_that_nobody_can_count_are_no_obstacle(self, reads):
        assert self.remaining(self.chunks(*reads), len(reads)).complete == [FILE]

    @pytest.mark.parametrize("reads", [(99,), (102,), (40, 59), (0, 0)])
    def test_a_short_read_is_refused_by_name_in_every_later_run(self, reads):
        chunks = self.chunks(*reads)
        with pytest.raises(
            SourceError,
            match=rf"run r read {sum(reads)} bytes of it, and its size is 100.*--reship",
        ):
            self.remaining(chunks, len(reads))
        with pytest.raises(SourceError, match="its size is 100"):
            self.remaining(chunks, len(reads), digest="another transform now")
        found = self.remaining(chunks, len(reads), late={FILE})
        assert (found.complete, found.left) == ([], [])
        assert "its size is 100" in found.refused[FILE]
        assert self.remaining(chunks, len(reads), reship_below=9).left == [FILE]

    def test_it_is_no_complete_file_of_its_window_and_verify_names_it(self):
        records = log(chunk(0, 50, 50, end=True, read=99))
        read = LedgerRecords(
            FileRecords("web").feed(records), [], Heads("web"), Control("web"), 0, 0
        )
        inventory = Inventory()
        for of_path in entries(read):
            inventory.add(of_path, "web")
        assert inventory.files[FILE].complete == inventory.windows["w"].complete == 0
        found = [
            finding for of_path in entries(read) for finding in findings(of_path, lambda file: [0])
        ]
        assert [(finding.severity, finding.code, finding.subject) for finding in found] == [
            ("fail", "bytes", FILE.path)
        ]


def test_a_ledger_of_before_format_1_is_refused_with_the_remedy():
    """Return a ledger as commit 7baa648 wrote it."""
    topic = MemoryLog()
    topic.append(
        "t",
        CONTROL,
        [
            (b'["generation","web","c"]', b'{"run_id":"r","tasks":1,"lanes":1}'),
            (b'["source","web","/l/"]', b"{}"),
        ],
    )
    topic.append("t", CHUNKS, [(b'["chunk","web","a",1,2,0,0,"t"]', b"{}")])
    cluster = cluster_of()
    ledger = LedgerLog(topic, cluster, "web")
    for question in (CONTROL_NOW, ask_state(), ask_files(["a"])):
        with pytest.raises(LedgerOutdated, match=r"cluster c: topic _shipper\.web.*--new-ledger"):
            ledger.look(question)
    assert LedgerLog(topic, cluster, "other").look(ask_state()).chunks.splits == {}, (
        "a topic that pipelines share"
    )
    topic.append("t", CONTROL, [announced("r")])
    with pytest.raises(
        LedgerDamaged, match="before ledger format 1"
    ):  # somebody still runs the old version: repair can mend that
        LedgerLog(topic, cluster, "web").look(CONTROL_NOW)


class TestLease:
    def claim(self, run_id, *, held=False, seconds=10.0):
        return encode_lease("web", Lease(run_id, "host", 1, held, seconds))

    def holder(self, asking, *records, **options):
        holder = Control("web").feed(log(*records, **options)).holder(asking)
        return holder and holder.run_id

    def test_a_lease_that_is_not_renewed_lapses_by_the_brokers_clock(self):
        records = (self.claim("a", held=True), self.claim("b"))
        assert self.holder("b", *records, step_ms=10_000) == "a"
        assert self.holder("b", *records, step_ms=10_001) == "b"

    @pytest.mark.parametrize("order", list(itertools.permutations("abc")))
    def test_of_several_that_ask_at_once_all_see_the_same_winner(self, order):
        claims = [self.claim(run) for run in order]
        assert {self.holder(run, *claims) for run in order} == {order[0]}


class TestGenerations:
    def test_nobodys_tombstone_takes_the_right_to_ship_from_the_latest_generation(self):
        records = log(
            encode_generation("web", GenerationKey("c", "a"), Generation("a", 4, 4)),
            encode_generation("web", GenerationKey("c", "a"), None),
        )
        control = Control("web").feed(records)
        assert (control.generation, control.to_fence()) == (0, {"c": (4, 4)})

    def test_a_root_that_only_an_earlier_generation_knows_keeps_it(self):
        """Two runs announce themselves at once, one of them from another place."""
        records = log(
            encode_generation("web", GenerationKey("c", "a"), Generation("a", 1, 1, ("/old/",))),
            encode_generation(
                "web", GenerationKey("c", "b"), Generation("b", 1, 1, ("/old/", "/new/"))
            ),
            encode_generation("web", GenerationKey("c", "d"), Generation("d", 1, 1, ("/old/",))),
        )
        control = Control("web").feed(records)
        assert control.earlier(2, ["/old/"]) == [GenerationKey("c", "a")]
        assert control.sources == ["/new/", "/old/"]
