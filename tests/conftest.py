from __future__ import annotations

import gc
import os
import sys

if "PYTEST_XDIST_WORKER" in os.environ and not hasattr(sys.modules["__main__"], "__file__"):
    # A worker's main module is none that anybody could name, which pyspark takes for a doctest of its own and ends the process.
    sys.modules["__main__"].__file__ = __file__


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at all that was imported, again and again."""
    gc.collect()
    gc.freeze()
