"""Spark settings of `runner.conf`: those that shipper's promises rest on and those that decide what a line becomes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

_CUT = "it decides where files are cut"
_READER = "it decides what the reader takes for a line or a file, and what it leaves out is counted by nobody"
#: Setting, or a pattern of several → why it may not be set.
PINNED_SPARK_SETTINGS = {
    "spark.sql.files.maxPartitionBytes": f"{_CUT}; set `source.split_size`",
    "spark.sql.files.openCostInBytes": _CUT,
    "spark.sql.files.minPartitionNum": _CUT,
    "spark.sql.files.maxPartitionNum": _CUT,
    "spark.sql.files.ignoreCorruptFiles": "a corrupt file would be shipped in part, silently",
    "spark.sql.files.ignoreMissingFiles": "a missing file would be left out, silently",
    "spark.files.ignoreCorruptFiles": "a corrupt file would be shipped in part, silently",
    "spark.files.ignoreMissingFiles": "a missing file would be left out, silently",
    "spark.sql.variable.substitute": "SQL could read the environment, passwords included",
    "spark.sql.session.timeZone": "windows and timestamps are UTC",
    "spark.speculation": "two attempts of one task would fence each other",
    "spark.hadoop.mapreduce.input.*": _READER,
    "spark.hadoop.mapred.input.*": _READER,
    "spark.hadoop.mapred.linerecordreader.*": _READER,
    "spark.hadoop.textinputformat.*": _READER,
    "spark.hadoop.io.compression.codecs": "it decides which files are unpacked, and by what",
    "spark.pyspark.python": "set `runner.python`",
    "spark.pyspark.driver.python": "set `runner.python`",
    "spark.master": "set `runner.kind`, `runner.cores` and `runner.master`",
    "spark.driver.memory": "set `runner.driver_memory`",
}

#: Spark SQL's settings that say how work is done and not what comes out of it. All others count for the transform.
_HARMLESS = (
    *("spark.sql.adaptive.*", "spark.sql.shuffle.*", "spark.sql.execution.*", "spark.sql.codegen.*", "spark.sql.ui.*"),
    *("spark.sql.autoBroadcastJoinThreshold", "spark.sql.broadcastTimeout", "spark.sql.warehouse.dir", "spark.sql.debug.*"),
    *("spark.sql.catalogImplementation", "spark.sql.inMemoryColumnarStorage.*", "spark.sql.redaction.*", "spark.sql.streaming.*"),
    *(
        "spark.sql.sources.parallelPartitionDiscovery.*",
        "spark.sql.event.*",
        "spark.sql.maxPlanStringLength",
        "spark.sql.parquet.*",
    ),
    *("spark.sql.orc.*", "spark.sql.hive.*", "spark.sql.thriftServer.*", "spark.sql.statistics.*", "spark.sql.cbo.*"),
)
#: What Spark 4.2 has without being told: written out it changes nothing. Set for every session, so that no `spark-defaults.conf` decides.
SQL_DEFAULTS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
}


def fault_of_setting(key: str) -> str | None:
    """Why ``key`` may not stand in `runner.conf`, or None."""
    if not key.startswith("spark."):
        return "not a Spark setting; they begin with 'spark.'"
    why = next((why for pattern, why in PINNED_SPARK_SETTINGS.items() if fnmatchcase(key, pattern)), None)
    return why and f"pinned by shipper: {why}"


def deciding(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings that may change what a line becomes, such as `spark.sql.ansi.enabled`, where they are not Spark's defaults. They are
    part of the transform: a file that was begun under others cannot be finished under these."""
    return {
        key: value.strip().lower()
        for key, value in sorted(conf.items())
        if key.startswith("spark.sql.")
        and not _matches(key, _HARMLESS)
        and SQL_DEFAULTS.get(key, "").lower() != value.strip().lower()
    }


def glob_pattern(setting: str) -> str:
    """The regular expression of a name with `*`, for the schema."""
    return ".*".join(re.escape(part) for part in setting.split("*"))


def _matches(key: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)
