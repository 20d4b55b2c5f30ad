"""Becoming the only run that ships: announce a generation, fence every lane of the runs before, and
only then read the ledger.

Why no earlier run can slip a chunk in or repeat one, whatever it was doing when it was stopped:

* A lane of an old run that is open when we fence it can never commit again; what it had committed
  we see, since we read up to the READ_UNCOMMITTED end offset taken after fencing.
* A lane that an old run opens (again) after we fenced it reads the control partition after opening
  and before sending. Our generation is in there by then, since we wrote it before fencing; so the
  old run finds itself superseded and stops.
* That holds for tasks in the same way: a task attempt announces itself, opens its lanes, and only
  then reads.

So what was fenced once, after the fencing generation was written, is permanently fenced. Each
announcement has a key of its own, and a run writes a tombstone for each generation that it has seen
and fenced: the runs after it need not fence those lanes again. The sequences that could break this,
with generations numbered by their offsets (`model/takeover.pml` tries them all):

* 7 fences 6's lanes, and is paused before it writes 6's tombstone. 9 announces itself, fences the
  lanes of 6 and 7, writes both tombstones. 7 wakes up and writes 6's once more: it is true, and
  says nothing new.
* 8 announces itself between 7's first read and 7's record. 7 reads again after its record, finds 8
  before itself, and fences 8's lanes too.
* 8 announces itself after 7's record, while 7 fences. 7 does not see 8 as an earlier one, and
  leaves its record; 9 fences 8's lanes.
* 5 is a zombie. After 5's tombstone nobody fences the ids that only 5 had. 5 opens one: it reads
  the control partition, finds a later generation, and stops. It opened one before it was fenced:
  fenced. It opened one after 7 announced itself and before it was fenced: as both.
* The broker compacts the log: no announcement replaces another one, so what is left are the
  generations whose lanes nobody has fenced.
* The cluster's file is renamed, and with it the ids: a generation's key has the name, so its lanes
  are fenced by the first run under the new one.

A run that ships at least once opens no transactional lanes, but fences those of runs before it that
shipped exactly once.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from shipper import runtime
from shipper.errors import ClusterError, ClusterRefuses, LedgerGone, ShipperError
from shipper.kafka.connection import KafkaFault, Until
from shipper.kafka.outcomes import Action, policy_for
from shipper.kafka.producer import LaneSettings
from shipper.kafka.transaction import Fence
from shipper.ledger.codec import encode_attempt, encode_generation
from shipper.ledger.control import Control, LaneCounts, ToFence, cover
from shipper.ledger.fold import LedgerState
from shipper.ledger.lease import HeldLease
from shipper.ledger.log import CONTROL_NOW, LedgerLog, LedgerQuestion, ask_committed
from shipper.ledger.records import Entry, Generation, GenerationKey
from shipper.ledger.rights import transactional_id
from shipper.ledger.writing import lane_settings, right_of

if TYPE_CHECKING:
    from shipper.config.pipeline import Pipeline

log = logging.getLogger("shipper.takeover")

_FENCE_AT_ONCE = 64
_BATCH_BYTES = 500_000
_FENCE_SECONDS = 60.0
_CONNECT_SECONDS = 15.0
_SAY_EVERY = 1_000


@dataclass(frozen=True)
class Takeover(LedgerState):
    """State of the run's files once no earlier run can write any more."""

    generation: int = -1
    after_unended: bool = False
    """See :class:`Announced`."""
    since: list[Entry] = field(default_factory=list)
    """Chunks that were committed after the takeover and read since."""

    def read_on(self, ledger: LedgerLog) -> Takeover:
        """Read the chunks that were committed since, and return the chunks with them. Raises
        ClusterError, OutcomeUnknown."""
        committed = ledger.decide(ask_committed(self.chunks_end)).answer
        for chunk in committed:
            self.chunks.add(chunk.key, chunk.value, chunk.timestamp_ms)
        end = committed[-1].offset + 1 if committed else self.chunks_end
        return replace(self, chunks_end=end, since=[*self.since, *committed])


class Announced(NamedTuple):
    """A generation that is written."""

    generation: int
    to_fence: ToFence
    """Lanes of all runs before it."""
    earlier: list[GenerationKey]
    """Generations that can be forgotten once these lanes are fenced."""
    after_unended: bool = False
    """See :func:`left_doubt`."""


def announce(
    ledger: LedgerLog,
    run: Generation,
    *,
    lease: HeldLease | None = None,
    meanwhile: Callable[[ToFence], object] = lambda seen: None,
) -> Announced:
    """Write this run's generation, and tombstones for the attempts of the one before, which say
    nothing any more.

    Args:
        run: its id, tasks and lanes; the rest is known here.
        lease: confirmed with the generation; it may know the control partition as it was a moment
        ago. meanwhile: called with the lanes that were seen before, once the generation is written
        and while the control partition is read anew.
    """
    before = (lease and lease.control) or ledger.look(CONTROL_NOW)
    roots = [root for root in before.sources if root != ledger.root]
    roots += [ledger.root] if ledger.root else []
    key = GenerationKey(ledger.cluster.name, runtime.token_hex(8))
    ack_ms = None if ledger.ack_seconds is None else round(ledger.ack_seconds * 1000)
    record = replace(run, roots=tuple(roots), ack_ms=ack_ms)
    over = [encode_attempt(ledger.pipeline, attempt, None) for attempt in before.attempt_keys()]
    also = [lease.held()] if lease else []
    written = ledger.write_control([encode_generation(ledger.pipeline, key, record), *also, *over])
    generation = written.offsets[0]
    with runtime.ThreadPoolExecutor(1, thread_name_prefix="control") as reading:
        read = reading.submit(ledger.decide, CONTROL_NOW, written)
        meanwhile(before.to_fence())
    now = read.result().answer
    to_fence = now.to_fence(generation)
    for name, seen in before.to_fence().items():  # another run may have fenced some of them since
        cover(to_fence, name, seen.tasks, seen.lanes)
    return Announced(generation, to_fence, now.earlier(generation, roots), left_doubt(before))


def left_doubt(before: Control) -> bool:
    """True if the latest run shipped at least once, and may have left records that the ledger does
    not know: a task of it did not end, or none is known. The run before that one may then be to
    blame."""
    latest = before.generations.get(before.generation)
    return (
        latest is not None
        and not latest.tasks
        and (not before.attempts or bool(before.active_since()))
    )


def ids_of(pipeline: str, lanes: Mapping[str, LaneCounts]) -> list[str]:
    """Return the ids of the lanes. ``lanes``: by the name of the cluster."""
    return [
        transactional_id(pipeline, name, task, lane)
        for name, most in lanes.items()
        for task in range(most.tasks)
        for lane in range(most.lanes)
    ]


class Fences:
    """Producers that fence lanes of earlier runs, connected before they may fence: six of a new
    one's ten round trips then need not be waited for. Which lanes those will be is a guess; a wrong
    one costs some connections."""

    def __init__(self, settings: LaneSettings, topic: str) -> None:
        """Make them. ``topic``: any that exists."""
        self._settings = settings.as_transactional()
        self._topic = topic
        self._begun: dict[str, runtime.Future[Fence]] = {}
        self._lock = runtime.Lock()

    def connect(self, transactional_ids: Iterable[str]) -> None:
        """Begin to connect, as many as are fenced at once. Never raises."""
        with self._lock:
            for each in itertools.islice(transactional_ids, _FENCE_AT_ONCE):
                if each not in self._begun:
                    found: runtime.Future[Fence] = runtime.Future()
                    self._begun[each] = found
                    runtime.Thread(
                        target=self._connect, args=(each, found), name="fence", daemon=True
                    ).start()

    def _connect(self, transactional_id: str, found: runtime.Future[Fence]) -> None:
        until = runtime.monotonic() + _CONNECT_SECONDS
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
        new = begun.result() if begun else Fence(self._settings, transactional_id, self._topic)
        try:
            new.close(until)
        finally:
            new.discard()

    def discard(self) -> None:
        """Discard the producers that turned out to be unneeded."""
        with self._lock:
            begun, self._begun = self._begun, {}
        for each in begun.values():
            each.add_done_callback(
                lambda done: None if done.exception() else done.result().discard()
            )


def fence(fences: Fences, transactional_ids: Collection[str]) -> None:
    """Abort the open transaction of every id and fence its producer; each may take a minute. Raises
    ClusterError for the first that cannot be fenced; then some of the others are not either."""
    stop = runtime.Event()

    def fence_one(transactional_id: str) -> None:
        ends = runtime.monotonic() + _FENCE_SECONDS
        fences.close(transactional_id, lambda: 0.0 if stop.is_set() else ends)

    with runtime.ThreadPoolExecutor(_FENCE_AT_ONCE, thread_name_prefix="fence") as pool:
        under_way = {
            pool.submit(fence_one, transactional_id): transactional_id
            for transactional_id in transactional_ids
        }
        try:
            for number, done in enumerate(runtime.as_completed(under_way), 1):
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
    policy = policy_for(fault.name)
    what = (
        f"lane {transactional_id} of an earlier run cannot be fenced: {fault} ({policy.reason}). "
        "Nothing was sent"
    )
    if policy.action is Action.FAIL:
        return ClusterRefuses(f"{what}, and waiting does not change that.")
    return ClusterError(f"{what}. Run again.")


def fence_earlier_runs(
    ledger: LedgerLog,
    settings: LaneSettings,
    run: Generation,
    *,
    lease: HeldLease | None = None,
    fences: Fences | None = None,
) -> Announced:
    """Announce this run, and fence every lane of earlier runs that is not fenced yet. ``lease`` as
    in :func:`announce`. Raises ClusterError."""
    if not settings.transactional:
        run = replace(run, tasks=0, lanes=0)
    fences = fences or Fences(settings, ledger.topic)
    fenced: set[str] = set()
    refusals: list[ClusterRefuses] = []

    def close(to_fence: ToFence) -> None:
        ids = [each for each in ids_of(ledger.pipeline, to_fence) if each not in fenced]
        try:
            fence(fences, ids)
        except ClusterRefuses as refused:
            if settings.transactional:
                raise
            refusals.append(refused)
        fenced.update(ids)

    try:
        announced = announce(ledger, run, lease=lease, meanwhile=close)
        close(announced.to_fence)
    finally:
        fences.discard()
    if refusals:
        # At least once promises less: a chunk of an earlier run may still arrive, and then twice.
        log.warning(
            "lanes of earlier runs that shipped exactly once cannot be fenced: %s", refusals[0]
        )
        return announced._replace(earlier=[])
    log.info("generation %d fenced %d lanes", announced.generation, len(fenced))
    return announced


def _forget(ledger: LedgerLog, fenced: Announced) -> None:
    """Write tombstones for the fenced generations. Never raises: otherwise the next run fences
    these lanes once more."""
    try:
        if fenced.earlier:
            ledger.write_control(
                encode_generation(ledger.pipeline, key, None) for key in fenced.earlier
            )
    except ShipperError as error:
        log.warning("the next run fences the lanes of earlier runs once more: %s", error)


def _check_that_it_is_the_latest(ledger: LedgerLog, generation: int, state: LedgerState) -> None:
    """Check that no chunk has this generation or a later one. Generations are offsets of the
    control partition: in a copy of a ledger, or after a loss of records, they begin anew, and a
    run's chunks could not be told from those of earlier runs. Raises Superseded, LedgerGone."""
    splits = state.chunks.splits.values()
    chunks = (chunk for split in splits for chunk in split.chunks.values())
    latest = max((chunk.generation for chunk in chunks), default=-1)
    if latest < generation:
        return
    right_of(ledger, generation).check()  # a later run may have shipped meanwhile
    raise LedgerGone.began_anew(ledger.cluster.name, ledger.topic, latest, generation)


class SoleRun(NamedTuple):
    """A run that ships no file and writes to the ledger with one lane."""

    generation: int
    settings: LaneSettings
    """Settings of its lane."""


@contextmanager
def sole_run(
    ledger: LedgerLog, pipeline: Pipeline, run_id: str, say: Callable[[str], None]
) -> Iterator[SoleRun]:
    """Hold the lease, and yield the run once the lanes of all earlier runs are fenced. Raises
    ClusterError."""
    settings, delivery = lane_settings(ledger.cluster, pipeline, _BATCH_BYTES), pipeline.delivery
    with HeldLease(
        ledger, run_id, delivery.lease_seconds, delivery.lease_wait_seconds, say
    ) as lease:
        fenced = fence_earlier_runs(ledger, settings, Generation(run_id, 1, 1), lease=lease)
        lease.generation = fenced.generation
        _forget(ledger, fenced)
        yield SoleRun(fenced.generation, settings)


def take_over(
    ledger: LedgerLog,
    settings: LaneSettings,
    run: Generation,
    question: LedgerQuestion[LedgerState],
    *,
    lease: HeldLease | None = None,
    fences: Fences | None = None,
) -> Takeover:
    """Announce, fence, read: in this order. ``question``: about the files that the run is about.
    The rest as in :func:`fence_earlier_runs`.

    A snapshot's records were committed before the snapshot was made; the rest is read now, up to
    the end. So a snapshot that was found before the fencing is as good as one found after it.
    """
    fenced = fence_earlier_runs(ledger, settings, run, lease=lease, fences=fences)
    with runtime.ThreadPoolExecutor(1, thread_name_prefix="forget") as meanwhile:
        meanwhile.submit(_forget, ledger, fenced)
        state = ledger.decide(question).answer
    _check_that_it_is_the_latest(ledger, fenced.generation, state)
    return Takeover(**vars(state), generation=fenced.generation, after_unended=fenced.after_unended)
