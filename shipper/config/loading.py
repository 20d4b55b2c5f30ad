"""From ``config/`` to models: every file read, checked and cross-checked, all faults of all files at once.

Imports the standard library, ruamel.yaml and pydantic only and touches nothing but the files and the environment, since
Airflow does this each time it parses the DAG file. Nothing is cached: what is returned is what the files say now.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shipper.config.faults import ConfigFault, dotted
from shipper.config.folder import Entry, Folder, M, in_order, missing_folder
from shipper.config.models import Cluster, Pipeline
from shipper.config.rules import suggestion
from shipper.config.yaml_file import Problem, read_yaml
from shipper.errors import ConfigError

_SHORTHANDS = {"routes[0].topic": "topic", "source.path": "source", "schedule.cron": "schedule"}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True)
class LoadedConfig:
    """Everything below ``config/``, as far as it is right."""

    pipelines: dict[str, Pipeline]
    """Pipelines without a fault, by name. The clusters that they name are all in ``clusters``."""
    clusters: dict[str, Cluster]
    """Clusters without a fault, by name."""
    faults: tuple[ConfigFault, ...]
    """All that is wrong anywhere, in the order of files and lines."""
    broken: dict[str, tuple[ConfigFault, ...]]
    """Faults of each pipeline that has some, by its file's stem. A pipeline is broken too if a cluster that it names is."""


def load_pipeline(config_dir: Path, name: str) -> Pipeline:
    """The pipeline in ``pipelines/NAME.yaml``. Raises ConfigError with all faults of the file.

    The clusters that it names must have files; what is in those, :func:`load_cluster` checks.
    """
    entry = _pipelines(config_dir).one(name)
    return _right(entry, _cluster_faults(entry, _clusters(config_dir), {}))


def load_cluster(config_dir: Path, name: str) -> Cluster:
    """The cluster in ``clusters/NAME.yaml``. Raises ConfigError with all faults of the file."""
    return _right(_clusters(config_dir).one(name))


def load_all(config_dir: Path) -> LoadedConfig:
    """Every pipeline and cluster. Never raises for what is wrong in a file: a broken one takes no other down."""
    if not config_dir.is_dir():
        return LoadedConfig({}, {}, (missing_folder(config_dir),), {})
    folder = _clusters(config_dir)
    clusters = {stem: folder.read(stem) for stem in folder.stems()}
    faults = [fault for entry in clusters.values() for fault in entry.faults]
    faults += [fault for _, fault in folder.misnamed()]
    reasons = {stem: entry.faults[0] for stem, entry in clusters.items() if entry.faults}
    pipelines, broken = _read_pipelines(_pipelines(config_dir), folder, reasons)
    if not pipelines and not broken:
        message = "no pipeline here; a pipeline is a file NAME.yaml in this folder"
        faults.append(ConfigFault(_pipelines(config_dir).shown, None, None, "", message))
    # A file with the wrong ending beside one with the right one breaks nothing, but is a fault nevertheless.
    faults += [fault for _, fault in _pipelines(config_dir).misnamed()]
    faults += [fault for entry in broken.values() for fault in entry]
    right = {stem: entry.model for stem, entry in clusters.items() if entry.model is not None}
    return LoadedConfig(pipelines, right, in_order(faults), broken)


def _read_pipelines(
    folder: Folder[Pipeline], clusters: Folder[Cluster], reasons: Mapping[str, ConfigFault]
) -> tuple[dict[str, Pipeline], dict[str, tuple[ConfigFault, ...]]]:
    """What is right, and the faults of what is broken."""
    pipelines: dict[str, Pipeline] = {}
    broken: dict[str, tuple[ConfigFault, ...]] = {}
    for stem in folder.stems():
        entry = folder.read(stem)
        faults = in_order((*entry.faults, *_cluster_faults(entry, clusters, reasons)))
        if entry.model is not None and not faults:
            pipelines[stem] = entry.model
        else:
            broken[stem] = faults
    for stem, fault in folder.misnamed():
        if stem not in pipelines:
            broken[stem] = (*broken.get(stem, ()), fault)
    return pipelines, broken


def locate(config_dir: Path, pipeline: str, field: str, message: str) -> ConfigFault:
    """What somebody else found wrong with a pipeline, Spark with ``routes[1].when`` for instance, with file, line and column."""
    folder = _pipelines(config_dir)
    file = read_yaml(folder.path(pipeline))
    paths = {dotted(path): path for path in file.paths()}
    written = field if field in paths else _SHORTHANDS.get(field, field)
    around = written
    while around and around not in paths:  # what is not in the file is shown at the section that it would be in
        around = around[: max(around.rfind("."), around.rfind("["), 0)]
    return ConfigFault(folder.show(pipeline), *file.position(paths.get(around, ())), written, message)


def resolve_uri(config_dir: Path, uri: str) -> str:
    """A path that is neither absolute nor has a scheme lies below the folder above ``config_dir``; others stay as they are.

    Globs, placeholders and a ``/`` at the end survive. Symbolic links are not followed: a file's path is its identity.
    """
    if _SCHEME.match(uri) or uri.startswith("/"):
        return uri
    path = os.path.normpath(Path.cwd() / config_dir / ".." / uri)
    return path + "/" if uri.endswith("/") else path


def _pipelines(config_dir: Path) -> Folder[Pipeline]:
    return Folder(config_dir, "pipelines", "pipeline", Pipeline)


def _clusters(config_dir: Path) -> Folder[Cluster]:
    return Folder(config_dir, "clusters", "cluster", Cluster)


def _right(entry: Entry[M], more: Iterable[ConfigFault] = ()) -> M:
    faults = in_order((*entry.faults, *more))
    if entry.model is None or faults:
        raise ConfigError("\n".join(str(fault) for fault in faults))
    return entry.model


def _cluster_faults(entry: Entry[Pipeline], clusters: Folder[Cluster], reasons: Mapping[str, ConfigFault]) -> list[ConfigFault]:
    """Clusters that the pipeline names and that have no file, or, by ``reasons``, a broken one. Looks at what is in the
    file and not at the model, so that a fault elsewhere does not hide these."""
    names = entry.file.data.get("clusters")
    stems = clusters.stems()
    faults = []
    for index, name in enumerate(names if isinstance(names, list) else ()):
        if isinstance(name, str) and (name not in stems or name in reasons):
            unknown = f"no cluster {name!r}{suggestion(name, stems, 'there are') or clusters.none_here()}"
            message = f"cluster {name!r} is broken: {reasons[name]}" if name in reasons else unknown
            faults.append(ConfigFault.of(Problem(("clusters", index), message), entry.file, entry.shown))
    return faults
