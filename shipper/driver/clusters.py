"""The clusters of a pipeline, as their files have them. It imports little, since Java is started
once they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shipper.config.cluster import Cluster
from shipper.config.load import load_cluster
from shipper.errors import ConfigError


class Clusters(Mapping[str, Cluster]):
    """Clusters by name. A cluster with a wrong file, or with a reference to a missing secret,
    raises ConfigError when it is first used, so that other clusters are not affected."""

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
