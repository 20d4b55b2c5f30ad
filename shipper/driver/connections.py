"""The connections of one process to one cluster, brought up before they are needed: a far cluster
takes a second or two for them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from shipper import runtime
from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.errors import ClusterError
from shipper.kafka.client import ClusterClient
from shipper.ledger.control import LaneCounts
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, CONTROL
from shipper.ledger.takeover import Fences, ids_of
from shipper.ledger.writing import lane_settings

_BATCH_BYTES = 1_000_000


class Connections:
    """Connections that all steps of a process share. A connection that was begun and is not used
    ends with the process; no step waits for it."""

    def __init__(self, cluster: Cluster, pipeline: Pipeline) -> None:
        """Prepare the connections, and open none. Raises ClusterError for settings that librdkafka
        does not take."""
        self.cluster = cluster
        self.client = ClusterClient(cluster)
        self._pipeline = pipeline
        self._topic = cluster.ledger_topic(pipeline.key)
        self._begun: dict[str, runtime.Thread] = {}
        self._fences: Fences | None = None

    def begin_reading(self) -> None:
        """Begin to connect for reading the ledger."""
        self._begin("reading", lambda: self._ledger().connect((CONTROL, CHUNKS), writes=False))

    def begin_measuring(self, topic: str) -> None:
        """Begin to measure the distance, with requests for a ``topic`` that exists."""
        self._begin("measuring", lambda: self.client.rtt_seconds(topic))

    def begin_writing(self, lanes: Mapping[str, LaneCounts]) -> None:
        """Begin to connect for writing the ledger; ``lanes``: those of earlier runs that will have
        to be fenced, as far as known."""
        self.begin_reading()
        self._begin("writing", lambda: self._ledger().connect((), writes=True))
        if self._fences is None:
            self._fences = Fences(
                lane_settings(self.cluster, self._pipeline, _BATCH_BYTES), self._topic
            )
            self._fences.connect(ids_of(self._pipeline.key, lanes))

    def take_fences(self) -> Fences | None:
        """Return the fences for one ship; None if none were begun."""
        fences, self._fences = self._fences, None
        return fences

    def wait(self) -> None:
        """Wait until the ledger can be read and written, or cannot: the read or write then raises
        the reason."""
        for begun in self._begun.values():
            begun.join()

    def _ledger(self) -> LedgerLog:
        return LedgerLog(self.client, self.cluster, self._pipeline.key)

    def _begin(self, what: str, do: Callable[[], object]) -> None:
        """Do it in a thread, once. Whoever needs what it is for meets its fault again."""
        if what not in self._begun:

            def run() -> None:
                with contextlib.suppress(ClusterError):
                    do()

            begun = runtime.Thread(target=run, name=f"connect for {what}", daemon=True)
            self._begun[what] = begun
            begun.start()
