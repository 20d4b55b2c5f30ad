"""The ledger's records, and what is concluded from them."""

import itertools
import json
from dataclasses import replace

import pytest

from shipper.driver.pending import pending
from shipper.errors import DigestChanged, LedgerDamaged, SourceError
from shipper.ledger.codec import (
    decode,
    encode_attempt,
    encode_chunk,
    encode_doubt,
    encode_fenced,
    encode_generation,
    encode_lease,
    encode_void,
)
from shipper.ledger.control import Control, live_records
from shipper.ledger.fold import Chunks, FileRecords, LedgerRecords, add_up, all_doubts
from shipper.ledger.inventory import Inventory, entries
from shipper.ledger.records import Attempt, ChunkKey, ChunkValue, Doubt, Generation, GenerationKey, Lease, Void
from shipper.types import FileId, LogRecord, SplitId

FILE = FileId("s3a://logs/a\u00e4\n.log", 100, 1_700_000_000_000)
SPLIT = SplitId(FILE, 0)
VALUE = ChunkValue(
    last=50, end=False, records=50, bytes=500, checksum=7, digest="d1", generation=3, run_id="r", window="w", partition=2
)


def log(*records, start=0, step_ms=1000):
    return [LogRecord(start + n, (start + n) * step_ms, *record) for n, record in enumerate(records)]


def chunk(first, last, records, *, topic="t", end=False, split=SPLIT, **fields):
    value = replace(VALUE, last=last, records=records, end=end, **fields)
    return encode_chunk("web", ChunkKey(split, first, topic), value)


@pytest.mark.parametrize(
    ("encoded", "decoded"),
    [
        (encode_chunk("web", ChunkKey(SPLIT, 7, "t"), VALUE), (ChunkKey(SPLIT, 7, "t"), VALUE)),
        (encode_generation("web", Generation("r", 2, 8)), (GenerationKey(), Generation("r", 2, 8))),
        (encode_generation("web", Generation("r", 2, 8), "c"), (GenerationKey("c"), Generation("r", 2, 8))),
        (encode_fenced("web", "c", 7, Generation("r", 2, 8)), (GenerationKey("c", 7), Generation("r", 2, 8))),
        (encode_fenced("web", "c", 7, None), (GenerationKey("c", 7), None)),
        (encode_lease("web", Lease("r", "h", 1, True, 30.0)), ("r", Lease("r", "h", 1, True, 30.0))),
        (encode_attempt("web", 3, Attempt(1, 9)), (3, Attempt(1, 9))),
        (encode_void("web", FILE, Void(4, "r")), (FILE, Void(4, "r"))),
        (encode_doubt("web", FILE, Doubt("why", 4, "r")), (FILE, Doubt("why", 4, "r"))),
    ],
)
def test_records_come_back_as_they_were_written(encoded, decoded):
    assert decode("web", LogRecord(0, 0, *encoded)) == decoded
    assert decode("other", LogRecord(0, 0, *encoded)) is None


@pytest.mark.parametrize("key", [b"", b"hello", b"[]", b'["chunk","web"]', b'["later","web"]'])
def test_a_foreign_record_is_named_by_its_offset(key):
    with pytest.raises(LedgerDamaged, match=":12: "):
        decode("web", LogRecord(12, 0, key, b"{}"))


class TestCompleteness:
    def test_a_split_is_complete_when_its_end_is_known_and_the_counts_add_up(self):
        chunks = Chunks("web").feed(log(chunk(0, 50, 50)))
        assert not chunks.splits[SPLIT].complete
        chunks.feed(log(chunk(50, 70, 20, end=True)))
        assert chunks.splits[SPLIT].complete

    def test_records_of_all_topics_count(self):
        chunks = Chunks("web").feed(log(chunk(0, 50, 30, end=True)))
        assert not chunks.splits[SPLIT].complete
        chunks.feed(log(chunk(0, 50, 20, topic="errors", end=True)))
        assert chunks.splits[SPLIT].complete
        assert chunks.records_by_topic([SPLIT]) == {"t": 30, "errors": 20}

    def test_a_split_without_records_is_complete_once_somebody_says_so(self):
        chunks = Chunks("web").feed(log(chunk(0, 0, 0, topic="", end=True)))
        assert chunks.splits[SPLIT].complete

    def test_a_record_written_twice_counts_once(self):
        chunks = Chunks("web").feed(log(chunk(0, 50, 50, end=True), chunk(0, 50, 50, end=True)))
        assert chunks.records_by_topic([SPLIT]) == {"t": 50}

    def test_voided_chunks_do_not_count_and_later_ones_do(self):
        chunks = Chunks("web", {FILE: Void(5, "r")}).feed(log(chunk(0, 50, 50, generation=4), chunk(0, 20, 20, generation=5)))
        assert chunks.splits[SPLIT].intervals("t") == [(0, 20)]


class TestRemaining:
    def left(self, chunks, **options):
        settings = {"digest": "d1", "reship": False, "on_replaced": "fail"} | options
        return pending({FILE: [0]}, chunks, **settings)

    def test_a_complete_file_is_not_shipped_again(self):
        found = self.left(Chunks("web").feed(log(chunk(0, 50, 50, end=True))))
        assert (found.complete, found.left, found.records_there) == ([FILE], [], {FILE: 50})

    def test_a_begun_file_is_left_and_its_records_are_known(self):
        found = self.left(Chunks("web").feed(log(chunk(0, 50, 50))))
        assert (found.left, found.partial, found.records_there) == ([FILE], [FILE], {FILE: 50})

    def test_an_empty_file_has_nothing_to_ship(self):
        empty = FileId("e", 0, 1)
        assert pending({empty: []}, Chunks("web"), digest="d", reship=False, on_replaced="fail").complete == [empty]

    def test_a_file_begun_under_another_transform_is_refused(self):
        with pytest.raises(DigestChanged, match=r"in part under another transform.*--reship"):
            self.left(Chunks("web").feed(log(chunk(0, 50, 50))), digest="d2")

    def test_a_complete_file_of_another_transform_is_done(self):
        found = self.left(Chunks("web").feed(log(chunk(0, 50, 50, end=True))), digest="d2")
        assert (found.complete, found.older, found.left) == ([FILE], [FILE], [])

    @pytest.mark.parametrize(("splits", "done"), [(2, True), (3, False), (None, False)])
    def test_a_file_of_another_transform_is_complete_by_the_splits_that_it_had_then(self, splits, done):
        """The pipeline would cut it once now; if a third split was never begun, only its count tells. An older ledger does not have it."""
        large = FileId("file:/big.log", 150_000, 1)
        both = [chunk(0, 50, 50, end=True, split=SplitId(large, start), splits=splits) for start in (0, 70_000)]
        chunks = Chunks("web").feed(log(*both))
        if done:
            found = pending({large: [0]}, chunks, digest="d2", reship=False, on_replaced="fail")
            assert (found.complete, found.records_there) == ([large], {large: 100})
        else:
            with pytest.raises(DigestChanged):
                pending({large: [0]}, chunks, digest="d2", reship=False, on_replaced="fail")

    def test_an_object_with_another_etag_is_another_file(self):
        chunks = Chunks("web").feed(log(chunk(0, 50, 50, end=True, etag="one")))
        assert self.left(chunks, etags={FILE: "one"}).complete == [FILE]
        with pytest.raises(SourceError, match="replaced after being shipped: size, modification time or ETag differ"):
            self.left(chunks, etags={FILE: "two"})
        with pytest.raises(SourceError, match="replaced after being shipped"):
            self.left(chunks, etags={FILE: "two"}, digest="d2")
        assert self.left(chunks, etags={FILE: "two"}, on_replaced="skip").skipped == [FILE]
        anew = self.left(chunks, etags={FILE: "two"}, on_replaced="reship")
        assert (anew.left, set(anew.void)) == ([FILE], {FILE})

        chunks.void({FILE: Void(5, "r")})
        chunks.feed(log(chunk(0, 30, 30, generation=6, etag="two")))
        assert self.left(chunks, etags={FILE: "two"}, on_replaced="reship").partial == [FILE], "begun anew, and finished"

    def test_an_object_that_was_shipped_before_the_ledger_knew_etags_is_done(self):
        chunks = Chunks("web").feed(log(chunk(0, 50, 50, end=True)))
        assert self.left(chunks, etags={FILE: "any"}).complete == [FILE]
        known = Chunks("web").feed(log(chunk(0, 50, 50, end=True, etag="one")))
        assert self.left(known).complete == [FILE], "a file system that names none"

    def test_a_late_file_that_cannot_be_shipped_holds_up_no_other(self):
        begun, other = FILE._replace(path="begun"), FILE._replace(path="other")
        replaced, before = FILE._replace(path="replaced"), FILE._replace(path="replaced", modified_ms=1)
        there = [chunk(0, 50, 50, split=SplitId(begun, 0)), chunk(0, 50, 50, end=True, split=SplitId(before, 0))]
        chunks = Chunks("web").feed(log(*there))
        splits_of = {file: [0] for file in (begun, replaced, other)}
        found = pending(splits_of, chunks, digest="d2", reship=False, on_replaced="fail", late={begun, replaced, other})
        assert found.left == [other]
        assert set(found.refused) == {begun, replaced}

    def test_a_file_begun_with_another_spark_is_refused_and_a_complete_one_is_not(self):
        begun = Chunks("web").feed(log(chunk(0, 50, 50, spark="4.1")))
        with pytest.raises(DigestChanged, match=r"begun with Spark 4\.1, and this is Spark 4\.2.*--reship"):
            self.left(begun, spark="4.2")
        assert self.left(begun, spark="4.1").partial == [FILE]
        assert self.left(begun, spark="4.2", reship=True).left == [FILE]
        assert self.left(begun.feed(log(chunk(50, 60, 10, end=True, spark="4.1"))), spark="4.2").complete == [FILE]

    def test_a_ledger_that_says_no_spark_is_finished_with_any(self):
        written = chunk(0, 50, 50)
        assert b"spark" not in written[1], "as older ones wrote it"
        assert self.left(Chunks("web").feed(log(written)), spark="4.2").partial == [FILE]

    def test_reship_voids_what_is_there_once_per_run(self):
        chunks = Chunks("web").feed(log(chunk(0, 50, 50, end=True)))
        assert FILE in self.left(chunks, digest="d2", reship=True).void
        again = Chunks("web", {FILE: Void(4, "r")}).feed(log(chunk(0, 30, 30, generation=4, digest="d2")))
        found = self.left(again, digest="d2", reship=True, reshipped=[FILE])
        assert (found.void, found.partial) == ([], [FILE])

    def test_a_reship_is_done_once_whatever_was_reshipped_after_it(self):
        """Its DAG run may be cleared later, when another reship of the same file has replaced the record of it."""
        first = Void(4, "reship-a", "codec")
        second = Void(9, "reship-b").after(first)
        third = Void(12, "reship-a").after(second)
        assert first.after(None) == first
        assert second.asked_by == {"reship-a", "reship-b"} == third.asked_by
        decoded = decode("web", LogRecord(0, 0, *encode_void("web", FILE, second)))
        assert decoded == (FILE, second)
        many = first
        for number in range(200):
            many = Void(number, f"r{number}").after(many)
        assert len(many.asked_by) == 51

    def test_a_replaced_file_is_an_error_skipped_or_shipped_anew(self):
        older = FILE._replace(modified_ms=1)
        chunks = Chunks("web").feed(log(chunk(0, 50, 50, end=True, split=SplitId(older, 0))))
        with pytest.raises(SourceError, match="replaced after being shipped"):
            self.left(chunks)
        assert self.left(chunks, on_replaced="skip").skipped == [FILE]
        found = self.left(chunks, on_replaced="reship")
        assert found.left == [FILE]
        assert older in found.void


class TestDoubt:
    """A file of which other bytes were read than it has: complete by its chunks, and not done."""

    DOUBT = Doubt("its lines have 99 bytes, and 100 is the file's size", generation=5, run_id="r1")

    def state(self, *more):
        records = log(encode_chunk("web", ChunkKey(SPLIT, 0, "t"), replace(VALUE, end=True, generation=5)), *more)
        files = FileRecords("web").feed(records)
        return add_up(LedgerRecords(files, [], Control("web"), 0, 0))

    def remaining(self, *more, **settings):
        asked = {"digest": VALUE.digest, "reship": False, "on_replaced": "fail"} | settings
        return pending({FILE: [0]}, self.state(*more).chunks, **asked)

    def test_it_is_refused_by_name_until_somebody_decides(self):
        doubt = encode_doubt("web", FILE, self.DOUBT)
        assert self.remaining().complete == [FILE]
        with pytest.raises(SourceError, match=r"shipped in doubt: run r1 found that its lines have 99 bytes.*ledger trust"):
            self.remaining(doubt)
        found = self.remaining(doubt, late={FILE})
        assert (found.complete, found.left) == ([], [])
        assert "in doubt" in found.refused[FILE]

    def test_shipped_anew_or_vouched_for_it_is_a_file_like_any_other(self):
        doubt = encode_doubt("web", FILE, self.DOUBT)
        assert self.remaining(doubt, reship=True).left == [FILE]
        assert self.remaining(doubt, encode_void("web", FILE, Void(6, "r2"))).left == [FILE]
        assert self.remaining(doubt, encode_doubt("web", FILE, replace(self.DOUBT, trusted="ann"))).complete == [FILE]
        with pytest.raises(SourceError, match="in doubt"):  # it was found in the ship that sent it anew
            self.remaining(doubt, encode_void("web", FILE, Void(5, "r1")))

    def test_it_is_no_complete_file_of_its_window(self):
        records = log(
            encode_chunk("web", ChunkKey(SPLIT, 0, "t"), replace(VALUE, end=True)), encode_doubt("web", FILE, self.DOUBT)
        )
        read = LedgerRecords(FileRecords("web").feed(records), [], Control("web"), 0, 0)
        inventory = Inventory(doubts=all_doubts(read))
        for of_path in entries(read):
            inventory.add(of_path, "web", lambda file: [0])
        assert inventory.files[FILE].complete == 0
        assert inventory.windows[VALUE.window].complete == 0


class TestLease:
    def claim(self, run_id, *, held=False, seconds=10.0):
        return encode_lease("web", Lease(run_id, "host", 1, held, seconds))

    def holder(self, asking, *records, **options):
        holder = Control("web").feed(log(*records, **options)).holder(asking)
        return holder and holder.run_id

    def test_the_first_to_ask_has_it(self):
        assert self.holder("b", self.claim("a"), self.claim("b")) == "a"

    def test_who_holds_it_goes_before_who_asks(self):
        assert self.holder("b", self.claim("b"), self.claim("a", held=True)) == "a"

    def test_a_lease_that_is_not_renewed_lapses_by_the_brokers_clock(self):
        records = (self.claim("a", held=True), self.claim("b"))
        assert self.holder("b", *records, step_ms=10_000) == "a"
        assert self.holder("b", *records, step_ms=10_001) == "b"

    def test_a_released_lease_is_free(self):
        released = (self.claim("a", held=True)[0], None)
        assert self.holder("b", self.claim("a", held=True), released, self.claim("b")) == "b"

    @pytest.mark.parametrize("order", list(itertools.permutations("abc")))
    def test_of_several_that_ask_at_once_all_see_the_same_winner(self, order):
        claims = [self.claim(run) for run in order]
        assert {self.holder(run, *claims) for run in order} == {order[0]}


class TestGenerations:
    def test_the_latest_generation_is_the_one_that_may_ship(self):
        control = Control("web").feed(
            log(encode_generation("web", Generation("a", 2, 2)), encode_generation("web", Generation("b", 1, 8)))
        )
        assert control.generation == 1
        assert control.generations[1].run_id == "b"

    def test_what_has_to_be_fenced_covers_all_earlier_generations(self):
        control = Control("web").feed(
            log(encode_generation("web", Generation("a", 4, 2)), encode_generation("web", Generation("b", 2, 8)))
        )
        assert control.to_fence("c") == {"c": (4, 8)}
        assert control.to_fence("c", 1) == {"c": (4, 2)}
        assert control.to_fence("c", 0) == {}

    def test_what_is_fenced_for_good_is_not_fenced_again(self):
        records = log(
            encode_generation("web", Generation("a", 400, 100), "c"),
            encode_generation("web", Generation("b", 400, 100), "c"),
            encode_fenced("web", "c", 1, Generation("b", 2, 3)),
            encode_generation("web", Generation("d", 2, 5), "c"),
        )
        assert Control("web").feed(records[:2]).to_fence("c") == {"c": (400, 100)}
        assert Control("web").feed(records[:3]).to_fence("c") == {"c": (2, 3)}
        control = Control("web").feed(records)
        assert (control.generation, control.to_fence("c")) == (3, {"c": (2, 5)})
        assert Control("web").feed(live_records("web", records)).to_fence("c") == {"c": (2, 5)}

    def test_a_word_that_comes_late_takes_nothing_back_and_covers_nothing_that_came_later(self):
        control = Control("web").feed(
            log(
                encode_generation("web", Generation("a", 4, 4), "c"),
                encode_generation("web", Generation("b", 4, 4), "c"),
                encode_generation("web", Generation("d", 9, 9), "c"),
                encode_fenced("web", "c", 2, Generation("d", 1, 1)),
                encode_fenced("web", "c", 1, Generation("b", 4, 4)),  # b was paused
                encode_generation("web", Generation("e", 2, 1), "c"),
            )
        )
        assert control.to_fence("c") == {"c": (2, 1)}

    def test_a_word_about_what_was_not_there_yet_is_not_believed(self):
        records = log(
            encode_generation("web", Generation("a", 4, 4), "c"), encode_fenced("web", "c", 10**15, Generation("x", 0, 0))
        )
        assert Control("web").feed(records).to_fence("c") == {"c": (4, 4)}
        assert Control("web").feed(live_records("web", records)).to_fence("c") == {"c": (4, 4)}

    def test_the_lanes_that_a_cluster_had_under_another_name_are_not_forgotten(self):
        records = log(
            encode_generation("web", Generation("a", 4, 2)),  # before names were noted
            encode_generation("web", Generation("b", 3, 3), "frankfurt"),
            encode_generation("web", Generation("d", 1, 1), "paris"),
        )
        assert Control("web").feed(records).to_fence("paris") == {"paris": (4, 2), "frankfurt": (3, 3)}
        assert Control("web").feed(live_records("web", records)).to_fence("paris") == {"paris": (4, 2), "frankfurt": (3, 3)}

    def test_a_shipper_that_knows_generations_alone_takes_every_new_record_for_one(self):
        """As it reads: the key's kind and pipeline, and the value's fields by name."""
        key, value = encode_fenced("web", "c", 1, Generation("b", 2, 3))
        kind, pipeline, *_ = json.loads(key)
        assert (kind, pipeline, json.loads(value)) == ("generation", "web", {"run_id": "b", "tasks": 2, "lanes": 3})

    def test_an_attempt_of_an_earlier_generation_says_nothing_about_this_one(self):
        control = Control("web").feed(
            log(
                encode_generation("web", Generation("a", 1, 1)),
                encode_generation("web", Generation("b", 1, 1)),
                encode_attempt("web", 0, Attempt(1, 5)),
                encode_attempt("web", 0, Attempt(0, 9)),
            )
        )
        assert control.attempts == {0: [5]}
