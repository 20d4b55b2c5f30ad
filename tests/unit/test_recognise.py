"""Files that were delivered under another name: how they are found, what proves it, and what the
ledger says of them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from shipper.driver.engine import FoundFile
from shipper.driver.files import split_starts
from shipper.driver.pending import pending
from shipper.driver.recognise import confirm, fingerprint, moved_records, states_of
from shipper.errors import SourceError, StepResultError
from shipper.kafka.client import ClusterClient
from shipper.ledger.codec import encode_chunk, encode_moved
from shipper.ledger.control import Control
from shipper.ledger.fold import Chunks, Invalidated, standing_as_cut
from shipper.ledger.heads import HEAD_BYTES, Heads, head_of
from shipper.ledger.incarnations import without
from shipper.ledger.inventory import Inventory, entries, findings
from shipper.ledger.log import LedgerLog, ask_files, ask_heads, ask_state
from shipper.ledger.records import CHUNKS, ChunkKey, ChunkValue, Moved, MovedKey, MovedValue
from shipper.ledger.roots import Roots
from shipper.ledger.takeover import Takeover
from shipper.report.gaps import files_complete
from shipper.report.plan_result import ClusterPlan, KnownFile, PlannedFile, RecognisedFile
from shipper.report.results import LeftFile
from shipper.types import FileId, LogRecord, SplitId
from tests.doubles.memory_log import MemoryLog
from tests.samples.config import cluster_of
from tests.samples.ledger import chunk_value

CLUSTER = cluster_of("far")
OLD, NEW = FileId("/logs/app.log", 250, 7), FileId("/logs/app.log.1", 250, 7)
PACKED = FileId("/logs/app.log.1.gz", 60, 7)
BEGINNING = b"the first line\n" * 10
VALUE = chunk_value(
    end=False, checksum=5, generation=3, run_id="before", splits=3, spark="4.2", topic_id="A"
)


class Engine:
    """A file system in which nothing is left at any path."""

    def look_at(self, files: list[PlannedFile]) -> dict[FileId, bytes]:
        return {FileId(file.path, file.size_bytes, file.modified_ms): BEGINNING for file in files}

    def look_for(self, paths: list[str]) -> dict[str, FoundFile]:
        return {path: FoundFile(path) for path in paths}


def context() -> Any:
    """A run whose splits have 100 bytes."""
    return SimpleNamespace(
        split_starts=lambda file: split_starts(file.path, file.size_bytes, 100),
        window="w2",
        folder=SimpleNamespace(run_id="now"),
        pipeline=SimpleNamespace(source=SimpleNamespace(on_renamed="recognise")),
        engine=Engine(),
    )


def planned(file: FileId, format: str = "plain") -> PlannedFile:
    found = PlannedFile(**file._asdict(), splits=1, format=format)
    found.head = head_of(BEGINNING)
    return found


def delivered(*, upto: int = 3) -> list[tuple[ChunkKey, ChunkValue]]:
    """Ten records in each of three splits; the first ones."""
    found = []
    for number in range(upto):
        value = replace(
            VALUE,
            end=True,
            read=[100, 100, 50][number],
            head=head_of(BEGINNING),
            generation=3 + number,
        )
        found.append((ChunkKey(SplitId(OLD, 100 * number), 0, "t"), value))
    return found


def chunks_of(records: list[tuple[ChunkKey, ChunkValue]]) -> Chunks:
    found = Chunks("web")
    for key, value in records:
        found.add(key, value)
    return found


def as_recognised(
    file: FileId, chunks: Chunks, lines: list[int], read: list[int | None]
) -> RecognisedFile:
    return RecognisedFile(
        **file._asdict(),
        original=KnownFile(**OLD._asdict()),
        complete=True,
        grown=False,
        records=30,
        chunks=fingerprint(states_of(chunks, {OLD})[OLD]),
        lines=lines,
        read=read,
    )


def ledger_of(topic: MemoryLog) -> LedgerLog:
    return LedgerLog(cast(ClusterClient, topic), CLUSTER, "web")


def taken(chunks: Chunks, entries_end: int = 0) -> Takeover:
    """Generation 9, which read ``chunks`` of a ledger that has entries up to ``entries_end``."""
    return Takeover(Control("web"), {}, chunks, entries_end, entries_end, generation=9)


def with_chunks(records: list[tuple[ChunkKey, ChunkValue]]) -> MemoryLog:
    topic = MemoryLog()
    topic.append("", CHUNKS, [encode_chunk("web", key, value) for key, value in records])
    return topic


def test_a_file_of_which_more_is_shipped_is_known_by_its_own_name_from_then_on() -> None:
    """Its former name says nothing of the rest. A file that is complete stays known by the name
    under which it was delivered."""
    chunks, heads = chunks_of(delivered(upto=2)), {}
    for complete in (False, True):
        one = as_recognised(PACKED, chunks, [30], [60]).model_copy(update={"complete": complete})
        moved = moved_records(
            context(), one, planned(PACKED, "gzip"), states_of(chunks, {OLD})[OLD], 9
        )
        heads[complete] = {value.head for _, value in moved}
    assert heads == {False: {head_of(BEGINNING)}, True: {None}}


def test_what_was_proven_must_be_what_the_ledger_has_after_the_takeover() -> None:
    before, now = chunks_of(delivered(upto=2)), delivered()
    plan = ClusterPlan(
        cluster="far",
        recognised=[as_recognised(NEW, before, [10, 10, 10], [100, 100, 50])],
        chunks_end=2,
    )
    ledger = ledger_of(with_chunks(now))
    with pytest.raises(StepResultError, match="Start the run again from the plan"):
        confirm(context(), plan, taken(chunks_of(now), 3), ledger, [planned(NEW)])
    same = plan.model_copy(
        update={"recognised": [as_recognised(NEW, chunks_of(now), [10, 10, 10], [100, 100, 50])]}
    )
    assert confirm(context(), same, taken(chunks_of(now), 3), ledger, [planned(NEW)])


def test_nothing_that_was_committed_since_the_plan_begins_like_a_file_that_the_plan_took_for_new() -> (  # noqa: E501
    None
):
    topic = with_chunks(delivered(upto=1))
    ledger, plan = ledger_of(topic), ClusterPlan(cluster="far", chunks_end=0)
    with pytest.raises(StepResultError, match="Start the run again from the plan"):
        confirm(context(), plan, taken(Chunks("web"), 1), ledger, [planned(NEW)])
    seen, written = plan.model_copy(update={"chunks_end": 1}), topic.end_offset("", CHUNKS)
    assert confirm(context(), seen, taken(Chunks("web"), 1), ledger, [planned(NEW)]) == []
    # Nothing is new, so a far cluster is not asked once more.
    assert topic.end_offset("", CHUNKS) == written


def test_an_invalidation_and_a_topic_that_is_gone_hide_what_was_delivered_under_another_name() -> (
    None
):
    chunks = chunks_of(delivered())
    moved = moved_records(
        context(),
        as_recognised(NEW, chunks, [10, 10, 10], [100, 100, 50]),
        planned(NEW),
        states_of(chunks, {OLD})[OLD],
        9,
    )
    for key, value in moved:
        chunks.add(key, value)
    gone = without(chunks, {"t": frozenset({"A"})})
    assert not any(state.lines for state in gone.splits.values())
    chunks.invalidate({NEW: Invalidated(10, frozenset())})
    assert chunks.splits_of({NEW})[NEW] == []


def test_sums_over_the_ledger_count_a_renamed_file_once_and_call_nothing_of_it_missing() -> None:
    known = delivered(upto=2)
    chunks, topic = chunks_of(known), with_chunks(known)
    one = as_recognised(NEW, chunks, [10, 10, 10], [100, 100, 50])
    moved = moved_records(context(), one, planned(NEW), states_of(chunks, {OLD})[OLD], 9)
    topic.append("", CHUNKS, [encode_moved("web", key, value) for key, value in moved])
    rest = replace(VALUE, end=True, read=50, generation=9)
    topic.append("", CHUNKS, [encode_chunk("web", ChunkKey(SplitId(NEW, 200), 0, "t"), rest)])
    packed = moved_records(
        context(),
        as_recognised(PACKED, chunks, [20], [60]),
        planned(PACKED, "gzip"),
        states_of(chunks, {OLD})[OLD],
        9,
    )
    end = replace(packed[-1].value, last=20, end=True, records=0, ordinals="", topic_id=None)
    packed.append(Moved(MovedKey(SplitId(PACKED, 0), 20, ""), end))
    topic.append("", CHUNKS, [encode_moved("web", key, value) for key, value in packed])
    ledger = ledger_of(topic)
    state = ledger.look(ask_state([NEW.path])).chunks
    assert (
        standing_as_cut(NEW, [state.splits[split] for split in state.splits_of({NEW})[NEW]])
        == "complete"
    )
    inventory = Inventory()
    for of_path in entries(ledger.look(ask_files())):
        inventory.add(of_path, "web")
        assert list(findings(of_path, lambda file: [0, 100, 200])) == []
    assert sum(tally.records for tally in inventory.files.values()) == 30
    assert {file.path for file, tally in inventory.files.items() if tally.complete} == {
        OLD.path,
        NEW.path,
        PACKED.path,
    }
    assert files_complete(inventory, [LeftFile(path=PACKED.path, size_bytes=60, modified_ms=7)])


def test_a_head_finds_a_file_that_has_grown_since_and_no_other() -> None:
    long = bytes(range(256)) * 8
    grown, same, shorter = (FileId(f"/logs/{name}", 1, 1) for name in "abc")
    heads = Heads("web", {grown: long[:HEAD_BYTES], same: long[:400], shorter: long[:200]})
    for file, beginning in ((OLD, long), (NEW, long[:300]), (PACKED, b"other")):
        heads.add(head_of(beginning), file)
    assert {file: heads.like(file) for file in heads.beginnings} == {
        grown: {OLD, NEW},
        same: {NEW},
        shorter: set(),
    }


def test_of_a_long_ledger_the_search_keeps_only_what_begins_like_a_file_that_it_looks_for() -> None:
    topic = with_chunks(delivered())
    for number in range(1000):
        file = FileId(f"/logs/{number}", 250, 7)
        value = replace(VALUE, head=head_of(b"%d" % number))
        topic.append("", CHUNKS, [encode_chunk("web", ChunkKey(SplitId(file, 0), 0, "t"), value)])
    heads = ledger_of(topic).look(ask_heads({NEW: BEGINNING, PACKED: b"other"}))
    assert heads.found == {head_of(BEGINNING): {OLD}}
    assert sum(map(len, heads.lengths.values())) <= len(heads.beginnings) * len(heads.lengths)


def test_a_ledger_says_how_its_files_begin_and_which_have_another_name_by_now() -> None:
    topic = with_chunks(delivered())
    topic.append("", CHUNKS, [(b"damaged", b'"head":"12:0123456789abcdef"')])
    moved = (
        MovedKey(SplitId(NEW, 0), 0, "t"),
        MovedValue(
            **{**vars(VALUE), "ordinals": "0-9"}, path=OLD.path, size_bytes=250, modified_ms=7
        ),
    )
    topic.append("", CHUNKS, [encode_moved("web", *moved)])
    found = ledger_of(topic).look(ask_heads({NEW: BEGINNING, PACKED: b"other"}))
    assert (found.like(NEW), found.like(PACKED), found.renamed, found.end) == (
        {OLD},
        set(),
        {OLD},
        5,
    )
    assert (found.became(OLD), found.became(NEW)) == ({NEW}, set())
    assert found.elsewhere == {OLD, NEW}, (
        "nothing was sent as NEW either, so a file that comes to its path replaces nothing"
    )


def test_a_file_that_has_grown_where_it_lies_is_not_elsewhere_and_is_known_after_its_source_was_moved() -> (  # noqa: E501
    None
):
    heads = Heads("web", roots=Roots("/new/", ("/logs/",)))
    value = MovedValue(
        **{**vars(VALUE), "ordinals": "0-9"}, path=OLD.path, size_bytes=250, modified_ms=7
    )
    key, encoded = encode_moved(
        "web", MovedKey(SplitId(OLD._replace(size_bytes=300), 0), 0, "t"), value
    )
    heads.feed([LogRecord(0, 1, key, encoded)])
    assert (heads.renamed, heads.elsewhere) == ({OLD._replace(path="/new/app.log")}, set())


def test_a_new_file_at_a_path_whose_file_was_empty_or_is_elsewhere_replaces_nothing() -> None:
    chunks, file = chunks_of(delivered()), OLD._replace(size_bytes=9)
    empty = replace(VALUE, last=0, end=True, records=0, read=0, splits=1)
    chunks.add(ChunkKey(SplitId(OLD._replace(size_bytes=0), 0), 0, ""), empty)

    def left(**known: Any) -> list[FileId]:
        return pending(
            {file: [0]}, chunks, digest="d", reship=False, on_replaced="fail", **known
        ).left

    assert left(renamed={OLD}) == [file]
    with pytest.raises(SourceError, match="replaced after being shipped"):
        left()
    with pytest.raises(SourceError, match="has grown since"):
        left(renamed={OLD}, grown={file})
