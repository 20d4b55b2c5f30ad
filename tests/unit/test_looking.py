"""Which delivered files a new one may be, by a ledger in memory and a source that says what lies
where."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from shipper.driver.files import ListedFile
from shipper.driver.looking import look_into
from shipper.ledger.codec import encode_alias, encode_chunk
from shipper.ledger.heads import HEAD_BYTES
from shipper.ledger.log import LedgerLog, ask_state
from shipper.ledger.records import CHUNKS, Alias, ChunkKey
from shipper.ledger.sums import ByteSum
from shipper.report.phases import Phases
from shipper.report.plan_result import Beginning, PlannedFile
from shipper.request import RunRequest
from shipper.types import FileId, SplitId
from tests.doubles.memory_log import MemoryLog
from tests.samples.config import cluster_of, pipeline_of
from tests.samples.ledger import chunk_value

HEAD, OTHER = f"{HEAD_BYTES}:{'a' * 16}", f"{HEAD_BYTES}:{'c' * 16}"
OLD, PART = FileId("/logs/app.log", 2000, 5), FileId("/logs/part.log", 2000, 6)
CONTENT = ByteSum(2000, 1, 2)
WHOLE = Beginning(length=2000, sum=str(CONTENT), ends_line=True, whole=True)
VALUE = chunk_value(
    last=20, end=True, records=20, digest="d", generation=3, splits=1, read=2000, sum=str(CONTENT),
    head=HEAD,
)  # fmt: skip


class Source:
    """What lies at paths, and the content of files."""

    def __init__(self, *there):
        self.there, self.read = {file.path: file for file in there}, list[tuple[str, list[int]]]()

    def look_for(self, paths):
        found = {path: self.there.get(path) for path in paths}
        return {path: id and ListedFile(id, path) for path, id in found.items()}

    def sum_up(self, files):
        self.read += [(file.path, list(lengths)) for file, lengths in files]
        for file, lengths in files:
            file.beginnings += [
                WHOLE if n == CONTENT.length else Beginning(length=n) for n in lengths
            ]


def topic_with(*files, **fields):
    topic = MemoryLog()
    for file in files:
        append(topic, file, **fields)
    return topic


def append(topic, file, **fields):
    value = replace(VALUE, **fields)
    topic.append("", CHUNKS, [encode_chunk("web", ChunkKey(SplitId(file, 0), 0, "t"), value)])


def planned(path, size=2000, modified_ms=5, **fields):
    defaults = {"format": "plain", "head": HEAD, "splits": 1}
    return PlannedFile(path=path, size_bytes=size, modified_ms=modified_ms, **defaults | fields)


def looked(topic, source, *files, **of_source):
    pipeline = pipeline_of(source={"path": "/logs/", **of_source})
    context = SimpleNamespace(
        pipeline=pipeline, request=RunRequest(), engine=source, phases=Phases()
    )
    ledger = LedgerLog(topic, cluster_of(), "web")
    client = SimpleNamespace(present_ids=lambda topics: dict.fromkeys(topics, ""))
    chunks = ledger.look(ask_state({file.path for file in files})).chunks
    return look_into(context, client, ledger.look, chunks, files)


def originals(found, file):
    """Path of each original, and whether its content is known."""
    return [(one.file.path, one.content is not None) for one in found[file.id]]


def test_an_original_is_whatever_was_delivered_whole_and_is_gone():
    new, topic = planned("/logs/app.log.1"), topic_with(OLD)
    append(topic, PART, end=False, sum=None, read=None)
    found = looked(topic, Source(), new)
    assert originals(found, new) == [("/logs/app.log", True), ("/logs/part.log", False)]
    assert new.beginnings == [WHOLE]
    successor = OLD._replace(size_bytes=7, modified_ms=9)
    assert originals(looked(topic, Source(successor, PART), new), new) == [("/logs/app.log", True)]
    copy = planned("/logs/copy.log")
    assert originals(looked(topic, Source(OLD, PART), copy), copy) == []


def test_a_file_that_has_an_heir_is_nobody_elses_original_and_the_heir_is():
    heir, topic = FileId("/logs/app.log.1", 2000, 5), topic_with(OLD)
    alias = Alias(
        *OLD, whole=True, sum=str(CONTENT), read=2000, generation=4, run_id="r", window="w",
        records={"t": 20}, topic_ids={}, head=HEAD,
    )  # fmt: skip
    topic.append("", CHUNKS, encode_alias("web", heir, alias))
    new = planned("/logs/app.log.2")
    assert originals(looked(topic, Source(), new), new) == [("/logs/app.log.1", True)]


def test_what_the_pipeline_does_not_want_is_not_looked_for():
    new, grown = planned("/logs/app.log.1"), planned("/logs/app.log", 2500, 9)
    topic = topic_with(OLD)
    assert originals(looked(topic, Source(), new, on_renamed="ship"), new) == []
    assert originals(looked(topic, Source(), grown, on_renamed="ship"), grown) == [
        ("/logs/app.log", True)
    ]
    assert originals(looked(topic, Source(), grown, on_replaced="skip"), grown) == []
    assert looked(topic, Source(), planned("/logs/app.log")) == {}, "the ledger knows it"
    assert looked(topic, Source(), planned("/logs/new.log", problem="denied")) == {}


def test_a_short_file_is_looked_for_where_rotation_has_taken_it_from():
    """It had grown before it was rotated, so it begins with more than it had."""
    short, topic = FileId("/logs/app.log", 20, 5), MemoryLog()
    append(topic, short, head=f"20:{'b' * 16}", sum="20:0000000100000002", read=20)
    append(topic, short._replace(path="/logs/app"), head=f"20:{'b' * 16}", end=False, sum=None)
    for name in ("app.log.1", "app.log-20261127.gz"):
        new = planned(f"/logs/{name}", 900)
        assert originals(looked(topic, Source(), new), new) == [("/logs/app.log", True)]
    other = planned("/logs/other.log.1", 900)
    assert originals(looked(topic, Source(), other), other) == []


def test_a_file_is_read_once_for_all_of_its_originals_and_for_all_clusters():
    topic, source = topic_with(OLD, OLD._replace(path="/logs/b.log")), Source()
    append(topic, OLD._replace(path="/logs/c.log", size_bytes=9), sum="9:0000000100000002", read=9)
    new = planned("/logs/app.log.1")
    for _ in range(2):
        looked(topic, source, new)
    assert source.read == [("/logs/app.log.1", [9, 2000])]
    assert Beginning(length=9) in new.beginnings, "it is shorter, and is not asked again"


def test_a_file_that_was_summed_whole_as_it_was_looked_at_is_not_read_for_longer_originals():
    topic, source = topic_with(OLD, OLD._replace(path="/logs/b.log")), Source()
    append(topic, OLD._replace(path="/logs/c.log"), sum="2001:0000000100000002", read=2001)
    new = planned("/logs/app.log.1", beginnings=[WHOLE])
    looked(topic, source, new)
    assert source.read == []


@pytest.mark.parametrize("count", [1, 40])
def test_of_very_many_files_that_begin_alike_the_nearest_are_compared(count):
    """C8: each hour's file has the same header, for months."""
    old = [FileId(f"/logs/{n}.csv", 2000, 1000 * n) for n in range(3_000)]
    found = looked(
        topic_with(*old),
        Source(),
        *[planned(f"/logs/new{n}", modified_ms=5000 * n) for n in range(count)],
    )
    for number in range(count):
        new = planned(f"/logs/new{number}", modified_ms=5000 * number)
        of_it = found[new.id]
        assert len(of_it) == 16
        assert of_it[0].file.modified_ms == 5000 * number
