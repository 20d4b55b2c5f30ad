from __future__ import annotations

import os
import sys

if "PYTEST_XDIST_WORKER" in os.environ and not hasattr(sys.modules["__main__"], "__file__"):
    # A worker's main module is none that anybody could name, which pyspark takes for a doctest of its own and ends the process.
    sys.modules["__main__"].__file__ = __file__
