"""Errors that shipper raises on purpose.

::

    ShipperError                    exit code 1: the run failed or a gate is closed
    ├── UsageError                  exit code 2: wrong configuration or arguments; nothing was tried
    │   ├── ConfigError             one or more faults in YAML files, all of them at once
    │   └── WindowError             a window that is empty, inverted or unreadable
    ├── SourceError                 a file that is missing, unreadable, not what the plan saw, or shipped in part under another transform
    │   └── SourceUnreachable       files that a later attempt may list or read: out of reach now, or replaced since the plan
    ├── ClusterError                a cluster, topic or ledger that cannot be used as it is, or that another run ships to right now
    │   ├── ClusterRefuses          what waiting does not change: properties with which no client can be made, credentials, ACLs, a limit of the broker's, a topic that was recreated
    │   ├── TopicMissing            a topic that is not there (yet)
    │   ├── LedgerDamaged           a record in a ledger that shipper did not write, or that cannot be right
    │   ├── LedgerOutdated          a ledger of a development version before format 1
    │   └── LedgerGone              a ledger, or its archive, that is not there any more, or was made anew
    ├── Superseded                  a later run took over; this one must not send another byte
    ├── DeliveryError               records that were certainly not delivered
    │   ├── DeliveryTimedOut        no answer for as long as `delivery.metadata_wait` allows: a task's next attempt would only wait once more
    │   └── RecordUnshippable       a record that cannot be parsed, has no topic or does not fit it, and no quarantine to go to
    ├── OutcomeUnknown              a transaction whose end nobody knows yet; the ledger will
    ├── SparkUnavailable            a Spark that cannot be used: nobody listens at `runner.master`, no `runner.archive`, or its JVM ended before it was of use
    ├── JavaUnavailable             no Java on this machine that Spark can run with
    ├── JarsUnavailable             jars that could not be fetched, or did not arrive whole
    └── StepResultError             a step's result is missing, stale or unreadable

All of them survive pickling, since they cross from Spark's workers to the driver.
"""  # noqa: E501

from __future__ import annotations

import errno
import getpass
import os

from shipper.error_codes import UNEXPECTED, code_of, with_code


class ShipperError(Exception):
    """Root. ``message`` says what happened, to which pipeline, file or topic, what that means for
    the data, and what to do; it ends with the code."""

    exit_code = 1
    retriable = False
    """True if trying the same step again later, unchanged, may work."""
    fails_again = False
    """True if every later run would fail likewise: the fault is one of these records, or of this
    cluster's settings. Of what is neither, a later run makes another plan."""
    code = UNEXPECTED
    """Heading in docs/reference/errors.md. An error whose remedy is not that of its class has
    another one."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        """Keep the code with which ``message`` ends, if any: that of an error that comes back from
        another process, or of the cause."""
        self.message = with_code(message, code or self.code)
        self.code = code_of(self.message) or self.code
        super().__init__(self.message)


class UsageError(ShipperError):
    code = "SHIP-101"
    exit_code = 2


class ConfigError(UsageError):
    code = "SHIP-201"


class WindowError(UsageError):
    code = "SHIP-221"


class SourceError(ShipperError):
    code = "SHIP-301"
    fails_again = True


class SourceUnreachable(SourceError):
    code = "SHIP-302"
    retriable = True
    fails_again = False


class ClusterError(ShipperError):
    code = "SHIP-401"
    retriable = True


class ClusterRefuses(ClusterError):
    code = "SHIP-402"
    retriable = False
    fails_again = True


class TopicMissing(ClusterError):
    code = "SHIP-403"


def _ledger(pipeline: str, cluster: str, topic: str) -> str:
    where = f"cluster {cluster}: topic {topic}, " if cluster else ""
    return f"{where}the ledger of {pipeline}{',' if cluster else ''}"


def repair_command(pipeline: str, cluster: str, place: str) -> str:
    """Return the command that repairs a record. ``place``: partition:offset."""
    return f"`shipper ledger repair {pipeline} --cluster {cluster} --record {place}`"


class LedgerDamaged(ClusterError):
    code = "SHIP-501"
    retriable = False
    fails_again = True
    pipeline: str
    partition: int | None
    """Partition; None if neither the key nor the reader tells it."""
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
        """Make the error for a place in the ledger. ``why`` quotes nothing of the record but names
        of fields."""
        where = f"{'?' if partition is None else partition}:{offset}"
        error = cls(
            f"{_ledger(pipeline, cluster, topic)} has a record that shipper did not write, or that "
            f"cannot be right, at partition:offset {where}: {why}. Nothing was sent. Find out who "
            f"writes to the topic. `shipper ledger verify {pipeline}` lists all such records, and "
            f"{repair_command(pipeline, cluster or 'CLUSTER', where)} repairs one."
        )
        error.pipeline, error.partition, error.offset, error.why = pipeline, partition, offset, why
        return error

    def in_ledger(self, cluster: str, topic: str) -> LedgerDamaged:
        """Return the same error with the names of the cluster and of the ledger's topic."""
        return LedgerDamaged.at(
            self.pipeline, self.partition, self.offset, self.why, cluster=cluster, topic=topic
        )


class LedgerOutdated(ClusterError):
    code = "SHIP-502"
    retriable = False
    fails_again = True
    pipeline: str

    @classmethod
    def of(cls, pipeline: str, *, cluster: str = "", topic: str = "") -> LedgerOutdated:
        error = cls(
            f"{_ledger(pipeline, cluster, topic)} was written by a development version of shipper, "
            "before ledger format 1. This version cannot read what was shipped, so nothing was "
            "sent. Finish the open windows with the version that wrote the ledger. Then name a new "
            "topic in `ledger.topic` of the cluster's file, and run once with --new-ledger. From "
            "then on, this version ships every file of every window that is run, so begin after "
            "the last window that the earlier version shipped (`schedule.start`)."
        )
        error.pipeline = pipeline
        return error


class LedgerGone(ClusterError):
    code = "SHIP-503"
    retriable = False
    fails_again = True

    @classmethod
    def meanwhile(cls, cluster: str, topic: str) -> LedgerGone:
        """Make the error for a ledger that was there when the run began. ``retriable``: the broker
        that does not know the topic may lag behind; the next attempt compares it with the one that
        is remembered."""
        error = cls(
            f"cluster {cluster}: the ledger topic {topic} does not exist any more: somebody "
            "deleted it, or took this user's right to see it, since the run began. Nothing more "
            "was sent. If the ledger is lost for good, run once with "
            "`--new-ledger`: every file of every window that is run from then on counts as not "
            "shipped."
        )
        error.retriable, error.fails_again = True, False
        return error

    @classmethod
    def began_anew(cls, cluster: str, topic: str, latest: int, generation: int) -> LedgerGone:
        """Make the error for a ledger with chunks of a later generation than the one that a run
        has just announced."""
        return cls(
            f"cluster {cluster}: the ledger topic {topic} holds chunks of generation {latest}, and "
            f"this run is generation {generation}. So {topic} is a copy of another topic, or its "
            "partition 0 has lost records. Nothing was sent: nobody could tell this run's records "
            "from those of earlier runs. Name a new topic in `ledger.topic`, and run once with "
            "`--new-ledger`: every file of every window that is run from then on counts as not "
            "shipped."
        )


class Superseded(ShipperError):
    code = "SHIP-509"


class DeliveryError(ShipperError):
    code = "SHIP-601"
    retriable = True


class DeliveryTimedOut(DeliveryError):
    code = "SHIP-602"


class RecordUnshippable(DeliveryError):
    code = "SHIP-604"
    retriable = False
    fails_again = True


class OutcomeUnknown(ShipperError):
    code = "SHIP-606"
    retriable = True


class SparkUnavailable(ShipperError):
    code = "SHIP-801"
    retriable = True


class JarsUnavailable(ShipperError):
    code = "SHIP-802"
    retriable = True


class JavaUnavailable(ShipperError):
    code = "SHIP-807"
    why: str

    @classmethod
    def because(cls, why: str, remedy: str) -> JavaUnavailable:
        error = cls(f"{why}. Nothing was started. {remedy[0].upper()}{remedy[1:]}.")
        error.why = why
        return error


class StepResultError(ShipperError):
    code = "SHIP-003"


def error_named(kind: str | None, message: str) -> ShipperError:
    """Return the error of that class name, for one that comes back as data; a DeliveryError if
    there is no such class."""
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
    errno.EACCES: "user {user} has no permission: grant it, or name another folder",
    errno.EPERM: "user {user} has no permission: grant it, or name another folder",
    errno.ENOENT: "no such file or folder",
    errno.EMFILE: "this process may open no more files: raise the limit (`ulimit -n`)",
    errno.ENFILE: "this machine may open no more files: raise the limit",
    errno.ECONNREFUSED: "nothing listens at that address and port: check that the service is up",
}


_NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)


def is_not_allowed(error: OSError) -> bool:
    """True if the same attempt fails again until a person grants a right or mounts for writing."""
    return error.errno in _NOT_ALLOWED


def why_system(error: Exception) -> str:
    """Return what the system refused, with the file if it names one, and what to do. The text is
    the system's, never a log line. Of what fsspec raises for a wrong address, its own text."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error) or type(error).__name__
    what = _ERRNO.get(error.errno) or os.strerror(error.errno)
    where = f"{error.filename}: " if isinstance(error.filename, str) else ""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = str(os.getuid())
    return where + what.replace("{user}", user)
