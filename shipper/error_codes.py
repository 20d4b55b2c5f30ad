"""Codes of errors: ``SHIP-303``.

A code stands for one remedy, not for one place in the code. It ends each error message and names
the error's section in docs/reference/errors.md. A code is never given to another error: a new error
gets a new number, and a section there.
"""

from __future__ import annotations

import re

_AT_THE_END = re.compile(r"\s*\[(SHIP-\d{3})\]\s*$")
UNEXPECTED = "SHIP-001"
STOPPED = "SHIP-002"
GATE_CLOSED = {"gate_source": "SHIP-701", "gate_delivery": "SHIP-702"}
"""Step → code of its closed gate."""


def code_of(text: str | None) -> str | None:
    """Return the code with which ``text`` ends; None if it ends with none."""
    found = _AT_THE_END.search(text or "")
    return found[1] if found else None


def without_code(text: str) -> str:
    """Return ``text`` without the code at its end."""
    return _AT_THE_END.sub("", text)


def with_code(text: str, code: str | None) -> str:
    """Return ``text`` with ``code`` at its end. A text that ends with a code keeps it."""
    return text if code is None or code_of(text) else f"{text.rstrip()} [{code}]"
