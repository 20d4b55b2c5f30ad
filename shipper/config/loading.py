"""From ``config/`` to models: every file read, checked and cross-checked, all faults of all files at once.

Imports the standard library, ruamel.yaml and pydantic only and touches nothing but the files and the environment, since
Airflow does this each time it parses the DAG file. Nothing is cached: what is returned is what the files say now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from shipper.config.checks import ConditionCheck, MatchesCheck
from shipper.config.environment import Kind, Reference
from shipper.config.faults import ConfigFault, dotted
from shipper.config.folder import Entry, Folder, M, in_order, missing_folder, show
from shipper.config.models import Cluster, Pipeline
from shipper.config.notifiers import why_missing
from shipper.config.platform import NAME, Platform, PlatformFile, read_platform
from shipper.config.rules import check_topic, suggestion
from shipper.config.slow_regex import slow
from shipper.config.sql_patterns import patterns_in
from shipper.config.yaml_file import KeyPath, Problem, read_yaml
from shipper.errors import ConfigError

_SHORTHANDS = {"routes[0].topic": "topic", "source.path": "source", "schedule.cron": "schedule"}


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
    warnings: tuple[ConfigFault, ...] = ()
    """What is allowed and may be a mistake all the same."""


def load_pipeline(config_dir: Path, name: str, leave: Collection[Kind] = ()) -> Pipeline:
    """The pipeline in ``pipelines/NAME.yaml``. Raises ConfigError with all faults of the file.

    The clusters that it names must have files; what is in those, :func:`load_cluster` checks. ``leave``: kinds of references that
    need not be known yet, see :mod:`shipper.config.environment`.
    """
    entry = _pipelines(config_dir, leave).one(name)
    clusters = _clusters(config_dir)
    return _right(entry, (*_cluster_faults(entry, clusters, {}), *_ledger_faults(entry, _ledgers(clusters, entry))))


def load_pipeline_alone(config_dir: Path, name: str, leave: Collection[Kind] = ()) -> Pipeline:
    """As :func:`load_pipeline`, whatever there is of the clusters that it names, and whatever the platform allows. Raises ConfigError.

    For a copy of the files: a relative path would lie below what is allowed in the one place, and not in the other."""
    found = _platform(config_dir)
    unbound = replace(found, platform=found.platform.model_copy(update={"allow": None}))
    return _right(Folder(config_dir, "pipelines", "pipeline", Pipeline, leave, unbound).one(name))


def load_cluster(config_dir: Path, name: str, leave: Collection[Kind] = ()) -> Cluster:
    """The cluster in ``clusters/NAME.yaml``. Raises ConfigError with all faults of the file."""
    return _right(_clusters(config_dir, leave).one(name))


def references(config_dir: Path, pipeline: str) -> set[Reference]:
    """All that the pipeline's file and those of its clusters refer to, known or not. Never raises."""
    pipelines, clusters = _pipelines(config_dir), _clusters(config_dir)
    named = pipelines.file(pipeline).data.get("clusters")
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    return pipelines.references(pipeline).union(*(clusters.references(name) for name in names if name in clusters.stems()))


def load_all(config_dir: Path, leave: Collection[Kind] = ()) -> LoadedConfig:
    """Every pipeline and cluster. Never raises for what is wrong in a file: a broken one takes no other down."""
    if not config_dir.is_dir():
        return LoadedConfig({}, {}, (missing_folder(config_dir),), {})
    folder = _clusters(config_dir, leave)
    clusters = {stem: folder.read(stem) for stem in folder.stems()}
    faults = [fault for entry in clusters.values() for fault in entry.faults]
    faults += [fault for _, fault in folder.misnamed()]
    reasons = {stem: entry.faults[0] for stem, entry in clusters.items() if entry.faults}
    faults += _platform(config_dir).faults
    pipelines, broken = _read_pipelines(_pipelines(config_dir, leave), folder, reasons)
    if not pipelines and not broken:
        message = "no pipeline here; a pipeline is a file NAME.yaml in this folder"
        faults.append(ConfigFault(_pipelines(config_dir).shown, None, None, "", message))
    # A file with the wrong ending beside one with the right one breaks nothing, but is a fault nevertheless.
    faults += [fault for _, fault in _pipelines(config_dir).misnamed()]
    faults += [fault for entry in broken.values() for fault in entry]
    right = {stem: entry.model for stem, entry in clusters.items() if entry.model is not None}
    warnings = [
        ConfigFault.of(Problem(path, why), entry.file, entry.shown)
        for entry in clusters.values()
        if entry.model is not None
        for path, why in entry.model.warnings()
    ]
    return LoadedConfig(pipelines, right, in_order(faults), broken, in_order(warnings))


def missing_notifiers(config_dir: Path, loaded: LoadedConfig) -> list[ConfigFault]:
    """Warnings of notifiers whose class is not here; a warning, since it must be where Airflow is."""
    named = [
        (name, f"notify[{index}].notifier", why_missing(entry.notifier))
        for name, pipeline in loaded.pipelines.items()
        for index, entry in enumerate(pipeline.notify)
    ]
    return [locate(config_dir, name, field, why) for name, field, why in named if why]


def slow_patterns(config_dir: Path, loaded: LoadedConfig) -> list[ConfigFault]:
    """Warnings of regular expressions that a log line can make slow. For people only: it takes milliseconds for each."""
    return [
        locate(config_dir, name, field, why)
        for name, pipeline in loaded.pipelines.items()
        for field, pattern in dict.fromkeys(_patterns(pipeline))
        for why in slow(pattern)
    ]


def _patterns(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """(field, pattern) of each that stands in the pipeline, in its SQL too."""
    records = pipeline.records
    if records.parse and records.parse.regex:
        yield "records.parse.regex", records.parse.regex
    sql = {f"records.columns.{name}": text for name, text in records.columns.items()}
    sql |= {f"records.drop.{name}": text for name, text in records.drop.items()}
    sql |= {f"records.headers.{name}": text for name, text in records.headers.items()}
    sql |= {f"records.{name}": text for name in ("value", "key", "timestamp") if (text := getattr(records, name))}
    for index, route in enumerate(pipeline.routes):
        if route.matching:
            yield f"routes[{index}].matching", f"^(?:{route.matching})$"  # it is held against the whole name
        if route.when:
            sql[f"routes[{index}].when"] = route.when
    for index, check in enumerate(pipeline.gates.source):
        if isinstance(check, MatchesCheck):
            yield f"gates.source[{index}].regex", check.regex
        if isinstance(check, ConditionCheck):
            sql[f"gates.source[{index}].sql"] = check.sql
    for field, text in sql.items():
        yield from ((field, pattern) for pattern in patterns_in(text))


def _read_pipelines(
    folder: Folder[Pipeline], clusters: Folder[Cluster], reasons: Mapping[str, ConfigFault]
) -> tuple[dict[str, Pipeline], dict[str, tuple[ConfigFault, ...]]]:
    """What is right, and the faults of what is broken."""
    pipelines: dict[str, Pipeline] = {}
    broken: dict[str, tuple[ConfigFault, ...]] = {}
    ledgers: dict[str, str] = {}
    for stem in folder.stems():
        entry = folder.read(stem)
        ledgers |= _ledgers(clusters, entry, ledgers)
        faults = in_order((*entry.faults, *_cluster_faults(entry, clusters, reasons), *_ledger_faults(entry, ledgers)))
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
    file = folder.file(pipeline)
    paths = {dotted(path): path for path in file.paths()}
    written = field if field in paths else _SHORTHANDS.get(field, field)
    around = written
    while around and around not in paths:  # what is not in the file is shown at the section that it would be in
        around = around[: max(around.rfind("."), around.rfind("["), 0)]
    if file.origin(paths.get(around, ())):
        return ConfigFault.of(Problem(paths[around], message), file, folder.show(pipeline))
    return ConfigFault(folder.show(pipeline), *file.position(paths.get(around, ())), written, message)


def locate_property(config_dir: Path, cluster: str, message: str) -> ConfigFault:
    """What a Kafka client said of a cluster's properties, at the property that it names if it names one."""
    folder = _clusters(config_dir)
    file = read_yaml(folder.path(cluster))
    written = [path for path in file.paths() if len(path) == 2 and path[0] in ("properties", "unsafe_properties")]
    named = [path for path in written if str(path[1]) in message]
    path = max(named, key=lambda path: len(str(path[1])), default=written[0][:1] if written else ())
    return ConfigFault.of(Problem(path, message), file, folder.show(cluster))


def load_platform(config_dir: Path) -> Platform:
    """What ``shipper.yaml`` says; nothing if there is none. Raises ConfigError with all faults of the file."""
    found = _platform(config_dir)
    if found.faults:
        raise ConfigError("\n".join(str(fault) for fault in found.faults))
    return found.platform


def _platform(config_dir: Path) -> PlatformFile:
    return read_platform(config_dir, show(config_dir, config_dir / NAME))


def _pipelines(config_dir: Path, leave: Collection[Kind] = ()) -> Folder[Pipeline]:
    return Folder(config_dir, "pipelines", "pipeline", Pipeline, leave, _platform(config_dir))


def _clusters(config_dir: Path, leave: Collection[Kind] = ()) -> Folder[Cluster]:
    return Folder(config_dir, "clusters", "cluster", Cluster, leave)


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


def _ledgers(clusters: Folder[Cluster], entry: Entry[Pipeline], known: Collection[str] = ()) -> dict[str, str]:
    """Cluster → its `ledger.topic`, of those that the pipeline names and that give one; as written, since a cluster's secrets need not be
    there for that."""
    found = {}
    for name in entry.model.clusters if entry.model else ():
        path = clusters.path(name)
        if name not in known and path.is_file():
            ledger = read_yaml(path).data.get("ledger")
            topic = ledger.get("topic") if isinstance(ledger, dict) else None
            found[name] = topic if isinstance(topic, str) else ""
    return found


def _ledger_faults(entry: Entry[Pipeline], ledgers: Mapping[str, str]) -> Iterator[ConfigFault]:
    """Topics for records that are ledgers of one of the pipeline's clusters."""
    if entry.model is None:
        return
    named = [ledgers[cluster] for cluster in entry.model.clusters if ledgers.get(cluster)]
    places: list[tuple[KeyPath, str]] = [
        ((("routes", index, "topic") if "routes" in entry.file.data else ("topic",)), route.topic)
        for index, route in enumerate(entry.model.routes)
        if not route.columns
    ]
    places += [
        (("routes", i, "topics", j), topic) for i, route in enumerate(entry.model.routes) for j, topic in enumerate(route.topics)
    ]
    if entry.model.quarantine:
        places.append((("quarantine", "topic"), entry.model.quarantine.topic))
    for path, topic in places if named else ():
        try:
            check_topic(topic, *named)
        except ValueError as error:
            yield ConfigFault.of(Problem(path, str(error)), entry.file, entry.shown)
