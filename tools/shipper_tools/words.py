"""Figures of the project's prose: ``make words``.

Prints the share of docstrings that open with a fragment, errors without a code, and the line and
sentence lengths of the docs. ``--check`` exits with 1 if a figure is beyond its limit, and names
what to change. ``--inventory`` prints every text that users meet, for a reading as a set.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

PRODUCT = ("shipper", "spark_jobs", "shipper_airflow", "dags")
MOST_FRAGMENTS = 0.03
"""Share of the product's docstrings."""
MOST_COLUMNS = 100
MEDIAN_WORDS, MOST_WORDS = 16, 30
"""Words per sentence in the docs: the median, and the 95th percentile."""

_CODE = re.compile(r"SHIP-\d{3}")
_OPENERS_TEXT = """
after also anything as at before behind besides but by else elsewhere empty even everything for
from he how if in instead it its like neither never nobody none not nothing of on once only or
per since so something that there these they this those through to under unless until we what
whatever when where whether which while who whoever whose why with within without
"""
_OPENERS = frozenset(_OPENERS_TEXT.split())
"""Words with which no noun phrase begins, or that point at something outside the sentence."""
_VERBS_TEXT = """
abandon abort accept access account acquire act adapt add admit adopt aim allow alter analyse
announce answer append apply archive ask assert assign attach attempt audit await balance be
begin bind block bound break bring build bundle call cancel cast catch change charge check
choose claim classify clean clear close collect combine commit compare compile complete compress
compute conclude configure confirm connect consume continue convert copy correct count cover
create cut deal debit decide declare decode decompress decrypt deduplicate default defer define
delay delete deliver derive describe detect determine diagnose digest discard disconnect display
divide do download drain draw drive drop dump embed emit empty enable encode encrypt end enqueue
ensure enter escape estimate evaluate examine exclude execute exit expand expect explain export
extend extract fail fence fetch fill filter find finish fit flag flatten flush fold follow
forget format forward free gather generate get give group guard guess halve hand handle hash
hide hold identify ignore import include increment index infer inform initialise insert inspect
install interrupt invalidate invert iterate join judge keep kill label launch lay learn leave
let limit link list listen load locate lock log look lower make map mark match materialise
measure meet merge migrate mirror mount move name narrow normalise note notify number observe
offer omit open order overlap override pack pad park parse part partition pass pause permit
persist pick pickle place plan point poke poll pop post predict prefer prefix prepare prepend
preserve preview print probe process produce propose prove provide prune publish pull push put
quarantine query queue quote raise randomise rank reach read rebuild receive recheck recognise
recompute reconcile reconnect record recount recover recreate redact reduce refuse register
reject release reload remember remove rename render renew reopen repair repeat replace replay
report request require resend reserve reset reship resize resolve respond restart restore
restrict resume retire retry return reuse reveal reverse revoke rewrite roll rotate round route
run sample save say scale scan schedule score seal search see select send separate serialise
serve set settle shade share shift ship shorten show shrink shuffle shut sign silence simulate
size skip sleep slice smooth sort spawn spell split spread stage stamp start state step stop
store stream strip submit subtract suggest sum summarise suppress swap switch take tally tell
terminate test throttle tie time total touch trace track transform translate treat trim truncate
try tune turn undo unlock unpack unregister unseal unwind unwrap update upload use validate
verify visit wait wake walk want warm warn watch weigh widen withdraw wrap write yield
"""
_VERBS = frozenset(_VERBS_TEXT.split())
"""Verbs with which a function's docstring may begin. A verb that is missing belongs here."""
_NOUNS_TOO_TEXT = """
accounts answers archives attempts blocks bounds calls changes checks claims counts cuts digests
ends faults files filters folds formats groups hashes indexes joins keys labels leaves limits
links lists locks logs looks maps marks matches names notes numbers offers offsets orders
overrides partitions parts places plans points prefixes probes processes queries queues quotes
ranks reads reasons records replays reports requests results retries rounds routes rows runs
samples scans schedules seals settings shares ships sizes slices splits stages stamps starts
states steps stores streams sums tests texts times totals traces turns uses visits waits watches
"""
_NOUNS_TOO = frozenset(_NOUNS_TOO_TEXT.split())


class Docstring(NamedTuple):
    path: Path
    line: int
    kind: str
    """`module`, `class`, `function`, `property` or `field`."""
    text: str

    def is_fragment(self) -> bool:
        """Return True if the first word cannot begin a docstring of this kind."""
        word = re.split(r"[\s,.:;]", self.text.strip(), maxsplit=1)[0]
        first = word.lower()
        if not word or (self.kind != "function" and not word.isalpha()):
            return False
        if self.kind == "function":
            return first not in _VERBS and not self.text.startswith("True if")
        if self.kind in ("class", "module") and first not in _NOUNS_TOO:
            return first in _OPENERS or _base(first) in _VERBS
        return first in _OPENERS


def _base(word: str) -> str:
    """Return the verb of which ``word`` is the third person; empty if it is none."""
    for ending, verb in (("ies", "y"), ("es", ""), ("es", "e"), ("s", "")):
        if word.endswith(ending) and (base := word.removesuffix(ending) + verb) in _VERBS:
            return base
    return ""


class Message(NamedTuple):
    path: Path
    line: int
    kind: str
    """`raise NAME`, `log`, `say`, `help` or `docstring`."""
    text: str


class DocFigures(NamedTuple):
    long_lines: list[str]
    """`FILE:LINE` of each line over MOST_COLUMNS; those of tables and links cannot be wrapped."""
    median: float
    percentile: int
    """Words of a sentence that 95 % do not exceed."""
    sentences: int


def modules(root: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the product's modules."""
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*.py")):
            yield path.relative_to(root), ast.parse(path.read_text(encoding="utf-8"))


def docstrings(path: Path, module: ast.Module) -> Iterator[Docstring]:
    """Yield the docstrings of a module, of what it defines, and of fields."""
    if text := ast.get_docstring(module):
        yield Docstring(path, 1, "module", text)
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield Docstring(path, node.lineno, _kind(node), text)
        for before, after in _neighbours(getattr(node, "body", None)):
            if isinstance(before, ast.Assign | ast.AnnAssign) and (text := _string(after)):
                yield Docstring(path, after.lineno, "field", text)


def _kind(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if isinstance(node, ast.ClassDef):
        return "class"
    decorators = {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}
    return "property" if decorators & {"property", "cached_property"} else "function"


def _neighbours(body: object) -> Iterable[tuple[ast.stmt, ast.stmt]]:
    return pairwise(body) if isinstance(body, list) else ()


def _string(node: ast.stmt) -> str:
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def messages(path: Path, module: ast.Module) -> Iterator[Message]:
    """Yield the texts with which a module raises, logs, prints, and describes its options."""
    for node in ast.walk(module):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func)
            yield Message(path, node.lineno, f"raise {name}", _text(node.exc.args))
        elif isinstance(node, ast.Call):
            function = ast.unparse(node.func).split(".")[-1]
            if function in {"say", "warning", "error", "info", "print"} and _text(node.args):
                kind = "say" if function in {"say", "print"} else "log"
                yield Message(path, node.lineno, kind, _text(node.args))
            for keyword in node.keywords:
                if keyword.arg in {"help", "epilog", "description"} and _text([keyword.value]):
                    yield Message(path, node.lineno, "help", _text([keyword.value]))


def _text(arguments: list[ast.expr]) -> str:
    """Return the literal parts of a call's arguments; what is put in stands in braces."""
    parts = []
    for argument in arguments:
        if isinstance(argument, ast.JoinedStr):
            parts.append(
                "".join(
                    str(part.value)
                    if isinstance(part, ast.Constant)
                    else f"{{{ast.unparse(part.value)}}}"
                    for part in argument.values
                    if isinstance(part, ast.Constant | ast.FormattedValue)
                )
            )
        elif isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            parts.append(argument.value)
    return " | ".join(parts)


def without_code() -> list[str]:
    """Return the names of shipper's error classes that have no code."""
    from shipper import errors

    def below(error: type[errors.ShipperError]) -> Iterator[type[errors.ShipperError]]:
        yield error
        for kind in error.__subclasses__():
            yield from below(kind)

    return [
        kind.__name__
        for kind in below(errors.ShipperError)
        if not _CODE.fullmatch(str(getattr(kind, "code", "")))
    ]


def measure_docs(root: Path) -> DocFigures:
    """Measure README and docs/**/*.md: lines, and sentences of prose outside code and tables."""
    long_lines, lengths = [], []
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        fenced, prose = False, list[str]()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
                prose.append("")
                continue
            plain = not fenced and not line.lstrip().startswith(("|", "#", "!", "<", "["))
            if len(line) > MOST_COLUMNS and (plain or fenced):
                long_lines.append(f"{path.relative_to(root)}:{number}")
            item = re.sub(r"^\s*([-*+>]|\d+\.)\s+", "\n\n", line)
            prose.append(item if plain else "\n\n")
        for paragraph in re.split(r"\n\s*\n", "\n".join(prose)):
            text = re.sub(r"`[^`]*`|\[([^]]*)\]\([^)]*\)", r"x\1", " ".join(paragraph.split()))
            sentences = re.split(r"(?<=[.!?])\s+", text)
            lengths += [count for each in sentences if (count := len(each.split())) > 2]
    ordered = sorted(lengths) or [0]
    return DocFigures(
        long_lines, statistics.median(ordered), ordered[int(len(ordered) * 0.95)], len(lengths)
    )


def main() -> int:
    """Print the figures; with ``--check`` return 1 if one is beyond its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--check", action="store_true", help="fail if a figure is beyond its limit")
    parser.add_argument("--inventory", action="store_true", help="print what users read")
    parser.add_argument("--fragments", action="store_true", help="print the fragments")
    asked = parser.parse_args()
    parsed = list(modules(asked.root))
    if asked.inventory:
        for said in (found for path, module in parsed for found in messages(path, module)):
            print(f"{said.path}:{said.line}: {said.kind}: {' '.join(said.text.split())}")
        return 0
    every = [found for path, module in parsed for found in docstrings(path, module)]
    fragments = [found for found in every if found.is_fragment()]
    share, uncoded = len(fragments) / len(every), without_code()
    docs = measure_docs(asked.root)
    print(f"docstrings that open with a fragment  {share:.1%} of {len(every):,}")
    print(f"error classes without a code          {len(uncoded)}")
    print(f"docs: lines over {MOST_COLUMNS} columns          {len(docs.long_lines)}")
    print(
        f"docs: words per sentence              median {docs.median:g}, 95 % {docs.percentile}"
        f" ({docs.sentences:,} sentences)"
    )
    if asked.fragments:
        for each in fragments:
            print(f"{each.path}:{each.line}: {each.kind}: {each.text.splitlines()[0]}")
    wrong = []
    if share > MOST_FRAGMENTS:
        wrong.append(f"more than {MOST_FRAGMENTS:.0%} of the docstrings open with a fragment")
    if uncoded:
        wrong.append(f"errors without a code: {', '.join(uncoded)}")
    if docs.long_lines:
        wrong.append(f"longer than {MOST_COLUMNS} columns: {', '.join(docs.long_lines)}")
    if docs.median > MEDIAN_WORDS or docs.percentile > MOST_WORDS:
        wrong.append(
            f"sentences in docs: the median may be {MEDIAN_WORDS}, 95 % may be {MOST_WORDS} words"
        )
    if asked.check:
        for fault in wrong:
            print(fault, file=sys.stderr)
    return 1 if asked.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
