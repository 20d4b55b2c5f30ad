"""Samples of tests, read and decided as a preview does, in one local session for all pipelines."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from shipper.config.cases import MOST_RECORDS, load_pipeline_to_test
from shipper.config.load import locate
from shipper.config.pipeline import Pipeline
from shipper.config.rules import SCHEME
from shipper.driver.preview_step import heads
from shipper.errors import ShipperError, SourceUnreachable
from shipper.report.plan_result import PlannedFile
from shipper.report.preview_result import PreviewedLine, ReadSample, SampleToRead
from spark_jobs.expressions import sql_faults
from spark_jobs.session import settings_of
from spark_jobs.spark_engine import SparkEngine


def read(
    spark: SparkSession, config_dir: Path, samples: Sequence[SampleToRead]
) -> list[ReadSample]:
    """Read samples, those of a pipeline side by side, and return what became of each. Raises
    ConfigError for a pipeline that cannot be loaded."""
    found: list[ReadSample] = []
    for name, group in groupby(samples, lambda sample: sample.pipeline):
        pipeline = load_pipeline_to_test(config_dir, name)
        found += _of_pipeline(spark, config_dir, pipeline, list(group))
    return found


def _of_pipeline(
    spark: SparkSession, config_dir: Path, pipeline: Pipeline, samples: Sequence[SampleToRead]
) -> Iterator[ReadSample]:
    with settings_of(spark, pipeline) as missing:
        faults = sql_faults(spark, pipeline)
        wrong = [str(locate(config_dir, pipeline.name, one.field, one.message)) for one in faults]
        wrong += [
            f"pipelines/{pipeline.name}.yaml: runner.conf.{key}: only a session of its own takes "
            "this setting, so the pipeline cannot be tested; look at it with `shipper preview`"
            for key in missing
        ]
        if wrong:
            yield from (ReadSample(error="\n".join(wrong), wrong=True) for _ in samples)
            return
        for is_text, group in groupby(samples, lambda sample: sample.is_text):
            reader = _Reader(spark, _as_text(pipeline) if is_text else pipeline)
            for cluster, of_cluster in groupby(group, lambda sample: sample.cluster):
                yield from reader.read(cluster, list(of_cluster))


def _as_text(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline over files that are not packed."""
    source = pipeline.source.model_copy(update={"codec": "none"})
    return pipeline.model_copy(update={"source": source})


class _Reader:
    """Reads samples of one pipeline."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._spark = spark
        self._engine = SparkEngine(pipeline, spark=spark)

    def read(self, cluster: str | None, samples: Sequence[SampleToRead]) -> list[ReadSample]:
        """Read all samples at once, and each by itself if that fails: one bad line fails them
        all."""
        try:
            return self._read(cluster, samples)
        except Exception as error:
            if len(samples) > 1:
                return [one for sample in samples for one in self.read(cluster, [sample])]
            known = isinstance(error, ShipperError)
            if not known and os.environ.get("SHIPPER_LOG"):
                traceback.print_exc()
            return [ReadSample(error=str(error) if known else self._engine.cause(error).text)]

    def _read(self, cluster: str | None, samples: Sequence[SampleToRead]) -> list[ReadSample]:
        files = [self._file(sample) for sample in samples]
        self._engine.look_at(files)
        # The number of the sample in place of the split's own: a split is known by path, size and
        # time, which two samples may share.
        pieces = [
            replace(head, split=number)
            for number, file in enumerate(files)
            if file.size_bytes and not file.problem
            for head in heads([file], MOST_RECORDS + 1)
        ]
        lines = self._engine.preview(pieces, cluster) if pieces else {}
        return [_result(file, lines.get(number, [])) for number, file in enumerate(files)]

    def _file(self, sample: SampleToRead) -> PlannedFile:
        there = self._engine.look_for([sample.file])[sample.file]
        if there is None:
            raise SourceUnreachable(f"the sample {sample.file} is gone. Run the tests again.")
        return replace(there, uri=_uri(self._spark, sample.path)).planned()


def _result(file: PlannedFile, lines: list[PreviewedLine]) -> ReadSample:
    if file.problem:
        return ReadSample(error=f"the sample cannot be read: {file.problem}")
    if len(lines) > MOST_RECORDS:
        return ReadSample(error=f"the sample has more than {MOST_RECORDS:,} records; shorten it")
    return ReadSample(lines=lines)


def _uri(spark: SparkSession, path: str) -> str:
    """Return ``path`` as listings have it: as Spark's `_metadata.file_path` is written."""
    jvm: Any = spark._jvm
    named = path if SCHEME.match(path) else f"file://{path}"
    return str(jvm.org.apache.hadoop.fs.Path(named).toUri().toString())
