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
  marker: it is true, and 9's says more. The highest counts.
* 7 fences, 8 announces itself meanwhile, 7 writes its marker. It covers what came before 7 only: 8 is behind it, so 9 fences 8's lanes.
* 8 announces itself between 7's reading and 7's writing, with more lanes than 7 covers. Then 7 reads again, finds it, and announces itself anew.
* 5 is a zombie with more lanes than 7. After 7's marker nobody fences the ids that only 5 had. 5 opens one: it reads the control partition,
  finds 7, and stops. It opened one before 7's fencing: fenced. It opened one after 7 announced itself and before it was fenced: as both.
* The broker compacts the log: each generation covers what is behind the last marker before it; the marker has a key of its own, and is
  only removed when a later one is there.
* The cluster's file is renamed, and with it the ids: generations have a key per name, so the lanes under the old name are fenced by the
  first run under the new one, which then writes its marker.

A run that ships at least once opens no transactional lanes, but fences those of runs before it that shipped exactly once.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.config.rules import original
from shipper.errors import ClusterError, ClusterRefuses
from shipper.kafka import transaction
from shipper.kafka.connection import KafkaFault, Until
from shipper.kafka.outcomes import Action, ruling_on
from shipper.kafka.producer import LaneSettings
from shipper.kafka.transaction import Fence
from shipper.ledger.codec import encode_attempt, encode_fenced, encode_generation
from shipper.ledger.control import NO_LANES, Control, LaneCounts, ToFence, cover
from shipper.ledger.fold import Chunks, Invalidated
from shipper.ledger.lease import HeldLease
from shipper.ledger.log import CONTROL_NOW, AskCommitted, AskState, Committed, LedgerLog
from shipper.ledger.records import Generation
from shipper.ledger.rights import transactional_prefix
from shipper.types import EncodedRecord, FileId

log = logging.getLogger("shipper.takeover")

_FENCE_AT_ONCE = 64
_FENCE_SECONDS = 60.0
_CONNECT_SECONDS = 15.0
_SAY_EVERY = 1_000


def transactional_id(pipeline: str, cluster: str, task: int, lane: int) -> str:
    """That of a replay begins as its pipeline's do, since ACLs go by that."""
    own = original(pipeline)
    return f"{transactional_prefix(own, cluster)}{task}.{lane}{pipeline.removeprefix(own)}"


@dataclass(frozen=True)
class Takeover:
    """What the new run knows once nobody else can write."""

    generation: int
    control: Control
    invalidated: dict[FileId, Invalidated]
    chunks: Chunks
    """Of the run's files; ``invalidated`` too."""
    chunks_end: int
    """Offset up to which the chunk partition is read."""
    since: list[Committed] = field(default_factory=list)
    """Chunks that were committed after the takeover, as far as they were read."""

    def read_on(self, ledger: LedgerLog) -> Takeover:
        """With what was committed since. Raises ClusterError, OutcomeUnknown."""
        committed = ledger.decide(AskCommitted(self.chunks_end)).answer
        for chunk in committed:
            self.chunks.add(chunk.key, chunk.value)
        end = committed[-1].offset + 1 if committed else self.chunks_end
        return replace(self, chunks_end=end, since=[*self.since, *committed])


class Announced(NamedTuple):
    """A generation that is written."""

    generation: int
    to_fence: ToFence
    """What covers the lanes of all runs before it."""


def announce(
    ledger: LedgerLog, cluster: str, run_id: str, tasks: int, lanes: int, *, known: Control | None = None,
    also: Sequence[EncodedRecord] = (), meanwhile: Callable[[ToFence], object] = lambda seen: None,
) -> Announced:  # fmt: skip
    """Write this run's generation, and tombstones for the attempts of the one before, which say nothing any more.

    A generation record covers all lanes before it that are not fenced for good, so that compaction may drop the older ones. If another run
    announced itself between our reading and our writing, ours would not cover it: then we announce again.

    Args:
        known: the control partition as it was read a moment ago.
        also: what is written with the generation.
        meanwhile: called with the lanes that were seen before, once the generation is written and while the control partition is read anew.
            Called again after another announcement: only what is fenced after the last one is fenced for good.
    """
    seen: ToFence = {}
    control = known or ledger.look(CONTROL_NOW)
    while True:
        # What was seen before stays seen, also when compaction lets our own record hide the earlier ones.
        _cover(seen, control.to_fence())
        most = seen.get(cluster, NO_LANES)
        record = Generation(run_id, max(tasks, most.tasks), max(lanes, most.lanes))
        over = [encode_attempt(ledger.pipeline, key, None) for key in control.attempt_keys()]
        written = ledger.write_control([encode_generation(ledger.pipeline, record, cluster, ledger.root or ""), *also, *over])
        generation = written.offsets[0]
        with ThreadPoolExecutor(1, thread_name_prefix="control") as reading:
            read = reading.submit(ledger.decide, CONTROL_NOW, written)
            meanwhile(dict(seen))
        control, also = read.result().answer, ()
        earlier = control.to_fence(generation)
        most = earlier.get(cluster, NO_LANES)
        if most.tasks <= record.tasks and most.lanes <= record.lanes:
            _cover(seen, earlier)
            return Announced(generation, seen)


def _cover(seen: ToFence, found: ToFence) -> None:
    for name, most in found.items():
        cover(seen, name, most.tasks, most.lanes)


def ids_of(pipeline: str, lanes: Mapping[str, LaneCounts]) -> list[str]:
    """``lanes``: by the name of the cluster."""
    return [
        transactional_id(pipeline, name, task, lane)
        for name, most in lanes.items()
        for task in range(most.tasks)
        for lane in range(most.lanes)
    ]


class Fences:
    """Fences for lanes of earlier runs, connected before anybody may be fenced: six of the ten round trips that a new one takes need not be
    waited for then. Which lanes those will be is a guess; a wrong one costs some connections."""

    def __init__(self, settings: LaneSettings, topic: str) -> None:
        """``topic``: any that is there."""
        self._settings = settings.as_transactional()
        self._topic = topic
        self._begun: dict[str, Future[Fence]] = {}
        self._lock = threading.Lock()

    def connect(self, transactional_ids: Iterable[str]) -> None:
        """Begins, with as many as are fenced at once. Never raises."""
        with self._lock:
            for each in itertools.islice(transactional_ids, _FENCE_AT_ONCE):
                if each not in self._begun:
                    found: Future[Fence] = Future()
                    self._begun[each] = found
                    threading.Thread(target=self._connect, args=(each, found), name="fence", daemon=True).start()

    def _connect(self, transactional_id: str, found: Future[Fence]) -> None:
        until = time.monotonic() + _CONNECT_SECONDS
        try:
            new = Fence(self._settings, transactional_id, self._topic)
            with contextlib.suppress(KafkaFault):  # tried again, and said, when it is needed
                new.connect(lambda: until)
        except BaseException as error:
            found.set_exception(error)
        else:
            found.set_result(new)

    def close(self, transactional_id: str, until: Until) -> None:
        """See Fence.close. Raises KafkaFault."""
        with self._lock:
            begun = self._begun.pop(transactional_id, None)
        if begun is None:
            transaction.fence(self._settings, transactional_id, self._topic, until)
            return
        new = begun.result()
        try:
            new.close(until)
        finally:
            new.discard()

    def discard(self) -> None:
        """Those that were connected in vain."""
        with self._lock:
            begun, self._begun = self._begun, {}
        for each in begun.values():
            each.add_done_callback(lambda done: None if done.exception() else done.result().discard())


def fence(fences: Fences, transactional_ids: Collection[str]) -> None:
    """Ends the open transaction of every id and makes its producer useless; each has a minute of its own. Raises ClusterError for the first
    that cannot be fenced; then some of the others are not either."""
    stop = threading.Event()

    def fence_one(transactional_id: str) -> None:
        ends = time.monotonic() + _FENCE_SECONDS
        fences.close(transactional_id, lambda: 0.0 if stop.is_set() else ends)

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
    ruling = ruling_on(fault.name)
    what = f"cannot fence lane {transactional_id} of an earlier run: {fault} ({ruling.reason}). Nothing was sent"
    if ruling.action is Action.FAIL:
        return ClusterRefuses(f"{what}, and waiting does not change it.")
    return ClusterError(f"{what}; run again.")


def fence_earlier_runs(
    ledger: LedgerLog, settings: LaneSettings, cluster: str, run_id: str, tasks: int, lanes: int, *, known: Control | None = None,
    also: Sequence[EncodedRecord] = (), fences: Fences | None = None,
) -> int:  # fmt: skip
    """Announces this run, and fences every lane that a run before it may have had and that is not fenced for good. Returns the generation.
    ``known`` and ``also`` as in :func:`announce`. Raises ClusterError."""
    if not settings.transactional:
        tasks = lanes = 0
    fences = fences or Fences(settings, ledger.topic)
    fenced: list[str] = []  # since the last announcement
    refusals: list[ClusterRefuses] = []

    def close(ids: list[str]) -> None:
        try:
            fence(fences, ids)
        except ClusterRefuses as refused:
            if settings.transactional:
                raise
            refusals.append(refused)

    def close_seen(seen: ToFence) -> None:
        fenced[:] = ids_of(ledger.pipeline, seen)
        close(fenced)

    try:
        generation, to_fence = announce(ledger, cluster, run_id, tasks, lanes, known=known, also=also, meanwhile=close_seen)
        done = set(fenced)
        close([each for each in ids_of(ledger.pipeline, to_fence) if each not in done])
    finally:
        fences.discard()
    if refusals:
        # It promises less: a chunk of an earlier run may still come, and then twice.
        log.warning("lanes of earlier runs that shipped exactly once cannot be fenced: %s", refusals[0])
        return generation
    log.info("generation %d fenced %d lanes", generation, len(fenced))
    most = to_fence.get(cluster, NO_LANES)
    if to_fence.keys() - {cluster} or most.tasks > tasks or most.lanes > lanes:
        _say_that_they_are_fenced(ledger, cluster, generation, Generation(run_id, tasks, lanes))
    return generation


def _say_that_they_are_fenced(ledger: LedgerLog, cluster: str, generation: int, own: Generation) -> None:
    """Write the marker, and remove those of earlier generations. A marker of a later one covers more, and is another run's."""
    marks = ledger.decide(CONTROL_NOW).answer.fences
    ledger.write_control(
        [
            encode_fenced(ledger.pipeline, cluster, generation, own),
            *(encode_fenced(ledger.pipeline, *mark, None) for mark in marks if mark.generation < generation),
        ]
    )


@contextmanager
def sole_run(
    ledger: LedgerLog, settings: LaneSettings, cluster: Cluster, pipeline: Pipeline, run_id: str, say: Callable[[str], None]
) -> Iterator[int]:
    """A run that ships no file, and writes to the ledger with one lane: holds the lease, and yields its generation with the lanes of all
    earlier runs fenced. Raises LeaseHeld, ClusterError."""
    delivery = pipeline.delivery
    with HeldLease(ledger, run_id, delivery.lease_seconds, delivery.lease_wait_seconds, say) as lease:
        lease.generation = fence_earlier_runs(
            ledger, settings, cluster.name, run_id, tasks=1, lanes=1, known=lease.control, also=[lease.held()]
        )
        yield lease.generation


def take_over(
    ledger: LedgerLog, settings: LaneSettings, cluster: str, run_id: str, tasks: int, lanes: int, paths: Collection[str], *,
    known: Control | None = None, also: Sequence[EncodedRecord] = (), fences: Fences | None = None,
) -> Takeover:  # fmt: skip
    """Announce, fence, read: in this order. ``paths``: the files that the run is about. The rest as in :func:`fence_earlier_runs`.

    What comes from a snapshot was committed before the snapshot was made; the rest is read now, up to the end. So a snapshot that
    was found before the fencing is as good as one found after it.
    """
    generation = fence_earlier_runs(ledger, settings, cluster, run_id, tasks, lanes, known=known, also=also, fences=fences)
    state = ledger.decide(AskState(paths)).answer
    return Takeover(generation, state.control, state.invalidated, state.chunks, state.chunks_end)
