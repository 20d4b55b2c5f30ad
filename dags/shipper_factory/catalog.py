"""What there is to make DAGs of: the pipelines that can be read, and a note on each file that cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shipper.config import load_all, load_cluster, load_pipeline
from shipper.config.environment import EVERYTHING
from shipper.config.pipeline import Pipeline
from shipper.errors import ShipperError
from shipper_factory.last_good import LastGood

CONFIG_DAG_ID = "shipper_config"


@dataclass(frozen=True)
class Broken:
    """Something that cannot become a pipeline's DAG, and why: one message for each fault."""

    dag_id: str
    faults: tuple[str, ...]
    last_good: Pipeline | None = None
    """As it was when its file could last be read."""


def read_catalog(config_dir: Path, only: str | None = None) -> list[Pipeline | Broken]:
    """Never raises. With ``only``, a DAG's id, its pipeline alone is read if it can be. What secrets and other references stand for need
    not be known here: the steps know it."""
    if only is not None:
        try:
            pipeline = load_pipeline(config_dir, only, EVERYTHING)
            for cluster in pipeline.clusters:
                load_cluster(config_dir, cluster, EVERYTHING)
            return [pipeline]
        except Exception:  # whatever it is, reading everything shows it, as it did when the DAG was made
            return [entry for entry in read_catalog(config_dir) if dag_id_of(entry) == only]
    try:
        config = load_all(config_dir, EVERYTHING)
    except Exception as error:
        return [Broken(CONFIG_DAG_ID, (describe(error),))]
    if not config.pipelines and not config.broken:
        return [Broken(CONFIG_DAG_ID, tuple(map(str, config.faults)))]
    free, copies = _free_ids(set(config.pipelines)), LastGood(config_dir)
    for name in config.pipelines:
        copies.keep(name)
    return [
        *config.pipelines.values(),
        *(Broken(free(stem), tuple(map(str, found)), copies.find(stem)) for stem, found in config.broken.items()),
    ]


def dag_id_of(entry: Pipeline | Broken) -> str:
    return entry.dag_id if isinstance(entry, Broken) else entry.name


def describe(error: Exception) -> str:
    return str(error) if isinstance(error, ShipperError) else f"{type(error).__name__}: {error}"


def _free_ids(taken: set[str]) -> Callable[[str], str]:
    """File stem → a legal DAG id that nothing else has: that of its pipeline, when the file was right."""

    def free(stem: str) -> str:
        dag_id = re.sub(r"[^\w.-]", "_", stem, flags=re.ASCII)[:200] or CONFIG_DAG_ID
        while dag_id in taken:
            dag_id += "_broken"
        taken.add(dag_id)
        return dag_id

    return free
