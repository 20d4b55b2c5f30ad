"""Spark SQL out of values that users wrote."""

from __future__ import annotations


def literal(text: str) -> str:
    """``text`` as a string literal, backslashes and quotes as they are in ``text``."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def column(name: str) -> str:
    return f"`{name}`"


def array(texts: tuple[str, ...]) -> str:
    return f"array({', '.join(literal(text) for text in texts)})"
