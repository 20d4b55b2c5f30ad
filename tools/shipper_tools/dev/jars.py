"""The dev servers' jars, each server's by a lock of its own (``locks/NAME.txt``), or pyspark's."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from shipper import jars
from shipper.jars import Say

__all__ = ["LOCKS", "Say", "lock_file", "pyspark_home", "resolve_jars"]

LOCKS = Path(__file__).parent / "locks"


def lock_file(name: str) -> Path:
    """Return where the lock called ``name``, e.g. ``kafka-4.3.1``, is kept: here, or with the
    library if a pipeline needs its jars."""
    of_library = jars.LOCKS / f"{name}.txt"
    return of_library if of_library.is_file() else LOCKS / f"{name}.txt"


def resolve_jars(name: str, say: Say = lambda line: None) -> Path:
    """See :func:`shipper.jars.resolve_jars`; of the lock ``name``."""
    return jars.resolve_jars(lock_file(name), say)


def pyspark_home() -> Path:
    """Return pyspark's folder, which is a Spark without ``sbin``. It is not imported for that."""
    spec = find_spec("pyspark")
    assert spec is not None, "shipper-tools depends on pyspark"
    return Path(str(spec.origin)).parent
