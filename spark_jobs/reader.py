"""Pieces of files as a frame: jvm/shipper/lines/LineSource.java reads them, and reports afterwards
how far it read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from shipper.config.formats import Csv
from shipper.config.pipeline import Pipeline
from shipper.driver.pieces import FilePiece, PieceReport, uri_of
from shipper.driver.recognition import PLAIN
from spark_jobs import packed
from spark_jobs.jvm import afterwards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.hadoop import Hadoop

_SOURCE = "shipper.lines.LineSource"
_NO_LIMIT = 2**31 - 1
_CSV = Csv()


@dataclass(frozen=True)
class Framing:
    """Framing of records in files, if a file does not define it itself:
    jvm/shipper/lines/Framing.java."""

    kind: Literal["lines", "starts_with", "csv", "whole_file"] = "lines"
    starts_with: str = ""
    csv: Csv = _CSV
    encoding: str = "UTF-8"

    @staticmethod
    def of(pipeline: Pipeline) -> Framing:
        encoding = pipeline.source.encoding
        if pipeline.records.starts_with is not None:
            return Framing("starts_with", pipeline.records.starts_with, encoding=encoding)
        match pipeline.source.format:
            case "csv":
                return Framing("csv", csv=pipeline.source.csv or _CSV, encoding=encoding)
            case "whole_file":
                return Framing("whole_file")
        return Framing(encoding=encoding)

    def packed(self) -> bytes:
        texts = (
            self.kind,
            self.starts_with,
            self.csv.delimiter,
            self.csv.quote or "",
            self.encoding,
        )
        columns = self.csv.columns or ()
        return (
            b"".join(map(packed.text, texts))
            + packed.number(len(columns))
            + b"".join(map(packed.text, columns))
        )


@dataclass(frozen=True)
class LineLimits:
    """Limits of the records to read."""

    max_line: int = _NO_LIMIT
    """Longest in bytes. A longer one is marked as TOO_LONG (marks.py)."""
    keep: int = 0
    """Number of its first bytes that a longer record keeps as its value."""
    framing: Framing = Framing()
    wait_seconds: float = 0.0
    """Time for which a file system that does not answer is waited for."""

    @classmethod
    def of(cls, pipeline: Pipeline, keep: int | None = None) -> LineLimits:
        """Return the limits of a ship, but for ``keep`` if it is given."""
        if keep is None:
            # The last characters of a truncated line may be a part of something longer.
            keep = (
                pipeline.quarantine.keep_bytes
                if pipeline.quarantine and not pipeline.records.redact
                else 0
            )
        return cls(
            pipeline.records.max_line_bytes,
            keep,
            Framing.of(pipeline),
            pipeline.source.wait_seconds,
        )


class Reading:
    """A frame over pieces, and after its job what the reader says of them."""

    def __init__(self, spark: SparkSession, id: str) -> None:
        self._source: Any = spark._jvm.shipper.lines.LineSource  # type: ignore[union-attr]
        self._id = id
        self.frame: DataFrame = spark.read.format(_SOURCE).option("read", id).load()

    def reports(self) -> list[PieceReport]:
        """Return the reports of the pieces that successful tasks have read."""
        return _reports(self._source.reports(self._id))


def count_records(
    hadoop: Hadoop, pieces: Sequence[FilePiece], limits: LineLimits
) -> list[PieceReport]:
    """Read pieces in this process's Java, without Spark, and return how many records they hold: for
    a sample, which is no work for a cluster."""
    counted = hadoop.jvm.shipper.lines.RecordCount.count(
        _packed(pieces),
        limits.max_line,
        bytearray(limits.framing.packed()),
        round(limits.wait_seconds),
        hadoop.conf,
    )
    return _reports(counted)


def _packed(pieces: Sequence[FilePiece]) -> bytearray:
    content = bytearray(packed.number(len(pieces)))
    for piece in pieces:
        file, uri = piece.file, uri_of(piece.file)
        for text in (file.path, uri, uri.rpartition("/")[2], file.format or PLAIN, file.etag):
            content += packed.text(text)
        for number in (
            file.size_bytes,
            file.modified_ms,
            piece.start,
            piece.end,
            piece.split,
            piece.most_lines,
            file.begins,
        ):
            content += packed.number(number)
    return content


def _reports(text: str) -> list[PieceReport]:
    found = packed.Unpacker(text)
    return [
        PieceReport(
            *(
                found.number(),
                found.number(),
                found.number(),
                found.number(),
                " ".join(found.text().split()),
            ),
            passing=bool(found.number()),
            long_bytes=found.number(),
            padding_bytes=found.number(),
        )
        for _ in found
    ]


@contextmanager
def reading(
    spark: SparkSession,
    pieces: Sequence[FilePiece],
    limits: LineLimits,
    *,
    partition_bytes: int,
    ends: bool = False,
) -> Iterator[Reading]:
    """Yield a reading with the columns value (the record), file_path, file_name, split, and MARK
    (marks.py). A piece that cannot be read to its end ends with a row that is marked as BROKEN, and
    then the next one is read. Rows are in the order of the pieces; neighbours share a task up to
    ``partition_bytes``. With ``ends`` each piece that could be read ends with a row that is marked
    as END. The frame can be read as long as the ``with`` block runs."""
    source: Any = spark._jvm.shipper.lines.LineSource  # type: ignore[union-attr]
    id = source.begin(
        spark._jsparkSession,
        _packed(pieces),
        limits.max_line,
        limits.keep,
        bytearray(limits.framing.packed()),
        partition_bytes,
        round(limits.wait_seconds),
        ends,
    )
    with afterwards(lambda: source.end(id)):
        yield Reading(spark, id)
