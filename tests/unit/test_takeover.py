"""How long each lane of earlier runs may take to be fenced."""

from types import SimpleNamespace

import pytest

from shipper.errors import ClusterError, LedgerGone
from shipper.kafka.connection import KafkaFault
from shipper.ledger import takeover
from shipper.ledger.codec import encode_chunk, encode_lease
from shipper.ledger.log import CONTROL_NOW, LedgerLog, ask_state
from shipper.ledger.records import CHUNKS, ChunkKey, ChunkValue, Generation, Lease
from shipper.types import FileId, SplitId
from tests.doubles.memory_log import MemoryLog
from tests.doubles.runtime import runtime_with
from tests.samples.config import cluster_of


class Coordinator:
    """Takes ``seconds`` for each id, on a clock of its own, and no longer than it is given."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.fenced, self._seconds = 0.0, list[str](), seconds
        monkeypatch.setattr(takeover, "runtime", runtime_with(monotonic=lambda: self.now))
        monkeypatch.setattr(takeover, "_FENCE_AT_ONCE", 1)
        monkeypatch.setattr(
            takeover,
            "Fence",
            lambda settings, transactional_id, topic: SimpleNamespace(
                close=lambda ends: self.fence(transactional_id, ends), discard=lambda: None
            ),
        )

    def fence(self, transactional_id, ends):
        left = ends() - self.now
        self.now += min(left, self._seconds)
        if left < self._seconds:
            raise KafkaFault("_TIMED_OUT", "not answered in time")
        self.fenced.append(transactional_id)


def fences():
    settings = SimpleNamespace(as_transactional=lambda: None)
    return takeover.Fences(settings, "_shipper.web")


def test_thousands_of_lanes_have_a_minute_each_and_not_one_together(monkeypatch):
    """128 tasks x 128 lanes of one run made every later one fail for lack of time."""
    coordinator = Coordinator(monkeypatch, seconds=40.0)
    ids = [f"web.near.{task}.{lane}" for task in range(40) for lane in range(50)]
    takeover.fence(fences(), ids)
    assert coordinator.fenced == ids


def test_a_lane_that_is_not_fenced_in_its_minute_is_named(monkeypatch):
    Coordinator(monkeypatch, seconds=70.0)
    with pytest.raises(
        ClusterError,
        match=r"lane web\.near\.0\.0 of an earlier run cannot be fenced.*Nothing was sent",
    ):
        takeover.fence(fences(), ["web.near.0.0"])


class Noting:
    """In the place of the fences: who was fenced, and which generation was the latest then."""

    def __init__(self, ledger):
        self.ledger, self.fenced = ledger, list[tuple[int, str]]()

    def close(self, transactional_id, until):
        self.fenced.append((self.ledger.look(CONTROL_NOW).generation, transactional_id))

    def discard(self):
        pass


@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
def test_every_lane_of_a_run_that_announced_itself_meanwhile_is_fenced_once_ours_is_written(
    compacted,
):
    """Another run announces itself between our reading and our writing, and has more lanes.
    Compaction may come at any moment; with one key for all announcements our own would then hide
    the other's (found by model/takeover.pml: ONE_KEY)."""
    log = MemoryLog()
    cluster = cluster_of("near")

    def opened():
        return LedgerLog(log, cluster, "web")

    takeover.announce(opened(), Generation("first", 1, 1))
    held = encode_lease("web", Lease("ours", "here", 1, held=True, seconds=30.0))
    lease = SimpleNamespace(control=opened().look(CONTROL_NOW), held=lambda: held)
    takeover.announce(opened(), Generation("another", 2, 2))
    ours = opened()
    write = ours.write_control

    def write_and_compact(records):
        written = write(records)
        if compacted:
            log.compact(SimpleNamespace(random=lambda: 1.0))
        return written

    ours.write_control = write_and_compact
    fences = Noting(opened())
    settings = SimpleNamespace(transactional=True)
    fenced = takeover.fence_earlier_runs(
        ours, settings, Generation("ours", 1, 1), lease=lease, fences=fences
    )
    lanes = {f"web.near.{task}.{lane}" for task in range(2) for lane in range(2)}
    assert {lane for at, lane in fences.fenced if at == fenced.generation} == lanes
    assert fenced.generation == opened().look(CONTROL_NOW).generation
    assert len(fenced.earlier) == 2


def test_what_a_lane_commits_until_it_is_fenced_is_known_to_the_run_that_takes_over():
    """The lane of an earlier run is alive until it is fenced, and may have the right to ship until
    then."""
    log = MemoryLog()
    cluster = cluster_of("near")
    split = SplitId(FileId("a.log", 100, 5), 0)
    committed = encode_chunk(
        "web", ChunkKey(split, 0, "t"), ChunkValue(10, True, 10, 100, 1, "d", 0, "first", "w")
    )

    class CommitsUntilItIsFenced(Noting):
        def close(self, transactional_id, until):
            log.append("ledger", CHUNKS, [committed])

    takeover.announce(LedgerLog(log, cluster, "web"), Generation("first", 1, 1))
    ledger = LedgerLog(log, cluster, "web")
    settings = SimpleNamespace(transactional=True, transaction_timeout_ms=1000)
    fences = CommitsUntilItIsFenced(ledger)
    found = takeover.take_over(
        ledger, settings, Generation("ours", 1, 1), ask_state(["a.log"]), fences=fences
    )
    assert found.chunks.records_by_topic([split.file]) == {"t": 10}


def test_a_copy_of_a_ledger_whose_generations_begin_anew_is_refused():
    """Its chunks are of later generations than those of the runs to come: a reship would leave
    them out, and a ship count them as its own."""
    log, cluster = MemoryLog(), cluster_of("near")
    split = SplitId(FileId("a.log", 100, 5), 0)
    value = ChunkValue(10, True, 10, 100, 1, "d", 45, "first", "w")
    log.append("ledger", CHUNKS, [encode_chunk("web", ChunkKey(split, 0, "t"), value)])
    ledger = LedgerLog(log, cluster, "web")
    settings = SimpleNamespace(transactional=True, transaction_timeout_ms=1000)
    with pytest.raises(LedgerGone, match="generation 45"):
        takeover.take_over(
            ledger, settings, Generation("ours", 1, 1), ask_state(["a.log"]), fences=Noting(ledger)
        )
