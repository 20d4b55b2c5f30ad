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

from pydantic import ValidationError

from shipper.config.cluster import Cluster
from shipper.config.environment import (
    EVERYTHING,
    NOTHING,
    Reference,
    ReferenceKind,
    ReferenceValues,
    fill_in,
    references_in,
)
from shipper.config.explain import ConfigFault, dotted, problems_of
from shipper.config.pipeline import Pipeline
from shipper.config.platform import NAME, Platform, PlatformFile, read_platform
from shipper.config.redact import unnamed_keys
from shipper.config.rules import Model, check_topic, suggestion
from shipper.config.s3 import SECRETS
from shipper.config.yaml_file import BEGINNING, KeyPath, Problem, YamlFile, read_yaml
from shipper.errors import ConfigError

M = TypeVar("M", bound=Model)
_SHORTHANDS = {"routes[0].topic": "topic", "source.path": "source", "schedule.cron": "schedule"}
_S3 = ("source", "s3")
_PROPERTIES = ("properties",)
_REGISTRY = ("schema_registry",)


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
    file = _pipelines(config_dir, leave).one(name)
    clusters = _clusters(config_dir)
    more = (
        *_cluster_faults(file, clusters, {}),
        *_ledger_faults(file, _ledgers(clusters, file)),
        *_registry_faults(file, clusters),
        *_former_faults(file, _pipelines(config_dir)),
    )
    return _right(file, more)


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
    named = pipelines.file(pipeline).data.get("clusters")
    names = (
        [name for name in named if isinstance(name, str)] if isinstance(named, list | dict) else []
    )
    return pipelines.references(pipeline).union(
        *(clusters.references(name) for name in names if name in clusters.stems())
    )


def hash_keys(config_dir: Path, pipeline: str) -> list[str]:
    """Return the references that name the keys of `records.redact`, as written, in the order of the
    rules. Never raises."""
    file = _pipelines(config_dir).file(pipeline)
    records = file.data.get("records")
    rules = records.get("redact") if isinstance(records, dict) else None
    count = len(rules) if isinstance(rules, list) else 0
    found = (file.text(("records", "redact", index, "hash", "key")) for index in range(count))
    return [key for key in found if key is not None]


def load_all(config_dir: Path, leave: Collection[ReferenceKind] = ()) -> LoadedConfig:
    """Load every pipeline and cluster. Never raises for faults in a file: a broken file affects no
    other file."""
    if not config_dir.is_dir():
        return LoadedConfig({}, {}, (missing_folder(config_dir),), {})
    of_clusters, of_pipelines = _clusters(config_dir, leave), _pipelines(config_dir, leave)
    clusters = {stem: of_clusters.read(stem) for stem in of_clusters.stems()}
    reasons = {stem: file.faults[0] for stem, file in clusters.items() if file.faults}
    pipelines, broken = _read_pipelines(of_pipelines, of_clusters, reasons)
    faults = [fault for file in clusters.values() for fault in file.faults]
    faults += [fault for found in broken.values() for fault in found if not fault.repeats]
    # A file with the wrong ending beside one with the right ending breaks nothing, but is a fault.
    faults += [fault for folder in (of_clusters, of_pipelines) for _, fault in folder.misnamed()]
    faults += of_pipelines.platform.faults if of_pipelines.platform else ()
    if not pipelines and not broken:
        message = "no pipeline here; a pipeline is a file NAME.yaml in this folder"
        faults.append(ConfigFault(of_pipelines.shown, None, None, "", message))
    right = {stem: file.model for stem, file in clusters.items() if file.model is not None}
    warnings = [
        clusters[stem].fault(path, why)
        for stem, model in right.items()
        for path, why in model.warnings()
    ]
    return LoadedConfig(pipelines, right, in_order(faults), broken, in_order(warnings))


def _read_pipelines(
    folder: Folder[Pipeline], clusters: Folder[Cluster], reasons: Mapping[str, ConfigFault]
) -> tuple[dict[str, Pipeline], dict[str, tuple[ConfigFault, ...]]]:
    """Return the pipelines that are right, and the faults of those that are broken."""
    pipelines: dict[str, Pipeline] = {}
    broken: dict[str, tuple[ConfigFault, ...]] = {}
    ledgers: dict[str, str] = {}
    for stem in folder.stems():
        file = folder.read(stem)
        ledgers |= _ledgers(clusters, file, ledgers)
        of_clusters = (
            *_cluster_faults(file, clusters, reasons),
            *_ledger_faults(file, ledgers),
            *_registry_faults(file, clusters),
            *_former_faults(file, folder),
        )
        faults = in_order((*file.faults, *of_clusters))
        if file.model is not None and not faults:
            pipelines[stem] = file.model
        else:
            broken[stem] = faults
    for stem, fault in folder.misnamed():
        if stem not in pipelines:
            broken[stem] = (*broken.get(stem, ()), fault)
    return pipelines, broken


def pipeline_names(config_dir: Path) -> set[str] | None:
    """Return the names of the pipelines that have a file, right or not; None if there is no folder
    of them, or it cannot be read."""
    try:
        names = {
            path.stem
            for path in (config_dir / "pipelines").iterdir()
            if path.suffix.lower() in (".yaml", ".yml")
        }
    except OSError:
        return None
    return {name for name in names if not name.startswith(".")}


def locate(config_dir: Path, pipeline: str, field: str, message: str) -> ConfigFault:
    """Return a fault that another program found in a pipeline, Spark in ``routes[1].when`` for
    instance, with file, line and column."""
    folder = _pipelines(config_dir)
    file = folder.file(pipeline)
    paths = {dotted(path): path for path in file.paths()}
    written = field if field in paths else _SHORTHANDS.get(field, field)
    around = written
    while (
        around and around not in paths
    ):  # what is not in the file is shown at the section that it would be in
        around = around[: max(around.rfind("."), around.rfind("["), 0)]
    if file.origin(paths.get(around, ())):
        return ConfigFault.of(Problem(paths[around], message), file, folder.show(pipeline))
    return ConfigFault(
        folder.show(pipeline), *file.position(paths.get(around, ())), written, message
    )


def locate_property(config_dir: Path, cluster: str, message: str) -> ConfigFault:
    """Return a Kafka client's complaint about a cluster's properties, at the property that the
    complaint names, if any."""
    folder = _clusters(config_dir)
    file = read_yaml(folder.path(cluster))
    written = [path for path in file.paths() if len(path) == 2 and path[0] == "properties"]
    named = [path for path in written if str(path[1]) in message]
    path = max(named, key=lambda path: len(str(path[1])), default=written[0][:1] if written else ())
    return ConfigFault.of(Problem(path, message), file, folder.show(cluster))


def load_platform(config_dir: Path) -> Platform:
    """Load ``shipper.yaml``; empty if there is none. Raises ConfigError with all faults of the
    file."""
    found = _platform(config_dir)
    if found.faults:
        raise ConfigError("\n".join(str(fault) for fault in found.faults))
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
        raise ConfigError("\n".join(str(fault) for fault in faults))
    return file.model


def _cluster_faults(
    file: ConfigFile[Pipeline], clusters: Folder[Cluster], reasons: Mapping[str, ConfigFault]
) -> list[ConfigFault]:
    """Return the faults of clusters that the pipeline names and that have no file, or, by
    ``reasons``, a broken one. Looks at the file's text and not at the model, so that another fault
    does not hide these."""
    names = file.yaml.data.get("clusters")
    stems = clusters.stems()
    faults = []
    places = (
        names.items()
        if isinstance(names, dict)
        else enumerate(names)
        if isinstance(names, list)
        else ()
    )
    for place, entry in places:
        name = place if isinstance(names, dict) else entry
        if isinstance(name, str) and (name not in stems or name in reasons):
            unknown = (
                f"no cluster {name!r}{suggestion(name, stems, 'there are') or clusters.none_here()}"
            )
            message = f"cluster {name!r} is broken: {reasons[name]}" if name in reasons else unknown
            fault = file.fault(("clusters", place), message)
            faults.append(replace(fault, repeats=name in reasons))
    return faults


def _ledgers(
    clusters: Folder[Cluster], file: ConfigFile[Pipeline], known: Collection[str] = ()
) -> dict[str, str]:
    """Return cluster → its `ledger.topic`, of the pipeline's clusters that set one; as written,
    since a cluster's secrets need not be known for that."""
    found = {}
    for name in file.model.clusters if file.model else ():
        path = clusters.path(name)
        if name not in known and path.is_file():
            ledger = read_yaml(path).data.get("ledger")
            topic = ledger.get("topic") if isinstance(ledger, dict) else None
            found[name] = topic if isinstance(topic, str) else ""
    return found


def _ledger_faults(file: ConfigFile[Pipeline], ledgers: Mapping[str, str]) -> Iterator[ConfigFault]:
    """Yield faults of topics for records that are ledgers of one of the pipeline's clusters."""
    if file.model is None:
        return
    named = [ledgers[cluster] for cluster in file.model.clusters if ledgers.get(cluster)]
    places: list[tuple[KeyPath, str]] = []
    for index, route in enumerate(file.model.routes):
        if not route.columns:
            places.append(
                (
                    ("routes", index, "topic") if "routes" in file.yaml.data else ("topic",),
                    route.topic,
                )
            )
        places += [
            (("routes", index, "topics", number), topic)
            for number, topic in enumerate(route.topics)
        ]
    for name, target in file.model.targets.items():
        for index, route in enumerate(target.routes):
            place = ("clusters", name, "routes", index)
            places += [((*place, "topic"), route.topic)] if not route.columns else []
            places += [
                ((*place, "topics", number), topic) for number, topic in enumerate(route.topics)
            ]
    if file.model.quarantine:
        places.append((("quarantine", "topic"), file.model.quarantine.topic))
    for path, topic in places if named else ():
        try:
            check_topic(topic, *named)
        except ValueError as error:
            yield file.fault(path, str(error))


def _registry_faults(
    file: ConfigFile[Pipeline], clusters: Folder[Cluster]
) -> Iterator[ConfigFault]:
    """Yield faults of clusters without a registry, if the pipeline needs one; as written, as in
    :func:`_ledgers`."""
    if file.model is None or file.model.records.avro is None:
        return
    for name in file.model.clusters:
        path = clusters.path(name)
        if path.is_file() and not read_yaml(path).data.get("schema_registry"):
            why = (
                f"cluster {name!r} has no `schema_registry`, which numbers the schema: say in "
                f"{clusters.show(name)} where it is"
            )
            yield file.fault(("records", "avro"), why)


def _former_faults(file: ConfigFile[Pipeline], folder: Folder[Pipeline]) -> Iterator[ConfigFault]:
    """Yield faults of names in `formerly` that another pipeline has, or had before: two would write
    to one ledger, and each would take the other's windows for its own. A circle of names is such a
    case: one of them has a file."""
    if file.model is None or not file.model.formerly:
        return
    stems = folder.stems()
    others = {stem: _former(folder.file(stem).data) for stem in stems if stem != file.model.name}
    single = isinstance(file.yaml.data.get("formerly"), str)
    for index, name in enumerate(file.model.formerly):
        place: KeyPath = ("formerly",) if single else ("formerly", index)
        if name in stems:
            yield file.fault(
                place,
                f"pipeline {name!r} exists: a name that it had before can have no file; rename "
                "that file, or remove this",
            )
        for stem, names in others.items():
            if name in names:
                why = (
                    f"pipeline {stem!r} was formerly {name!r} too, and one ledger belongs to one "
                    "pipeline; remove the name from one of them"
                )
                yield file.fault(place, why)


def _former(data: Mapping[str, Any]) -> list[str]:
    found = data.get("formerly")
    return (
        [found]
        if isinstance(found, str)
        else [name for name in found if isinstance(name, str)]
        if isinstance(found, list)
        else []
    )


@dataclass(frozen=True)
class ConfigFile(Generic[M]):
    """One file that was read: its model, unless there are faults."""

    shown: str
    yaml: YamlFile
    model: M | None
    faults: tuple[ConfigFault, ...]

    def fault(self, path: KeyPath, message: str) -> ConfigFault:
        """Return another program's complaint about ``path`` as a fault."""
        return ConfigFault.of(Problem(path, message), self.yaml, self.shown)


class Folder(Generic[M]):
    """``config/pipelines`` or ``config/clusters``: YAML files of one kind, each named for what is
    in it.

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
        self._key = "cluster" if model is Cluster else "pipeline"
        self._folder = config_dir / f"{self._key}s"
        self._model: type[M] = model
        self._leave = leave
        self.platform = platform
        self.shown = show(config_dir, self._folder)

    def path(self, stem: str) -> Path:
        """Return where the file of ``stem`` lies."""
        return self._folder / f"{stem}.yaml"

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
                message = f"ignored because of its ending; rename it to {path.stem}.yaml"
                yield path.stem, ConfigFault(f"{self.shown}/{path.name}", None, None, "", message)
                continue
            first = by_lower.setdefault(path.stem.lower(), path.stem)
            if first != path.stem:
                message = f"differs from {first}.yaml in letter case only; rename one of them"
                yield path.stem, ConfigFault(self.show(path.stem), None, None, "", message)

    def _files(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        files = (path for path in self._folder.iterdir() if not path.name.startswith("."))
        return sorted(path for path in files if path.suffix.lower() in (".yaml", ".yml"))

    def one(self, name: str) -> ConfigFile[M]:
        """Return the file of the pipeline or cluster ``name``. Raises ConfigError if there is
        none."""
        if not self._config_dir.is_dir():
            raise ConfigError(str(missing_folder(self._config_dir)), code="SHIP-203")
        stems = self.stems()
        if name not in stems:
            for stem, fault in self.misnamed():
                if stem == name:
                    raise ConfigError(str(fault), code="SHIP-202")
            path = Path(name)
            word = path.stem if path.suffix.lower() in (".yaml", ".yml") else name
            if word in stems:
                raise ConfigError(
                    f"{name!r} is the name of a file: the {self._key} in {self.show(word)} is "
                    f"called {word!r}. Use that name.",
                    code="SHIP-202",
                )
            raise ConfigError(
                f"there is no {self._key} {name!r}"
                f"{suggestion(word, stems, 'there are') or self.none_here()}",
                code="SHIP-202",
            )
        return self.read(name)

    def none_here(self) -> str:
        """Return the end of a message about a name, if the folder is empty."""
        return f"; there is none in {self.shown}"

    def read(self, stem: str) -> ConfigFile[M]:
        """Read the file and its faults. Never raises for a faulty file."""
        file, shown = self.file(stem), self.show(stem)
        problems, model = list(file.problems), None
        if self.platform and self.platform.faults:  # it might forbid what stands here
            problems.append(
                Problem(
                    (),
                    f"the platform's file is broken: {self.platform.faults[0]}",
                    BEGINNING,
                    repeats=True,
                )
            )
        if file.parsed:
            data, missing = self._filled_in(file)
            problems = [
                _without_secret(problem) if self._model is Cluster else problem
                for problem in (*problems, *missing)
            ]
            known = {problem.path for problem in problems}
            try:
                # Only keys of the YAML are allowed here: `chunk_size_bytes`, a name in the code, is
                # an unknown key.
                model = self._model.model_validate(data, by_alias=True, by_name=False)
            except ValidationError as error:
                # A value that is known to be wrong needs no second complaint from pydantic.
                problems += [
                    problem
                    for problem in problems_of(error, self._model, file)
                    if problem.path not in known
                ]
            if data.get(self._key, stem) != stem and all(
                problem.path != (self._key,) for problem in problems
            ):
                problems.append(self._other_name(stem, file))
        if self.platform and isinstance(model, Pipeline):
            problems += self.platform.beyond(file, model, self._config_dir)
        faults = in_order(ConfigFault.of(problem, file, shown) for problem in problems)
        return ConfigFile(shown, file, None if faults else model, faults)

    def file(self, stem: str) -> YamlFile:
        """Return the file's data and places; of a pipeline, with the platform's defaults below
        it."""
        own = read_yaml(self.path(stem))
        return self.platform.merged(own) if self.platform else own

    def references(self, stem: str) -> set[Reference]:
        """Return all references of the file; none if it cannot be read."""
        return set(
            references_in(
                self.file(stem).data, _anything if self._model is Cluster else _pipeline_refers
            )
        )

    def _filled_in(self, file: YamlFile) -> tuple[dict[str, Any], list[Problem]]:
        if self._model is not Cluster:
            data, problems = fill_in(
                file.data,
                ReferenceValues.here(),
                _in_the_open,
                kinds=frozenset[ReferenceKind]({"environment"}),
                leave=self._leave,
            )
            written_out = [
                Problem(path, why) for path, why in unnamed_keys(file.data.get("records"))
            ]
            if written_out:
                return data, [*problems, *written_out]
            data, more = fill_in(
                data,
                ReferenceValues.here(),
                _is_secret,
                leave=self._leave,
                left=lambda path, text: None,
            )
            return data, [*problems, *more]
        return fill_in(
            file.data,
            ReferenceValues.here(),
            _anything,
            kinds=EVERYTHING,
            leave=self._leave,
            left=_not_known_yet,
        )

    def _other_name(self, stem: str, file: YamlFile) -> Problem:
        found = file.text((self._key,))
        message = (
            f"found {found!r}, but the file is {stem}.yaml; the two must be the same: rename the "
            "file or change the name"
        )
        return Problem((self._key,), message)


def in_order(faults: Iterable[ConfigFault]) -> tuple[ConfigFault, ...]:
    """Return ``faults`` by file, line and column, each once."""
    return tuple(
        sorted(
            dict.fromkeys(faults),
            key=lambda fault: (fault.file, fault.line or 0, fault.column or 0),
        )
    )


def missing_folder(config_dir: Path) -> ConfigFault:
    """Return the fault that there is no ``config_dir``."""
    message = (
        f"no such folder (seen from {Path.cwd()}); say where the configuration is with --config DIR"
    )
    return ConfigFault(str(config_dir), None, None, "", message)


def _pipeline_refers(path: KeyPath) -> bool:
    """Return True where a pipeline may have references: not in SQL, expressions and globs, where
    `${` may mean something else."""
    return _in_the_open(path) or _is_secret(path)


def _in_the_open(path: KeyPath) -> bool:
    return path in (("source",), ("source", "path"), ("runs_uri",)) or (
        path[:2] == _S3 and not _is_secret(path)
    )


def _is_secret(path: KeyPath) -> bool:
    """Return True for a pipeline's keys that are not shown, nor needed while DAGs are parsed."""
    of_s3 = path[:2] == _S3 and len(path) == 3 and path[2] in SECRETS
    return of_s3 or (path[:2] == ("records", "redact") and path[3:] == ("hash", "key"))


def _anything(path: KeyPath) -> bool:
    return True


def _not_known_yet(path: KeyPath, text: str) -> Any:
    """Return a stand-in for a reference of a cluster file: None for a property, the reference
    itself where it is text, else the default."""
    if path[:1] == _PROPERTIES or (path[:1] == _REGISTRY and path[1:] != ("url",)):
        return None
    return text if path in (("cluster",), ("bootstrap",), (*_REGISTRY, "url")) else NOTHING


def _without_secret(problem: Problem) -> Problem:
    """Shorten a problem's path: a password that begins with ``{`` is a section to YAML, and then
    part of the path."""
    if problem.path[:1] != _PROPERTIES or len(problem.path) < 3:
        return problem
    return Problem(problem.path[:2], "expected text, a number, true or false; put it into quotes")


def show(config_dir: Path, path: Path) -> str:
    """Return ``path`` for people: as given if that is relative, else relative to the working
    directory or to the folder above ``config_dir``."""
    if path.is_absolute():
        for base in (Path.cwd(), config_dir.parent):
            if path.is_relative_to(base):
                return path.relative_to(base).as_posix()
    return path.as_posix()
