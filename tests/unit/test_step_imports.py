"""What each step of a run imports before it does anything: a process of its own pays for that each
time."""

import json
import subprocess
import sys

import pytest

#: Step → modules that are loaded when it begins, measured, and a tenth more. In CPU seconds: 0.5
#: for the report, 0.6 to 0.7 for the others.
_MOST = {"plan": 520, "gate_source": 520, "ship": 525, "gate_delivery": 520, "run": 500}
_HEAVY = ("airflow", "great_expectations", "numpy", "pandas", "py4j", "pyarrow", "pyspark")
#: What all steps import is imported once; each step goes on in a fork.
_STEPS = f"""
import importlib, json, os, sys, spark_jobs.__main__, spark_jobs.spark_engine, shipper.driver.run
for step in {[*_MOST]}:
    if os.fork() == 0:
        importlib.import_module("shipper.driver." + step)
        print(json.dumps([step, *sys.modules]), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def loaded():
    said = subprocess.run(
        [sys.executable, "-c", _STEPS], capture_output=True, text=True, check=True
    ).stdout
    return {step: modules for step, *modules in map(json.loads, said.splitlines())}


@pytest.mark.parametrize("step", _MOST)
def test_a_step_imports_no_more_than_it_needs_to_begin(loaded, step):
    """`run` stands for the report. Spark, Great Expectations and Arrow come when there is something
    to read or to judge."""
    assert [name for name in loaded[step] if name in _HEAVY] == []
    assert len(loaded[step]) <= _MOST[step]
