"""One run as its steps see it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shipper.config.cluster import Cluster
from shipper.config.formats import UTF8
from shipper.config.pipeline import Pipeline
from shipper.config.rules import resolve_uri
from shipper.config.schedule import Schedule
from shipper.driver.connections import Connections
from shipper.driver.decide import Policy
from shipper.driver.dispositions import crosses_in_blocks
from shipper.driver.engine import Engine
from shipper.driver.files import split_starts
from shipper.ledger.log import LedgerLog
from shipper.ledger.snapshot import LedgerFolder
from shipper.ledger.writing import patience_of
from shipper.report.phases import Phases
from shipper.report.run_folder import RunFolder
from shipper.request import RunRequest
from shipper.types import FileId
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window


@dataclass
class RunContext:
    """The pipeline with its clusters, the window, the folder of the run, and what reads."""

    pipeline: Pipeline
    clusters: Mapping[str, Cluster]
    config_dir: Path
    window: Window
    folder: RunFolder
    engine: Engine
    request: RunRequest = field(default_factory=RunRequest)
    """Request for this run. ``pipeline`` and ``clusters`` are already those of such a run."""
    schedule: Schedule | None = None
    """The pipeline's, also of a replay, which runs by none."""
    ships: bool = False
    """True if a ship is among the steps that this process runs."""
    phases: Phases = field(default_factory=Phases, repr=False)
    """Phases of the step that is being run."""
    _connections: dict[str, Connections] = field(default_factory=dict, repr=False)

    @property
    def ticks(self) -> Ticks | None:
        """Ticks by which a window is cut; None for a pipeline without a schedule."""
        schedule = self.schedule or self.pipeline.schedule
        return Ticks(schedule) if schedule else None

    def start_spark(self) -> None:
        """Start Spark; a step that finds nothing to do does not call this."""
        with self.phases("starting Spark"):
            self.engine.start()

    def start_spark_for_sql(self) -> None:
        """Start Spark for SQL of the pipeline. Raises ConfigError for SQL that breaks promises."""
        self.start_spark()
        with self.phases("analysing SQL"):
            self.engine.refuse_unsafe_sql(self.config_dir)

    @property
    def is_trial(self) -> bool:
        """True if the results go elsewhere than the pipeline's own, and nothing is to be
        remembered."""
        return self.request.runs_uri is not None or self.request.plan_only

    @property
    def own_runs_uri(self) -> str:
        """The pipeline's, wherever this run's results go: `shipper plan` and `gates` leave them in
        a temporary folder."""
        return resolve_uri(self.config_dir, self.pipeline.runs_uri)

    def on(self, cluster: str) -> RunContext:
        """Return the context for work on one cluster. What the steps share stays shared."""
        return replace(self, pipeline=self.pipeline.on(cluster))

    def connections(self, cluster: str) -> Connections:
        """Return the cluster's connections. Raises ConfigError, ClusterError."""
        if cluster not in self._connections:
            self._connections[cluster] = Connections(
                self.clusters[cluster], self.pipeline.on(cluster)
            )
        return self._connections[cluster]

    def ledger(self, cluster: str, source_root: str | None) -> LedgerLog:
        """Return the ledger on the cluster; the context is that of the cluster (:meth:`on`).
        ``source_root``: where the plan found the source's files."""
        to, pipeline = self.connections(cluster), self.pipeline
        folder = LedgerFolder(self.own_runs_uri, pipeline.key, cluster)
        found = LedgerLog(
            to.client, to.cluster, pipeline.key, folder, patience=patience_of(pipeline)
        )
        found.lies_at(source_root, pipeline.source.formerly)
        return found

    def policy(
        self,
        digest: str,
        reship_below: int | None,
        reshipped: Collection[FileId],
        late: Collection[FileId],
    ) -> Policy:
        """Return the policy by which to decide about files on the context's cluster. The parameters
        are its fields."""
        source = self.pipeline.source
        return Policy(
            digest,
            None if crosses_in_blocks(self.pipeline) else self.engine.version,
            source.on_replaced,
            source.on_renamed,
            source.encoding == UTF8 and source.format in ("text", "jsonl", "csv"),
            reship_below,
            frozenset(reshipped),
            frozenset(late),
            self.pipeline.routes_to,
        )

    def common(self, step: str, started_at: dt.datetime | None = None) -> dict[str, Any]:
        """Return the fields with which every step result begins; with ``started_at``, also the
        times of a step that has ended at once. When it really ends it is written."""
        times = {"started_at": started_at, "finished_at": started_at} if started_at else {}
        return {
            "step": step,
            "pipeline": self.pipeline.name,
            "window_start": self.window.start,
            "window_end": self.window.end,
            "run_id": self.folder.run_id,
            "asked": self.request,
            **times,
        }

    def split_starts(self, file: FileId) -> range:
        return split_starts(file.path, file.size_bytes, self.pipeline.split_size_bytes)
