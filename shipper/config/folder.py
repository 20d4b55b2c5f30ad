"""``config/pipelines`` or ``config/clusters``: YAML files of one kind, each named for what is in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from shipper.config.base import Model
from shipper.config.environment import fill_in
from shipper.config.faults import ConfigFault
from shipper.config.models import Cluster
from shipper.config.rules import suggestion
from shipper.config.translation import problems_of
from shipper.config.yaml_file import KeyPath, Problem, YamlFile, read_yaml
from shipper.errors import ConfigError

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Entry(Generic[M]):
    """One file: its model, unless there are faults."""

    shown: str
    file: YamlFile
    model: M | None
    faults: tuple[ConfigFault, ...]


class Folder(Generic[M]):
    def __init__(self, config_dir: Path, name: str, key: str, model: type[M]) -> None:
        self._config_dir = config_dir
        self._folder = config_dir / name
        self._key = key
        self._model: type[M] = model
        self.shown = _show(config_dir, self._folder)

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
        file, shown = read_yaml(self.path(stem)), self.show(stem)
        problems, model = list(file.problems), None
        if file.parsed:
            secretive = self._model is Cluster
            data, missing = fill_in(file.data, os.environ, _anything if secretive else _pipeline_refers)
            problems = [_without_secret(problem) if secretive else problem for problem in (*problems, *missing)]
            known = {problem.path for problem in problems}
            try:
                # By the keys of the YAML only: `chunk_size_bytes`, a name in the code, is an unknown key here.
                model = self._model.model_validate(data, by_alias=True, by_name=False)
            except ValidationError as error:
                # What pydantic thinks of a value that is known to be wrong would be said twice.
                problems += [problem for problem in problems_of(error, self._model, file) if problem.path not in known]
            if data.get(self._key, stem) != stem and all(problem.path != (self._key,) for problem in problems):
                problems.append(self._other_name(stem, file))
        faults = in_order(ConfigFault.of(problem, file, shown) for problem in problems)
        return Entry(shown, file, None if faults else model, faults)

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


def _without_secret(problem: Problem) -> Problem:
    """A password that begins with ``{`` is a section to YAML, and then part of the path."""
    if problem.path[:1] != ("properties",) or len(problem.path) < 3:
        return problem
    return Problem(problem.path[:2], "expected text, a number, true or false; put it into quotes")


def _show(config_dir: Path, path: Path) -> str:
    """As given if that is relative, else relative to the working directory or to the folder above ``config_dir``."""
    if path.is_absolute():
        for base in (Path.cwd(), config_dir.parent):
            if path.is_relative_to(base):
                return path.relative_to(base).as_posix()
    return path.as_posix()
