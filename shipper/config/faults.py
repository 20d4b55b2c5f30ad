"""Faults: what is wrong with the configuration, where, and what would be right."""

from __future__ import annotations

from dataclasses import dataclass

from shipper.config.yaml_file import KeyPath, Problem, YamlFile


@dataclass(frozen=True)
class ConfigFault:
    """One thing that is wrong. ``str()`` of it is the line that a user reads; no secret is in it."""

    file: str
    line: int | None
    """From 1, as is ``column``; None if the fault has no place in a file: a folder that is missing, for instance."""
    column: int | None
    field: str
    """The path in the file, as the user wrote it: ``routes[1].when``. Empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return f"{place}: {self.field}: {self.message}" if self.field else f"{place}: {self.message}"

    @classmethod
    def of(cls, problem: Problem, file: YamlFile, shown: str) -> ConfigFault:
        """``problem`` of ``file``, with the file's path as ``shown``."""
        if problem.position is None and (origin := file.origin(problem.path)):
            other, name, path = origin
            return cls(name, *other.position(path), dotted(path), f"{problem.message} (as a default of {shown})")
        line, column = problem.position or (file.position(problem.path) if file.parsed else (None, None))
        return cls(shown, line, column, dotted(problem.path), problem.message)


def dotted(path: KeyPath) -> str:
    """``("routes", 1, "when")`` → ``"routes[1].when"``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
