"""Regular expressions that a log line can make slow. Java tries every way to share characters out between repetitions before it gives a line up.

The tree comes from the parser of Python's own `re`, which is not public: tried with Python 3.11 and 3.12. An expression that it
cannot read (`\\p{Alpha}`, `[a-z&&[^b]]`) is not judged.
"""

from __future__ import annotations

import re
import re._constants as c  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class _Part:
    """One step of an expression; groups are taken apart."""

    chars: frozenset[int]
    optional: bool
    endless: bool = False
    """Repeated without bound, and given back character by character."""
    begins: bool = False
    """The beginning of the line."""
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


def _neighbours(parts: Sequence[_Part]) -> Iterator[str]:
    for index, first in enumerate(parts):
        for place, second in enumerate(parts[index + 1 :], index + 1):
            if first.endless and _share(first, second, parts[index + 1 : place]) and _can_fail(parts[place + 1 :], second):
                which = f"in group {first.group!r} " if first.group else ""
                yield (
                    f"the repetition {which}and one behind it take the same characters, so a line that does not match costs its length "
                    f"squared (64 kB: many seconds); {_HOW}"
                )
                return


def _share(first: _Part, second: _Part, between: Sequence[_Part]) -> bool:
    """Whether a text of which both take any part, what stands between them included, can be made as long as one likes."""
    both = first.chars & second.chars
    return second.endless and bool(both) and all(part.optional or part.chars & both for part in between)


def _can_fail(rest: Sequence[_Part], last: _Part) -> bool:
    return not all(part.optional or (part.ends and last.chars >= _LINE) for part in rest)


def _parts(tree: Any, names: dict[int, str], group: str | None, nested: list[str]) -> Iterator[_Part]:
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
            yield _Part(chars, least == 0 or all(part.optional for part in inside), endless, group=group)
        elif op is c.BRANCH:
            ways = [list(_parts(way, names, group, nested)) for way in value[1]]
            chars = frozenset().union(*(part.chars for way in ways for part in way))
            yield _Part(chars, any(all(part.optional for part in way) for way in ways), group=group)
        elif op is c.ATOMIC_GROUP:
            inside = list(_parts(value, names, group, nested))
            yield _Part(frozenset().union(*(part.chars for part in inside)), all(part.optional for part in inside), group=group)
        elif op is c.AT:
            begins = value in (c.AT_BEGINNING, c.AT_BEGINNING_STRING)
            yield _Part(_ALL, optional=False, begins=begins, ends=value in (c.AT_END, c.AT_END_STRING))
        elif op in (c.ASSERT, c.ASSERT_NOT):
            continue
        else:
            yield _Part(_characters(op, value), optional=False, group=group)


def _nested(inside: Sequence[_Part], group: str | None) -> Iterator[str]:
    """A repetition in a repetition, with nothing between two rounds that tells them apart."""
    for part in inside:
        if part.endless and all(other is part or other.optional or other.chars & part.chars for other in inside):
            which = f" in group {group!r}" if group else ""
            yield f"a repetition of a repetition{which}, as (a+)+, can take a line of 40 characters for ever; write one, a+, or {_HOW}"


def _characters(op: Any, value: Any) -> frozenset[int]:
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
