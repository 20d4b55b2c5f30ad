"""`source.format`, `source.codec`, `source.csv` and `records.starts_with`: what goes together, and
what it decides."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from shipper.config.formats import Csv
from shipper.config.pipeline import WHOLE_FILES_BYTES, Pipeline
from shipper.driver.pieces import PieceReport, file_pieces
from shipper.driver.recognition import (
    HEAD_BYTES,
    content_problem,
    recognise,
    recognise_table,
    table_in_text,
)
from shipper.driver.unreadable import padded, without_records, wrong_sizes
from shipper.report.plan_result import PlannedFile
from shipper.worker.receipt import Receipt, SplitReceipt
from spark_jobs.reader import Framing, LineLimits

TABLES = Path(__file__).parents[1] / "data" / "tables"
#: As zstd and lz4 both write them: magic bytes, a length, and three bytes.
SKIPPABLE = b"\x51\x2a\x4d\x18\x03\0\0\0abc"
SHORTEST = {"pipeline": "web", "topic": "logs.web", "clusters": ["c"]}


def pipeline(source=None, **more):
    return Pipeline.model_validate(
        {**SHORTEST, "source": {"path": "logs", **(source or {})}, **more}
    )


def test_records_that_are_to_be_objects_are_asked_for_it_unless_somebody_says_otherwise():
    for format, asked in (
        ("jsonl", True),
        ("csv", True),
        ("text", False),
        ("parquet", False),
        ("whole_file", False),
    ):
        parse = pipeline({"format": format}).records.parse
        assert (parse is not None and parse.json_object is True) == asked, format
    own = pipeline({"format": "csv"}, records={"parse": {"json": "a STRING"}, "key": "a"}).records
    assert own.parse.columns == ("a",)
    assert pipeline({"format": "csv"}, records={"key": "value"}).records.parse is not None
    assert pipeline({"format": "jsonl"}, records={"parse": None}).records.parse is None


def test_a_byte_order_mark_stands_in_front_of_text_as_it_was_read_and_of_nothing_else():
    avro = {"schema": {"type": "record", "name": "R", "fields": []}}
    regex = {"parse": {"regex": "(?<a>x)"}}
    for format, records, restored in (
        ("text", {}, True),
        ("text", regex, True),
        ("text", {"redact": ["email"]}, True),
        ("text", {"starts_with": "x"}, True),
        ("text", {"value": "upper(value)"}, False),
        ("text", {"parse": {"json": True}}, False),
        ("text", {"parse": {"json": "a INT"}}, False),
        ("text", {"avro": avro}, False),
        ("jsonl", {}, False),
        ("jsonl", {"parse": None}, False),
        ("csv", {}, False),
        ("avro", {}, False),
    ):
        found = pipeline({"format": format}, records=records)
        assert found.restores_bom == restored, (format, records)


UTF16 = "2026-11-01 06:00:00 spid7s ok\r\n" * 30


@pytest.mark.parametrize("format", ["text", "jsonl", "csv"])
@pytest.mark.parametrize(
    ("content", "encoding", "says"),
    [
        (UTF16.encode("utf-16"), "UTF-8", "source.encoding: UTF-16`"),
        (UTF16.encode("utf-16-le"), "UTF-8", "source.encoding: UTF-16LE`"),
        (UTF16.encode("utf-16-be"), "UTF-8", "source.encoding: UTF-16BE`"),
        (UTF16.encode("utf-32"), "UTF-8", "source.encoding: UTF-32`"),
        (UTF16.encode("utf-32-be"), "UTF-8", "source.encoding: UTF-32BE`"),
        ("ab".encode("utf-16-le"), "UTF-8", ""),  # four bytes are too few to say
        (UTF16.encode("utf-16"), "UTF-16", ""),
        (UTF16.encode("utf-16-le"), "UTF-16LE", ""),
        (UTF16.encode("utf-16"), "UTF-16LE", ""),
        (UTF16.encode("utf-16"), "UTF-16BE", "source.encoding: UTF-16LE`"),
        (UTF16.encode("utf-16-be"), "UTF-16", ""),
        (UTF16.encode("utf-16-le"), "UTF-16", "source.encoding: UTF-16LE`"),
        (UTF16.encode("utf-16-le"), "UTF-16BE", "source.encoding: UTF-16LE`"),
        (UTF16.encode("utf-32-le"), "UTF-32", "source.encoding: UTF-32LE`"),
        (UTF16.encode("utf-16"), "UTF-32", "source.encoding: UTF-16`"),
        (UTF16.encode(), "UTF-16", "no text in UTF-16"),
        (UTF16.encode(), "UTF-8", ""),
        (b"\0" * 512, "UTF-8", ""),
        (b"\0" * 300 + UTF16.encode(), "UTF-8", ""),
        (b"a\0b\0" * 3 + UTF16.encode(), "UTF-8", ""),
    ],
)
def test_text_in_another_encoding_than_the_pipelines_is_refused_with_the_remedy(
    format, content, encoding, says
):
    why = content_problem(content[:512], format, encoding)
    assert bool(why) == bool(says), why
    assert says in why
    assert not content_problem(content[:512], "whole_file", "UTF-8")


def test_text_in_another_encoding_is_one_piece_and_not_verbatim():
    given = {"format": "text", "encoding": "UTF-16"}
    found = pipeline(given)
    assert (found.split_size_bytes, found.source.verbatim) == (WHOLE_FILES_BYTES, False)
    assert LineLimits.of(found).framing.encoding == "UTF-16"
    plain = pipeline({"format": "text"})
    digests = {found.transform_digest(), plain.transform_digest()}
    assert len(digests) == 2
    for name in ("utf-8", "UTF8"):
        assert pipeline({**given, "encoding": name}).transform_digest() in digests - {
            found.transform_digest()
        }
    with pytest.raises(ValidationError, match="contradict"):
        pipeline({"format": "parquet", "encoding": "UTF-16"})


def test_what_cannot_be_read_from_its_middle_is_one_piece():
    for format in ("csv", "whole_file"):
        assert pipeline({"format": format}).split_size_bytes == WHOLE_FILES_BYTES
    for format in ("text", "jsonl", "parquet", "orc", "avro"):
        assert pipeline({"format": format}).split_size_bytes == 32 * 2**20
    assert LineLimits.of(pipeline(records={"starts_with": "x"})).framing == Framing(
        "starts_with", "x"
    )
    given = pipeline({"format": "csv", "csv": {"columns": ["a"], "delimiter": "\t", "quote": None}})
    assert LineLimits.of(given).framing == Framing(
        "csv", csv=Csv(columns=("a",), delimiter="\t", quote=None)
    )


@pytest.mark.parametrize(
    ("codec", "name", "head", "format", "says"),
    [
        ("none", "a.log.gz", b"\x1f\x8b", "plain", ""),
        ("none", "a.zip", b"PK\x03\x04", "plain", ""),
        ("gzip", "a.log.zst", b"\x1f\x8b", "gzip", ""),
        ("gzip", "a.log.gz", b"text", "plain", "`source.codec` says gzip"),
        ("gzip", "a.log.gz", b"", "plain", ""),
        ("hadoop_snappy", "part-0.snappy", b"\0\0\1\0", "hadoop_snappy", ""),
        ("auto", "a.log.sz", b"\xff\x06\0\0sNaPpY", "snappy", ""),
        ("auto", "a.log", SKIPPABLE + b"\x04\x22\x4d\x18", "lz4", ""),
        ("auto", "a.log", SKIPPABLE * 3 + b"\x28\xb5\x2f\xfd", "zstd", ""),
        ("auto", "a.log.lz4", SKIPPABLE * 80, "lz4", ""),
        ("lz4", "a.log", SKIPPABLE * 80, "lz4", ""),
        ("auto", "a.log", SKIPPABLE * 80, "zstd", ""),
        ("lz4", "a.log", SKIPPABLE + b"\x28\xb5\x2f\xfd", "zstd", "`source.codec` says lz4"),
        ("auto", "a.log", b"\xff\x06\0\0sNaPpY", "snappy", ""),
        (
            "auto",
            "part-0.snappy",
            b"\0\0\1\0",
            "plain",
            "if Hadoop wrote it, set `source.codec: hadoop_snappy`",
        ),
        ("zstd", "a.log", b"\x1f\x8b", "gzip", "does not begin as a file of zstd"),
    ],
)
def test_the_codec_is_what_the_bytes_say_or_what_the_pipeline_says(codec, name, head, format, says):
    found = recognise(name, head, codec)
    assert found.format == format
    assert says in found.problem
    assert bool(says) == bool(found.problem)


def test_a_table_is_known_by_both_its_ends_and_never_read_as_text():
    avro = (TABLES / "all.avro").read_bytes()
    assert not recognise_table("avro", avro[:HEAD_BYTES], avro[-HEAD_BYTES:]).problem
    assert "set `source.format: avro`" in table_in_text(avro[:HEAD_BYTES])
    assert table_in_text(b"PAR1 is a word in a log\n") == ""
    for format, head, tail, says in (
        ("parquet", b"PAR1xxxx", b"xxxxPAR1", ""),
        ("parquet", b"PAR1xxxx", b"xxxxxxxx", "it does not end as Parquet files do"),
        ("parquet", b"PAR1xxxx", b"xxxxPARE", "encrypted"),
        ("parquet", b"\x1f\x8bxx", b"xxxxPAR1", "it does not begin as Parquet files do"),
        ("orc", b"ORCxxxxx", b"xxxxORC\x17", ""),
        ("orc", b"ORCxxxxx", b"xxxxxORC", "it does not end as ORC files do"),
        ("avro", b"a log line", b"its end", "it does not begin as Avro files do"),
    ):
        problem = recognise_table(format, head, tail).problem
        assert says in problem
        assert bool(says) == bool(problem)


def test_a_table_is_empty_if_no_task_saw_a_record_of_any_piece_of_it():
    split_size = pipeline({"format": "parquet", "split_size": "64KiB"}).split_size_bytes
    files = [
        PlannedFile(
            path=f"/l/{n}",
            uri=f"file:/l/{n}",
            size_bytes=150_000,
            modified_ms=0,
            splits=3,
            format="parquet",
        )
        for n in range(3)
    ]
    pieces = [list(file_pieces([file], split_size)) for file in files]
    records = {piece.split: 0 for piece in (*pieces[0], *pieces[1][:2], *pieces[2][:2])} | {
        pieces[1][2].split: 1
    }
    receipts = [
        Receipt(0, splits={split: SplitReceipt(records=count)}) for split, count in records.items()
    ]
    assert without_records([piece for of_file in pieces for piece in of_file], receipts) == ["/l/0"]


def test_of_made_records_the_bytes_are_compared_with_what_the_reader_made_and_the_pieces_with_the_file():  # noqa: E501
    file = PlannedFile(
        path="/l/a",
        uri="file:/l/a",
        size_bytes=100,
        modified_ms=0,
        splits=1,
        format="plain",
        bom=True,
    )
    (piece,) = file_pieces([file], 1000)
    for stored, lines, says in (
        (100, 500, ""),
        (100, 499, "its lines have 499 bytes"),
        (90, 500, "90 of its 100 bytes were read"),
    ):
        file.problem = ""
        receipt = Receipt(0, splits={piece.split: SplitReceipt(read=lines)})
        wrong_sizes(
            [piece], [PieceReport(piece.split, stored, 500, 3, "")], [receipt], verbatim=False
        )
        assert file.problem.startswith(says)
        assert bool(says) == bool(file.problem)


def test_zeros_behind_packed_content_are_noted_with_the_file_that_has_the_most():
    files = [
        PlannedFile(path=f"/l/{name}.gz", size_bytes=500, modified_ms=0, splits=1, format="gzip")
        for name in "ab"
    ]
    pieces = list(file_pieces(files, 2**25))
    found = [
        PieceReport(piece.split, 500, 9, 1, "", padding_bytes=zeros)
        for piece, zeros in zip(pieces, (100, 412), strict=True)
    ]
    note = padded(pieces, found)
    assert "512" in note
    assert "/l/b.gz: 412" in note
    assert not padded(pieces, [PieceReport(piece.split, 500, 9, 1, "") for piece in pieces])
