"""Loader of ``config/``: every file is read, checked and cross-checked, and all faults of all files
are reported at once.

Imports the standard library, ruamel.yaml and pydantic only and touches nothing but the files and
the environment, since Airflow does this each time it parses the DAG file. Nothing is cached: what
is returned is what the files say now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from shipper.config.cluster import SECRET_ENDS, Cluster
from shipper.config.content_checks import ExpectationsCheck
from shipper.config.environment import (
    EVERYTHING,
    NOTHING,
    Reference,
    ReferenceKind,
    fill_in,
    references_in,
)
from shipper.config.explain import validated
from shipper.config.pipeline import Pipeline
from shipper.config.platform import NAME, Platform, PlatformFile, read_platform
from shipper.config.redact import unnamed_keys
from shipper.config.rules import Fault, Model, check_topic, suggestion
from shipper.config.s3 import SECRETS
from shipper.config.suites import read_suite, unknown_columns
from shipper.config.yaml_file import (
    BEGINNING,
    ConfigFault,
    KeyPath,
    YamlFile,
    dotted,
    in_order,
    read_yaml,
)
from shipper.error_codes import without_code
from shipper.errors import ConfigError

M = TypeVar("M", bound=Model)
_SHORTHANDS = {"routes[0].topic": "topic", "source.path": "source", "schedule.cron": "schedule"}
_ENDINGS = (".yaml", ".yml")
_NO_FOLDER = "SHIP-203"


@dataclass(frozen=True)
class LoadedConfig:
    """Contents of ``config/``, as far as they are right."""

    pipelines: dict[str, Pipeline]
    """Pipelines without a fault, by name. The clusters that they name are all in ``clusters``."""
    clusters: dict[str, Cluster]
    """Clusters without a fault, by name."""
    faults: tuple[ConfigFault, ...]
    """Faults of all files, each once, in the order of files and lines."""
    broken: dict[str, tuple[ConfigFault, ...]]
    """Faults of each pipeline that has some, by its file's stem. A pipeline is broken too if a
    cluster that it names is."""
    warnings: tuple[ConfigFault, ...] = ()
    """Warnings about settings that are allowed and may be mistakes."""


def load_pipeline(config_dir: Path, name: str, leave: Collection[ReferenceKind] = ()) -> Pipeline:
    """Load the pipeline in ``pipelines/NAME.yaml``. Raises ConfigError with all faults of the file.

    The clusters that it names must have files; :func:`load_cluster` checks their content.
    ``leave``: kinds of references whose values may be unknown for now, see
    :mod:`shipper.config.environment`.
    """
    folder = _pipelines(config_dir, leave)
    file = folder.one(name)
    return _right(file, _cross_faults(file, folder, _clusters(config_dir, EVERYTHING)))


def load_pipeline_alone(
    config_dir: Path, name: str, leave: Collection[ReferenceKind] = ()
) -> Pipeline:
    """Load a pipeline as :func:`load_pipeline` does, without checking its clusters' files and the
    platform's bounds. Raises ConfigError.

    For a copy of the files: a relative path would lie below an allowed folder in the one place, and
    not in the other.
    """
    found = _platform(config_dir)
    unbound = replace(found, platform=found.platform.model_copy(update={"allow": None}))
    return _right(Folder(config_dir, Pipeline, leave, unbound).one(name))


def load_cluster(config_dir: Path, name: str, leave: Collection[ReferenceKind] = ()) -> Cluster:
    """Load the cluster in ``clusters/NAME.yaml``. Raises ConfigError with all faults of the
    file."""
    return _right(_clusters(config_dir, leave).one(name))


def references(config_dir: Path, pipeline: str) -> set[Reference]:
    """Return all references of the pipeline's file and of its clusters' files, known or not. Never
    raises."""
    pipelines, clusters = _pipelines(config_dir), _clusters(config_dir)
    named = [name for _, name in _named_clusters(pipelines.file(pipeline))]
    return pipelines.references(pipeline).union(
        *(clusters.references(name) for name in named if name in clusters.stems())
    )


def hash_keys(config_dir: Path, pipeline: str) -> list[str]:
    """Return the references that name the keys of `records.redact`, as written, in the order of the
    rules. Never raises."""
    written = _pipelines(config_dir).file(pipeline).written
    keys = [place.text for path, place in written.items() if _is_hash_key(path)]
    return [key for key in keys if key is not None]


def load_all(config_dir: Path, leave: Collection[ReferenceKind] = ()) -> LoadedConfig:
    """Load every pipeline and cluster. Never raises for faults in a file: a broken file affects no
    other file."""
    if not config_dir.is_dir():
        return LoadedConfig({}, {}, (missing_folder(config_dir),), {})
    of_clusters, of_pipelines = _clusters(config_dir, leave), _pipelines(config_dir, leave)
    clusters = {stem: of_clusters.read(stem) for stem in of_clusters.stems()}
    pipelines: dict[str, Pipeline] = {}
    broken: dict[str, tuple[ConfigFault, ...]] = {}
    for stem in of_pipelines.stems():
        file = of_pipelines.read(stem)
        of_others = _cross_faults(file, of_pipelines, of_clusters, clusters)
        if found := in_order((*file.faults, *of_others)):
            broken[stem] = found
        elif file.model is not None:
            pipelines[stem] = file.model
    for stem, fault in of_pipelines.misnamed():
        if stem not in pipelines:
            broken[stem] = (*broken.get(stem, ()), fault)
    faults = [fault for read in clusters.values() for fault in read.faults]
    faults += [fault for found in broken.values() for fault in found if not fault.repeats]
    # A file with the wrong ending beside one with the right ending breaks nothing, but is a fault.
    for folder in (of_clusters, of_pipelines):
        faults += [*(fault for _, fault in folder.misnamed()), *folder.subfolders()]
    faults += of_pipelines.platform.faults if of_pipelines.platform else ()
    if not pipelines and not broken:
        message = (
            "no pipeline here; a pipeline is a file NAME.yaml in this folder. `shipper new` writes "
            "a first one"
        )
        faults.append(ConfigFault.of_file(of_pipelines.shown, message, _NO_FOLDER))
    right = {stem: read.model for stem, read in clusters.items() if read.model is not None}
    warnings = [
        clusters[stem].yaml.fault(path, why)
        for stem, model in right.items()
        for path, why in (*model.warnings(), *_in_clear(clusters[stem].yaml))
    ]
    return LoadedConfig(pipelines, right, in_order(faults), broken, in_order(warnings))


def pipeline_names(config_dir: Path) -> set[str] | None:
    """Return the names of the pipelines that have a file, right or not; None if there is no folder
    of them, or it cannot be read."""
    try:
        files = [*(config_dir / "pipelines").iterdir()]
    except OSError:
        return None
    return {file.stem for file in files if _is_yaml(file)}


def locate(config_dir: Path, pipeline: str, field: str, message: str) -> ConfigFault:
    """Return a fault that another program found in a pipeline, Spark in ``routes[1].when`` for
    instance, with file, line and column."""
    return _fault_at(_pipelines(config_dir).file(pipeline), field, message)


def _fault_at(file: YamlFile, field: str, message: str) -> ConfigFault:
    paths = {dotted(path): path for path in file.written}
    written = field if field in paths else _SHORTHANDS.get(field, field)
    around = written
    while around and around not in paths:
        # What is not in the file is shown at the section that it would be in.
        around = around[: max(around.rfind("."), around.rfind("["), 0)]
    fault = file.fault(paths.get(around, ()), message)
    return replace(fault, field=written) if fault.file == file.shown else fault


def locate_property(config_dir: Path, cluster: str, message: str) -> ConfigFault:
    """Return a Kafka client's complaint about a cluster's properties, at the property that the
    complaint names, if any."""
    file = _clusters(config_dir).file(cluster)
    written = [path for path in file.written if len(path) == 2 and path[0] == "properties"]
    named = [path for path in written if str(path[1]) in message]
    path = max(named, key=lambda path: len(str(path[1])), default=written[0][:1] if written else ())
    return file.fault(path, message)


def load_platform(config_dir: Path) -> Platform:
    """Load ``shipper.yaml``; empty if there is none. Raises ConfigError with all faults of the
    file."""
    found = _platform(config_dir)
    if found.faults:
        raise ConfigError("\n".join(map(str, found.faults)))
    return found.platform


def _platform(config_dir: Path) -> PlatformFile:
    return read_platform(config_dir, show(config_dir, config_dir / NAME))


def _pipelines(config_dir: Path, leave: Collection[ReferenceKind] = ()) -> Folder[Pipeline]:
    return Folder(config_dir, Pipeline, leave, _platform(config_dir))


def _clusters(config_dir: Path, leave: Collection[ReferenceKind] = ()) -> Folder[Cluster]:
    return Folder(config_dir, Cluster, leave)


def _right(file: ConfigFile[M], more: Iterable[ConfigFault] = ()) -> M:
    faults = in_order((*file.faults, *more))
    if file.model is None or faults:
        raise ConfigError("\n".join(map(str, faults)))
    return file.model


# --- What files say of each other


def _named_clusters(file: YamlFile) -> list[tuple[KeyPath, str]]:
    """Return the clusters that the pipeline names, each with its place. By the file and not by the
    model, so that another fault does not hide one here."""
    named = file.data.get("clusters")
    if isinstance(named, list):
        return [(("clusters", i), name) for i, name in enumerate(named) if isinstance(name, str)]
    return [(("clusters", name), name) for name in named] if isinstance(named, dict) else []


def _former_names(file: YamlFile) -> dict[str, KeyPath]:
    """Return the names in `formerly`, each with its place."""
    return {
        place.text: path
        for path, place in file.written.items()
        if path[:1] == ("formerly",) and place.text
    }


def _cross_faults(
    file: ConfigFile[Pipeline],
    pipelines: Folder[Pipeline],
    clusters: Folder[Cluster],
    read: Mapping[str, ConfigFile[Cluster]] | None = None,
) -> Iterator[ConfigFault]:
    """Yield what does not fit between a pipeline and other files. ``read``: the clusters, if their
    faults count too; by default it only counts that they have a file."""
    stems = clusters.stems()
    for path, name in _named_clusters(file.yaml):
        if name not in stems:
            known = suggestion(name, stems, "there are") or clusters.none_here()
            yield file.yaml.fault(path, f"no cluster {name!r}{known}")
        elif read and read[name].faults:
            why = f"cluster {name!r} is broken: {read[name].faults[0]}"
            yield file.yaml.fault(path, why, repeats=True)
    if file.model is None:
        return
    found = {
        name: (read[name] if read else clusters.read(name)).model
        for name in file.model.clusters
        if name in stems
    }
    models = {name: model for name, model in found.items() if model is not None}
    yield from _ledger_faults(file.yaml, file.model, [*models.values()])
    for name, model in models.items():
        if file.model.records.avro and model.schema_registry is None:
            why = (
                f"cluster {name!r} has no `schema_registry`, which numbers the schema: say in "
                f"{clusters.show(name)} where it is"
            )
            yield file.yaml.fault(("records", "avro"), why)
    yield from _former_faults(file.yaml, file.model.name, pipelines)
    yield from _suite_faults(file.yaml, file.model, pipelines.config_dir)


def _suite_faults(file: YamlFile, pipeline: Pipeline, config_dir: Path) -> Iterator[ConfigFault]:
    """Yield faults of Great Expectations suites that checks name."""
    columns = ["value", *(["key"] if pipeline.records.key is not None else [])]
    columns += pipeline.records.named_columns
    for place, check in enumerate(pipeline.gates.source):
        if not isinstance(check, ExpectationsCheck):
            continue
        field = ("gates", "source", place, "suite")
        try:
            suite = read_suite(config_dir, check.suite)
        except ConfigError as error:
            yield file.fault(field, without_code(error.message))
        else:
            for why in unknown_columns(suite, columns):
                yield file.fault(field, f"{check.suite}: {why}")


def _ledger_faults(
    file: YamlFile, pipeline: Pipeline, clusters: Collection[Cluster]
) -> Iterator[ConfigFault]:
    """Yield faults of topics for records that are ledgers of one of the clusters."""
    named = [("quarantine.topic", pipeline.quarantine.topic)] if pipeline.quarantine else []
    for place, route in pipeline.all_routes():
        named += [] if route.columns else [(f"{place}.topic", route.topic)]
        named += ((f"{place}.topics[{index}]", name) for index, name in enumerate(route.topics))
    for field, topic in named:
        try:
            check_topic(topic, *(cluster.ledger.topic for cluster in clusters))
        except ValueError as error:
            yield _fault_at(file, field, str(error))


def _former_faults(
    file: YamlFile, pipeline: str, folder: Folder[Pipeline]
) -> Iterator[ConfigFault]:
    """Yield faults of names in `formerly` that another pipeline has, or had before: two would write
    to one ledger, and each would take the other's windows for its own. A circle of names is such a
    case: one of them has a file."""
    former = _former_names(file)
    for stem in folder.stems() if former else ():
        if stem in former:
            why = (
                f"pipeline {stem!r} exists: a name that it had before can have no file; rename "
                "that file, or remove this"
            )
            yield file.fault(former[stem], why)
        theirs = _former_names(folder.file(stem)) if stem != pipeline else {}
        for name in former.keys() & theirs.keys():
            why = (
                f"pipeline {stem!r} was formerly {name!r} too, and one ledger belongs to one "
                "pipeline; remove the name from one of them"
            )
            yield file.fault(former[name], why)


def _in_clear(cluster: YamlFile) -> Iterator[Fault]:
    """Yield warnings about secrets that stand in the cluster's file themselves."""
    for path, place in cluster.written.items():
        name = str(path[-1]) if path else ""
        if (
            path[:1] in (("properties",), ("schema_registry",))
            and (name.endswith(SECRET_ENDS) or name == "token")
            and place.text
            and "${" not in place.text
        ):
            yield path, "a secret in clear; write a reference, such as `${KAFKA_PASSWORD}`"


@dataclass(frozen=True)
class ConfigFile(Generic[M]):
    """One file that was read: its model, unless there are faults."""

    yaml: YamlFile
    model: M | None
    faults: tuple[ConfigFault, ...]


class Folder(Generic[M]):
    """``config/pipelines``, ``clusters`` or ``tests``: YAML files of one kind, each named for what
    is in it.

    Args:
        leave: kinds of references that need not be known yet, see
        :mod:`shipper.config.environment`. platform: what pipelines may use, and their defaults.
    """

    def __init__(
        self,
        config_dir: Path,
        model: type[M],
        leave: Collection[ReferenceKind] = (),
        platform: PlatformFile | None = None,
    ) -> None:
        self._config_dir = config_dir
        keys: dict[type[Model], str] = {Cluster: "cluster", Pipeline: "pipeline"}
        self._key = keys.get(model, "test")
        self._folder = config_dir / f"{self._key}s"
        self._model: type[M] = model
        self._leave = leave
        self.platform = platform
        self.shown = show(config_dir, self._folder)

    def path(self, stem: str) -> Path:
        """Return where the file of ``stem`` lies."""
        return self._folder / f"{stem}.yaml"

    @property
    def config_dir(self) -> Path:
        return self._config_dir

    def show(self, stem: str) -> str:
        """Return the file's path for people."""
        return f"{self.shown}/{stem}.yaml"

    def stems(self) -> list[str]:
        """Return the names of all files here, right or not."""
        return [path.stem for path in self._files() if path.suffix == ".yaml"]

    def misnamed(self) -> Iterator[tuple[str, ConfigFault]]:
        """Yield (stem, fault) of files that look like ours but would be ignored, and of two whose
        names differ in letter case only: the ids of DAGs and the names of files are not told apart
        by case everywhere."""
        by_lower: dict[str, str] = {}
        for path in self._files():
            if path.suffix != ".yaml":
                why = f"ignored because of its ending; rename it to {path.stem}.yaml"
                yield path.stem, ConfigFault.of_file(f"{self.shown}/{path.name}", why)
                continue
            first = by_lower.setdefault(path.stem.lower(), path.stem)
            if first != path.stem:
                message = f"differs from {first}.yaml in letter case only; rename one of them"
                yield path.stem, ConfigFault.of_file(self.show(path.stem), message)

    def subfolders(self) -> Iterator[ConfigFault]:
        """Yield faults of folders in here that hold files which look like ours."""
        for path in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            if path.is_dir() and any(map(_is_yaml, path.iterdir())):
                why = f"ignored, since it is a folder; move its files into {self.shown}"
                yield ConfigFault.of_file(f"{self.shown}/{path.name}", why)

    def _files(self) -> list[Path]:
        files = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted(filter(_is_yaml, files))

    def one(self, name: str) -> ConfigFile[M]:
        """Return the file of the pipeline or cluster ``name``. Raises ConfigError if there is
        none."""
        if not self._config_dir.is_dir():
            raise ConfigError(str(missing_folder(self._config_dir)))
        stems = self.stems()
        if name not in stems:
            for stem, fault in self.misnamed():
                if stem == name:
                    raise ConfigError(str(fault), code="SHIP-202")
            now = [stem for stem in stems if name in _former_names(self.file(stem))]
            known = (
                f": it is {now[0]!r} now"
                if now
                else suggestion(Path(name).stem, stems, "there are") or self.none_here()
            )
            raise ConfigError(f"there is no {self._key} {name!r}{known}", code="SHIP-202")
        return self.read(name)

    def none_here(self) -> str:
        """Return the end of a message about a name, if the folder is empty."""
        return f"; there is none in {self.shown}"

    def read(self, stem: str) -> ConfigFile[M]:
        """Read the file and its faults. Never raises for a faulty file."""
        file = self.file(stem)
        faults, model = list(file.faults), None
        if self.platform and self.platform.faults:  # it might forbid what stands here
            why = f"the platform's file is broken: {self.platform.faults[0]}"
            faults.append(file.fault((), why, BEGINNING, repeats=True))
        if self._model is Pipeline and "pipeline" not in file.data and "bootstrap" in file.data:
            why = "this is a cluster's file; it belongs into the folder `clusters`"
            faults.append(file.fault((), why, BEGINNING))
        elif file.parsed:
            data, missing = self._filled_in(file)
            faults += (file.fault(path, why) for path, why in missing)
            model, more = validated(self._model, replace(file, data=data), faults)
            faults += more
            if data.get(self._key, stem) != stem and all(
                fault.field != self._key for fault in faults
            ):
                why = (
                    f"found {file.text((self._key,))!r}, but the file is {stem}.yaml; the two must "
                    "be the same: rename the file or change the name"
                )
                faults.append(file.fault((self._key,), why))
        if self.platform and isinstance(model, Pipeline):
            beyond = self.platform.beyond(file, model, self._config_dir)
            faults += (file.fault(path, why) for path, why in beyond)
        return ConfigFile(file, None if faults else model, in_order(faults))

    def file(self, stem: str) -> YamlFile:
        """Return the file's data and places; of a pipeline, with the platform's defaults below
        it."""
        own = read_yaml(self.path(stem), self.show(stem))
        return self.platform.merged(own) if self.platform else own

    def references(self, stem: str) -> set[Reference]:
        """Return all references of the file; none if it cannot be read. A pipeline may have none in
        SQL, expressions and globs, where `${` may mean something else."""

        def wanted(path: KeyPath) -> bool:
            return self._model is Cluster or _in_the_open(path) or _is_secret(path)

        return set(references_in(self.file(stem).data, wanted))

    def _filled_in(self, file: YamlFile) -> tuple[dict[str, Any], list[Fault]]:
        leave = self._leave
        if self._model is Cluster:
            return fill_in(file.data, lambda path: True, leave=leave, left=_not_known_yet)
        data, faults = fill_in(
            file.data, _in_the_open, kinds=frozenset({"environment"}), leave=leave
        )
        if written_out := list(unnamed_keys(file.data.get("records"))):
            return data, [*faults, *written_out]
        data, more = fill_in(data, _is_secret, leave=leave, left=lambda path, text: None)
        return data, [*faults, *more]


def _is_yaml(path: Path) -> bool:
    return path.suffix.lower() in _ENDINGS and not path.name.startswith(".")


def missing_folder(config_dir: Path) -> ConfigFault:
    """Return the fault that there is no ``config_dir``."""
    message = (
        f"no such folder (seen from {Path.cwd()}); say where the configuration is with --config "
        "DIR. `shipper new` writes a first pipeline"
    )
    return ConfigFault.of_file(str(config_dir), message, _NO_FOLDER)


def _in_the_open(path: KeyPath) -> bool:
    """Return True for a pipeline's keys that may refer to the environment, and are shown."""
    of_s3 = path[:2] == ("source", "s3") and not _is_secret(path)
    return of_s3 or path in (("source",), ("source", "path"), ("runs_uri",))


def _is_secret(path: KeyPath) -> bool:
    """Return True for a pipeline's keys that are not shown, nor needed while DAGs are parsed."""
    of_s3 = path[:2] == ("source", "s3") and len(path) == 3 and path[2] in SECRETS
    return of_s3 or _is_hash_key(path)


def _is_hash_key(path: KeyPath) -> bool:
    return path[:2] == ("records", "redact") and path[3:] == ("hash", "key")


def _not_known_yet(path: KeyPath, text: str) -> Any:
    """Return a stand-in for a reference of a cluster file: None for a property, the reference
    itself where it is text, else the default."""
    url = ("schema_registry", "url")
    if path[:1] == ("properties",) or (path[:1] == url[:1] and path != url):
        return None
    return text if path in (("cluster",), ("bootstrap",), url) else NOTHING


def show(config_dir: Path, path: Path) -> str:
    """Return ``path`` for people: as given if that is relative, else relative to the working
    directory or to the folder above ``config_dir``."""
    if path.is_absolute():
        for base in (Path.cwd(), config_dir.parent):
            if path.is_relative_to(base):
                return path.relative_to(base).as_posix()
    return path.as_posix()
