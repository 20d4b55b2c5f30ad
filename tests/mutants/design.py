"""The table of invariants in docs/understand/design.md."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "understand" / "design.md"
_HEADING = "## Invariants that have caused bugs"


@dataclass(frozen=True)
class Invariant:
    """A row of the table."""

    rule: str
    """The first cell."""
    tests: tuple[str, ...]
    """Node ids of the tests that fail when the rule is removed."""


def invariants(text: str) -> list[Invariant]:
    """Return the rows of the table in ``text``. Raises ValueError if the table has no column
    `test`."""
    _, found, rest = text.partition(_HEADING)
    lines = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("|")]
    if not found or "test" not in (header := _cells(lines[0])):
        raise ValueError(f"design.md has no table below {_HEADING!r} with a column 'test'")
    column = header.index("test")
    return [Invariant(cells[0], _node_ids(cells[column])) for cells in map(_cells, lines[2:])]


def _cells(row):
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def _node_ids(cell):
    return tuple(f"tests/{code}" for code in re.findall(r"`([^`]+)`", cell))


def is_defined(node_id: str, root: Path = ROOT) -> bool:
    """Return True if the file of ``node_id`` defines that test."""
    path, *names = node_id.partition("[")[0].split("::")
    if not names or not (root / path).is_file():
        return False
    body = _statements(root / path)
    for name in names:
        defined = [
            node
            for node in body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        ]
        if not defined:
            return False
        body = defined[-1].body
    return True


@cache
def _statements(path):
    return ast.parse(path.read_text()).body
