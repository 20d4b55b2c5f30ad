"""The pipeline and the clusters of a history, and what an engineer changes of them between runs."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from tests.sim.source import ROOT, SPLIT_BYTES, topic_of

TOPICS = ("logs.a", "logs.b")
_RENAMED = "0"
#: Routes of every second line, and of the others, by a condition. The engine asks none.
_ROUTES = {
    "apart": ((TOPICS[0], "value LIKE 'a%'"), (TOPICS[1], None)),
    "apart by another condition": ((TOPICS[0], "value LIKE 'b%'"), (TOPICS[1], None)),
    "swapped": ((TOPICS[1], "value LIKE 'a%'"), (TOPICS[0], None)),
    "together": ((TOPICS[0], None),),
}


@dataclass(frozen=True)
class Config:
    """What may change from one run to the next."""

    guarantee: str = "exactly_once"
    chunk_size: str = "10kB"
    split_bytes: int = SPLIT_BYTES
    routes: str = "apart"
    names: int = 0
    """How often the pipeline was renamed."""
    renamed: tuple[str, ...] = ()
    """Clusters that were renamed, each as often as it was. They are called by their first names
    elsewhere."""
    without: str = ""
    """Cluster that the pipeline does not ship to for now."""
    lookback: str = "15m"
    settle: str = "0s"

    def cluster_name(self, cluster: str) -> str:
        return f"{cluster}{_RENAMED * self.renamed.count(cluster)}"

    def shipped_to(self, clusters: Sequence[str]) -> list[str]:
        """Return those of the clusters that the pipeline has, by their first names."""
        return [cluster for cluster in clusters if cluster != self.without]

    def topic_of(self, line: bytes) -> str:
        routes = _ROUTES[self.routes]
        return routes[topic_of(line) % len(routes)][0]

    def with_transform_of(self, other: Config) -> Config:
        return replace(self, split_bytes=other.split_bytes, routes=other.routes)

    def with_clusters_of(self, other: Config) -> Config:
        return replace(self, renamed=other.renamed, without=other.without)

    def changed(
        self,
        chance: random.Random,
        clusters: Sequence[str],
        *,
        scheduled: bool,
        known: bool,
        archiving: bool,
    ) -> Config:
        """Return it with a change or two, at random. ``known``: something is known of the pipeline,
        so that it needs its former name when it is renamed. ``archiving``: no cluster is renamed,
        since records are going to the folder under its name."""
        values = {
            **_VALUES,
            **(_OF_SCHEDULE if scheduled else {}),
            "names": (self.names + known,),
            "renamed": ((*self.renamed, *((chance.choice(clusters),) if not archiving else ())),),
            "without": ("", *clusters) if len(clusters) > 1 else ("",),
        }
        changes, fields = {}, chance.sample(sorted(values), chance.randint(1, 2))
        if chance.random() < 0.3:
            fields.append("routes")
        for field in fields:
            others = [value for value in values[field] if value != getattr(self, field)]
            changes[field] = chance.choice(others or values[field])
        return replace(self, **changes)


_VALUES = {
    "guarantee": ("exactly_once", "at_least_once", "prefer_exactly_once"),
    "chunk_size": ("5kB", "10kB", "40kB"),
    "split_bytes": (SPLIT_BYTES, 3 * SPLIT_BYTES // 2),
    "routes": tuple(_ROUTES),
}
_OF_SCHEDULE = {"lookback": ("0s", "5m", "15m"), "settle": ("0s", "30s", "2m")}

UNCHANGED = Config()


@functools.cache
def pipeline_of(
    tasks: int,
    lanes: int,
    clusters: tuple[str, ...],
    on_replaced: str = "continue",
    ordering: str = "none",
    root: str = ROOT,
    config: Config = UNCHANGED,
    *,
    scheduled: bool = False,
) -> Pipeline:
    names = [*(f"sim{number}" for number in range(config.names, 0, -1)), "sim"]
    by_time = {"window_by": "modified", "lookback": config.lookback} if scheduled else {}
    return Pipeline.model_validate(
        {
            "pipeline": names[0],
            "formerly": names[1:],
            "source": {
                "path": root,
                "split_size": f"{config.split_bytes}B",
                "settle": config.settle,
                "on_replaced": on_replaced,
                "when_empty": "succeed",
                **by_time,
            },
            **({"schedule": "*/5 * * * *"} if scheduled else {}),
            "routes": [
                {"topic": topic, **({"when": when} if when else {})}
                for topic, when in _ROUTES[config.routes]
            ],
            "clusters": [config.cluster_name(each) for each in config.shipped_to(clusters)],
            "delivery": {
                "guarantee": config.guarantee,
                "chunk_size": config.chunk_size,
                "batch_size": "5kB",
                "lanes": lanes,
                "ordering": ordering,
                "lease": "5s",
                "lease_wait": "40s",
                "metadata_wait": "30s",
                "transaction_timeout": "10s",
                "on_recreated": "resend",
            },
            "runner": {"cores": tasks},
            "runs_uri": "memory://runs",
        }
    )


@functools.cache
def cluster_of(name: str) -> Cluster:
    return Cluster.model_validate({"cluster": name, "bootstrap": f"{first_name(name)}:9092"})


def first_name(cluster: str) -> str:
    return cluster.rstrip(_RENAMED)
