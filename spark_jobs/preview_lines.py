"""Some lines beside the records that they would be: by the reader and the frame of a ship."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from shipper.config.pipeline import Pipeline
from shipper.config.record_mapping import TOO_LARGE, UNENCODABLE, UNPARSEABLE, UNROUTABLE
from shipper.config.rules import sql_column
from shipper.driver.dispositions import fixed_topics, reasons, rules
from shipper.driver.pieces import FilePiece, broken_files
from shipper.report.preview_result import PreviewedLine
from shipper.worker.marks import BROKEN, MARK, TOO_LONG, decode_mark
from spark_jobs.frame import WHY, records
from spark_jobs.reader import LineLimits, reading

_SHOWN_BYTES = 65_536
_ONE_TASK = 2**62


def preview(
    spark: SparkSession, pipeline: Pipeline, pieces: Sequence[FilePiece]
) -> dict[int, list[PreviewedLine]]:
    """Return the lines of each piece by the piece's split, in the order of the pieces. Notes what
    is wrong with files that cannot be read."""
    # Rows are in the order of the pieces and none is left out, so the rows of two reads match one
    # by one.
    with reading(spark, pieces, LineLimits.of(pipeline), partition_bytes=_ONE_TASK) as read:
        read_rows = read.frame.select(
            _beginning(F.col("value")), "file_path", "split", sql_column(MARK)
        ).collect()
        shown = records(read.frame, pipeline)
        rows = shown.withColumn("value", _beginning(F.col("value"))).collect()
        broken_files(pieces, read.reports())
    found: dict[int, list[PreviewedLine]] = {piece.split: [] for piece in pieces}
    marked = {
        piece.split
        for piece in pieces
        if piece.start == 0 and piece.file.bom and pipeline.restores_bom
    }
    for line, row in zip(read_rows, rows, strict=True):
        if line[MARK] == BROKEN:
            continue
        split = decode_mark(line.split, found).split
        lines = found[split]
        bom = BOM_UTF8 if not lines and split in marked else b""
        one = _previewed(pipeline, line, row, shown, bom)
        one.record = len(lines) + 1
        lines.append(one)
    return found


def _beginning(column: Any) -> Any:
    return F.substring(column.cast("binary"), 1, _SHOWN_BYTES).alias("value")


def _previewed(
    pipeline: Pipeline, line: Row, row: Row, frame: DataFrame, bom: bytes
) -> PreviewedLine:
    found = PreviewedLine(
        file=unquote(line.file_path),
        record=0,
        line=_text(bom + (line["value"] or b"")),
        outcome="shipped",
    )
    has, value = frame.columns, None if row.value is None else bom + row.value
    decided = row.disposition if "disposition" in has else None
    found.topic = _topic(pipeline, row, has)
    dropped = rules(pipeline)
    if decided is not None and decided < len(dropped):
        found.outcome, found.why, found.topic = "dropped", dropped[decided], None
        return found
    if line[MARK] == TOO_LONG:
        found.why = TOO_LARGE
    elif decided is not None:
        found.why = reasons(pipeline)[decided - len(dropped)]
        if found.why in (UNPARSEABLE, UNENCODABLE) and WHY in has:
            found.fault = row[WHY]
    elif found.topic is None:
        found.why = UNROUTABLE
    if value is not None:
        found.value = _text(value)
    if found.why is not None and pipeline.quarantine is None:
        found.outcome, found.topic = "fails", None
    elif found.why is not None and pipeline.quarantine is not None:
        found.outcome, found.topic = "quarantined", pipeline.quarantine.topic
        found.value = None if value is None else _text(value[: pipeline.quarantine.keep_bytes])
        return found
    if "key" in has and row.key is not None:
        found.key = _text(row.key)
    if "headers" in has:
        found.headers = {
            name: _text(value) for name, value in row.headers.asDict().items() if value is not None
        }
    found.timestamp_ms = row.timestamp if "timestamp" in has else None
    return found


def _topic(pipeline: Pipeline, row: Row, columns: Sequence[str]) -> str | None:
    fixed = fixed_topics(pipeline)
    if "topic" not in columns:
        return fixed[0]
    return fixed[row.topic] if fixed else None if row.topic is None else str(row.topic)


def _text(value: bytes | bytearray | None) -> str:
    return bytes(value or b"").decode("utf-8", "backslashreplace")
