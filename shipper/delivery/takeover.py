"""Becoming the only run that ships: announce a generation, fence every lane of the runs before, and only then read the ledger.

Why no earlier run can slip a chunk in or repeat one, whatever it was doing when it was stopped:

* A lane of an old run that is open when we fence it can never commit again; what it had committed we see, since we read up
  to the READ_UNCOMMITTED end offset taken after fencing.
* A lane that an old run opens (again) after we fenced it reads the control partition after opening and before sending.
  Our generation is in there by then, since we wrote it before fencing; so the old run finds itself superseded and stops.
* That holds for tasks in the same way: a task attempt announces itself, opens its lanes, and only then reads.

So what was fenced once, after the fencing generation was written, is fenced for good, and need not be fenced by each run after it for ever:
a run of 128 tasks with 128 lanes would make every later one fence 16,384 ids. A run that has fenced more than it has itself says so
(`encode_fenced`: every lane of the generations before mine is fenced for good, and these are mine), and the runs after it fence its lanes
and those of the generations after it. The sequences that could break this, with generations numbered by their offsets:

* 7 fences, and is paused before it says so. 9 announces itself, fences the lanes of 7 and of those before, says so. 7 wakes up and says its
  word: it is true, and 9's says more. The highest counts.
* 7 fences, 8 announces itself meanwhile, 7 says its word. It covers what came before 7 only: 8 is behind it, so 9 fences 8's lanes.
* 8 announces itself between 7's reading and 7's writing, with more lanes than 7 covers. Then 7 reads again, finds it, and announces itself anew.
* 5 is a zombie with more lanes than 7. After 7's word nobody fences the ids that only 5 had. 5 opens one: it reads the control partition,
  finds 7, and stops. It opened one before 7's fencing: fenced. It opened one after 7 announced itself and before it was fenced: as both.
* The broker compacts the log: each generation covers what is behind the last word before it; the word has a key of its own, and is
  only removed when a later one is there.
* The cluster's file is renamed, and with it the ids: generations have a key per name, so the lanes under the old name are fenced by the
  first run under the new one, which then says its word.

A run that ships at least once opens no transactional lanes, but fences those of runs before it that shipped exactly once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from shipper.delivery.ledger_log import LedgerLog
from shipper.errors import ClusterError, ClusterRefuses
from shipper.ledger.chunks import Chunks
from shipper.ledger.control import Control, ToFence, covering
from shipper.ledger.records import Generation, Void, encode_fenced, encode_generation
from shipper.producer import transaction
from shipper.producer.connection import KafkaFault
from shipper.producer.outcomes import Action, verdict
from shipper.producer.producer import LaneSettings
from shipper.terms import FileId

log = logging.getLogger("shipper.takeover")

_FENCE_AT_ONCE = 64
_FENCE_SECONDS = 60.0
_SAY_EVERY = 1_000


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


def announce(ledger: LedgerLog, cluster: str, run_id: str, tasks: int, lanes: int) -> tuple[int, ToFence]:
    """Writes this run's generation. Returns its number and what covers all earlier runs' lanes.

    A generation record covers all lanes before it that are not fenced for good, so that compaction may drop the older ones. If another run
    announced itself between our reading and our writing, ours would not cover it: then we announce again.
    """
    seen: ToFence = {}
    while True:
        # What was seen before stays seen, also when compaction lets our own record hide the earlier ones.
        _cover(seen, ledger.control().to_fence(cluster))
        before = seen.get(cluster, (0, 0))
        record = Generation(run_id, max(tasks, before[0]), max(lanes, before[1]))
        [generation] = ledger.write_control([encode_generation(ledger.pipeline, record, cluster)])
        earlier = ledger.control().to_fence(cluster, generation)
        most_tasks, most_lanes = earlier.get(cluster, (0, 0))
        if most_tasks <= record.tasks and most_lanes <= record.lanes:
            _cover(seen, earlier)
            return generation, seen


def _cover(seen: ToFence, found: ToFence) -> None:
    for name, (tasks, lanes) in found.items():
        covering(seen, name, tasks, lanes)


def fence(settings: LaneSettings, transactional_ids: Collection[str], topic: str) -> None:
    """Ends the open transaction of every id and makes its producer useless; each has a minute of its own. ``topic``: any that is there.
    Raises ClusterError for the first that cannot be fenced; then some of the others are not either."""
    stop = threading.Event()

    def fence_one(transactional_id: str) -> None:
        ends = time.monotonic() + _FENCE_SECONDS
        transaction.fence(settings, transactional_id, topic, lambda: 0.0 if stop.is_set() else ends)

    with ThreadPoolExecutor(_FENCE_AT_ONCE, thread_name_prefix="fence") as pool:
        under_way = {pool.submit(fence_one, transactional_id): transactional_id for transactional_id in transactional_ids}
        try:
            for number, done in enumerate(as_completed(under_way), 1):
                try:
                    done.result()
                except KafkaFault as fault:
                    raise _not_fenced(under_way[done], fault) from fault
                if number % _SAY_EVERY == 0:
                    log.info("%d of %d lanes of earlier runs are fenced", number, len(under_way))
        finally:
            stop.set()
            for waiting in under_way:
                waiting.cancel()


def _not_fenced(transactional_id: str, fault: KafkaFault) -> ClusterError:
    ruling = verdict(fault.name)
    what = f"cannot fence lane {transactional_id} of an earlier run: {fault} ({ruling.reason}). Nothing was sent"
    if ruling.action is Action.FAIL:
        return ClusterRefuses(f"{what}, and waiting does not change it.")
    return ClusterError(f"{what}; run again.")


def fence_earlier_runs(ledger: LedgerLog, settings: LaneSettings, cluster: str, run_id: str, tasks: int, lanes: int) -> int:
    """Announces this run, then fences every lane that a run before it may have had and that is not fenced for good. Returns the generation.
    Raises ClusterError."""
    if not settings.transactional:
        tasks = lanes = 0
    generation, to_fence = announce(ledger, cluster, run_id, tasks, lanes)
    ids = [
        transactional_id(ledger.pipeline, name, task, lane)
        for name, (most_tasks, most_lanes) in to_fence.items()
        for task in range(most_tasks)
        for lane in range(most_lanes)
    ]
    try:
        fence(settings.as_transactional(), ids, ledger.topic)
    except ClusterRefuses as refused:
        if settings.transactional:
            raise
        # It promises less: a chunk of an earlier run may still come, and then twice.
        log.warning("lanes of earlier runs that shipped exactly once cannot be fenced: %s", refused)
        return generation
    log.info("generation %d fenced %d lanes", generation, len(ids))
    most_tasks, most_lanes = to_fence.get(cluster, (0, 0))
    if to_fence.keys() - {cluster} or most_tasks > tasks or most_lanes > lanes:
        _say_that_they_are_fenced(ledger, cluster, generation, Generation(run_id, tasks, lanes))
    return generation


def _say_that_they_are_fenced(ledger: LedgerLog, cluster: str, generation: int, own: Generation) -> None:
    """Only what comes before ``generation`` is removed: a word that says more is another run's."""
    earlier = [(number, name) for number, (name, _) in ledger.control().fences.items() if number < generation]
    ledger.write_control(
        [
            encode_fenced(ledger.pipeline, cluster, generation, own),
            *(encode_fenced(ledger.pipeline, name, number, None) for number, name in earlier),
        ]
    )


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
