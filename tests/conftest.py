from __future__ import annotations

import gc
import os
import sys
from typing import Any

import pytest

if "PYTEST_XDIST_WORKER" in os.environ and not hasattr(sys.modules["__main__"], "__file__"):
    # A worker's main module is none that anybody could name, which pyspark takes for a doctest of
    # its own and ends the process.
    sys.modules["__main__"].__file__ = __file__


#: Both wait for Great Expectations, which a worker imports in seconds: one worker runs them.
_TOGETHER = {"tests/unit/test_gates_judging.py": "tests/unit/test_gates_source.py"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """Keep the tests of a file, and of files that wait for the same import, in one worker."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByImport(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope = super()._split_scope(nodeid)
            return _TOGETHER.get(scope, scope)

    return ByImport(config, log)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at all that was imported, again and again."""
    gc.collect()
    gc.freeze()
