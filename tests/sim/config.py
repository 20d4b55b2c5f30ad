"""The pipeline and the clusters of a history, and what an engineer changes of them between runs."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, replace

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from tests.sim.source import ROOT, SPLIT_BYTES

TOPICS = ("logs.a", "logs.b")


@dataclass(frozen=True)
class Config:
    """What may change from one run to the next."""

    guarantee: str = "exactly_once"
    chunk_size: str = "10kB"

    def changed(self, chance: random.Random) -> Config:
        field = chance.choice(sorted(_VALUES))
        return replace(self, **{field: chance.choice(_VALUES[field])})


_VALUES = {
    "guarantee": ("exactly_once", "at_least_once", "prefer_exactly_once"),
    "chunk_size": ("5kB", "10kB", "40kB"),
}

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
    by_time = {"window_by": "modified", "lookback": "15m"} if scheduled else {}
    return Pipeline.model_validate(
        {
            "pipeline": "sim",
            "source": {
                "path": root,
                "split_size": f"{SPLIT_BYTES}B",
                "settle": "0s",
                "on_replaced": on_replaced,
                "when_empty": "succeed",
                **by_time,
            },
            **({"schedule": "*/5 * * * *"} if scheduled else {}),
            "routes": [{"topic": TOPICS[0], "when": "value LIKE 'a%'"}, {"topic": TOPICS[1]}],
            "clusters": list(clusters),
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
    return Cluster.model_validate({"cluster": name, "bootstrap": f"{name}:9092"})
