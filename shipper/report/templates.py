"""Templates of the pages that people read: a run's report, and the Shipments page in Airflow."""

from __future__ import annotations

from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from shipper.config.units import format_bytes, number, plural
from shipper.terminal import visible


def environment(package: str) -> Environment:
    """Return the environment of a package's templates. File names, error texts and topics may be
    hostile: each value is escaped, and characters that a reader cannot see (control characters,
    overrides of the writing direction, lone surrogates) are shown by their code."""
    files = resources.files(package)
    made = Environment(
        loader=FunctionLoader(lambda name: files.joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_legible,
    )
    made.filters["prose"] = _prose
    made.globals.update(number=number, plural=plural, bytes=format_bytes)
    return made


def _legible(value: Any) -> Any:
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return visible(value.replace("\r\n", "\n"), keep="\n")


def _prose(value: str) -> str:
    """Return a sentence of ours, with the text between backticks as code. A lone backtick stays
    one."""
    parts = _legible(value).split("`")
    if len(parts) % 2 == 0:
        return value
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts)
    )
