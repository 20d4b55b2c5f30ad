"""What `shipper validate` warns of: what is allowed and may be a mistake all the same. For people only, since each expression takes milliseconds.

Regular expressions that a log line can make slow: Java tries every way to share characters out between repetitions before it gives a line up.
The tree comes from the parser of Python's own `re`, which is not public: tried with Python 3.11 and 3.12. An expression that it
cannot read (`\\p{Alpha}`, `[a-z&&[^b]]`) is not judged. Those in SQL are found by the words alone, without Spark: what an expression is put
together from, by `concat` or out of a column, is not found.

Notifiers that are not there: their classes are looked for in the files of installed packages. Importing one would run what a configuration names.
"""

from __future__ import annotations

import re
import re._constants as c  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shipper.config import ConfigFault, LoadedConfig, Pipeline, locate
from shipper.config.content_checks import ConditionCheck, MatchesCheck

_OTHERS = 128
#: ASCII, and one that stands for all other characters.
_ALL = frozenset(range(_OTHERS + 1))
_LINE = _ALL - {10}
_DIGITS = frozenset(range(48, 58))
_WORD = _DIGITS | frozenset(range(65, 91)) | frozenset(range(97, 123)) | {95}
_SPACE = frozenset((9, 10, 11, 12, 13, 32))
_CATEGORIES = {
    c.CATEGORY_DIGIT: _DIGITS, c.CATEGORY_NOT_DIGIT: _ALL - _DIGITS, c.CATEGORY_WORD: _WORD, c.CATEGORY_NOT_WORD: _ALL - _WORD,
    c.CATEGORY_SPACE: _SPACE, c.CATEGORY_NOT_SPACE: _ALL - _SPACE,
}  # fmt: skip
_MANY = 1_000
_REPEATED_ALTERNATIVES = re.compile(r"(?<!\\)\((?:\?:)?(?:\\.|[^()\\])*\|(?:\\.|[^()\\])*\)(?:[*+]|\{\d+,\})")
_HOW = 'make it possessive (`++`, `*+`), or let it stop before what follows (`[^"]*+"`)'
_OPERATORS = frozenset({"rlike", "regexp"})
#: Their second argument is the pattern.
_FUNCTIONS = frozenset(
    {"rlike", "regexp", "regexp_like", "regexp_extract", "regexp_extract_all", "regexp_replace", "regexp_count", "regexp_instr",
     "regexp_substr", "split"}
)  # fmt: skip
_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
      | (?P<text>'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*")
      | (?P<word>\w+)
      | (?P<sign>\S)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a", "%": r"\%", "_": r"\_"}


def missing_notifiers(config_dir: Path, loaded: LoadedConfig) -> list[ConfigFault]:
    """Warnings of notifiers whose class is not here; a warning, since it must be where Airflow is."""
    named = [
        (name, f"notify[{index}].notifier", why_missing(entry.notifier))
        for name, pipeline in loaded.pipelines.items()
        for index, entry in enumerate(pipeline.notify)
    ]
    return [locate(config_dir, name, field, why) for name, field, why in named if why]


def slow_patterns(config_dir: Path, loaded: LoadedConfig) -> list[ConfigFault]:
    """Warnings of regular expressions that a log line can make slow."""
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
    for index, rule in enumerate(records.redact):
        if rule.regex:
            yield f"records.redact[{index}].regex", rule.regex
    sql = {f"records.columns.{name}": text for name, text in records.columns.items()}
    sql |= {f"records.drop.{name}": text for name, text in records.drop.items()}
    sql |= {f"records.headers.{name}": text for name, text in records.headers.items()}
    sql |= {f"records.{name}": text for name in ("value", "key", "timestamp") if (text := getattr(records, name))}
    for place, route in pipeline.all_routes():
        if route.matching:
            yield f"{place}.matching", f"^(?:{route.matching})$"  # it is held against the whole name
        if route.when:
            sql[f"{place}.when"] = route.when
    for index, check in enumerate(pipeline.gates.source):
        if isinstance(check, MatchesCheck):
            yield f"gates.source[{index}].regex", check.regex
        if isinstance(check, ConditionCheck):
            sql[f"gates.source[{index}].sql"] = check.sql
    for field, text in sql.items():
        yield from ((field, pattern) for pattern in patterns_in(text))


def patterns_in(sql: str) -> Iterator[str]:
    """The regular expressions that stand as literals in ``sql``, behind RLIKE and REGEXP and in functions that take one: each as Java gets it."""
    calls: list[tuple[str, int]] = []
    before = ""  # the word in front, in lower case
    for token in _TOKEN.finditer(sql):
        kind, text = token.lastgroup, token[0]
        if kind == "comment":
            continue
        if kind in ("raw", "text"):
            if before in _OPERATORS or (calls and calls[-1][0] in _FUNCTIONS and calls[-1][1] == 1):
                yield text[2:-1] if kind == "raw" else _unescaped(text[1:-1], text[0])
        elif text == "(":
            calls.append((before, 0))
        elif text == ")" and calls:
            calls.pop()
        elif text == "," and calls:
            calls[-1] = (calls[-1][0], calls[-1][1] + 1)
        before = text.lower() if kind == "word" else ""


def _unescaped(text: str, quote: str) -> str:
    """What Spark makes of a literal: a backslash goes, and what it stood before stays."""
    whole = text.replace(quote * 2, quote)
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), whole, flags=re.DOTALL)


def why_missing(name: str, folders: Sequence[str] | None = None) -> str | None:
    """Why there is no class ``name``, or None. None also for a package that is not installed here at all: Airflow may live elsewhere.
    ``folders``: by default where Python looks."""
    *modules, class_name = name.split(".")
    roots = [Path(folder) for folder in (sys.path if folders is None else folders) if folder]
    if not any(_modules(root, modules[:1]) for root in roots):
        return None
    found = [file for root in roots for file in _modules(root, modules)]
    if not found:
        return f"there is no module {'.'.join(modules)} here, and {modules[0]} is; is a provider to be installed, or the name misspelt?"
    if not any(re.search(rf"\b{class_name}\b", file.read_text(errors="replace")) for file in found):
        return f"{'.'.join(modules)} holds no {class_name}"
    return None


def _modules(root: Path, names: Sequence[str]) -> list[Path]:
    """Files of the module ``names`` below ``root``; a package's own may hold nothing."""
    path = root.joinpath(*names)
    return [file for file in (path.with_name(f"{path.name}.py"), path / "__init__.py") if file.is_file()]


@dataclass(frozen=True)
class _RegexStep:
    """One step of an expression; groups are taken apart."""

    chars: frozenset[int]
    optional: bool
    endless: bool = False
    """Repeated without bound, and given back character by character."""
    ends: bool = False
    """The end of the line."""
    group: str | None = None


def slow(pattern: str) -> list[str]:
    """Why a line can make the Java expression slow, each in a sentence; empty if it cannot, as far as is known."""
    found = []
    if _REPEATED_ALTERNATIVES.search(pattern):
        found.append(
            "a repeated group of alternatives, (a|b)+, takes stack for each character, and a long line overflows it; write a class: [ab]+"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parser.parse(re.sub(r"(?<!\\)\(\?<(?![=!])", "(?P<", pattern))
    except (re.error, RecursionError, OverflowError):
        return found
    names = {index: name for name, index in tree.state.groupdict.items()}
    nested: list[str] = []
    parts = list(_parts(tree, names, None, nested))
    found += dict.fromkeys(nested)
    found += _neighbours(parts)
    if parts and parts[0].endless and any(not part.optional for part in parts[1:]):
        found.append("it begins with a repetition, which is tried again from every character of the line; begin it with ^")
    return found


def _neighbours(parts: Sequence[_RegexStep]) -> Iterator[str]:
    """Two repetitions, the first ones found, that share what they take."""
    for index, first in enumerate(parts):
        for place, second in enumerate(parts[index + 1 :], index + 1):
            if first.endless and _share(first, second, parts[index + 1 : place]) and _can_fail(parts[place + 1 :], second):
                which = f"in group {first.group!r} " if first.group else ""
                yield (
                    f"the repetition {which}and one behind it take the same characters, so a line that does not match costs its length "
                    f"squared (64 kB: many seconds); {_HOW}"
                )
                return


def _share(first: _RegexStep, second: _RegexStep, between: Sequence[_RegexStep]) -> bool:
    """Whether a text of which both take any part, what stands between them included, can be made as long as one likes."""
    both = first.chars & second.chars
    return second.endless and bool(both) and all(part.optional or part.chars & both for part in between)


def _can_fail(rest: Sequence[_RegexStep], last: _RegexStep) -> bool:
    """Whether a line can fail to match behind ``last``."""
    return not all(part.optional or (part.ends and last.chars >= _LINE) for part in rest)


def _parts(tree: Any, names: dict[int, str], group: str | None, nested: list[str]) -> Iterator[_RegexStep]:
    for op, value in tree:
        if op is c.SUBPATTERN:
            yield from _parts(value[3], names, names.get(value[0], group), nested)
        elif op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            least, most, body = value
            inside = list(_parts(body, names, group, nested))
            chars = frozenset().union(*(part.chars for part in inside))
            endless = most > _MANY and op is not c.POSSESSIVE_REPEAT
            if endless:
                nested += _nested(inside, group)
            yield _RegexStep(chars, least == 0 or all(part.optional for part in inside), endless, group=group)
        elif op is c.BRANCH:
            ways = [list(_parts(way, names, group, nested)) for way in value[1]]
            chars = frozenset().union(*(part.chars for way in ways for part in way))
            yield _RegexStep(chars, any(all(part.optional for part in way) for way in ways), group=group)
        elif op is c.ATOMIC_GROUP:
            inside = list(_parts(value, names, group, nested))
            yield _RegexStep(
                frozenset().union(*(part.chars for part in inside)), all(part.optional for part in inside), group=group
            )
        elif op is c.AT:
            yield _RegexStep(_ALL, optional=False, ends=value in (c.AT_END, c.AT_END_STRING))
        elif op in (c.ASSERT, c.ASSERT_NOT):
            continue
        else:
            yield _RegexStep(_characters(op, value), optional=False, group=group)


def _nested(inside: Sequence[_RegexStep], group: str | None) -> Iterator[str]:
    """A repetition in a repetition, with nothing between two rounds that tells them apart."""
    for part in inside:
        if part.endless and all(other is part or other.optional or other.chars & part.chars for other in inside):
            which = f" in group {group!r}" if group else ""
            yield f"a repetition of a repetition{which}, as (a+)+, can take a line of 40 characters for ever; write one, a+, or {_HOW}"


def _characters(op: Any, value: Any) -> frozenset[int]:
    """What one character of the expression matches."""
    if op is c.LITERAL:
        return frozenset((min(value, _OTHERS),))
    if op is c.NOT_LITERAL:
        return _ALL - {value}
    if op is c.ANY:
        return _LINE
    if op is c.IN:
        found: frozenset[int] = frozenset()
        negated = value[0][0] is c.NEGATE
        for kind, what in value[negated:]:
            if kind is c.RANGE:
                found |= frozenset(range(min(what[0], _OTHERS), min(what[1], _OTHERS) + 1))
            elif kind is c.CATEGORY:
                found |= _CATEGORIES.get(what, _ALL)
            else:
                found |= {min(what, _OTHERS)}
        return _ALL - (found - {_OTHERS}) if negated else found
    return _ALL
