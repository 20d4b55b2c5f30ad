"""A snapshot and what came after it say the same as the whole log, whatever the log holds and
wherever the snapshot was made."""

import datetime as dt
import random
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.ledger import snapshot
from shipper.ledger.archive import old_chunks, write_archive
from shipper.ledger.codec import (
    decode,
    encode_archive,
    encode_attempt,
    encode_chunk,
    encode_generation,
    encode_invalidation,
    encode_lease,
)
from shipper.ledger.log import CONTROL_NOW, LedgerLog, ask_files, ask_state
from shipper.ledger.records import (
    CHUNKS,
    CONTROL,
    Archive,
    Attempt,
    AttemptKey,
    ChunkKey,
    Generation,
    GenerationKey,
    Invalidation,
    Lease,
)
from shipper.ledger.snapshot import LedgerFolder
from shipper.types import FileId, LogRecord, SplitId
from shipper.whole_files import file_system
from tests.doubles.memory_log import MemoryLog
from tests.samples.config import cluster_of
from tests.samples.ledger import chunk_value

CLUSTER = cluster_of()
PATHS = ["a/1", "a/2", "b\t\u00e4\n", "\u65e5\u672c", "z"]
VALUE = chunk_value(last=0, end=False, records=0, bytes=1, checksum=7, generation=0)

small = st.integers(0, 3)
pipelines = st.sampled_from(["web", "web", "web", "other"])
files = st.builds(FileId, st.sampled_from(PATHS), st.integers(1, 2), st.just(5))
chunk_keys = st.builds(
    ChunkKey,
    st.builds(SplitId, files, st.sampled_from([0, 64])),
    small,
    st.sampled_from(["t", "u"]),
)
chunk_values = st.builds(
    lambda length, end, digest, generation: replace(
        VALUE, last=length, records=length, end=end, digest=digest, generation=generation
    ),
    small, st.booleans(), st.sampled_from(["d", "e"]), small,
)  # fmt: skip
lanes = st.builds(
    Generation,
    st.just("r"),
    st.integers(1, 4),
    st.integers(1, 4),
    st.lists(st.sampled_from(["/a/", "/b/"]), unique=True).map(tuple),
)
generation_keys = st.builds(GenerationKey, st.sampled_from("cd"), st.sampled_from("0123456789"))
control_records = st.one_of(
    st.builds(
        encode_invalidation, pipelines, files, small, st.builds(Invalidation, st.sampled_from("rs"))
    ),
    st.builds(encode_generation, pipelines, generation_keys, lanes),
    st.builds(encode_generation, pipelines, generation_keys, st.none()),
    st.builds(
        encode_attempt,
        pipelines,
        st.builds(AttemptKey, small, small, small, st.booleans()),
        st.just(Attempt()),
    ),
    st.builds(
        encode_lease,
        pipelines,
        st.builds(Lease, st.sampled_from("ab"), st.just("h"), small, st.booleans(), st.just(9.0)),
    ),
    st.builds(
        lambda run: (encode_lease("web", Lease(run, "h", 1, True, 9.0))[0], None),
        st.sampled_from("ab"),
    ),
)


def whole_chunk(pipeline, key, value):
    return encode_chunk(pipeline, key, replace(value, last=key.first + value.last))


chunk_records = st.one_of(
    st.builds(whole_chunk, pipelines, chunk_keys, chunk_values),
    st.builds(whole_chunk, pipelines, chunk_keys, chunk_values),
    st.builds(lambda key: (encode_chunk("web", key, VALUE)[0], None), chunk_keys),
)
steps = st.one_of(
    st.tuples(st.just(CONTROL), control_records),
    st.tuples(st.just(CHUNKS), chunk_records),
    st.tuples(st.just(CHUNKS), chunk_records),
    st.tuples(
        st.sampled_from(["snapshot", "compact", "skip", "hold", "release"]), st.integers(0, 99)
    ),
)


@pytest.fixture(autouse=True, scope="module")
def tiny_shards():
    before, snapshot.SHARD_RECORDS = snapshot.SHARD_RECORDS, 2
    yield
    snapshot.SHARD_RECORDS = before


def ledger_of(log, folder=None):
    return LedgerLog(log, CLUSTER, "web", folder)


def in_memory():
    return LedgerFolder(f"memory://{uuid.uuid4().hex}", "web", "c")


def essence(state):
    control = state.control
    return {
        "generation": control.generation,
        "attempts": control.attempts,
        "ended": control.ended,
        "claims": sorted(control.claims(), key=repr),
        "to fence": control.to_fence(),
        "sources": control.sources,
        "invalidated": state.invalidated,
        "splits": state.chunks.splits,
        "digests": state.chunks.digests,
        "files": state.chunks.files_of_path,
    }


def as_runs_write_it(history):
    """Each announcement has a key of its own, a tombstone is of an earlier one, and attempts are of
    the latest, counted up, and end after they have begun: else compaction by the broker would lose
    some, with or without snapshots."""
    latest, number = 0, 0
    begun = {}
    keys = []
    written = []
    for what, detail in history:
        if what == CONTROL:
            match decode("web", LogRecord(0, 0, *detail)):
                case (GenerationKey(cluster), None):
                    if len(keys) < 2:
                        continue
                    detail = encode_generation("web", keys.pop(0), None)
                case (GenerationKey(cluster), Generation() as wanted):
                    latest, begun = len(written), {}
                    keys.append(GenerationKey(cluster, str(latest)))
                    detail = encode_generation("web", keys[-1], wanted)
                case (AttemptKey(task=task, ended=ended), Attempt()):
                    number += 1
                    ending = begun.get(task, [])[-2:] if ended else []
                    chosen = ending[0] if ending else number
                    begun.setdefault(task, []).append(chosen)
                    detail = encode_attempt(
                        "web", AttemptKey(latest, task, chosen, bool(ending)), Attempt()
                    )
            written.append(LogRecord(len(written), 0, *detail))
        elif what == "snapshot":
            written.append(
                LogRecord(len(written), 0, b'[1,"snapshot","web"]', None)
            )  # the place of the one that names it
        yield what, detail


@given(st.lists(steps, max_size=40), st.sets(st.sampled_from(PATHS)), st.booleans())
def test_snapshot_and_tail_say_what_the_whole_log_says(history, asked, compacted):
    # `whole` never loses a record to compaction, `log` does; both get the same writes.
    log, whole, folder = MemoryLog(), MemoryLog(), in_memory()
    history = (
        list(as_runs_write_it(history))
        if compacted
        else [step for step in history if step[0] != "compact"]
    )
    made_first = ledger_of(log, folder)
    for what, detail in history:
        if what == "snapshot":
            # By one process that lives on, or by another one.
            made = (made_first if detail % 2 else ledger_of(log, folder)).keep_snapshot(
                longer_than=detail % 3
            )
            for each in (
                (whole,) if made else (log, whole)
            ):  # one record says that there is the snapshot
                each.skip(CONTROL)
        elif what == "compact":
            log.compact(random.Random(detail))
        elif what in ("skip", "hold", "release"):
            for each in (log, whole):
                if what == "skip":
                    each.skip(CHUNKS)
                elif what == "hold":
                    each.hold_transaction(CHUNKS)
                else:
                    each.release(CHUNKS)
        else:
            for each in (log, whole):
                each.append("topic", what, [detail])
    for paths in (None, asked):
        expected = essence(ledger_of(whole).look(ask_state(paths)))
        assert essence(ledger_of(log, folder).look(ask_state(paths))) == expected
        assert essence(made_first.look(ask_state(paths))) == expected
    assert (
        ledger_of(log, folder).look(CONTROL_NOW).to_fence()
        == ledger_of(whole).look(CONTROL_NOW).to_fence()
    )


windows = st.sampled_from(
    [f"2026-11-0{day}T00:00:00Z/2026-11-0{day + 1}T00:00:00Z" for day in (1, 2, 3)]
)
shipped = st.builds(
    lambda key, value, window: whole_chunk("web", key, replace(value, window=window)),
    chunk_keys,
    chunk_values,
    windows,
)
archiving_steps = st.one_of(
    st.tuples(st.just(CHUNKS), shipped),
    st.tuples(st.just(CHUNKS), shipped),
    st.tuples(
        st.just(CONTROL),
        st.builds(encode_invalidation, st.just("web"), files, small, st.just(Invalidation("r"))),
    ),
    st.tuples(st.sampled_from(["snapshot", "compact"]), st.integers(0, 99)),
    st.tuples(st.just("archive"), st.tuples(st.integers(1, 4), st.integers(0, 9))),
)


@given(st.lists(archiving_steps, max_size=30), st.sets(st.sampled_from(PATHS)))
def test_what_is_archived_counts_as_if_it_were_still_in_the_topic(history, asked):
    log, whole, folder = MemoryLog(), MemoryLog(), in_memory()
    for what, detail in history:
        if what == "snapshot":
            ledger_of(log, folder).keep_snapshot(longer_than=detail % 3)
        elif what == "compact":
            log.compact(random.Random(detail))
        elif what == "archive":
            (day, killed_after), ledger = detail, ledger_of(log, folder)
            read = ledger.look(ask_files())
            chosen = old_chunks("web", read, dt.datetime(2026, 11, day, tzinfo=dt.UTC))
            if chosen:
                written = write_archive(folder.archives, ledger, read, chosen)
                of_files = written.name, written.sha256, written.manifest.records
                marker = Archive(*of_files, "2026-11-30T00:00:00Z", 0, "r")
                tombstones = [(record.key, None) for record in chosen]
                log.append(
                    "topic", CHUNKS, [encode_archive("web", marker), *tombstones[:killed_after]]
                )
                whole.skip(CHUNKS, 1 + len(tombstones[:killed_after]))
        else:
            for each in (log, whole):
                each.append("topic", what, [detail])
    for paths in (None, asked):
        expected = essence(ledger_of(whole).look(ask_state(paths)))
        assert essence(ledger_of(log, folder).look(ask_state(paths))) == expected


@given(
    st.lists(st.tuples(st.just(CHUNKS), chunk_records), max_size=30),
    st.integers(0, 30),
    st.integers(0, 10_000),
    st.binary(max_size=3),
)
def test_whatever_happens_to_its_files_a_snapshot_is_never_believed_wrongly(
    history, cut_at, place, garbage
):
    log, folder = MemoryLog(), in_memory()
    for step, (partition, record) in enumerate(history):
        log.append("topic", partition, [record])
        if step == cut_at:
            ledger_of(log, folder).keep_snapshot(longer_than=0)
    fs, _ = file_system(folder.uri)
    found = sorted(fs.find(folder.uri)) if fs.exists(folder.uri) else []
    if found:
        victim = found[place % len(found)]
        data = fs.cat_file(victim)
        at = place % (len(data) + 1)
        fs.pipe_file(victim, data[:at] + garbage + data[at + len(garbage) + place % 2 :])
    expected = essence(ledger_of(log).look(ask_state()))
    assert essence(ledger_of(log, folder).look(ask_state())) == expected
    again = ledger_of(log, folder)
    again.look(ask_state())
    again.keep_snapshot(longer_than=-1)
    assert essence(ledger_of(log, folder).look(ask_state())) == expected
