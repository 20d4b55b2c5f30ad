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
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from shipper.delivery.ledger_log import LedgerLog
from shipper.errors import ClusterError
from shipper.ledger.chunks import Chunks
from shipper.ledger.control import Control
from shipper.ledger.records import Generation, encode_generation
from shipper.producer.client import KafkaFault, LaneProducer, LaneSettings

log = logging.getLogger("shipper.takeover")

_FENCE_AT_ONCE = 32
_FENCE_SECONDS = 60.0


def transactional_id(pipeline: str, cluster: str, task: int, lane: int) -> str:
    return f"{pipeline}.{cluster}.{task}.{lane}"


@dataclass(frozen=True)
class Takeover:
    """What the new run knows once nobody else can write."""

    generation: int
    control: Control
    chunks: Chunks
    chunks_end: int
    """Offset up to which the chunk partition is read."""


def announce(ledger: LedgerLog, run_id: str, tasks: int, lanes: int) -> tuple[int, tuple[int, int]]:
    """Writes this run's generation. Returns its number and the (tasks, lanes) that cover all earlier runs' lanes.

    A generation record covers all lanes before it, so that compaction may drop the older ones. If another run announced
    itself between our reading and our writing, ours would not cover it: then we announce again.
    """
    while True:
        most_tasks, most_lanes = ledger.control().most_before()
        record = Generation(run_id, max(tasks, most_tasks), max(lanes, most_lanes))
        [generation] = ledger.write_control([encode_generation(ledger.pipeline, record)])
        earlier = ledger.control().most_before(generation)
        if earlier[0] <= record.tasks and earlier[1] <= record.lanes:
            return generation, earlier


def fence(settings: LaneSettings, transactional_ids: Iterable[str], topic: str) -> None:
    """Ends the open transaction of every id and makes its producer useless. ``topic``: any that is there. Raises ClusterError."""

    until = time.monotonic() + _FENCE_SECONDS

    def fence_one(transactional_id: str) -> None:
        producer = LaneProducer(settings, transactional_id)
        try:
            producer.init(lambda: until, topic)
        except KafkaFault as fault:
            raise ClusterError(f"cannot fence lane {transactional_id} of an earlier run: {fault}; run again") from fault
        finally:
            producer.discard()

    with ThreadPoolExecutor(_FENCE_AT_ONCE, thread_name_prefix="fence") as pool:
        list(pool.map(fence_one, transactional_ids))


def take_over(ledger: LedgerLog, settings: LaneSettings, cluster: str, run_id: str, tasks: int, lanes: int) -> Takeover:
    """Announce, fence, read: in this order."""
    generation, (old_tasks, old_lanes) = announce(ledger, run_id, tasks, lanes)
    ids = [transactional_id(ledger.pipeline, cluster, task, lane) for task in range(old_tasks) for lane in range(old_lanes)]
    if settings.transactional:
        fence(settings, ids, ledger.topic)
        log.info("generation %d fenced %d lanes", generation, len(ids))
    control = ledger.control()
    records = ledger.chunks(wait_seconds=settings.transaction_timeout_ms / 1000 + 15)
    end = records[-1].offset + 1 if records else 0
    return Takeover(generation, control, Chunks(ledger.pipeline, control.voids).feed(records), end)
