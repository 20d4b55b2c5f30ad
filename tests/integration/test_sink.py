"""What comes back from a ship's Spark job, with Spark's own workers; what they do there is
shipping's business, and tested elsewhere."""

import functools
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from spark_jobs import sink
from spark_jobs.session import session
from tests.samples.config import pipeline_of

pytestmark = [pytest.mark.spark]


@pytest.fixture(scope="module")
def spark():
    source = {"path": "/logs/"}
    found = session(
        pipeline_of(pipeline="sink", source=source, runner={"driver_memory": "1g", "cores": 2})
    )
    yield found
    found.stop()


def test_receipts_of_tasks_that_are_done_are_there_once_also_when_another_one_fails_later(
    spark, tmp_path
):
    receipts = spark.sparkContext.accumulator([], sink._Listed())

    def work(receipts, folder, fails, batches):
        import time
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for _ in batches:
            pass
        task, done = context.partitionId(), Path(folder) / "done"
        if task == 0 and context.attemptNumber() == 0:
            receipts.add(["of an attempt that failed"])
            raise ValueError("another attempt mends it")
        if task == 1:
            until = time.monotonic() + 60
            while not done.exists() and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(0.5)  # so that the driver has heard of the other one
            if fails:
                raise ValueError("no attempt mends it")
        receipts.add([f"of task {task}"])
        if task == 0:
            done.touch()
        return iter(())

    frame = spark.range(0, 100, 1, 2)
    frame.mapInArrow(
        functools.partial(work, receipts, str(tmp_path), False), "nothing boolean"
    ).collect()
    assert sorted(receipts.value) == ["of task 0", "of task 1"]
    (tmp_path / "done").unlink()
    receipts = spark.sparkContext.accumulator([], sink._Listed())
    with pytest.raises(PySparkException, match="no attempt mends it"):
        frame.mapInArrow(
            functools.partial(work, receipts, str(tmp_path), True), "nothing boolean"
        ).collect()
    assert receipts.value == ["of task 0"]


@pytest.mark.long
def test_an_order_of_any_size_reaches_the_tasks_and_no_disk(spark, tmp_path):
    """What is larger than a megabyte pyspark would put into a file, and an order has passwords."""
    canary = b"canary-7d1f" * 200_000

    def work(packed, batches):
        for _ in batches:
            pass
        assert len(packed) == 2_200_000
        return iter(())

    spark.range(0, 10, 1, 2).mapInArrow(
        functools.partial(work, canary), "nothing boolean"
    ).collect()
    conf = spark.sparkContext.getConf()
    folder = Path(
        str(
            spark.sparkContext._jvm.org.apache.spark.util.Utils.getLocalDir(
                spark.sparkContext._jsc.sc().conf()
            )
        )
    )
    assert conf.get("spark.broadcast.UDFCompressionThreshold") == "1g"
    assert folder.is_dir()
    assert not [
        path for path in folder.rglob("*") if path.is_file() and b"canary-7d1f" in path.read_bytes()
    ]


@pytest.mark.long
def test_workers_that_are_started_ahead_are_those_that_ship(spark, tmp_path):
    sink.start_workers(spark, 2)

    def work(batches):
        import sys

        for _ in batches:
            pass
        assert "shipper.worker.task" in sys.modules
        return iter(())

    spark.range(0, 10, 1, 2).mapInArrow(work, "nothing boolean").collect()
