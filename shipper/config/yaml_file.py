"""One YAML file as plain data, with the place of every key and value.

The text is composed to YAML nodes and the data built from those, since a node knows where it
stands, a duplicate key is found without printing its value (which may be a secret), and all that is
wrong with a file is found at once. YAML 1.2: ``on``, ``yes`` and ``2026-11-01`` are text; only
true, false, null and numbers are not.

Airflow's DAG processor reads all files one after the other, in a given time and memory: so no file
may take much of either, whatever is in it.
"""

from __future__ import annotations

import stat
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top of a file: ``("routes", 1, "when")``."""

#: At worst, the parser needs a second for a file of this size, or with this many values. A long
#: pipeline has 5 kB and 200 values.
LARGEST_BYTES, MOST_VALUES, DEEPEST, LONGEST_TEXT = 256_000, 10_000, 32, 16_000
_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = ("str", "timestamp", "value")
_TAGGED = "`!` begins a tag; put text that begins with ! into quotes"


class Position(NamedTuple):
    """Position of a character in a file. Both from 1."""

    line: int
    column: int


BEGINNING = Position(1, 1)


@dataclass(frozen=True)
class Problem:
    """Fault of one key or value, or, with an explicit position, of the text."""

    path: KeyPath
    message: str
    position: Position | None = None
    """Position; by default that of ``path``."""
    repeats: bool = False
    """True if it tells of a problem in another file, which that file has as well."""


@dataclass(frozen=True)
class _Written:
    """Positions of a key and its value in the file."""

    key: Position
    value: Position | None
    """Position of the value; None for a list or section, which begins at its key for a reader."""
    text: str | None
    """A scalar as it stands in the file, without quotes."""


@dataclass
class YamlFile:
    """A parsed file. ``data`` is empty where the text could not be parsed at all; ``problems`` then
    says why."""

    data: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    parsed: bool = True
    _written: dict[KeyPath, _Written] = field(default_factory=dict)
    base: YamlFile | None = None
    """Another file, from which values come that are not in this one: those at ``base_path``.
    ``data`` then has both."""
    base_shown: str = ""
    base_path: KeyPath = ()

    def position(self, path: KeyPath) -> Position:
        """Return the position of the value at ``path`` if it is a scalar, else of its key; for what
        does not exist, of the nearest section around it."""
        for length in range(len(path), -1, -1):
            place = self._written.get(path[:length])
            if place is not None:
                return place.value if place.value and length == len(path) else place.key
        return BEGINNING

    def key_position(self, path: KeyPath) -> Position:
        """Return what :meth:`position` returns, but of the key also for a scalar."""
        place = self._written.get(path)
        return place.key if place else self.position(path)

    def text(self, path: KeyPath) -> str | None:
        """Return the scalar at ``path`` as it stands in the file, before ``${…}`` is filled in."""
        place = self._written.get(path)
        if place is None and (origin := self.origin(path)):
            return origin[0].text(origin[2])
        return place.text if place else None

    def paths(self) -> list[KeyPath]:
        """Return the paths of all values, those of ``base`` too."""
        below = self.base._written if self.base else {}
        length = len(self.base_path)
        return [
            *self._written,
            *(
                path[length:]
                for path in below
                if path[:length] == self.base_path and path[length:] not in self._written
            ),
        ]

    def own_paths(self) -> Collection[KeyPath]:
        return self._written.keys()

    def origin(self, path: KeyPath) -> tuple[YamlFile, str, KeyPath] | None:
        """Return the file, its name and the path there of a value that ``base`` has and this file
        has not."""
        there = (*self.base_path, *path)
        if (
            self.base is None
            or not path
            or path in self._written
            or there not in self.base._written
        ):
            return None
        return self.base, self.base_shown, there


def read_yaml(path: Path) -> YamlFile:
    """Read a YAML file. Never raises: the faults of the file or its text are in ``problems``."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            return _unparsed("not a regular file", None)
        if found.st_size > LARGEST_BYTES:
            return _unparsed(
                f"{found.st_size:,} bytes; a configuration file has {LARGEST_BYTES:,} at most", None
            )
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES)
    except OSError as error:
        return _unparsed(f"cannot be read: {error.strerror or error}", None)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start)
        before = content[content.rfind(b"\n", 0, error.start) + 1 : error.start]
        byte = content[error.start]
        return _unparsed(
            f"not UTF-8: byte 0x{byte:02x}; save the file as UTF-8",
            Position(line + 1, len(before.decode()) + 1),
        )
    return parse_yaml(text)


def parse_yaml(text: str) -> YamlFile:
    """See :func:`read_yaml`."""
    yaml = YAML(typ="safe", pure=True)  # the C parser would be YAML 1.1
    yaml.Composer = _Composer
    yaml.composer.warn_double_anchors = False
    try:
        root = yaml.compose(text)
        if root is None:
            return _unparsed("the file is empty", BEGINNING)
        if not isinstance(root, MappingNode):
            return _unparsed(
                f"the file is {_kind(root)}; it must be keys and values, such as `pipeline: web`",
                _start(root),
            )
        return _Builder(yaml).build(root)
    except _TooMuch as error:
        return _unparsed(error.message, error.position)
    except RecursionError:
        return _unparsed("nested too deeply, or an alias that contains itself", BEGINNING)
    except ReaderError as error:
        line_start = text.rfind("\n", 0, error.position) + 1
        position = Position(
            text.count("\n", 0, error.position) + 1, error.position - line_start + 1
        )
        return _unparsed("a control character, which YAML does not allow", position)
    except MarkedYAMLError as error:
        unclosed = "unexpected end of stream" in str(
            error.problem
        )  # then the place to show is where it was opened
        mark = (
            (error.context_mark if unclosed else None) or error.problem_mark or error.context_mark
        )
        return _unparsed(_plain_words(error, text), _at(mark) if mark else BEGINNING)
    except YAMLError:
        return _unparsed("not YAML", BEGINNING)


class _TooMuch(Exception):
    """The text would take more time or memory than a configuration is worth."""

    def __init__(self, message: str, position: Position) -> None:
        self.message, self.position = message, position

    @classmethod
    def values(cls, position: Position) -> _TooMuch:
        return cls(
            f"more than {MOST_VALUES:,} values up to here, those of aliases counted each time",
            position,
        )


class _Composer(Composer):
    """Composer that stops where the text is nested too deeply or has too many values, before the
    rest of it is looked at."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader=loader)
        self._depth = self._values = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.parser.peek_event().start_mark
        place = _at(mark)
        self._depth += 1
        self._values += 1
        if self._depth > DEEPEST:
            raise _TooMuch(f"nested more than {DEEPEST} levels deep", place)
        if self._values > MOST_VALUES:
            raise _TooMuch.values(place)
        node = super().compose_node(parent, index)
        if isinstance(node, ScalarNode) and len(node.value) > LONGEST_TEXT:
            raise _TooMuch(
                f"{len(node.value):,} characters; a value has {LONGEST_TEXT:,} at most", place
            )
        self._depth -= 1
        return node


def _unparsed(message: str, position: Position | None) -> YamlFile:
    return YamlFile(problems=[Problem((), message, position)], parsed=False)


def _plain_words(error: MarkedYAMLError, text: str) -> str:
    """Return ruamel's complaint in the words of a user, and without the text that it quotes, which
    may be a secret."""
    problem, mark = error.problem or "", error.problem_mark
    lines = text.splitlines()
    rest = lines[mark.line][mark.column :] if mark and mark.line < len(lines) else ""
    if "another document" in problem:
        return "a second document (`---`); one file holds one"
    if rest[:1] == "\t":
        return "a tab; YAML indents with spaces"
    if "alias" in problem or "alias" in str(error.context):
        return (
            "`*` begins an alias and there is no such anchor; put text that begins with * into "
            "quotes"
        )
    if "tag" in problem or "tag" in str(error.context):
        return _TAGGED
    if "mapping values are not allowed" in problem:
        return (
            "a `:` that cannot be here: put text that holds `: ` into quotes, or check the "
            "indentation"
        )
    if "cannot start any token" in problem:
        return f"text cannot begin with {rest[:1]!r}; put it into quotes"
    if "node content" in problem:
        return f"{rest[:1]!r} cannot be here: a value is missing, or is text that needs quotes"
    if "could not find expected ':'" in problem:
        return "a key without `:` before this line"
    if "found unexpected end of stream" in problem:
        return "a quote that is never closed"
    if "sequence entries" in problem:
        return (
            "`- ` cannot be here: a list begins on a line of its own; put text that begins with "
            "`- ` into quotes"
        )
    if "block end" in problem or "document start" in problem:
        return (
            "text behind a complete value: check the indentation, and put text that begins with "
            "{ [ or a quote into quotes"
        )
    if problem.startswith("expected ',' or"):
        began = f", opened in line {error.context_mark.line + 1}" if error.context_mark else ""
        return f"a list or section in brackets{began} is not closed, or lacks a comma"
    if "unknown escape" in problem:
        return "a backslash in double quotes is an escape; use single quotes"
    return f"not YAML: {problem.splitlines()[0]}" if problem else "not YAML"


def _kind(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "a section"
    return "a list" if isinstance(node, SequenceNode) else "a single value"


def _start(node: Node) -> Position:
    return _at(node.start_mark)


def _at(mark: Any) -> Position:
    """Return the position of ``mark``, the parser's, which counts from 0."""
    return Position(mark.line + 1, mark.column + 1)


class _Builder:
    """Nodes → plain data, places and problems."""

    def __init__(self, yaml: YAML) -> None:
        self._values = yaml.constructor
        self._file = YamlFile()

    def build(self, root: MappingNode) -> YamlFile:
        self._file._written[()] = _Written(_start(root), None, None)
        self._file.data = self._mapping(root, ())
        return self._file

    def _value(self, node: Node, path: KeyPath, key: Position) -> Any:
        if len(self._file._written) > MOST_VALUES:  # an alias is written out here
            raise _TooMuch.values(self._file.position(path[:1]))
        scalar = isinstance(node, ScalarNode)
        self._file._written[path] = _Written(
            key, _start(node) if scalar else None, str(node.value) if scalar else None
        )
        if not scalar and _short_tag(node) not in ("map", "seq"):
            self._say(path, _TAGGED, _start(node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [
                self._value(item, (*path, index), _start(item))
                for index, item in enumerate(node.value)
            ]
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            here = (*path, key)
            if here in self._file._written:
                first = self._file.key_position(here).line
                self._say(
                    here, f"the key is repeated; its first place is line {first}", _start(key_node)
                )
                continue
            value = self._value(value_node, here, _start(key_node))
            if value is None:
                self._say(here, "has no value; write one, or remove the key", _start(key_node))
                continue
            data[key] = value
        return data

    def _key(self, node: Node, path: KeyPath) -> str | None:
        """Return the key, or None if a configuration cannot have it."""
        tag = _short_tag(node)
        if tag == "merge":
            self._say(
                path,
                "`<<` is not YAML 1.2; write the keys out, or use an alias for a whole section",
                _start(node),
            )
        elif not isinstance(node, ScalarNode):
            self._say(
                path,
                f"a key must be text, not {_kind(node)}; put text that begins with {{ or [ into "
                "quotes",
                _start(node),
            )
        elif tag not in _TEXT_TAGS:
            self._say(path, "a key must be text; put it into quotes", _start(node))
        else:
            return str(node.value)
        return None

    def _scalar(self, node: Node, path: KeyPath) -> Any:
        tag = _short_tag(node)
        if tag in _TEXT_TAGS:
            return node.value
        if tag == "null":
            return None
        if tag == "bool":
            return self._values.construct_yaml_bool(node)
        try:
            if tag == "int":
                return self._values.construct_yaml_int(node)
            if tag == "float":
                return self._values.construct_yaml_float(node)
        except ValueError:
            return node.value
        self._say(path, _TAGGED, _start(node))
        return node.value

    def _say(self, path: KeyPath, message: str, position: Position) -> None:
        self._file.problems.append(Problem(path, message, position))


def _short_tag(node: Node) -> str:
    return str(node.tag).removeprefix(_TAG)
