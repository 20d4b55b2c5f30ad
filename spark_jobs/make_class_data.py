"""``python -m spark_jobs.make_class_data``: makes the class-data archive (see
:mod:`spark_jobs.class_data`) in some 20 s, if it is not there.

It repeats the work of a small run: lists, reads first bytes, starts Spark, checks SQL, scans, and
writes through a Python worker. Classes for other work (a cluster of HDFS, S3) are loaded from the
jars as before. Never fails: without an archive everything works.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Observation

from shipper.config.pipeline import Pipeline
from shipper.driver.pieces import file_pieces
from spark_jobs import class_data
from spark_jobs.expressions import sql_faults
from spark_jobs.frame import blocks, gate_frame, records
from spark_jobs.hadoop import Hadoop
from spark_jobs.jvm import begin_java, java_process
from spark_jobs.listing import list_files, look_at, qualified_folder
from spark_jobs.reader import LineLimits, count_records, reading
from spark_jobs.session import session
from spark_jobs.settings import set_environment, spark_settings
from spark_jobs.sink import nothing

if TYPE_CHECKING:
    import pyarrow as pa

#: Of the JVM, to write the archive after its last word.
_WRITES_WITHIN_SECONDS = 300
_LINES = b"".join(
    b'10.0.0.%d - "GET /page%d HTTP/1.1" %d\n' % (i % 256, i, 200 + i % 300) for i in range(2000)
)


def _take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    return iter(())


def _pipeline(folder: Path) -> Pipeline:
    parsed = {"regex": r'^(?<client>\S+) \S+ "(?<method>[A-Z]+) (?<url>\S+)[^"]*" (?<status>\d{3})'}
    return Pipeline.model_validate(
        {
            "pipeline": "classes",
            "source": {"path": str(folder)},
            "records": {
                "parse": parsed,
                "drop": {"health": "url = '/healthz'"},
                "key": "client",
                "headers": {"file": "file_name"},
            },
            "routes": [{"when": "status >= '500'", "topic": "errors"}, {"topic": "rest"}],
            "quarantine": {"topic": "bad"},
            "clusters": ["none"],
            "runner": {"driver_memory": "1g"},
        }
    )


def _small_run(folder: Path, options: list[str]) -> None:
    (folder / "plain.log").write_bytes(_LINES)
    (folder / "packed.log.gz").write_bytes(gzip.compress(_LINES))
    pipeline = _pipeline(folder)
    settings = spark_settings(pipeline)
    set_environment(pipeline)
    begin_java(settings, options=options)
    hadoop = Hadoop.start(settings)
    found = list_files(hadoop, [str(folder)], pipeline, most=10)
    files = [file.planned() for file in found.files]
    qualified_folder(hadoop, str(folder))
    look_at(hadoop, files, pipeline.source)
    spark = session(pipeline)
    sql_faults(spark, pipeline)
    pieces = list(file_pieces(files, 1 << 20))
    count_records(hadoop, pieces, LineLimits())
    with reading(spark, pieces, LineLimits(), partition_bytes=1 << 20) as read:
        gate_frame(read.frame, pipeline).selectExpr(
            "count(*)", "avg(octet_length(value))", "count_if(status is null)"
        ).collect()
        for made in (
            records(read.frame, pipeline, Observation("dispositions")),
            blocks(read.frame),
        ):
            made.coalesce(2).mapInArrow(_take, nothing()).write.format("noop").mode(
                "overwrite"
            ).save()
        read.reports()
    spark.stop()


def main() -> int:
    if (there := class_data.archive()) is not None:
        print(f"{there} is there", file=sys.stderr)
        return 0
    try:
        class_data.folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=class_data.folder(), prefix="part-", ignore_cleanup_errors=True
        ) as part:
            # A job that began this process takes its own temporary folder with it.
            os.environ["TMPDIR"] = tempfile.tempdir = part
            made = Path(part) / "made.jsa"
            _small_run(
                Path(tempfile.mkdtemp(prefix="logs-")),
                [
                    *class_data.OPTIONS,
                    f"-XX:ArchiveClassesAtExit={made}",
                    "-Xlog:disable",
                    "-Xlog:all=error:stderr",
                ],
            )
            java = java_process()
            if java is None or java.stdin is None:
                raise OSError(
                    "this machine's settings leave it to spark-submit how a JVM is started"
                )
            java.stdin.close()
            java.wait(_WRITES_WITHIN_SECONDS)
            if not made.exists():
                raise OSError("the JVM wrote none")
            made.chmod(0o644)
            name = f"{class_data.key()}-{class_data.checksum(made)}.jsa"
            made.replace(class_data.folder() / name)  # under its name there is never a part of one
    except Exception as error:
        print(
            f"no class-data archive, so every run starts a few seconds later: {error}",
            file=sys.stderr,
        )
        return 0
    print(f"{class_data.folder() / name} is made", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
