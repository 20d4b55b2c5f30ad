"""One YAML file as plain data, with the place of every key and value.

The text is composed to YAML nodes and the data built from those, since a node knows where it
stands, a duplicate key is found without printing its value (which may be a secret), and all that is
wrong with a file is found at once. YAML 1.2: ``on``, ``yes`` and ``2026-11-01`` are text; only
true, false, null and numbers are not.

Airflow's DAG processor reads all files one after the other, in a given time and memory: so no file
may take much of either, whatever is in it.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from shipper.error_codes import with_code
from shipper.errors import ConfigError

#: Keys, each with the one above it, for which `null` is a value.
_NULLABLE = {("csv", "quote"), ("records", "parse")}
KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top of a file: ``("routes", 1, "when")``."""

#: At worst, the parser needs a second for a file of this size, or with this many values. A long
#: pipeline has 5 kB and 200 values.
LARGEST_BYTES, MOST_VALUES, DEEPEST, LONGEST_TEXT = 256_000, 10_000, 32, 16_000
#: A no-break space that indents a line, or parts a key from its value: it looks like a space.
_PASTED_SPACE = re.compile("^(?: *\u00a0|[ -]*[\\w.]+:\u00a0)", re.MULTILINE)
_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = ("str", "timestamp", "value")
_TAGGED = "`!` begins a tag; put text that begins with ! into quotes"


class Position(NamedTuple):
    """Position of a character in a file. Both from 1."""

    line: int
    column: int


BEGINNING = Position(1, 1)


@dataclass(frozen=True)
class ConfigFault:
    """One thing that is wrong. ``str()`` of it is the line that a user reads; no secret is
    in it."""

    file: str
    line: int | None
    """Line, from 1, as is ``column``; None if the fault has no place in a file: a folder that is
    missing, for instance."""
    column: int | None
    field: str
    """The path in the file, as the user wrote it: ``routes[1].when``. Empty for the file as a
    whole."""
    message: str
    repeats: bool = False
    """True if it tells of a fault in another file, which is listed by itself where all files
    are."""
    code: str | None = None
    """Code of a fault whose remedy is not that of all faults in files."""

    @classmethod
    def of_file(cls, file: str, message: str, code: str | None = None) -> ConfigFault:
        """Make a fault without a place in a file."""
        return cls(file, None, None, "", message, code=code)

    def __str__(self) -> str:
        place = ":".join(
            str(part) for part in (self.file, self.line, self.column) if part is not None
        )
        field = f"{self.field}: " if self.field else ""
        return with_code(f"{place}: {field}{self.message}", self.code)


def common_code(faults: Iterable[ConfigFault]) -> str:
    """Return the code of all ``faults``, or that of faults in general."""
    codes = {fault.code for fault in faults}
    [code] = codes if len(codes) == 1 else [None]
    return code or ConfigError.code


def in_order(faults: Iterable[ConfigFault]) -> tuple[ConfigFault, ...]:
    """Return ``faults`` by file, line and column, each once."""
    return tuple(
        sorted(
            dict.fromkeys(faults),
            key=lambda fault: (fault.file, fault.line or 0, fault.column or 0),
        )
    )


def dotted(path: KeyPath) -> str:
    """Write ``("routes", 1, "when")`` as ``"routes[1].when"``."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in path
    ).removeprefix(".")


def value_at(data: Any, path: KeyPath) -> Any:
    """Return the value at ``path``, None if there is none."""
    for step in path:
        if isinstance(data, list):
            data = dict(enumerate(data))
        data = data.get(step) if isinstance(data, dict) else None
    return data


@dataclass(frozen=True)
class YamlPlace:
    """Place of a key and its value."""

    file: str
    path: KeyPath
    """Path in that file."""
    key: Position
    value: Position | None
    """Position of the value; None for a list or section, which begins at its key for a reader."""
    text: str | None
    """A scalar as it stands in the file, without quotes."""


@dataclass
class YamlFile:
    """A parsed file. ``data`` is empty where the text could not be parsed at all; ``faults`` then
    says why."""

    shown: str
    """Path of the file, for people."""
    data: dict[str, Any] = field(default_factory=dict)
    faults: list[ConfigFault] = field(default_factory=list)
    parsed: bool = True
    written: dict[KeyPath, YamlPlace] = field(default_factory=dict)

    def over(self, base: YamlFile, at: KeyPath, data: dict[str, Any]) -> YamlFile:
        """Return the file with ``data``, of which the values that are not in the file come from
        ``base``, below ``at`` there."""
        below = {
            path[len(at) :]: place
            for path, place in base.written.items()
            if path[: len(at)] == at and path != at
        }
        taken = {path: place for path, place in below.items() if value_at(data, path) is not None}
        return replace(self, data=data, written={**taken, **self.written})

    def is_own(self, path: KeyPath) -> bool:
        return path in self.written and self.written[path].file == self.shown

    def position(self, path: KeyPath, *, of_key: bool = False) -> Position:
        """Return the position of the value at ``path`` if it is a scalar, else of its key; for what
        does not exist, of the nearest section around it. ``of_key``: of the key in any case."""
        for length in range(len(path), -1, -1):
            if self.is_own(path[:length]):
                place = self.written[path[:length]]
                scalar = length == len(path) and not of_key
                return place.value if scalar and place.value else place.key
        return BEGINNING

    def text(self, path: KeyPath) -> str | None:
        """Return the scalar at ``path`` as it stands in the file, before ``${…}`` is filled in."""
        return self.written[path].text if path in self.written else None

    def fault(
        self,
        path: KeyPath,
        message: str,
        position: Position | None = None,
        *,
        repeats: bool = False,
        code: str | None = None,
    ) -> ConfigFault:
        """Make a fault of one key or value, or, with an explicit ``position``, of the text."""
        if position is None and path in self.written and not self.is_own(path):
            place = self.written[path]
            message += f" (as a default of {self.shown})" if self.shown else ""
            found = place.value or place.key
            return ConfigFault(place.file, *found, dotted(place.path), message, code=code)
        line, column = position or (self.position(path) if self.parsed else (None, None))
        return ConfigFault(self.shown, line, column, dotted(path), message, repeats, code)


def read_yaml(path: Path, shown: str) -> YamlFile:
    """Read a YAML file. Never raises: the faults of the file or its text are in ``faults``."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            return _unparsed(shown, "not a regular file", None)
        if found.st_size > LARGEST_BYTES:
            why = f"{found.st_size:,} bytes; a configuration file has {LARGEST_BYTES:,} at most"
            return _unparsed(shown, why, None)
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES)
    except OSError as error:
        return _unparsed(shown, f"cannot be read: {error.strerror or error}", None)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode().split("\n")
        why = f"not UTF-8: byte 0x{content[error.start]:02x}; save the file as UTF-8"
        return _unparsed(shown, why, Position(len(before), len(before[-1]) + 1))
    return parse_yaml(text, shown)


def parse_yaml(text: str, shown: str = "") -> YamlFile:
    """See :func:`read_yaml`."""
    if pasted := _PASTED_SPACE.search(text):
        before = text[: pasted.end() - 1].split("\n")
        why = "a no-break space, which is no space to YAML; type a plain one"
        return _unparsed(shown, why, Position(len(before), len(before[-1]) + 1))
    yaml = YAML(typ="safe", pure=True)  # the C parser would be YAML 1.1
    yaml.Composer = _Composer
    yaml.composer.warn_double_anchors = False
    try:
        root = yaml.compose(text)
        if root is None:
            return _unparsed(shown, "the file is empty", BEGINNING)
        if not isinstance(root, MappingNode):
            why = f"the file is {_kind(root)}; it must be keys and values, such as `pipeline: web`"
            return _unparsed(shown, why, _start(root))
        return _Builder(yaml, shown).build(root)
    except _TooMuch as error:
        return _unparsed(shown, error.message, error.position)
    except RecursionError:
        why = "nested too deeply, or an alias that contains itself"
        return _unparsed(shown, why, BEGINNING)
    except ReaderError as error:
        before = text[: error.position].split("\n")
        why = "a control character, which YAML does not allow"
        return _unparsed(shown, why, Position(len(before), len(before[-1]) + 1))
    except MarkedYAMLError as error:
        # Of what is never closed, the place to show is where it was opened.
        unclosed = "unexpected end of stream" in str(error.problem)
        marks = [error.problem_mark, error.context_mark]
        mark = next(filter(None, marks[::-1] if unclosed else marks), None)
        return _unparsed(shown, _plain_words(error, text), _at(mark) if mark else BEGINNING)
    except YAMLError:
        return _unparsed(shown, "not YAML", BEGINNING)


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


def _unparsed(shown: str, message: str, position: Position | None) -> YamlFile:
    line, column = position or (None, None)
    return YamlFile(shown, faults=[ConfigFault(shown, line, column, "", message)], parsed=False)


#: Part of ruamel's complaint → the words of a user; ``{}``: the character at fault. First match
#: first.
_PLAIN_WORDS = {
    "another document": "a second document (`---`); one file holds one",
    "alias": "`*` begins an alias and there is no such anchor; put text that begins with * into "
    "quotes",
    "tag": _TAGGED,
    "mapping values are not allowed": "a `:` that cannot be here: put text that holds `: ` into "
    "quotes, or check the indentation",
    "cannot start any token": "text cannot begin with {}; put it into quotes",
    "node content": "{} cannot be here: a value is missing, or is text that needs quotes",
    "could not find expected ':'": "a key without `:` before this line",
    "unexpected end of stream": "a quote that is never closed",
    "sequence entries": "`- ` cannot be here: a list begins on a line of its own; put text that "
    "begins with `- ` into quotes",
    "block end": "text behind a complete value: check the indentation, and put text that begins "
    "with { [ or a quote into quotes",
    "document start": "text behind a complete value: check the indentation, and put text that "
    "begins with { [ or a quote into quotes",
    "unknown escape": "a backslash in double quotes is an escape; use single quotes",
}


def _plain_words(error: MarkedYAMLError, text: str) -> str:
    """Return ruamel's complaint in the words of a user, and without the text that it quotes, which
    may be a secret."""
    problem, mark = error.problem or "", error.problem_mark
    lines = text.splitlines()
    rest = lines[mark.line][mark.column :] if mark and mark.line < len(lines) else ""
    if rest[:1] == "\t":
        return "a tab; YAML indents with spaces"
    if problem.startswith("expected ',' or"):
        began = f", opened in line {error.context_mark.line + 1}" if error.context_mark else ""
        return f"a list or section in brackets{began} is not closed, or lacks a comma"
    for part, said in _PLAIN_WORDS.items():
        if part in problem or (part in ("alias", "tag") and part in str(error.context)):
            return said.replace("{}", repr(rest[:1]))
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
    """Nodes → plain data, places and faults."""

    def __init__(self, yaml: YAML, shown: str) -> None:
        self._values = yaml.constructor
        self._file = YamlFile(shown)

    def build(self, root: MappingNode) -> YamlFile:
        self._file.written[()] = YamlPlace(self._file.shown, (), _start(root), None, None)
        self._file.data = self._mapping(root, ())
        return self._file

    def _value(self, node: Node, path: KeyPath, key: Position) -> Any:
        if len(self._file.written) > MOST_VALUES:  # an alias is written out here
            raise _TooMuch.values(self._file.position(path[:1]))
        scalar = isinstance(node, ScalarNode)
        value, text = (_start(node), str(node.value)) if scalar else (None, None)
        self._file.written[path] = YamlPlace(self._file.shown, path, key, value, text)
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
            if here in self._file.written:
                first = self._file.position(here, of_key=True).line
                self._say(
                    here, f"the key is repeated; its first place is line {first}", _start(key_node)
                )
                continue
            value = self._value(value_node, here, _start(key_node))
            if value is None and here[-2:] not in _NULLABLE:
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
        if path[:1] == ("properties",) and len(path) > 2:
            # A password that begins with `{` is a section to YAML, and then part of the path.
            path, message = path[:2], "expected text, a number, true or false; put it into quotes"
        self._file.faults.append(self._file.fault(path, message, position))


def _short_tag(node: Node) -> str:
    return str(node.tag).removeprefix(_TAG)
