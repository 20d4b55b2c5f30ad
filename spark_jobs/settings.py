"""Spark's settings for a pipeline, with everything pinned that decides where files are cut. They
hold for the JVM that lists files, too."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from shipper import s3a
from shipper.config.pipeline import Pipeline
from shipper.config.properties import SQL_DEFAULTS
from shipper.config.runner_options import Runner
from shipper.driver import kerberos
from shipper.driver.dispositions import has_sql
from shipper.runner import carried, task_python
from spark_jobs.java_command import spark_home
from spark_jobs.jvm import log_settings

#: A worker fills and frees tens of megabytes a second. glibc gives freed memory back to the kernel
#: at once, and 4 kB at a time is a fault for each page when it is taken again: up to 75,000 faults
#: per million lines. Kept, and in huge pages (glibc 2.35 or later), a worker needs 10 % less CPU
#: near and far (measured: 0.87 and 1.37 instead of 0.98 and 1.50 s per million lines). Many arenas
#: would keep 60 MB more.
_MALLOC = {
    "arena_max": 2,
    "hugetlb": 1,
    "trim_threshold": 1 << 30,
    "top_pad": 16 << 20,
    "mmap_threshold": 32 << 20,  # else 128 kB, once trim_threshold is given
}
#: Spark's minor version, which the ledger has, because another version may evaluate an expression
#: differently. Read without importing Spark.
SPARK_MINOR = ".".join(version("pyspark").split(".")[:2])
_MOST_ROWS, _MOST_BATCH_BYTES = 4000, 2**30
#: For a pipeline without SQL: compiling SQL to Java takes a second of a start, and would help no
#: row.
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_TUNABLES = ":".join(f"glibc.malloc.{name}={value}" for name, value in _MALLOC.items())


def _rows_per_batch(max_line_bytes: int) -> int:
    """Return the rows of a batch. Spark cuts its batches by rows (`job.py` says why not by bytes),
    so the longest lines decide how much memory one may need: 1 GiB. Measured: 1,024 rows cost Java
    4 % more CPU than 4,000, which is the point of diminishing returns."""
    return max(16, min(_MOST_ROWS, _MOST_BATCH_BYTES // max_line_bytes))


def spark_settings(pipeline: Pipeline) -> dict[str, str]:
    """Return all settings, with the master and the application's name; no secret. Raises
    JarsUnavailable for a source that needs more than Spark brings."""
    runner = pipeline.runner
    hadoop, of_source = s3a.settings(pipeline)
    more_jars = s3a.s3a_jars(pipeline, Path(os.environ.get("SPARK_HOME") or spark_home()))
    return {
        "spark.app.name": f"shipper {pipeline.name}",
        "spark.master": runner.spark_master,
        "spark.driver.memory": runner.driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join(_java_options()),
        # By default Java and Python must have found each other after 15 s, which a busy machine
        # does not always let them.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(
            _rows_per_batch(pipeline.records.max_line_bytes)
        ),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.daemon.module": "spark_jobs.daemon",
        # Without a keytab new tokens come by the ticket cache, which somebody may renew. By default
        # only a keytab gives new ones.
        "spark.kerberos.renewal.credentials": "ccache",
        **({} if has_sql(pipeline) else _INTERPRETED),
        **(
            {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
            if runner.kind == "local"
            else {}
        ),
        "spark.executorEnv.GLIBC_TUNABLES": _TUNABLES,
        "spark.executorEnv.LC_ALL": _UTF8,
        **SQL_DEFAULTS,
        **_for_hadoop(hadoop),
        **_tokens(pipeline),
        **runner.conf,
        **_for_hadoop(of_source),
        **_more_class_path(runner, more_jars),
        "spark.speculation": "false",
        # By default Spark passes data over 1 MB to Python in a file, and an order has passwords.
        "spark.broadcast.UDFCompressionThreshold": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.variable.substitute": "false",
        "spark.hadoop.mapreduce.input.linerecordreader.line.maxlength": str(2**31 - 1),
        "spark.sql.files.maxPartitionBytes": str(pipeline.split_size_bytes),
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        **carried(runner, [] if runner.kind == "local" else more_jars),
    }


def _java_options() -> Iterator[str]:
    yield f"-Dlog4j2.configurationFile={log_settings().as_uri()}"
    # Java does not ask for TMPDIR. Spark keeps there what it spills, too.
    option = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
    yield f'"{option}"' if " " in option else option


def _for_hadoop(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"spark.hadoop.{name}": value for name, value in settings.items()}


def _tokens(pipeline: Pipeline) -> dict[str, str]:
    """Return what gives executors delegation tokens of a kerberized source. By default Spark has
    them of `fs.defaultFS` alone, and a standalone one has none (jvm/shipper/spark)."""
    runner, (scheme, _, host, *_) = pipeline.runner, f"{pipeline.source.path}///".split("/")
    if scheme not in ("hdfs:", "viewfs:") or not kerberos.is_on(runner.conf):
        return {}
    found = {"spark.kerberos.access.hadoopFileSystems": f"{scheme}//{host}"} if host else {}
    if runner.kind == "standalone":
        found["spark.master"] = f"kerberized:{runner.spark_master}"
        # The workers need no core-site.xml.
        found["spark.hadoop.hadoop.security.authentication"] = "kerberos"
    return found


def _more_class_path(runner: Runner, jars: list[Path]) -> dict[str, str]:
    """Return the class path. In one process, the driver's class path is everybody's: Spark need
    copy no jar."""
    if runner.kind != "local" or not jars:
        return {}
    theirs = runner.conf.get("spark.driver.extraClassPath")
    return {
        "spark.driver.extraClassPath": os.pathsep.join(filter(None, (theirs, s3a.class_path(jars))))
    }


#: In which Java writes the names of files. In the POSIX locale it has none for a name beyond ASCII.
_UTF8 = "C.UTF-8"


def set_environment(pipeline: Pipeline) -> None:
    """Set variables of this process, which the JVM and Spark's workers on this machine inherit."""
    if next(
        (value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "C"
    ) in ("C", "POSIX"):
        os.environ["LC_ALL"] = _UTF8
    # Python data sources and workers run in what these name; the default would be whatever
    # `python3` is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", task_python(pipeline.runner))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", pipeline.runner.python or sys.executable)
    os.environ.setdefault("GLIBC_TUNABLES", _TUNABLES)
