"""What the sink's processes import decides how long a short ship takes: Spark starts four of them,
and more with more tasks."""

import subprocess
import sys


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_processes_that_only_plan_and_commit_import_nothing_of_shipper():
    loaded = run("import sys, spark_jobs.sink; print(*sys.modules)")
    assert [
        name
        for name in loaded
        if name.split(".")[0] in ("shipper", "pydantic", "confluent_kafka", "pandas")
    ] == []


def test_a_worker_makes_arrays_of_all_kinds_without_pandas_and_pandas_still_works_beside():
    arrays = (
        "pa.array([1]).fill_null(0).to_numpy(); pa.array(np.arange(3)); pa.array([b'a', None]); "
        "pa.chunked_array([[1.5]]).to_numpy()"
    )
    loaded = run(
        "import sys; from shipper.worker import cut, task; import numpy as np, pyarrow as pa; "
        f"task.get_ready(); {arrays}; print(*sys.modules); import pandas; "
        "pandas.DataFrame()"
    )
    assert "pyarrow.lib" in loaded
    assert "pandas" not in loaded
