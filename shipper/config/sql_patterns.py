"""The regular expressions that stand as literals in Spark SQL: behind RLIKE and REGEXP, and in functions that take one. Pure.

By the words alone, without Spark: what an expression is put together from, by `concat` or out of a column, is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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


def patterns_in(sql: str) -> Iterator[str]:
    """Each pattern as Java gets it."""
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
