"""The sink: one Spark job whose tasks ship their lines, in Arrow batches with the columns that
:func:`spark_jobs.frame.records` makes.

It is not a data source of Spark's Python API. Such a source starts one Python daemon each to look
for sources, to plan the write and to commit it, which costs three seconds of every ship
(docs/adr/0015). Receipts come back by an accumulator, so those of finished tasks are there also
when the job fails: Spark adds the value of a successful task once.

The order, with its passwords, travels inside the job, from memory to memory: options of a source
would be shown in Spark's plans, and broadcasts for Python lie in files (hence
``spark.broadcast.UDFCompressionThreshold`` in spark_jobs.settings). Workers import this module to
find :func:`_ship`; a task's own modules are imported when it runs.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import Accumulator, AccumulatorParam

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from shipper.config.cluster import Cluster
    from shipper.worker.order import ShipOrder
    from shipper.worker.receipt import Receipt


_OTHER_CODE = (
    "Spark's executors run another version of shipper than the driver, so nothing was sent. Pack "
    "`runner.archive` again, or install the driver's version in the executors' environment "
    "(`runner.python`)."
)


_TOLD = "python string, host string, daemon long, code string"
_TELLS_SECONDS = 0.5
"""Time that a task of :func:`look_at_executors` takes, so that no executor gets two of them."""


def nothing() -> StructType:
    """Return the schema of a job whose answer is not its rows. As text (`nothing boolean`), Spark
    would start its parser of SQL for it, which a pipeline without SQL never needs."""
    from pyspark.sql.types import BooleanType, StructField, StructType

    return StructType([StructField("nothing", BooleanType())])


def start_workers(spark: SparkSession, tasks: int) -> None:
    """Have Spark start the Python processes of ``tasks`` tasks, which import the modules for
    shipping: the first transaction then need not wait a second for them, if there is other work
    meanwhile. To be called in a thread. Never raises; a ship starts its own processes."""
    with contextlib.suppress(Exception):
        spark.range(0, tasks, 1, tasks).mapInArrow(_get_ready, nothing()).collect()


def look_at_executors(spark: SparkSession) -> list[dict[str, Any]]:
    """Return what a task of a ship would find on each executor: `python`, `host`, and whether the
    code is the driver's (`same_code`). Raises what Spark raises."""
    from shipper.worker.order import code_digest

    def ask(tasks: int) -> list[dict[str, Any]]:
        frame = spark.range(0, tasks, 1, tasks).mapInArrow(_tell, _TOLD)
        return [row.asDict() for row in frame.collect()]

    ask(1)  # executors come with the first task
    executors = len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1
    found = {(one["host"], one["daemon"]): one for one in ask(max(1, executors))}
    return [
        {"python": one["python"], "host": one["host"], "same_code": one["code"] == code_digest()}
        for one in found.values()
    ]


def _tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import platform

    import pyarrow as pa

    from shipper.worker import task as sink_task
    from shipper.worker.order import code_digest

    sink_task.get_ready()
    for _ in batches:
        pass
    from shipper import runtime  # Spark starts processes that need nothing of shipper

    runtime.sleep(_TELLS_SECONDS)
    told = {
        "python": platform.python_version(),
        "host": platform.node(),
        "daemon": os.getppid(),  # one of each executor
        "code": code_digest(),
    }
    yield pa.RecordBatch.from_pylist([told])


def _get_ready(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from shipper.worker import task as sink_task

    sink_task.get_ready()
    for _ in batches:  # a worker that was not told that there is no more is not used again
        yield from ()


class _Listed(AccumulatorParam[list[str]]):
    def zero(self, value: list[str]) -> list[str]:
        return []

    def addInPlace(self, value1: list[str], value2: list[str]) -> list[str]:  # noqa: N802 - Spark's name
        return value1 + value2


class Sink:
    def __init__(self, order: ShipOrder, cluster: Cluster) -> None:
        # What makes values is done in Java, with the schema's number: no task asks the registry.
        self._packed = pickle.dumps((order, cluster.model_copy(update={"schema_registry": None})))
        self._receipts: Accumulator[list[str]] | None = None

    def write(self, frame: DataFrame) -> None:
        """Run the job, with a task for each of the frame's partitions. Raises what Spark raises."""
        from shipper.worker.order import code_digest

        self._receipts = frame.sparkSession.sparkContext.accumulator([], _Listed())
        shipped = frame.mapInArrow(
            functools.partial(_ship, self._packed, code_digest(), self._receipts), nothing()
        )
        # Not `collect`: when a signal interrupts it, it calls Java once more, on the connection
        # that waits for an answer, and hangs.
        shipped.write.format("noop").mode("overwrite").save()

    @property
    def receipts(self) -> list[Receipt]:
        """Receipts of the finished tasks."""
        from shipper.worker.receipt import Receipt

        return (
            [Receipt.from_json(text) for text in self._receipts.value]
            if self._receipts is not None
            else []
        )


def _ship(
    packed: bytes, code: str, receipts: Accumulator[list[str]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Ship one task's records; ``code``: the driver's digest. Raises only errors that another
    attempt may mend, and not in the last attempt; every other error is in the receipt."""
    from pyspark import TaskContext

    from shipper.errors import DeliveryError
    from shipper.worker.order import code_digest
    from shipper.worker.receipt import seal_error
    from shipper.worker.task import TaskError, ship_task

    order, cluster = pickle.loads(packed)
    context: Any = TaskContext.get()
    task = context.partitionId()
    if code != code_digest():
        raise TaskError(seal_error(DeliveryError(_OTHER_CODE, code="SHIP-806"), order.seal))
    try:
        receipt = ship_task(
            order, cluster, batches, task, context.taskAttemptId(), context.attemptNumber()
        )
    except TaskError:
        raise
    except Exception as error:
        from spark_jobs.reason import of_python  # brings what a worker does not need otherwise

        cause = of_python(error)
        told = DeliveryError(
            f"task {task} failed: {cause.text}. What was committed is in the ledger. Run again: "
            "only the rest is sent.",
            code=cause.code,
        )
        raise TaskError(seal_error(told, order.seal)) from error
    receipts.add([receipt.to_json()])
    return iter(())
