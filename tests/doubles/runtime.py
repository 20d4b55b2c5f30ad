"""The product's time and threads, with some of them replaced for one module."""

from types import SimpleNamespace
from typing import Any

from shipper import runtime


def runtime_with(**replaced: Any) -> SimpleNamespace:
    """Return what a module knows as ``runtime``, with these in the place of its own."""
    return SimpleNamespace(**{name: getattr(runtime, name) for name in runtime.__all__} | replaced)
