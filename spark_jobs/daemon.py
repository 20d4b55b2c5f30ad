"""Spark's daemon of Python workers, with what a ship needs imported before it forks them: each
worker took 0.65 CPU seconds for that (docs/adr/0034). Named by `spark.python.daemon.module`."""

from __future__ import annotations

import gc

from pyspark.daemon import manager

from shipper.worker import task

if __name__ == "__main__":
    task.get_ready()
    gc.freeze()  # pages that no collection touches stay shared
    manager()
