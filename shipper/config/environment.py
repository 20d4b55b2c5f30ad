"""References ``${…}`` in configuration: their kinds, and when their values are filled in.

``${NAME}`` and ``${NAME:-default}`` are variables of the environment; as in a shell, the default is
used if the variable is unset or empty. Cluster files, and the keys of `source.s3`, know two more:
``${file:/run/secrets/kafka}``, a file that only shipper's user may read, and
``${airflow:CONNECTION.password}``, a connection of Airflow's. References inside a value are not
replaced, so a password may hold any character.

Airflow parses DAGs in a process that need not know a secret: there, unknown references are left for
later (``leave``).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from shipper.config.rules import Fault
from shipper.config.yaml_file import KeyPath

ReferenceKind = Literal["environment", "file", "airflow"]
#: Kinds that need not be known while DAGs are parsed, and for ``validate --no-secrets``.
EVERYTHING: frozenset[ReferenceKind] = frozenset({"environment", "file", "airflow"})
#: Kinds that only a task of Airflow can look up.
OF_AIRFLOW: frozenset[ReferenceKind] = frozenset({"airflow"})
#: Variable with values that another process looked up, as JSON: ``{"airflow:kafka.password":
#: "…"}``. Airflow's task passes it to its child.
GIVEN_VARIABLE = "SHIPPER_REFERENCES"

NOTHING = object()

_REFERENCE = re.compile(
    r"\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}|(?P<kind>file|airflow):(?P<what>[^}]+)\})?"
)
_CONNECTION = re.compile(r"([\w.-]+?)\.(password|login|host|port|schema|extra\.[\w.-]+)")
_LONGEST_FILE_BYTES = 65_536


@dataclass(frozen=True)
class Reference:
    """One ``${…}``."""

    kind: ReferenceKind
    name: str
    """Name of the variable, path of the file, or ``CONNECTION.FIELD``."""
    default: str | None = None

    def __str__(self) -> str:
        return self.name if self.kind == "environment" else f"{self.kind}:{self.name}"


def connection_field(name: str) -> tuple[str, str]:
    """Split a reference to Airflow: ``("kafka", "extra.ca")`` of ``kafka.extra.ca``."""
    found = _CONNECTION.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is not written CONNECTION.FIELD")
    return found[1], found[2]


class UnknownReference(Exception):
    """Error of a reference whose value is not known here. The message says why and what to do."""


def look_up(reference: Reference) -> str:
    """Return the value of a reference in this process. Raises UnknownReference."""
    if reference.kind == "file":
        return read_secret(Path(reference.name))
    if reference.kind == "airflow":
        try:
            return str(json.loads(os.environ.get(GIVEN_VARIABLE) or "{}")[str(reference)])
        except (ValueError, LookupError, TypeError):
            raise UnknownReference(
                f"${{{reference}}}: Airflow's tasks look it up, and found no such connection or "
                f'field; on the command line set {GIVEN_VARIABLE} to {{"{reference}": "…"}}'
            ) from None
    name, default = reference.name, reference.default
    if default is not None:
        return os.environ.get(name) or default
    if name not in os.environ:
        raise UnknownReference(
            f"the environment variable {name} is not set; set it, or write a default: "
            f"${{{name}:-…}}"
        )
    return os.environ[name]


def read_secret(path: Path) -> str:
    """Read a file's text without the line end at its end. Raises UnknownReference for a file that
    others may read.

    The rule is PostgreSQL's for its private key: a file of shipper's own user may be open to no
    other user; a file of root's may also be open to a group, since secrets are mounted in this way
    for a process that is not root.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise UnknownReference(f"{path} is not a regular file")
            others = 0o077 if found.st_uid != 0 or os.geteuid() == 0 else 0o037
            if found.st_mode & others:
                mode = f"0{stat.S_IMODE(found.st_mode):o}"
                raise UnknownReference(
                    f"{path} holds a secret and others may read it (mode {mode}); `chmod 600`"
                )
            content = file.read(_LONGEST_FILE_BYTES + 1)
    except OSError as error:
        raise UnknownReference(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > _LONGEST_FILE_BYTES:
        raise UnknownReference(f"{path} is longer than {_LONGEST_FILE_BYTES:,} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UnknownReference(f"{path} is not UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")


def references_in(
    data: Any, wanted: Callable[[KeyPath], bool], path: KeyPath = ()
) -> Iterator[Reference]:
    """Yield the references in the strings at ``wanted`` paths that are written correctly."""
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from references_in(value, wanted, (*path, key))
    elif isinstance(data, str) and wanted(path):
        yield from (
            found
            for match in _REFERENCE.finditer(data)
            if isinstance(found := _parsed(match), Reference)
        )


def fill_in(
    data: Any,
    wanted: Callable[[KeyPath], bool],
    *,
    kinds: Collection[ReferenceKind] = EVERYTHING,
    leave: Collection[ReferenceKind] = (),
    left: Callable[[KeyPath, str], Any] = lambda path, text: text,
    path: KeyPath = (),
) -> tuple[Any, list[Fault]]:
    """Return ``data`` with every reference in the strings at ``wanted`` paths replaced, and a
    fault for each that cannot be.

    Args:
        kinds: which kinds may stand here. leave: kinds that need not be known yet; files and
        connections of them are not even looked at. ``left`` then says what stands in
            the string's place; :data:`NOTHING`: its key is left out.

    A string with a fault stays as it is.
    """
    faults: list[Fault] = []
    if isinstance(data, dict | list):
        filled: dict[Any, Any] = {}
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            here = (*path, key)
            filled[key], more = fill_in(
                value, wanted, kinds=kinds, leave=leave, left=left, path=here
            )
            faults += more
        filled = {key: value for key, value in filled.items() if value is not NOTHING}
        return (filled if isinstance(data, dict) else list(filled.values())), faults
    if not isinstance(data, str) or not wanted(path):
        return data, []
    later = False

    def replace(match: re.Match[str]) -> str:
        nonlocal later
        reference = _parsed(match)
        if isinstance(reference, str):
            faults.append((path, reference))
        elif reference.kind not in kinds:
            why = f"${{{reference.kind}:…}} is for cluster files; use ${{NAME}} here"
            faults.append((path, why))
        elif reference.kind in leave and reference.kind != "environment":
            later = True
        else:
            try:
                return look_up(reference)
            except UnknownReference as why:
                if reference.kind in leave:
                    later = True
                else:
                    faults.append((path, str(why)))
        return ""

    filled_in = _REFERENCE.sub(replace, data)
    if faults:
        return data, faults
    return (left(path, data) if later else filled_in), []


def _parsed(match: re.Match[str]) -> Reference | str:
    """Return the reference, or its fault. The text of a fault quotes no part that may be a
    secret."""
    if match["name"] is not None:
        default = match["default"]
        return Reference(
            "environment", match["name"], None if default is None else default.removeprefix(":-")
        )
    if match["kind"] == "file":
        return (
            Reference("file", match["what"])
            if match["what"].startswith("/")
            else "${file:…} needs an absolute path"
        )
    if match["kind"] == "airflow":
        if _CONNECTION.fullmatch(match["what"]):
            return Reference("airflow", match["what"])
        return "a connection of Airflow's is written ${airflow:CONNECTION.password}"
    return "`${` begins a reference to the environment; write ${NAME} or ${NAME:-default}"
