"""Access of commands to a ledger, and their options for moments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shipper import runtime
from shipper.cli.console import err
from shipper.cli.named import check_clusters
from shipper.config.cluster import Cluster
from shipper.config.load import load_cluster
from shipper.config.pipeline import Pipeline
from shipper.config.rules import resolve_uri
from shipper.config.units import parse_duration
from shipper.driver.files import split_starts
from shipper.errors import ClusterError, UsageError, WindowError
from shipper.kafka.client import ClusterClient
from shipper.ledger.fold import LedgerRecords
from shipper.ledger.identity import LedgerIdentity
from shipper.ledger.log import LedgerLog, ask_files
from shipper.ledger.snapshot import LedgerFolder
from shipper.ledger.writing import patience_of
from shipper.report.replays import load_named
from shipper.types import FileId
from shipper.windows.window import parse_moment


@dataclass
class OpenLedger:
    """Ledger of one pipeline on one cluster, with the connection that reads it."""

    pipeline: Pipeline
    cluster: Cluster
    client: ClusterClient
    log: LedgerLog

    def read(self, *, wait_seconds: float | None = None) -> LedgerRecords:
        return self.log.look(ask_files(), wait_seconds)

    def check_identity(self, *, exists: bool = True) -> None:
        """Raise LedgerGone if this is not the ledger with which the pipeline has shipped, since
        earlier deliveries are missing in it. ``exists``: True if there is such a topic."""
        LedgerIdentity(self.log, new_ledger=False).check(exists)

    def split_starts(self, file: FileId) -> range:
        return split_starts(file.path, file.size_bytes, self.pipeline.split_size_bytes)


def of_each_ledger(
    config: Path, name: str, cluster_name: str | None, do: Callable[[OpenLedger], object]
) -> None:
    """Do it with each ledger of a pipeline or replay. One that cannot be had, or not be read, hides
    no other. Raises UsageError, ConfigError; and at the end the first ClusterError, such as
    LedgerGone, once the others are told."""
    pipeline = load_named(config, name)
    check_clusters(pipeline, [cluster_name] if cluster_name else [])
    failed = list[ClusterError]()
    for chosen in (cluster_name,) if cluster_name else pipeline.clusters:
        try:
            do(_opened(config, pipeline, chosen))
        except ClusterError as error:
            failed.append(error)
    for other in failed[1:]:
        err.say(other.message, "red")
    if failed:
        raise failed[0]


def open_ledgers(config: Path, name: str, cluster_name: str | None) -> list[OpenLedger]:
    """Open all ledgers. Raises what :func:`of_each_ledger` does."""
    found = list[OpenLedger]()
    of_each_ledger(config, name, cluster_name, found.append)
    return found


def open_one(config: Path, name: str, cluster_name: str | None) -> OpenLedger:
    """Open the ledger on a cluster, or the only one. Raises UsageError, ConfigError, ClusterError,
    and LedgerGone for one that does not exist any more."""
    pipeline = load_named(config, name)
    if cluster_name is None and len(pipeline.clusters) > 1:
        raise UsageError(
            f"pipeline {name} ships to {', '.join(pipeline.clusters)}. Choose one with --cluster.",
            code="SHIP-108",
        )
    check_clusters(pipeline, [cluster_name] if cluster_name else [])
    return _opened(config, pipeline, cluster_name or pipeline.clusters[0])


def _opened(config: Path, pipeline: Pipeline, name: str) -> OpenLedger:
    cluster = load_cluster(config, name)
    client = ClusterClient(cluster)
    folder = LedgerFolder(resolve_uri(config, pipeline.runs_uri), pipeline.key, name)
    log = LedgerLog(client, cluster, pipeline.key, folder, patience=patience_of(pipeline))
    log.lies_at(None, pipeline.source.formerly)
    ledger = OpenLedger(pipeline, cluster, client, log)
    if not log.exists():
        ledger.check_identity(exists=False)
        raise ClusterError(
            f"cluster {name}: the ledger topic {log.topic} of pipeline {pipeline.name} does "
            "not exist. Either nothing was ever shipped, or this user may not see the topic.",
            code="SHIP-506",
        )
    return ledger


def open_to_change(config: Path, name: str, cluster_name: str | None) -> OpenLedger:
    """Open a ledger for a command that decides by its contents. Raises LedgerGone, and as
    :func:`open_one` does."""
    found = open_one(config, name, cluster_name)
    found.check_identity()
    return found


def moment_text(timestamp_ms: int) -> str:
    """Return a record's time in UTC, to the second."""
    return f"{dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


def moment_or_age(text: str, option: str) -> dt.datetime:
    """Parse ``2026-08-01``, or ``90d`` ago. Raises UsageError, which names the option."""
    try:
        return runtime.now() - dt.timedelta(seconds=parse_duration(text))
    except ValueError:
        pass
    try:
        return parse_moment(text)
    except WindowError as error:
        raise UsageError(
            f"{option} {text} is neither a date (2026-08-01) nor an age (90d)."
        ) from error
