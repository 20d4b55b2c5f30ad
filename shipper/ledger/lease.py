"""One ship at a time per pipeline and cluster, by courtesy. Safety rests on fencing alone (see
takeover)."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import replace

from shipper import runtime
from shipper.errors import ClusterError, ClusterRefuses, ShipperError
from shipper.kafka.outcomes import GRANT_SECONDS
from shipper.ledger.codec import encode_lease
from shipper.ledger.control import Control
from shipper.ledger.log import CONTROL_NOW, LedgerLog
from shipper.ledger.records import CONTROL, MOST_LEASE_SECONDS, Lease
from shipper.types import EncodedRecord

log = logging.getLogger("shipper.lease")

_WORD_EVERY_SECONDS = 30.0
_ASK_AGAIN_SECONDS = 3.0


class _Watched:
    """Claims of others, by this machine's own clock. The broker that leads the ledger by now may
    have a clock that is behind: by its times a dead run's claim lies in the future, and would live
    until then."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, float]] = {}
        """Run → the offset of its claim, and when that was seen first."""

    def lapsed(self, control: Control) -> set[str]:
        """Return the runs that did not renew their claim for its own length, while it was
        watched."""
        now, found = runtime.monotonic(), set[str]()
        for claim in control.claims():
            run_id, length = claim.lease.run_id, min(claim.lease.seconds, MOST_LEASE_SECONDS)
            offset, since = self._since.get(run_id, (-1, now))
            if offset != claim.offset:
                self._since[run_id] = claim.offset, now
            elif now - since > length:
                found.add(run_id)
        return found


class HeldLease:
    """Lease of (pipeline, cluster) while the ``with`` block runs.

    To ask, a run writes a claim, reads the control partition to its end, and sees who is first. A
    run that finds another one before it takes its claim back, waits, and asks again until
    ``wait_seconds`` are over. The first of several claims counts like a held lease until it is
    renewed, because every asking run sees it before its own. A thread renews the lease every third
    of its length, as a held one, and also looks whether a later run has taken over; then
    ``superseded`` is set.
    """

    def __init__(
        self,
        ledger: LedgerLog,
        run_id: str,
        seconds: float,
        wait_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self._ledger = ledger
        self._claim = Lease(run_id, socket.gethostname(), os.getpid(), held=False, seconds=seconds)
        self._wait_seconds = wait_seconds
        self._say = say
        self._stop = runtime.Event()
        self._keeper = runtime.Thread(target=self._keep, name="lease", daemon=True)
        self._lost: runtime.Future[bool] = runtime.Future()
        """True if a later attempt holds the lease by now; known once it is not renewed any more."""
        self.control: Control | None = None
        """The control partition as it was when the lease was ours; None before. A far cluster is
        not asked twice."""
        self.generation: int | None = None
        """Set by the owner once it has written its generation; from then on a later one means that
        we are superseded."""
        self.superseded = runtime.Event()
        """The ship is to stop: a later run has taken over; or, if ``refused`` says so, the ledger
        may not be written any more."""
        self.refused: ClusterRefuses | None = None
        """Lanes would notice only at the end of a transaction, which a rate limit makes long, and
        at that of each try."""

    def __enter__(self) -> HeldLease:
        began = runtime.monotonic()
        deadline, told, next_word = began + self._wait_seconds, "", began
        watched = _Watched()
        while True:
            with self._ledger.writing({CONTROL: [self._encoded(self._claim)]}):
                self.control = self._ledger.look(CONTROL_NOW)
            holder = self.control.holder(self._claim.run_id, watched.lapsed(self.control))
            if holder is None or holder.run_id == self._claim.run_id:
                break
            self._write(None)
            if runtime.monotonic() > deadline:
                raise ClusterError(
                    f"pipeline {self._ledger.pipeline} is being shipped by another run right "
                    f"now: run {holder.run_id} on host {holder.host}, process {holder.pid}, "
                    f"holds the lease in {self._ledger.topic}. This run waited "
                    f"{self._wait_seconds:g} s (`delivery.lease_wait`) and sent nothing. Let "
                    "the other run finish, or stop it, and run again.",
                    code="SHIP-508",
                )
            if holder.run_id != told or runtime.monotonic() >= next_word:
                told, next_word = holder.run_id, runtime.monotonic() + _WORD_EVERY_SECONDS
                self._say(
                    f"waiting for run {holder.run_id} on {holder.host} (process {holder.pid}), "
                    f"which holds the lease; {deadline - runtime.monotonic():.0f} s more at most "
                    "(`delivery.lease_wait`)"
                )
            runtime.sleep(min(2.0, holder.seconds / 3))
        self._keeper.start()
        return self

    def held(self) -> EncodedRecord:
        """Return the record that confirms the claim, for readers of the ledger; it is written with
        the run's next records."""
        return self._encoded(replace(self._claim, held=True))

    def end(self) -> None:
        """Renew the lease no more: nothing will be sent. Leaving the ``with`` block then waits for
        one answer less."""
        self._stop.set()

    def __exit__(self, *_: object) -> None:
        self.end()
        try:
            # The lease is the run's, not the attempt's: a later attempt that has taken over holds
            # it under the same key.
            if not self._lost.result():
                self._write(None)
        except ShipperError as late:
            log.warning(
                "the lease could not be released and will lapse in %g s: %s",
                self._claim.seconds,
                late,
            )
        except Exception:  # the ship is over, and its end is not this one's to change
            log.warning(
                "the lease could not be released and will lapse in %g s",
                self._claim.seconds,
                exc_info=True,
            )

    def _taken_over(self) -> bool:
        return (
            self.generation is not None
            and self._ledger.look(CONTROL_NOW).generation > self.generation
        )

    def _encoded(self, lease: Lease) -> EncodedRecord:
        return encode_lease(self._ledger.pipeline, lease)

    def _write(self, lease: Lease | None) -> None:
        record = self._encoded(lease or self._claim)
        self._ledger.write_control([record if lease else record._replace(value=None)])

    def _keep(self) -> None:
        self._renew()
        try:
            self._lost.set_result(self._taken_over())
        except Exception as error:
            self._lost.set_exception(error)

    def _renew(self) -> None:
        """Renew the lease until stopped. Every error is retried: if the keeper ended, the lease
        would lapse, and nobody would hear of a later run."""
        refused_at, pause = 0.0, self._claim.seconds / 3
        while not self._stop.wait(pause):
            try:
                if self._taken_over():
                    self.superseded.set()
                    return
                self._write(replace(self._claim, held=True))
                refused_at, pause = 0.0, self._claim.seconds / 3
            except ClusterRefuses as error:
                log.warning("the lease could not be renewed: %s", error)
                refused_at, pause = (
                    refused_at or runtime.monotonic(),
                    min(pause, _ASK_AGAIN_SECONDS),
                )
                if runtime.monotonic() > refused_at + GRANT_SECONDS:
                    self.refused = error
                    self.superseded.set()
                    return
            except ShipperError as error:
                # A lease is only politeness: without it another run may start, and then fences this
                # one.
                log.warning("the lease could not be renewed: %s", error)
            except Exception:
                log.warning("the lease could not be renewed", exc_info=True)
