"""The dev servers' jars, each server's by a lock of its own: ``locks/NAME.txt``."""

from __future__ import annotations

from pathlib import Path

from shipper import jars
from shipper.jars import Say

__all__ = ["LOCKS", "Say", "lock_file", "resolve_jars"]

LOCKS = Path(__file__).parent / "locks"


def lock_file(name: str) -> Path:
    """Where the lock called ``name``, e.g. ``kafka-4.3.1``, is kept: here, or with the library if a
    pipeline needs its jars."""
    of_library = jars.LOCKS / f"{name}.txt"
    return of_library if of_library.is_file() else LOCKS / f"{name}.txt"


def resolve_jars(name: str, say: Say = lambda line: None) -> Path:
    """See :func:`shipper.jars.resolve_jars`; of the lock ``name``."""
    return jars.resolve_jars(lock_file(name), say)
