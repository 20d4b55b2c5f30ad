"""``config/pipelines`` or ``config/clusters``: YAML files of one kind, each named for what is in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from shipper.config.base import Model
from shipper.config.environment import EVERYTHING, NOTHING, Kind, Known, Reference, fill_in, references
from shipper.config.faults import ConfigFault
from shipper.config.models import Cluster, Pipeline
from shipper.config.platform import PlatformFile
from shipper.config.rules import suggestion
from shipper.config.translation import problems_of
from shipper.config.yaml_file import KeyPath, Problem, YamlFile, read_yaml
from shipper.errors import ConfigError

M = TypeVar("M", bound=Model)
_PROPERTIES = (("properties",), ("unsafe_properties",))


@dataclass(frozen=True)
class Entry(Generic[M]):
    """One file: its model, unless there are faults."""

    shown: str
    file: YamlFile
    model: M | None
    faults: tuple[ConfigFault, ...]


class Folder(Generic[M]):
    """``leave``: kinds of references that need not be known yet, see :mod:`shipper.config.environment`. ``platform``: what pipelines may
    use, and their defaults."""

    def __init__(
        self,
        config_dir: Path,
        name: str,
        key: str,
        model: type[M],
        leave: Collection[Kind] = (),
        platform: PlatformFile | None = None,
    ) -> None:
        self._config_dir = config_dir
        self._folder = config_dir / name
        self._key = key
        self._model: type[M] = model
        self._leave = leave
        self._platform = platform
        self._secretive = model is Cluster
        self.shown = show(config_dir, self._folder)

    def path(self, stem: str) -> Path:
        return self._folder / f"{stem}.yaml"

    def show(self, stem: str) -> str:
        return f"{self.shown}/{stem}.yaml"

    def stems(self) -> list[str]:
        return [path.stem for path in self._files() if path.suffix == ".yaml"]

    def misnamed(self) -> Iterator[tuple[str, ConfigFault]]:
        """(stem, fault) of files that look like ours but would be ignored, and of two whose names differ in letter case
        only: the ids of DAGs and the names of files are not told apart by case everywhere."""
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

    def one(self, name: str) -> Entry[M]:
        """The file that is named for ``name``. Raises ConfigError if there is none."""
        if not self._config_dir.is_dir():
            raise ConfigError(str(missing_folder(self._config_dir)))
        stems = self.stems()
        if name not in stems:
            for stem, fault in self.misnamed():
                if stem == name:
                    raise ConfigError(str(fault))
            raise ConfigError(f"no {self._key} {name!r}{suggestion(name, stems, 'there are') or self.none_here()}")
        return self.read(name)

    def none_here(self) -> str:
        return f"; there is none in {self.shown}"

    def read(self, stem: str) -> Entry[M]:
        """Never raises for what is wrong in the file."""
        file, shown = self.file(stem), self.show(stem)
        problems, model = list(file.problems), None
        if self._platform and self._platform.faults:  # it might forbid what stands here
            problems.append(Problem((), f"the platform's file is broken: {self._platform.faults[0]}", (1, 1)))
        if file.parsed:
            data, missing = self._filled_in(file)
            problems = [_without_secret(problem) if self._secretive else problem for problem in (*problems, *missing)]
            known = {problem.path for problem in problems}
            try:
                # By the keys of the YAML only: `chunk_size_bytes`, a name in the code, is an unknown key here.
                model = self._model.model_validate(data, by_alias=True, by_name=False)
            except ValidationError as error:
                # What pydantic thinks of a value that is known to be wrong would be said twice.
                problems += [problem for problem in problems_of(error, self._model, file) if problem.path not in known]
            if data.get(self._key, stem) != stem and all(problem.path != (self._key,) for problem in problems):
                problems.append(self._other_name(stem, file))
        if self._platform and isinstance(model, Pipeline):
            problems += self._platform.beyond(file, model, self._config_dir)
        faults = in_order(ConfigFault.of(problem, file, shown) for problem in problems)
        return Entry(shown, file, None if faults else model, faults)

    def file(self, stem: str) -> YamlFile:
        """With the platform's defaults below it, for a pipeline."""
        own = read_yaml(self.path(stem))
        return self._platform.merged(own) if self._platform else own

    def references(self, stem: str) -> set[Reference]:
        """All that the file holds; none if it cannot be read."""
        return set(references(self.file(stem).data, _anything if self._secretive else _pipeline_refers))

    def _filled_in(self, file: YamlFile) -> tuple[dict[str, Any], list[Problem]]:
        if not self._secretive:
            return fill_in(file.data, Known.here(), _pipeline_refers, kinds=frozenset[Kind]({"environment"}), leave=self._leave)
        return fill_in(file.data, Known.here(), _anything, kinds=EVERYTHING, leave=self._leave, left=_not_known_yet)

    def _other_name(self, stem: str, file: YamlFile) -> Problem:
        found = file.text((self._key,))
        message = f"found {found!r}, but the file is {stem}.yaml; the two must be the same: rename the file or change the name"
        return Problem((self._key,), message)


def in_order(faults: Iterable[ConfigFault]) -> tuple[ConfigFault, ...]:
    """By file, line and column, each once."""
    return tuple(sorted(dict.fromkeys(faults), key=lambda fault: (fault.file, fault.line or 0, fault.column or 0)))


def missing_folder(config_dir: Path) -> ConfigFault:
    message = f"no such folder (seen from {Path.cwd()}); say where the configuration is with --config DIR"
    return ConfigFault(str(config_dir), None, None, "", message)


def _pipeline_refers(path: KeyPath) -> bool:
    """Where a pipeline may refer to the environment: not in SQL, expressions and globs, where `${` may mean something else."""
    return path in (("source",), ("source", "path"), ("runs_uri",))


def _anything(path: KeyPath) -> bool:
    return True


def _not_known_yet(path: KeyPath, text: str) -> Any:
    """What stands for a reference of a cluster file's meanwhile: None for a property, itself where it is text, else the default."""
    if path[:1] in _PROPERTIES:
        return None
    return text if path in (("cluster",), ("bootstrap",)) else NOTHING


def _without_secret(problem: Problem) -> Problem:
    """A password that begins with ``{`` is a section to YAML, and then part of the path."""
    if problem.path[:1] not in _PROPERTIES or len(problem.path) < 3:
        return problem
    return Problem(problem.path[:2], "expected text, a number, true or false; put it into quotes")


def show(config_dir: Path, path: Path) -> str:
    """As given if that is relative, else relative to the working directory or to the folder above ``config_dir``."""
    if path.is_absolute():
        for base in (Path.cwd(), config_dir.parent):
            if path.is_relative_to(base):
                return path.relative_to(base).as_posix()
    return path.as_posix()
