"""Every error that shipper raises on purpose.

::

    ShipperError                    exit code 1: the run failed or a gate is closed
    ├── UsageError                  exit code 2: wrong configuration or arguments; nothing was tried
    │   ├── ConfigError             one or more faults in YAML files, all of them at once
    │   └── WindowError             a window that is empty, inverted or unreadable
    ├── SourceError                 a file that is missing, unreadable or not what the plan saw
    │   └── SourceUnreachable       files that a later attempt may list or read: out of reach now, or replaced since the plan
    ├── ClusterError                a cluster, topic or ledger that cannot be used as it is
    │   ├── ClusterRefuses          what waiting does not change: credentials, ACLs, a limit of the broker's
    │   ├── WrongProperties         a cluster's properties with which no client can be made
    │   ├── TopicMissing            a topic that is not there (yet)
    │   ├── TopicRecreated          a topic that was deleted, or deleted and created anew, and does not hold what the ledger says
    │   ├── NoSuchPartition         a partition that a topic does not have, and `delivery.partitions` names
    │   ├── ArchiveMissing          the archived part of a ledger is not where it was put, or damaged
    │   ├── LedgerDamaged           a record in a ledger that shipper did not write, or that cannot be right
    │   ├── LedgerOutdated          a ledger of a development version before format 1
    │   └── LedgerGone              a ledger that is not there any more, or was made anew
    ├── LeaseHeld                   another run of the same pipeline ships to the cluster right now
    ├── Superseded                  a later run took over; this one must not send another byte
    ├── DigestChanged               a file was shipped in part under another transform
    ├── DeliveryError               records that were certainly not delivered
    │   ├── WaitedInVain            no answer for as long as `delivery.metadata_wait` allows: a task's next attempt would only wait once more
    │   ├── RecordTooLarge          a record that the topic does not take
    │   └── RecordUnshippable       a record that cannot be parsed or has no topic, and no quarantine to go to
    ├── TooManyQuarantined          more records went to quarantine than the pipeline allows
    ├── OutcomeUnknown              a transaction whose end nobody knows yet; the ledger will
    ├── SparkUnavailable            a Spark cluster that cannot be used: nobody listens at `runner.master`, or no `runner.archive`
    ├── JarsUnavailable             jars that could not be fetched, or did not arrive whole
    └── StepResultError             a step's result is missing, stale or unreadable

All of them survive pickling, since they cross from Spark's workers to the driver.
"""  # noqa: E501

from __future__ import annotations

import errno
import getpass
import os


class ShipperError(Exception):
    """Root. ``message`` says what happened, to which pipeline, file or topic, and what to do."""

    exit_code = 1
    #: True when trying the same thing again later, unchanged, may work.
    retriable = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UsageError(ShipperError):
    exit_code = 2


class ConfigError(UsageError):
    pass


class WindowError(UsageError):
    pass


class SourceError(ShipperError):
    pass


class SourceUnreachable(SourceError):
    retriable = True


class ClusterError(ShipperError):
    retriable = True


class ClusterRefuses(ClusterError):
    retriable = False


class WrongProperties(ClusterError):
    retriable = False


class TopicMissing(ClusterError):
    pass


class TopicRecreated(ClusterError):
    retriable = False


class NoSuchPartition(ClusterError):
    retriable = False


class ArchiveMissing(ClusterError):
    retriable = False


class LedgerDamaged(ClusterError):
    retriable = False
    pipeline: str
    partition: int | None
    """None where the key does not tell, and who read it does not say."""
    offset: int
    why: str

    @classmethod
    def at(
        cls,
        pipeline: str,
        partition: int | None,
        offset: int,
        why: str,
        *,
        cluster: str = "",
        topic: str = "",
    ) -> LedgerDamaged:
        """``why`` quotes nothing of the record but names of fields."""
        where = f"{'?' if partition is None else partition}:{offset}"
        ledger = (
            f"cluster {cluster}: topic {topic}, the ledger of {pipeline},"
            if cluster
            else f"the ledger of {pipeline}"
        )
        error = cls(
            f"{ledger} has a record that is not shipper's or cannot be right, at partition:offset "
            f"{where}: {why}. Nothing was sent on its word. Find out who writes to the topic; "
            f"`shipper ledger verify {pipeline}` lists all such records, and `shipper ledger "
            f"repair {pipeline} {cluster or 'CLUSTER'} --record {where}` mends one."
        )
        error.pipeline, error.partition, error.offset, error.why = pipeline, partition, offset, why
        return error


class LedgerOutdated(ClusterError):
    retriable = False
    pipeline: str

    @classmethod
    def of(cls, pipeline: str, *, cluster: str = "", topic: str = "") -> LedgerOutdated:
        ledger = (
            f"cluster {cluster}: topic {topic}, the ledger of {pipeline},"
            if cluster
            else f"the ledger of {pipeline}"
        )
        error = cls(
            f"{ledger} was written by a development version of shipper, before ledger format 1. "
            "This version cannot read what was shipped, so nothing was sent. Ship the open "
            "windows to their end with the version that wrote the ledger. Then name a new topic "
            "in `ledger.topic` of the cluster's file, and run once with --new-ledger: this "
            "version ships every file of every window that is run from then on, so begin behind "
            "the last window that the earlier version shipped (`schedule.start`)."
        )
        error.pipeline = pipeline
        return error


class LedgerGone(ClusterError):
    retriable = False


class LeaseHeld(ShipperError):
    retriable = True


class Superseded(ShipperError):
    pass


class DigestChanged(ShipperError):
    pass


class DeliveryError(ShipperError):
    retriable = True


class WaitedInVain(DeliveryError):
    pass


class RecordTooLarge(DeliveryError):
    retriable = False


class RecordUnshippable(DeliveryError):
    retriable = False


class TooManyQuarantined(ShipperError):
    pass


class OutcomeUnknown(ShipperError):
    retriable = True


class SparkUnavailable(ShipperError):
    retriable = True


class JarsUnavailable(ShipperError):
    retriable = True


class StepResultError(ShipperError):
    pass


def of_kind(kind: str | None, message: str) -> ShipperError:
    """The error of that class name, for one that comes back as data; a DeliveryError if there is no
    such class."""
    return _kinds(ShipperError).get(kind or "", DeliveryError)(message)


def _kinds(root: type[ShipperError]) -> dict[str, type[ShipperError]]:
    found = {root.__name__: root}
    for below in root.__subclasses__():
        found |= _kinds(below)
    return found


_ERRNO = {
    errno.ENOSPC: "the disk is full: make room, and run again",
    errno.EDQUOT: "the quota of the disk is used up: make room, and run again",
    errno.EROFS: (
        "the file system is mounted read-only: name another folder, or mount it for writing"
    ),
    errno.EACCES: "user {user} has no permission there: grant it, or name another folder",
    errno.EPERM: "user {user} has no permission there: grant it, or name another folder",
    errno.ENOENT: "it is not there",
    errno.EMFILE: "this process may open no more files: raise the limit (`ulimit -n`)",
    errno.ENFILE: "this machine may open no more files: raise the limit",
    errno.ECONNREFUSED: "nobody answers at that address and port: is the service up?",
}


def why_system(error: OSError) -> str:
    """What the system refused, with the file if it names one, and what to do. The text is the
    system's, never a log line."""
    if error.errno is None:
        return str(error) or type(error).__name__
    what = _ERRNO.get(error.errno) or os.strerror(error.errno)
    where = f"{error.filename}: " if isinstance(error.filename, str) else ""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = str(os.getuid())
    return where + what.replace("{user}", user)
