"""Identity of a pipeline's ledger topic on a cluster, beyond its name, as remembered beside the
runs.

A ledger that is gone, or is another topic under the old name, knows nothing: everything would count
as never shipped, and be sent again, while the data topics still hold it. So the first ship notes
which topic it found or made, in ``ledger.json`` in the ledger's folder, and every later plan or
ship compares. Without that file, a missing ledger is that of a new pipeline.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from shipper.errors import ClusterError, LedgerGone
from shipper.ledger.codec import encode_identity
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import Identity
from shipper.ledger.snapshot import Origin
from shipper.whole_files import StorageError, file_system, write_whole


@dataclass(frozen=True)
class Remembered:
    """The topic that was the ledger when the pipeline last shipped. Ids are empty if the brokers
    gave none."""

    topic: str
    cluster_id: str
    topic_id: str
    says: str
    """The run that wrote it down, and when."""


class LedgerIdentity:
    def __init__(self, ledger: LedgerLog, *, new_ledger: bool) -> None:
        """Make it for one ledger, which has a folder. ``new_ledger``: a person has given up the old
        one."""
        assert ledger.folder is not None
        self.ledger, self._new_ledger = ledger, new_ledger
        self._path = f"{ledger.folder.uri}/ledger.json"
        self._given_up: Remembered | None = None
        self._origin: Origin | None = None
        """Identity that the check read: a far cluster is not asked twice."""

    def check(self, exists: bool) -> None:
        """Compare the topic with the remembered one. ``exists``: True if the ledger's topic exists.
        Raises LedgerGone, ClusterError."""
        before = self._read(exists=exists)
        if before is None:
            return
        gone = self._why_gone(before, exists)
        if gone is None:
            return
        if self._new_ledger:
            self._given_up = before
            return
        ledger = self.ledger
        raise LedgerGone(
            f"cluster {ledger.cluster.name}: {gone}, and pipeline {ledger.pipeline} has shipped "
            f"before ({before.says}). Nothing was sent: without its ledger, shipper would send "
            "every file again. If the topic still exists, correct `ledger.topic` or `bootstrap`, "
            "or find out why this user cannot see it. If the ledger is lost for good, run once "
            "with `--new-ledger`: every file of every window that is run from then on counts as "
            "not shipped."
        )

    def confirm(self) -> None:
        """Compare once more, after the ledger was read for a decision: the topic may have been made
        anew since :meth:`check`, while the run waited for its lease. Raises as that does."""
        self._origin = None
        self.check(exists=True)

    def _why_gone(self, before: Remembered, exists: bool) -> str | None:
        topic = self.ledger.topic
        if not exists:
            return f"the ledger topic {topic} does not exist"
        if before.topic != topic:
            return f"the ledger was topic {before.topic}, and is {topic} now"
        if not before.topic_id:
            return None
        self._origin = origin = self.ledger.origin()
        if origin.topic_id and (origin.topic_id, origin.cluster_id) != (
            before.topic_id,
            before.cluster_id,
        ):
            what = (
                "was made anew"
                if origin.cluster_id == before.cluster_id
                else "is on another Kafka cluster"
            )
            return (
                f"the ledger topic {topic} {what} (id {origin.topic_id}, before: {before.topic_id})"
            )
        return None

    def remember(self, run_id: str, now: str) -> list[str]:
        """Remember the ledger's identity; to be called with the lease held, before anything is
        sent. Returns notes for people. Raises OSError, and as :meth:`check` does: another run may
        have remembered a ledger since then."""
        origin = self._origin or self.ledger.origin()
        says = f"run {run_id} at {now}"
        known = Remembered(origin.topic, origin.cluster_id, origin.topic_id, says)
        notes = []
        if self._given_up is not None:
            begun = Identity(
                run_id, now, f"{self._given_up.topic} {self._given_up.topic_id}".strip()
            )
            self.ledger.write_control([encode_identity(self.ledger.pipeline, begun)])
            notes = [
                f"A new ledger was begun (--new-ledger) instead of {begun.instead_of}: what the "
                "old one knew is forgotten."
            ]
        before = self._read(exists=True)
        if before is None or replace(before, says=says) != known:
            self.confirm()
            write_whole(self._path, json.dumps(asdict(known), indent=1), durable=True)
        return notes

    def _read(self, *, exists: bool) -> Remembered | None:
        """Return the remembered topic; None if there is none. Raises ClusterError.

        An empty or cut file counts as none if the topic holds a record. The file is written once
        the run's lease is in the topic, and before any data is sent. So a topic with a record is
        the one for which the file was begun. A topic that does not exist, or that never had a
        record, may have replaced the remembered one: only the lost text could tell.
        """
        fs, path = file_system(self._path)
        try:
            data = bytes(fs.cat_file(path))
            try:
                found = json.loads(data)
            except ValueError:
                if exists and self.ledger.was_written():
                    return None
                raise
            return Remembered(found["topic"], found["cluster_id"], found["topic_id"], found["says"])
        except FileNotFoundError:
            return None
        except StorageError as error:
            raise ClusterError(
                f"cluster {self.ledger.cluster.name}: {self._path} cannot be reached: {error}. "
                "Nothing was sent. Run again when the storage of `runs_uri` answers.",
                code="SHIP-005",
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ClusterError(
                f"cluster {self.ledger.cluster.name}: {self._path} cannot be read "
                f"({type(error).__name__}). This file holds the identity of the ledger of "
                f"{self.ledger.pipeline}. Nothing was sent. Restore the file from a backup. "
                f"Or remove the file, if the topic {self.ledger.topic} is still the same one.",
                code="SHIP-007",
            ) from error
