import gc
import os
import sys
from typing import Any

import pytest
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ and not hasattr(sys.modules["__main__"], "__file__"):
    # A worker's main module is none that anybody could name, which pyspark takes for a doctest of
    # its own and ends the process.
    sys.modules["__main__"].__file__ = __file__


# No test fails on time alone. `make unit` looks at as many examples as show a fault that is not
# rare, and `make long` (``--hypothesis-profile=long``) looks for the others.
settings.register_profile("unit", deadline=None, max_examples=50)
settings.register_profile("long", deadline=None, max_examples=500)
settings.load_profile("unit")

#: Files that one worker runs, one after the other: those that wait for Great Expectations, which a
#: worker imports in seconds; those that start an Airflow with Spark, which needs memory; those that
#: need the secured broker.
_TOGETHER = {
    "tests/unit/test_gates_judging.py": "tests/unit/test_gates_source.py",
    "tests/unit/test_unread_gate.py": "tests/unit/test_gates_source.py",
    "tests/dags/test_demo_run.py": "tests/dags/test_wheel.py",
    "tests/integration/test_doctor.py": "tests/integration/test_security.py",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """Keep the tests of a file, and of files that belong together, in one worker."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            scope = super()._split_scope(nodeid)
            return _TOGETHER.get(scope, scope)

    return Together(config, log)


def pytest_collection_finish():
    """Keep the garbage collector from looking at all that was imported, again and again."""
    gc.collect()
    gc.freeze()
