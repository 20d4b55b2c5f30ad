"""The pieces of files that a `sample` is: the same ones each time, and cheap also where a file is huge."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from shipper.plan.files import split_starts
from shipper.report.results import PlannedFile
from spark_jobs.records import lines
from spark_jobs.session import MAX_PARTITION_BYTES, setting

#: Of a compressed file larger than a piece, which can be read from its beginning only.
HEAD_LINES = 20_000


@dataclass(frozen=True)
class Piece:
    """A file, or the part of one that begins at ``index × piece_bytes``; ``index`` None: all of it, or its first lines."""

    path: str
    index: int | None = None
    head: bool = False


def pieces(files: Sequence[PlannedFile], count: int, piece_bytes: int) -> list[Piece]:
    """``count`` pieces, or fewer if there are no more. Of more files than that one piece each of some, spread evenly over the list,
    which is in the order of paths and so mostly of time; of fewer files several each, spread evenly over the file."""
    chosen = [files[index * len(files) // count] for index in range(count)] if len(files) > count else list(files)
    found = []
    for number, file in enumerate(chosen):
        slices = len(split_starts(file.path, file.size_bytes, piece_bytes))
        if slices > 1:
            share = (count - number + len(chosen) - 1) // len(chosen)  # of the pieces, as even as it goes
            # One piece each: at another place of each file, so that they are not all beginnings.
            at = [(2 * number + 1) * slices // (2 * len(chosen))] if share == 1 else [i * slices // share for i in range(share)]
            found += [Piece(file.path, index) for index in dict.fromkeys(at)]
        else:
            found.append(Piece(file.path, head=file.size_bytes > piece_bytes))
    return found


def sample_lines(spark: SparkSession, chosen: Sequence[Piece], piece_bytes: int) -> DataFrame:
    """The lines of the pieces, as ``lines`` gives them without the split. Reads nothing yet.

    Each piece is planned by itself, and then they are one set of rows: a union of frames would plan all that is asked of them once for
    each, which takes longer than reading them."""
    whole = [piece.path for piece in chosen if piece.index is None and not piece.head]
    cut: dict[str, list[int]] = {}
    for piece in chosen:
        if piece.index is not None:
            cut.setdefault(piece.path, []).append(piece.index)
    with setting(spark, MAX_PARTITION_BYTES, piece_bytes), ThreadPoolExecutor(max(1, len(chosen))) as together:
        planned = [together.submit(_rows, _text(spark, whole))] if whole else []
        planned += [together.submit(_rows, _text(spark, [piece.path]).limit(HEAD_LINES)) for piece in chosen if piece.head]
        planned += [together.submit(_slices, spark, path, indexes) for path, indexes in cut.items()]
    rows = [each.result()[0] for each in planned]
    _, schema = planned[0].result()
    union = functools.reduce(lambda some, more: some.union(more), rows)
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(union, schema, False), spark)


def _text(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    return lines(spark, paths).drop("split")


def _rows(frame: DataFrame) -> tuple[Any, Any]:
    """As the JVM has them, and their schema. Planned with the settings as they are now."""
    rows = frame._jdf.queryExecution().toRdd()  # type: ignore[operator]
    rows.getNumPartitions()
    return rows, frame._jdf.schema()


def _slices(spark: SparkSession, path: str, indexes: Sequence[int]) -> tuple[Any, Any]:
    """Some of the partitions that Spark cuts the file into: the others are never opened. Spark cuts a file of its own in order, at
    multiples of the size that is set while its scan is planned; its line reader sees to lines that go over a cut."""
    jvm = spark._jvm
    wanted = jvm.java.util.HashSet()
    for index in indexes:
        wanted.add(index)
    # A Scala set is a function from an element to whether it is in there, which is what the pruning asks for.
    chosen = jvm.scala.jdk.javaapi.CollectionConverters.asScala(wanted).toSet()
    rows, schema = _rows(_text(spark, [path]))
    return jvm.org.apache.spark.rdd.PartitionPruningRDD.create(rows, chosen), schema
