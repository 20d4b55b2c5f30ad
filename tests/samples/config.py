"""The shortest configuration, of which a test says what matters to it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline


def pipeline_of(**more: Any) -> Pipeline:
    """Return the pipeline `web` to the cluster `c`, but for ``more``."""
    topic = {} if "routes" in more else {"topic": "t"}
    shortest = {"pipeline": "web", "source": "logs", "clusters": ["c"], **topic}
    return Pipeline.model_validate(shortest | more)


def cluster_of(name: str = "c", **more: Any) -> Cluster:
    """Return a cluster at whose address nobody answers."""
    return Cluster.model_validate({"cluster": name, "bootstrap": "127.0.0.1:1", **more})


def write_config(folder: Path, files: Mapping[str, str]) -> Path:
    """Write the files of a configuration, by their names without the ending; return ``folder``."""
    for kind in ("pipelines", "clusters"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder
