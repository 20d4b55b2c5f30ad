"""Hadoop's file systems in the JVM, configured as Spark's are; no SparkContext is needed
for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from spark_jobs.jvm import file_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Hadoop:
    """Access to files through Hadoop."""

    jvm: Any
    conf: Any
    """Hadoop's Configuration."""

    @classmethod
    def start(
        cls, settings: Mapping[str, str], secrets: Mapping[str, str] = MappingProxyType({})
    ) -> Hadoop:
        """Start as a SparkContext with these settings would: by the function that it calls, with
        the SparkConf that it would make. Raises pyspark's error if no JVM can be started.

        ``secrets``: for Hadoop's Configuration alone, which is never printed. Settings are on the
        JVM's command line, and Spark shows them.
        """
        jvm = file_gateway(settings).jvm
        conf = jvm.org.apache.spark.SparkConf(
            True
        )  # what was set up for this machine, and `spark-submit` was told
        for key, value in settings.items():
            conf.set(key, value)
        found = cls(jvm, jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(conf))
        tell(found.conf, secrets)
        return found

    @classmethod
    def of(cls, spark: SparkSession) -> Hadoop:
        return cls(spark._jvm, spark._jsc.hadoopConfiguration())


def tell(conf: Any, secrets: Mapping[str, str]) -> None:
    """Set secrets in Hadoop's Configuration, over the gateway's own connection."""
    for name, value in secrets.items():
        conf.set(name, value)
