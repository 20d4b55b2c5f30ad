"""Docstrings of models' fields, read from their sources when somebody asks. pydantic can do that,
too, but would parse a source for each model in every process that imports it: 0.1 s for a
pipeline's, 0.2 s for a report's."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Mapping
from itertools import pairwise
from types import ModuleType

from pydantic import BaseModel


def docstring_of(model: type[BaseModel], field: str) -> str | None:
    """Return the docstring under ``field`` in one line, of the first of the model's bases that has
    the field."""
    owner = next(one for one in model.__mro__ if field in one.__annotations__)
    return _docstrings(sys.modules[owner.__module__]).get((owner.__name__, field))


@functools.cache
def _docstrings(module: ModuleType) -> Mapping[tuple[str, str], str]:
    """Return them by class and field."""
    found = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef):
            for field, below in pairwise(node.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                        value=ast.Constant(value=str(text))
                    ):
                        found[node.name, name] = " ".join(text.split())
    return found
