"""Becoming the only run that ships: announce a generation, fence every lane of the runs before, and only then read the ledger.

Why no earlier run can slip a chunk in or repeat one, whatever it was doing when it was stopped:

* A lane of an old run that is open when we fence it can never commit again; what it had committed we see, since we read up
  to the READ_UNCOMMITTED end offset taken after fencing.
* A lane that an old run opens (again) after we fenced it reads the control partition after opening and before sending.
  Our generation is in there by then, since we wrote it before fencing; so the old run finds itself superseded and stops.
* That holds for tasks in the same way: a task attempt announces itself, opens its lanes, and only then reads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from shipper.delivery.ledger_log import LedgerLog
from shipper.errors import ClusterError
from shipper.ledger.chunks import Chunks
from shipper.ledger.control import Control
from shipper.ledger.records import Generation, Void, encode_generation
from shipper.producer.client import KafkaFault, LaneProducer, LaneSettings
from shipper.terms import FileId

log = logging.getLogger("shipper.takeover")

_FENCE_AT_ONCE = 64
_FENCE_SECONDS = 60.0


def transactional_id(pipeline: str, cluster: str, task: int, lane: int) -> str:
    return f"{pipeline}.{cluster}.{task}.{lane}"


@dataclass(frozen=True)
class Takeover:
    """What the new run knows once nobody else can write."""

    generation: int
    control: Control
    voids: dict[FileId, Void]
    chunks: Chunks
    """Of the run's files; ``voids`` too."""
    chunks_end: int
    """Offset up to which the chunk partition is read."""


def announce(ledger: LedgerLog, run_id: str, tasks: int, lanes: int) -> tuple[int, tuple[int, int]]:
    """Writes this run's generation. Returns its number and the (tasks, lanes) that cover all earlier runs' lanes.

    A generation record covers all lanes before it, so that compaction may drop the older ones. If another run announced
    itself between our reading and our writing, ours would not cover it: then we announce again.
    """
    most_tasks, most_lanes = 0, 0
    while True:
        # What was seen before stays seen, also when compaction lets our own record hide the earlier ones.
        found_tasks, found_lanes = ledger.control().most_before()
        most_tasks, most_lanes = max(most_tasks, found_tasks), max(most_lanes, found_lanes)
        record = Generation(run_id, max(tasks, most_tasks), max(lanes, most_lanes))
        [generation] = ledger.write_control([encode_generation(ledger.pipeline, record)])
        earlier = ledger.control().most_before(generation)
        if earlier[0] <= record.tasks and earlier[1] <= record.lanes:
            return generation, (max(most_tasks, earlier[0]), max(most_lanes, earlier[1]))


def fence(settings: LaneSettings, transactional_ids: Iterable[str], topic: str) -> None:
    """Ends the open transaction of every id and makes its producer useless. ``topic``: any that is there. Raises ClusterError."""

    until = time.monotonic() + _FENCE_SECONDS

    def fence_one(transactional_id: str) -> None:
        producer = LaneProducer(settings, transactional_id)
        try:
            producer.connect(lambda: until, topic)
            producer.init(lambda: until)
        except KafkaFault as fault:
            raise ClusterError(f"cannot fence lane {transactional_id} of an earlier run: {fault}; run again") from fault
        finally:
            producer.discard()

    with ThreadPoolExecutor(_FENCE_AT_ONCE, thread_name_prefix="fence") as pool:
        list(pool.map(fence_one, transactional_ids))


def fence_earlier_runs(ledger: LedgerLog, settings: LaneSettings, cluster: str, run_id: str, tasks: int, lanes: int) -> int:
    """Announces this run, then fences every lane that a run before it may have had. Returns the generation."""
    generation, (old_tasks, old_lanes) = announce(ledger, run_id, tasks, lanes)
    ids = [transactional_id(ledger.pipeline, cluster, task, lane) for task in range(old_tasks) for lane in range(old_lanes)]
    if settings.transactional:
        fence(settings, ids, ledger.topic)
        log.info("generation %d fenced %d lanes", generation, len(ids))
    return generation


def take_over(
    ledger: LedgerLog, settings: LaneSettings, cluster: str, run_id: str, tasks: int, lanes: int, paths: Collection[str]
) -> Takeover:
    """Announce, fence, read: in this order. ``paths``: the files that the run is about.

    What comes from a snapshot was committed before the snapshot was made; the rest is read now, up to the end. So a snapshot that
    was found before the fencing is as good as one found after it.
    """
    generation = fence_earlier_runs(ledger, settings, cluster, run_id, tasks, lanes)
    state = ledger.state(paths, wait_seconds=settings.transaction_timeout_ms / 1000 + 15)
    return Takeover(generation, state.control, state.voids, state.chunks, state.chunks_end)
