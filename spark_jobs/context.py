"""One run as its steps see it."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shipper.config import load_cluster, resolve_uri
from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.driver.connections import Connections
from shipper.driver.files import split_starts
from shipper.errors import ConfigError
from shipper.ledger.snapshot import LedgerFolder
from shipper.report.phases import Phases
from shipper.report.plan_result import PlannedFile
from shipper.report.run_folder import RunFolder
from shipper.terminal import visible
from shipper.types import FileId
from shipper.windows.window import Window
from spark_jobs.hadoop import Hadoop
from spark_jobs.java import end_java
from spark_jobs.settings import set_environment, spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK_STOPS_WITHIN_SECONDS = 4.0
_MUCH_BYTES = 1 << 30
"""Above it another JVM pays, which optimises what it runs (docs/adr/0014): 240 MB cost 25 CPU s without and 32 with it."""


class Clusters(Mapping[str, Cluster]):
    """The clusters of a pipeline. One whose file is wrong, or refers to a secret that is not there, raises ConfigError when it is asked
    for: the others must not suffer."""

    def __init__(self, config_dir: Path, names: Sequence[str]) -> None:
        self._found: dict[str, Cluster | ConfigError] = {}
        for name in names:
            try:
                self._found[name] = load_cluster(config_dir, name)
            except ConfigError as error:
                self._found[name] = error

    def __getitem__(self, name: str) -> Cluster:
        found = self._found[name]
        if isinstance(found, ConfigError):
            raise found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


@dataclass
class RunContext:
    """The pipeline with its clusters, the window, and the folder of the run."""

    pipeline: Pipeline
    clusters: Mapping[str, Cluster]
    config_dir: Path
    window: Window
    folder: RunFolder
    reship: bool = False
    reship_id: str = ""
    reship_reason: str = ""
    new_ledger: bool = False
    """A person has given up a ledger that is gone, or was made anew."""
    source_only: bool = False
    """Whether the plan asks no cluster: every file of the window is then left to ship, as far as anyone knows."""
    scheduled: bool = False
    """Whether it is a run of the schedule, which looks back."""
    trial: bool = False
    """Whether the results go elsewhere than the pipeline's own, and nothing is to be remembered."""
    brief: bool = False
    """Whether the words at the end are left to the process that started this one."""
    has_gate: bool = False
    """Whether a gate is among the steps that this process runs."""
    bytes_to_read: int = 0
    """What is left to ship, unpacked, as far as the plan knows once it is made."""
    ships: bool = False
    """Whether a ship is among the steps that this process runs."""
    phases: Phases = field(default_factory=Phases, repr=False)
    """Of the step that is being run."""
    _spark: SparkSession | None = field(default=None, repr=False)
    _started: bool = field(default=False, repr=False)
    """Whether that session is this context's, and ends with it."""
    _begun: threading.Thread | None = field(default=None, repr=False)
    _stopping: threading.Thread | None = field(default=None, repr=False)
    _connections: dict[str, Connections] = field(default_factory=dict, repr=False)

    @cached_property
    def hadoop(self) -> Hadoop:
        """For whatever is asked about files; it needs no Spark."""
        if self._begun is not None:
            self._begun.join()  # there is to be one JVM
        if self._spark is not None:
            return Hadoop.of(self._spark)
        set_environment(self.pipeline)
        with self.phases("starting Java"):
            return Hadoop.start(spark_settings(self.pipeline))

    @property
    def spark(self) -> SparkSession:
        """Started on first use, in the JVM that is there: a step that finds nothing to do never pays for it."""
        if self._spark is None:
            with self.phases("starting Spark"):
                if self._begun is not None:
                    self._begun.join()
                if self._spark is None:
                    self._start_spark()
        assert self._spark is not None
        return self._spark

    def _start_spark(self) -> None:
        if self.has_gate:
            # Great Expectations takes seconds to import, and so does Java to start, in another process. What is wrong with the
            # import is said where the gate imports it.
            threading.Thread(target=_import_gates, name="import gates").start()
        from spark_jobs.session import session

        self._spark, self._started = session(self.pipeline, much_work=self.bytes_to_read > _MUCH_BYTES), True
        if self.ships:
            from spark_jobs.sink import start_workers

            threading.Thread(
                target=start_workers, args=(self._spark, self.pipeline.tasks), name="start workers", daemon=True
            ).start()
        self.__dict__.pop("hadoop", None)  # it may have been of another JVM

    def abandon_spark(self) -> None:
        """Ends Spark and all that it runs, whatever the main thread was in the middle of: a call into the JVM that was interrupted leaves
        its connection in the middle of an answer, so another thread asks, on one of its own."""
        spark, self._spark = self._spark, None
        if spark is None:
            end_java()
        else:
            from spark_jobs.session import end_session

            end_session(spark, _SPARK_STOPS_WITHIN_SECONDS)

    def begin_spark(self) -> None:
        """In a thread, for a step that will most likely need it and has something else to wait for. What is wrong with it is said when it is
        needed."""
        if self._spark is None and self._begun is None:
            self._begun = threading.Thread(target=self._try_to_start, name="start Spark", daemon=True)
            self._begun.start()

    def _try_to_start(self) -> None:
        with contextlib.suppress(Exception):
            self._start_spark()

    def begin_to_stop_spark(self) -> None:
        """In a thread, when no step needs it any more: it takes most of a second."""
        if self._spark is not None and self._started:
            spark, self._spark = self._spark, None
            self._stopping = threading.Thread(target=spark.stop, name="stop Spark", daemon=True)
            self._stopping.start()

    def stop_spark(self) -> None:
        self.begin_to_stop_spark()
        if self._stopping is not None:
            self._stopping.join()

    @property
    def runs_uri(self) -> str:
        """The pipeline's own, wherever this run's results go: `shipper plan` and `gates` leave them in a temporary folder."""
        return resolve_uri(self.config_dir, self.pipeline.runs_uri)

    def connections(self, cluster: str) -> Connections:
        """Raises ConfigError, ClusterError."""
        if cluster not in self._connections:
            self._connections[cluster] = Connections(self.clusters[cluster], self.pipeline)
        return self._connections[cluster]

    def ledger_folder(self, cluster: str) -> LedgerFolder:
        return LedgerFolder(self.runs_uri, self.pipeline.name, cluster)

    def common(self, step: str) -> dict[str, Any]:
        """The fields that every step result begins with."""
        return {
            "step": step,
            "pipeline": self.pipeline.name,
            "window_start": self.window.start,
            "window_end": self.window.end,
            "run_id": self.folder.run_id,
        }

    def splits_of(self, files: Iterable[PlannedFile]) -> dict[FileId, range]:
        return {file_id(file): self.split_starts(file_id(file)) for file in files}

    def split_starts(self, file: FileId) -> range:
        return split_starts(file.path, file.size_bytes, self.pipeline.split_size_bytes)


def _import_gates() -> None:
    with contextlib.suppress(Exception):
        import_module("spark_jobs.gates.suite")


def file_id(file: PlannedFile) -> FileId:
    return FileId(file.path, file.size_bytes, file.modified_ms)


def say(text: str) -> None:
    """Progress, for people and for Airflow's task log. Standard output belongs to `--json`."""
    with contextlib.suppress(OSError):  # nobody listens any more; what is under way is not the worse for it
        print(visible(text, keep="\n"), file=sys.stderr, flush=True)
