"""Figures of the project's prose: ``make words``.

Prints the share of docstrings that open with a fragment, and the line and sentence lengths of the
docs. ``--check`` exits with 1 if a figure is beyond its limit, and names what to change.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

PRODUCT = ("shipper", "spark_jobs", "shipper_airflow", "dags")
MOST_FRAGMENTS = 0.005
"""Share of the product's docstrings."""
MOST_COLUMNS = 100
MEDIAN_WORDS, MOST_WORDS = 16, 30
"""Words per sentence in the docs: the median, and the 95th percentile."""

_OPENERS_TEXT = """
after also anything as at before behind besides but by else elsewhere empty even everything for
from he how if in instead it its like neither never nobody none not nothing of on once only or
per since so something that there these they this those through to under unless until we what
whatever when where whether which while who whoever whose why with within without
"""
_OPENERS = frozenset(_OPENERS_TEXT.split())
"""Words with which no noun phrase begins, or that point at something outside the sentence."""


class DocFigures(NamedTuple):
    long_lines: list[str]
    """`FILE:LINE` of each line over MOST_COLUMNS; those of tables and links cannot be wrapped."""
    median: float
    percentile: int
    """Words of a sentence that 95 % do not exceed."""
    sentences: int


def docstrings(root: Path) -> Iterator[tuple[str, str]]:
    """Yield `FILE:LINE` and text of the docstrings of the product's modules, of what they define,
    and of fields."""
    for source in (path for folder in PRODUCT for path in sorted((root / folder).rglob("*.py"))):
        path = source.relative_to(root)
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ) and (text := ast.get_docstring(node)):
                yield f"{path}:{getattr(node, 'lineno', 1)}", text
            body = getattr(node, "body", None)
            for before, after in pairwise(body if isinstance(body, list) else ()):
                if isinstance(before, ast.Assign | ast.AnnAssign) and (text := _string(after)):
                    yield f"{path}:{after.lineno}", text


def _string(node: ast.stmt) -> str:
    value = node.value if isinstance(node, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def is_fragment(docstring: str) -> bool:
    """Return True if the first word can begin neither a sentence nor a noun phrase."""
    return re.split(r"[\s,.:;]", docstring.strip(), maxsplit=1)[0].lower() in _OPENERS


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
    """Print the figures, and what to change if one is beyond its limit; with ``--check`` return 1
    then."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a figure is beyond its limit")
    asked = parser.parse_args()
    texts = list(docstrings(Path()))
    fragments = [place for place, text in texts if is_fragment(text)]
    share, docs = len(fragments) / len(texts), measure_docs(Path())
    print(f"docstrings that open with a fragment  {share:.1%} of {len(texts):,}")
    print(f"docs: lines over {MOST_COLUMNS} columns          {len(docs.long_lines)}")
    print(
        f"docs: words per sentence              median {docs.median:g}, 95 % {docs.percentile}"
        f" ({docs.sentences:,} sentences)"
    )
    wrong = []
    if share > MOST_FRAGMENTS:
        wrong.append(
            f"more than {MOST_FRAGMENTS:.1%} of the docstrings open with a fragment: "
            f"{', '.join(fragments)}"
        )
    if docs.long_lines:
        wrong.append(f"longer than {MOST_COLUMNS} columns: {', '.join(docs.long_lines)}")
    if docs.median > MEDIAN_WORDS or docs.percentile > MOST_WORDS:
        wrong.append(
            f"sentences in docs: the median may be {MEDIAN_WORDS}, 95 % may be {MOST_WORDS} words"
        )
    print(*wrong, sep="\n", end="\n" * bool(wrong), file=sys.stderr)
    return 1 if asked.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
