"""S3A, Hadoop's client for S3: the jars that a pipeline needs for it, and Hadoop's settings. Spark
does not include it.

The usual bundle of the AWS SDK has 686 MB; the parts that S3A uses have 13 MB, and they are
downloaded automatically. A setup with its own S3A (`runner.conf`, the Spark of a cluster) keeps it,
and nothing is added: with two of them on one class path, the one that is used would be a matter of
chance.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from shipper.cache import cache_folder
from shipper.config.pipeline import Pipeline
from shipper.config.runner_options import Runner
from shipper.config.s3 import DEFAULTS
from shipper.jars import LOCKS, resolve_jars
from shipper.terminal import say

SCHEME = "s3a://"
#: S3A and Hadoop must have the same release: that of the Hadoop in pyspark.
_HADOOP = "3.5.0"
LOCK = LOCKS / f"s3a-{_HADOOP}.txt"
_ITS_OWN = re.compile(r"hadoop-aws|hadoop-cloud")
_SETTINGS = (
    "spark.jars",
    "spark.jars.packages",
    "spark.driver.extraClassPath",
    "spark.executor.extraClassPath",
)
_VARIABLES = ("SPARK_DIST_CLASSPATH", "HADOOP_CLASSPATH", "PYSPARK_SUBMIT_ARGS")


def reads_s3(pipeline: Pipeline) -> bool:
    return pipeline.source.path.startswith(SCHEME)


def s3a_jars(pipeline: Pipeline, spark_home: Path) -> list[Path]:
    """Return what has to be added to the Spark in ``spark_home`` so that the pipeline can read its
    source: S3A's jars, or nothing. They are fetched if they are not in the cache. Raises
    JarsUnavailable."""
    if not reads_s3(pipeline) or _brings_its_own(pipeline.runner, spark_home):
        return []
    return sorted(resolve_jars(LOCK, say).glob("*.jar"))


def _brings_its_own(
    runner: Runner, spark_home: Path, environ: Mapping[str, str] = os.environ
) -> bool:
    """Return True if Spark has an S3A already; also if it has another Hadoop, with which these jars
    were not tested."""
    said = [runner.conf.get(name, "") for name in _SETTINGS] + [
        environ.get(name, "") for name in _VARIABLES
    ]
    defaults = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf") / "spark-defaults.conf"
    if defaults.is_file():
        said.append(defaults.read_text(errors="replace"))
    jars = spark_home / "jars"
    return (
        any(_ITS_OWN.search(words) for words in said)
        or any(jars.glob("hadoop-aws-*.jar"))
        or not (jars / f"hadoop-client-api-{_HADOOP}.jar").exists()
    )


def class_path(jars: list[Path]) -> str:
    """Return a class path. The jars lie in one folder, and a class path has one entry for a
    folder's jars."""
    return f"{jars[0].parent}/*" if jars else ""


def is_ours(class_path: str) -> bool:
    """Return True if :func:`class_path` made it."""
    path = Path(class_path)
    return (
        path.name == "*"
        and path.parent.name.startswith(LOCK.stem)
        and path.parent.parent == cache_folder() / "jars"
    )


def settings(pipeline: Pipeline) -> tuple[dict[str, str], dict[str, str]]:
    """Return Hadoop's settings: those that `runner.conf` overrides, and those that `source.s3`
    sets, without the secrets."""
    s3 = pipeline.source.s3
    return (dict(DEFAULTS), s3.settings() if s3 else {}) if reads_s3(pipeline) else ({}, {})


def secrets(pipeline: Pipeline) -> dict[str, str]:
    """Return the settings that only Hadoop's Configuration gets, in memory."""
    s3 = pipeline.source.s3
    return s3.secrets() if s3 and reads_s3(pipeline) else {}
