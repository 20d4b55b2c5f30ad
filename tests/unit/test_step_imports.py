"""What each step of a run imports before it does anything: a process of its own pays for that each time."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Step → modules that are loaded when it begins, measured, and a tenth more. In CPU seconds: 0.5 for the report, 0.6 to 0.7 for the others.
_MOST = {"plan": 520, "gate_source": 520, "ship": 525, "gate_delivery": 520, "run": 500}
_HEAVY = ("airflow", "great_expectations", "numpy", "pandas", "py4j", "pyarrow", "pyspark")


@pytest.mark.parametrize("step", _MOST)
def test_a_step_imports_no_more_than_it_needs_to_begin(step: str) -> None:
    """`run` stands for the report. Spark, Great Expectations and Arrow come when there is something to read or to judge."""
    code = f"import sys, spark_jobs.__main__, spark_jobs.engine, shipper.driver.run, shipper.driver.{step}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name in _HEAVY] == []
    assert len(loaded) <= _MOST[step]
