"""Every error that shipper raises on purpose.

::

    ShipperError                    exit code 1: the run failed or a gate is closed
    ├── UsageError                  exit code 2: wrong configuration or arguments; nothing was tried
    │   ├── ConfigError             one or more faults in YAML files, all of them at once
    │   └── WindowError             a window that is empty, inverted or unreadable
    ├── SourceError                 a file that is missing, unreadable or not what the plan saw
    ├── ClusterError                a cluster, topic or ledger that cannot be used as it is
    │   ├── TopicMissing            a topic that is not there (yet)
    │   └── ArchiveMissing          the archived part of a ledger is not where it was put, or damaged
    ├── LeaseHeld                   another run of the same pipeline ships to the cluster right now
    ├── Superseded                  a later run took over; this one must not send another byte
    ├── DigestChanged               a file was shipped before under another transform
    ├── DeliveryError               records that were certainly not delivered
    │   ├── RecordTooLarge          a record that the topic does not take
    │   └── RecordUnshippable       a record that cannot be parsed or has no topic, and no quarantine to go to
    ├── TooManyQuarantined          more records went to quarantine than the pipeline allows
    ├── OutcomeUnknown              a transaction whose end nobody knows yet; the ledger will
    ├── GateClosed                  a check with severity `block` did not hold
    └── StepResultError             a step's result is missing, stale or unreadable

All of them survive pickling, since they cross from Spark's workers to the driver.
"""

from __future__ import annotations


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


class ClusterError(ShipperError):
    retriable = True


class TopicMissing(ClusterError):
    pass


class ArchiveMissing(ClusterError):
    retriable = False


class LeaseHeld(ShipperError):
    retriable = True


class Superseded(ShipperError):
    pass


class DigestChanged(ShipperError):
    pass


class DeliveryError(ShipperError):
    retriable = True


class RecordTooLarge(DeliveryError):
    retriable = False


class RecordUnshippable(DeliveryError):
    retriable = False


class TooManyQuarantined(ShipperError):
    pass


class OutcomeUnknown(ShipperError):
    retriable = True


class GateClosed(ShipperError):
    pass


class StepResultError(ShipperError):
    pass
