"""Parquet, ORC, Avro, CSV, records of several lines and whole files by the reader alone: each
record is there once, with exact values."""

import bz2
import csv
import datetime as dt
import gzip
import io
import json
import random
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from shipper.config.formats import Csv
from shipper.config.rules import sql_column
from shipper.driver.pieces import file_pieces
from shipper.worker.marks import BROKEN, END, MARK, SWALLOWED, TOO_LONG
from spark_jobs.reader import Framing, LineLimits, reading
from tests.data import FORMATS, packed_log
from tests.data.tables.make import CODEC_ROWS, write_blocks

from .test_reader import lines, planned, read

pytestmark = pytest.mark.spark

IN_ONE_TASK = 2**30
HAVE_CHECKSUMS = ("a.parquet", "codec-snappy.avro")
AVRO = Path(__file__).parents[1] / "data" / "tables"
MOMENT = dt.datetime(2026, 11, 1, 6, 0, 0, 123456, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    path = tmp_path_factory.mktemp("avro") / "blocks.avro"
    write_blocks(path)
    return path


def table(path, format=""):
    """``format``: by its suffix, unless given."""
    return planned(path).model_copy(update={"format": format or path.suffix[1:]})


def framed(framing, max_line=2**20, keep=5):
    return LineLimits(max_line, keep, framing)


DATED = framed(Framing("starts_with", r"\d{4}-\d\d-\d\d "))


def accounted(file, reports):
    """Whether all pieces together took all of the file, and nothing twice."""
    return sum(report.stored for report in reports) == file.size_bytes and not any(
        report.problem for report in reports
    )


COLUMNS = {
    "i": (pa.int32(), [1, None, -3]),
    "l": (pa.int64(), [2**62, None, 3]),
    "f": (pa.float32(), [1.5, float("nan"), None]),
    "d": (pa.float64(), [0.1, float("inf"), 1e300]),
    "s": (pa.string(), ['a"\\\n\x01é', None, ""]),
    "b": (pa.bool_(), [True, False, None]),
    "raw": (pa.binary(), [b"\x00\xff", None, b""]),
    "money": (pa.decimal128(30, 2), [Decimal("1.20"), None, Decimal("-12345678901234567890.12")]),
    "day": (pa.date32(), [dt.date(2026, 11, 1), None, dt.date(1969, 12, 31)]),
    "at": (pa.timestamp("us", "UTC"), [MOMENT, None, dt.datetime(1960, 1, 1, tzinfo=dt.UTC)]),
    "clock": (pa.timestamp("us"), [MOMENT.replace(tzinfo=None), None, None]),
    "list": (pa.list_(pa.int32()), [[1, None, 3], None, []]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("n", None)], None, []]),
    "keys": (pa.map_(pa.int32(), pa.string()), [[(1, "x")], None, []]),
    "in": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        [{"x": 1, "y": None}, None, {"x": None, "y": "z"}],
    ),
    "lists": (pa.list_(pa.list_(pa.int32())), [[[1], [], None], None, []]),
    "rows": (pa.list_(pa.struct([("x", pa.int32())])), [[{"x": 1}, None], None, []]),
}
ROWS = [
    '{"i":1,"l":4611686018427387904,"f":1.5,"d":0.1,"s":"a\\"\\\\\\n\\u0001é","b":true,"raw":"AP8=","money":1.20,"day":"2026-11-01",'
    '"at":"2026-11-01T06:00:00.123456Z","clock":"2026-11-01T06:00:00.123456","list":[1,null,3],"map":{"k":1,"n":null},"keys":{"1":"x"},'
    '"in":{"x":1},"lists":[[1],[],null],"rows":[{"x":1},null]}',
    '{"f":"NaN","d":"Infinity","b":false}',
    '{"i":-3,"l":3,"d":1.0E300,"s":"","raw":"","money":-12345678901234567890.12,"day":"1969-12-31","at":"1960-01-01T00:00:00Z",'
    '"list":[],"map":{},"keys":{},"in":{"y":"z"},"lists":[],"rows":[]}',
]


def write(content, path, **more):
    if path.suffix == ".orc":
        orc.write_table(content, path, **more)
    else:
        pq.write_table(content, path, **more)
    return table(path)


def numbered(count):
    return pa.table(
        {
            "n": pa.array(range(count), pa.int64()),
            "text": pa.array([f"row {n}" for n in range(count)], pa.string()),
        }
    )


def numbers(rows):
    return [json.loads(value)["n"] for value in lines(list(rows)) if value is not None]


def test_every_type_of_parquet_and_orc_is_written_exactly(spark, tmp_path):
    content = pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})
    for path in (tmp_path / "all.parquet", tmp_path / "all.orc"):
        file = write(content, path)
        rows, reports = read(spark, [file])
        assert [value.decode() for value in lines(rows)] == ROWS, path
        assert accounted(file, reports)
    more = pa.table(
        {
            "u64": pa.array([2**64 - 1], pa.uint64()),
            "u32": pa.array([2**32 - 1], pa.uint32()),
            "ms": pa.array([dt.time(1, 2, 3, 4000)], pa.time32("ms")),
            "us": pa.array([dt.time(1, 2, 3, 4)], pa.time64("us")),
            "half": pa.array([1.5], pa.float16()),
            "short": pa.array([Decimal("-1.5")], pa.decimal128(9, 1)),
        }
    )
    old = pa.table({"ns": pa.array([1], pa.timestamp("ns", "UTC"))})
    files = [
        write(more, tmp_path / "more.parquet"),
        write(old, tmp_path / "96.parquet", use_deprecated_int96_timestamps=True),
    ]
    rows, _ = read(spark, files)
    assert [value.decode() for value in lines(rows)] == [
        '{"u64":18446744073709551615,"u32":4294967295,"ms":"01:02:03.004","us":"01:02:03.000004","half":1.5,"short":-1.5}',
        '{"ns":"1970-01-01T00:00:00.000000001Z"}',
    ]


@pytest.mark.long
def test_a_time_before_1970_has_its_own_fraction_of_a_second(spark, tmp_path):
    epoch = dt.datetime(1970, 1, 1)
    times = [epoch + dt.timedelta(microseconds=us) for us in (-1, -500_000, -1_000_000, -1_500_001)]
    content = pa.table({"at": pa.array(times, pa.timestamp("us"))})
    for path in (tmp_path / "old.parquet", tmp_path / "old.orc"):
        rows, _ = read(spark, [write(content, path)])
        found = [dt.datetime.fromisoformat(json.loads(value)["at"]) for value in lines(rows)]
        assert found == times, path


def test_every_type_and_codec_of_avro_is_written_exactly(spark):
    rows, _ = read(spark, [table(AVRO / "all.avro")])
    assert [value.decode() for value in lines(rows)] == [
        '{"i":1,"l":4611686018427387904,"f":1.5,"d":0.1,"b":true,"s":"a\\"\\\\\\n\\u0001é","raw":"AP8=","kind":"HIGH","four":"YWJjZA==",'
        '"list":[1,null,3],"map":{"k":1,"n":null},"in":{"x":7},"any":["p","q"],"day":"2026-11-01","at":"2026-11-01T06:00:00.123456Z",'
        '"at_ms":"2026-11-01T06:00:00.123Z","local":"2026-11-01T06:00:00.123456","time":"01:02:03.000004",'
        '"money":-12345678901234567890.10,"id":"00112233-4455-6677-8899-aabbccddeeff"}',
        '{"l":4611686018427387904,"f":1.5,"d":"NaN","b":true,"raw":"AP8=","kind":"HIGH","four":"YWJjZA==","list":[],"map":{},"in":{},'
        '"day":"1969-12-31","at":"1960-01-01T00:00:00Z","at_ms":"2026-11-01T06:00:00.123Z","local":"2026-11-01T06:00:00.123456",'
        '"time":"01:02:03.000004","money":0.00,"id":"00112233-4455-6677-8899-aabbccddeeff"}',
    ]
    files = [table(path) for path in sorted(AVRO.glob("codec-*.avro"))]
    assert len(files) == 6
    rows, reports = read(spark, [*files, table(AVRO / "empty.avro"), table(AVRO / "strings.avro")])
    expected = [f'{{"n":{n},"text":"line {n}"}}'.encode() for n in range(CODEC_ROWS)]
    assert lines(rows) == expected * 6 + [b'{"value":"one"}', b'{"value":"two"}']
    assert not any(report.problem for report in reports)


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_wherever_a_table_is_cut_each_row_is_in_one_piece(spark, tmp_path, blocks, format):
    count = 2000 if format == "avro" else 3000
    if format == "avro":
        file = table(blocks)
    else:
        more = (
            {"row_group_size": 100}
            if format == "parquet"
            else {"stripe_size": 1000, "batch_size": 100}
        )
        file = write(numbered(count), tmp_path / f"a.{format}", **more)
    for split in (file.size_bytes, file.size_bytes // 2, 20_011, 4_999, 777):
        rows, reports = read(spark, [file], split, partition_bytes=IN_ONE_TASK)
        assert numbers(rows) == list(range(count)), split
        assert accounted(file, reports), split
        assert split > 5_000 or sum(report.lines > 0 for report in reports) > 3
        assert sum(report.unpacked for report in reports) == sum(
            len(value or b"") + 1 for value in lines(rows)
        )


@pytest.mark.long
def test_a_table_without_rows_is_read_and_has_none(spark, tmp_path):
    files = [
        write(numbered(0), tmp_path / "0.parquet"),
        write(numbered(0), tmp_path / "0.orc"),
        table(AVRO / "empty.avro"),
    ]
    rows, reports = read(spark, files)
    assert rows == []
    assert [(report.stored, report.lines, report.problem) for report in reports] == [
        (file.size_bytes, 0, "") for file in files
    ]


def test_a_damaged_table_is_never_read_in_part_without_a_word(spark, tmp_path, blocks):
    """What has checksums is known wherever it is wrong; what has none, wherever a length or an end
    is."""
    whole = [
        write(numbered(3000), tmp_path / "a.parquet", row_group_size=500, write_page_checksum=True),
        write(numbered(3000), tmp_path / "a.orc", compression="zlib"),
        table(AVRO / "codec-snappy.avro"),
        table(blocks),
    ]
    cases, files = [], []
    for file in whole:
        content = Path(file.path).read_bytes()
        at = len(content) * 3 // 4
        damaged = {
            "its end is missing": content[:-9],
            "half is missing": content[: len(content) // 2],
            "it is empty of sense": b"\x07" * len(content),
        }
        if file.path.endswith(HAVE_CHECKSUMS):
            damaged["a bit is wrong"] = (
                content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]
            )
            damaged["zeros in it"] = content[:at] + bytes(64) + content[at + 64 :]
        for what, bad in damaged.items():
            path = tmp_path / f"{len(cases)}"
            path.write_bytes(bad)
            cases.append(f"{file.path}: {what}")
            files.append(table(path, file.format))
    rows, reports = read(spark, [*files, whole[0]])
    problems = {case: report.problem for case, report in zip(cases, reports, strict=False)}
    assert [case for case, problem in problems.items() if not problem] == []
    assert len(problems) == 4 * 3 + 2 * 2
    assert [mark for _, mark, _ in rows if mark] == [BROKEN] * len(cases)
    assert numbers(rows[-3000:]) == list(range(3000)), "the one behind them is read"
    assert not any("row 2" in problem or "line 2" in problem for problem in problems.values())


@pytest.mark.long
def test_a_row_that_is_too_long_is_marked_and_the_next_one_is_read(spark, tmp_path):
    content = pa.table({"n": [1, 2, 3], "text": ["a", "x" * 5000, "b"]})
    for file in (write(content, tmp_path / "a.parquet"), write(content, tmp_path / "a.orc")):
        rows, reports = read(spark, [file], limits=LineLimits(1000, 5))
        assert [(value, mark) for value, mark, _ in rows] == [
            (b'{"n":1,"text":"a"}', None), (b'{"n":', TOO_LONG), (b'{"n":3,"text":"b"}', None),
        ]  # fmt: skip
        assert accounted(file, reports)


# CSV


def csv_rows(spark, path, of=None, max_line=2**20, encoding="UTF-8"):
    rows, (report,) = read(
        spark,
        [planned(path)],
        limits=framed(Framing("csv", csv=of or Csv(), encoding=encoding), max_line),
    )
    return [mark or json.loads(value or b"null") for value, mark, _ in rows], report


@pytest.mark.parametrize(("delimiter", "quote"), [(",", '"'), ("\t", "'")])
def test_a_csv_file_has_the_rows_that_pythons_own_reader_finds(spark, tmp_path, delimiter, quote):
    rng = random.Random(5)
    alphabet = ["a", "é", " ", delimiter, quote, quote * 2, "\n", "\r\n", "\\", "{", "x" * 40, ""]
    header = ["time", f"odd {quote}name{quote}", "", "last"]
    made = [
        ["".join(rng.choices(alphabet, k=rng.randrange(5))) for _ in header] for _ in range(4000)
    ]
    for packed in (False, True):
        text = io.StringIO()
        writer = csv.writer(
            text, delimiter=delimiter, quotechar=quote, lineterminator=rng.choice(["\n", "\r\n"])
        )
        writer.writerows([header, *made])
        content = b"\xef\xbb\xbf" + text.getvalue().encode()
        path = tmp_path / f"{packed}.csv"
        path.write_bytes(gzip.compress(content) if packed else content)
        rows, report = csv_rows(spark, path, Csv(delimiter=delimiter, quote=quote))
        assert rows == [dict(zip(header, row, strict=True)) for row in made]
        assert (report.stored, report.lines) == (path.stat().st_size, len(made))


@pytest.mark.long
def test_a_csv_row_that_has_not_the_fields_of_the_header_is_an_array(spark, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(
        b'a,b\n1,2\n1\n1,2,3\n\n\r\n"x"y,2\n"",\n"1" ,2\nq"u"o,t\n{},\n"never closed,\n2\n'
    )
    rows, _ = csv_rows(spark, path)
    assert rows == [
        {"a": "1", "b": "2"},
        ["1"],
        ["1", "2", "3"],
        ["xy", "2"],
        {"a": "", "b": ""},
        ["1 ", "2"],
        {"a": 'q"u"o', "b": "t"},
        {"a": "{}", "b": ""},
        ["never closed,\n2\n"],
    ]
    path.write_bytes(b"1,2\n3,4")
    assert csv_rows(spark, path, Csv(columns=("x", "y")))[0] == [
        {"x": "1", "y": "2"},
        {"x": "3", "y": "4"},
    ]
    path.write_bytes(b'a,b\n1,"2\n')
    assert csv_rows(spark, path, Csv(quote=None))[0] == [{"a": "1", "b": '"2'}]
    path.write_bytes(b"a,b\n" + b"x" * 3000 + b",1\n3,4\n")
    assert csv_rows(spark, path, max_line=1000)[0] == [TOO_LONG, {"a": "3", "b": "4"}]
    hidden = b"".join(b"%d,x\n" % n for n in range(10_000))
    path.write_bytes(b'a,b\n1,2\n3,"4\n' + hidden)
    rows, report = csv_rows(spark, path, max_line=1000)
    assert rows == [{"a": "1", "b": "2"}, TOO_LONG], (
        "one stray quote makes one row of all that follow"
    )
    assert len(hidden) <= report.long_bytes <= 1.2 * len(hidden), "how much it hides is told"
    for content, says in (
        (b"a,b,a\n1,2,3\n", "names field 3 as another one"),
        (b'"a"b\n1\n', "not well quoted"),
    ):
        path.write_bytes(content)
        rows, report = csv_rows(spark, path)
        assert rows == [BROKEN]
        assert says in report.problem
    for content in (b"a,b\n", b"\n\r\n", b"\xef\xbb\xbf"):
        path.write_bytes(content)
        rows, report = csv_rows(spark, path)
        assert (rows, report.stored, report.problem) == ([], len(content), "")


@pytest.mark.long
def test_a_csv_row_that_is_none_says_how_many_more_rows_it_may_be(spark, tmp_path):
    path = tmp_path / "a.csv"
    good, long = b'1,"two\n\nlines"\n', b'1,"' + b"x\n" * 600 + b'"\n'
    swallows = b'2,"stray\n3,x\n4,x\n5,"y"\n'
    path.write_bytes(b"a,b\n" + good + swallows + b"6\n" + long + good + b'7,"never closed\n8,x\n')
    with reading(
        spark,
        list(file_pieces([planned(path)], 2**25)),
        framed(Framing("csv"), 1000),
        partition_bytes=2**25,
        ends=True,
    ) as found:
        rows = [
            (row[0], row[1])
            for row in found.frame.select(sql_column(MARK), sql_column(SWALLOWED)).collect()
        ]
    assert rows == [
        (None, None),
        (None, 3),
        (None, None),
        (TOO_LONG, 600),
        (None, None),
        (None, 1),
        (END, None),
    ]


@pytest.mark.long
def test_a_csv_file_is_read_in_its_encoding_and_what_is_no_text_in_it_is_never_changed(
    spark, tmp_path
):
    path = tmp_path / "a.csv"
    text = 'id,naïve\r\n1,José\n2,"Zoë, ""x""\né"\n' + "3,\U0001f600ж\n" * 30_000
    expected = [{"id": "1", "naïve": "José"}, {"id": "2", "naïve": 'Zoë, "x"\né'}] + [
        {"id": "3", "naïve": "\U0001f600ж"}
    ] * 30_000
    for encoding in ("UTF-8", "UTF-16", "UTF-16LE", "UTF-32", "GB18030"):
        path.write_bytes(
            ("\ufeff" if encoding == "UTF-16LE" else "").encode(encoding) + text.encode(encoding)
        )
        rows, report = csv_rows(spark, path, encoding=encoding)
        assert rows == expected, encoding
        assert (report.stored, report.problem) == (path.stat().st_size, "")
    path.write_bytes(gzip.compress(b"id,na\xefve\n1,Jos\xe9\n"))
    assert csv_rows(spark, path, encoding="windows-1252")[0] == [{"id": "1", "naïve": "José"}]

    rows, report = csv_rows(spark, path)
    assert (rows, "`source.encoding`" in report.problem) == ([BROKEN], True), (
        "the names themselves are no UTF-8"
    )
    path.write_bytes(
        b"id,name\n1,Jos\xe9\n2,caf\xc3\xa9\n3,\xc3\n4,\xed\xa0\x80\xc0\x80\xf8\n5,\xf4\x90\x80\x80,\n"
    )
    rows, _ = read(spark, [planned(path)], limits=framed(Framing("csv")))
    assert all(value.isascii() or value.decode() for value, _, _ in rows), "all records are UTF-8"
    found = [json.loads(value) for value, _, _ in rows]
    assert found[1] == {"id": "2", "name": "café"}
    assert [
        row[1].encode("utf-8", "surrogateescape") for row in found if isinstance(row, list)
    ] == [b"Jos\xe9", b"\xc3", b"\xed\xa0\x80\xc0\x80\xf8", b"\xf4\x90\x80\x80"]
    path.write_bytes(b"id,name\n1,\x81\x40\n2,\x81\n")
    rows, _ = csv_rows(spark, path, encoding="Shift_JIS")
    assert rows == [{"id": "1", "name": "\u3000"}, ["2", "\udcff"]]
    rows, report = csv_rows(spark, path, encoding="no-such")
    assert (rows, "no encoding no-such" in report.problem) == ([BROKEN], True)


@pytest.mark.long
def test_a_pattern_that_needs_more_stack_than_there_is_fails_its_file_alone(spark, tmp_path):
    """An error of the JVM in the reader would end the driver, on each try."""
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    paths[0].write_bytes(b"x\n" + b"ab" * 400_000 + b"c\n")
    paths[1].write_bytes(b"ab\n")
    rows, reports = read(
        spark, [planned(path) for path in paths], limits=framed(Framing("starts_with", "(a|b)+c"))
    )
    assert [(value, mark) for value, mark, _ in rows] == [(None, BROKEN), (b"ab", None)]
    assert "`records.starts_with`" in reports[0].problem


@pytest.mark.parametrize("limits", [LineLimits(), DATED], ids=["lines", "starts_with"])
@pytest.mark.parametrize("codec", ["gzip", "bz2", "zstd", "lz4"])
@pytest.mark.long
def test_zeros_behind_packed_content_are_counted_and_anything_else_is_named(
    spark, tmp_path, codec, limits
):
    """One rule for all codecs; nothing that somebody has appended is lost without a word."""
    pack = {"gzip": gzip.compress, "bz2": bz2.compress, "lz4": lz4_frame}
    whole = pack.get(codec, lambda content: pa.compress(content, "zstd", asbytes=True))(b"one\n")
    path, large = tmp_path / "a.log", b"\0" * 200_000
    for behind, padding, says in (
        (b"\0" * 100, 100, ""),
        (large, len(large), ""),
        (b"\0", 1, ""),
        (whole, 0, ""),
        (whole + b"\0" * 3, 3, ""),
        (b"appended as text\n", 0, "behind"),
        (b"BZh and more\n", 0, "behind"),
        (large + b"x", 0, "behind"),
        (b"z" + whole[1:], 0, "behind"),
        (whole[:-1], 0, "end"),
    ):
        path.write_bytes(whole + behind)
        rows, (report,) = read(spark, [planned(path)], limits=limits)
        given = codec, behind[:20], report.problem
        assert bool(report.problem) == bool(says), given
        assert ("behind" in report.problem) == (says == "behind"), given
        if not says:
            assert b"".join(lines(rows)).replace(b"\n", b"") == b"one" * (1 + (whole in behind)), (
                given
            )
            assert report.padding_bytes == padding, given
            assert report.stored in (-1, path.stat().st_size), given


def lz4_frame(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


@pytest.mark.long
def test_what_zstd_needs_and_shipper_does_not_have_is_said(spark, tmp_path):
    """A window of 1 GB, as `--long=30` writes it; a dictionary, by its number."""
    raw_block = b"\x21\0\0" + b"one\n"  # the last one, of four bytes
    for header, says in ((b"\0\xa0", "window"), (b"\x21\x07\x04", "dictionary")):
        path = tmp_path / "a.zst"
        path.write_bytes(b"\x28\xb5\x2f\xfd" + header + raw_block)
        _, (report,) = read(spark, [planned(path)])
        assert says in report.problem
        assert "damaged" not in report.problem


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.long
def test_a_block_of_avro_that_holds_nothing_is_passed_over(spark, tmp_path, blocks, place):
    content = blocks.read_bytes()
    mark = content[-16:]
    header, *blocks = content.removesuffix(mark).split(mark)
    empty = b"\0\x04\x03\0" if b"deflate" in header else b"\0\0"
    at = {"first": 0, "middle": len(blocks) // 2, "last": len(blocks)}[place]
    path = tmp_path / "a.avro"
    path.write_bytes(mark.join([header, *blocks[:at], empty, empty, *blocks[at:]]) + mark)
    file = table(path)
    for split in (file.size_bytes, 20_011, 777):
        rows, reports = read(spark, [file], split, partition_bytes=IN_ONE_TASK)
        assert [report.problem for report in reports if report.problem] == []
        assert numbers(rows) == list(range(2000)), split
        assert accounted(file, reports), split
    whole = path.read_bytes()
    for cut in (whole + b"\0", whole[:-1], whole[:-17], whole + b"\0\0" + mark[:-1] + b"x"):
        path.write_bytes(cut)
        _, reports = read(spark, [table(path)])
        assert any(report.problem for report in reports), len(cut)


@pytest.mark.long
def test_a_line_by_which_excel_hears_what_is_between_fields_is_no_row(spark, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfsep=;\r\na;b\r\n1;2\r\n")
    rows, report = csv_rows(spark, path, Csv(delimiter=";"))
    assert (rows, report.problem) == ([{"a": "1", "b": "2"}], "")
    _, report = csv_rows(spark, path, Csv())
    assert "`source.csv.delimiter`" in report.problem


@pytest.mark.long
def test_no_json_that_shipper_makes_holds_bytes_that_are_no_utf8(spark, tmp_path):
    text = pa.array([b"a", b"\xff\xfe", b"\xc3\xa9"]).view(pa.string())
    for name in ("a.parquet", "a.orc"):
        file = write(pa.table({"s": text}), tmp_path / name)
        rows, _ = read(spark, [file])
        assert [json.loads(line)["s"] for line in lines(rows)] == ["a", "\udcff\udcfe", "é"]


# Records of several lines, and whole files


def records_of(content, pattern):
    """What they are by their definition: lines, each with its end, put together."""
    found = []
    for line in content.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True):
        if not found or re.match(pattern, line):
            found.append(b"")
        found[-1] += line
    return [record.removesuffix(b"\n") for record in found]


@pytest.mark.long
def test_a_record_begins_at_each_line_that_matches_wherever_the_file_is_cut(spark, tmp_path):
    rng = random.Random(3)
    for case in range(3):
        content = b"\xef\xbb\xbf" if case == 1 else b""
        content += b"no record begins here\n\n" if case % 2 else b""
        for n in range(300):
            content += b"2026-11-01 %d\n" % n + b"".join(
                rng.choice(
                    [
                        b"\n",
                        b"  at x\n",
                        b"Caused by: y\n",
                        b"2026 and no date\n",
                        b"z" * rng.randrange(900) + b"\n",
                    ]
                )
                for _ in range(rng.choice([0, 0, 1, 3, 12]))
            )
        content += b"the last line has no end" if case == 2 else b""
        expected = records_of(content, rb"\d{4}-\d\d-\d\d ")
        packings = {"log": content, "gz": gzip.compress(content), "bz2": bz2.compress(content)}
        for suffix, stored in packings.items():
            path = tmp_path / f"{case}.{suffix}"
            path.write_bytes(stored)
            for split in (2**25, 16_384, 1_500, 333) if suffix == "log" else (2**25, 16_384):
                rows, reports = read(spark, [planned(path)], split, DATED, IN_ONE_TASK)
                assert lines(rows) == expected, (case, suffix, split)
                assert sum(report.unpacked for report in reports) == len(content)
                assert (
                    suffix != "log"
                    or split > 10_000
                    or sum(report.lines > 0 for report in reports) > 5
                )


@pytest.mark.long
def test_a_record_of_several_lines_is_bounded(spark, tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(
        b"> one\n" + b"y" * 600 + b"\n" + b"z" * 600 + b"\n> two\n> " + b"x" * 3000 + b"\n> three"
    )
    rows, _ = read(spark, [planned(path)], limits=framed(Framing("starts_with", "> "), 1000))
    assert [(value, mark) for value, mark, _ in rows] == [
        (b"> one", TOO_LONG), (b"> two", None), (b"> xxx", TOO_LONG), (b"> three", None),
    ]  # fmt: skip


@pytest.mark.long
def test_a_whole_file_is_one_record_byte_for_byte(spark, tmp_path):
    content = packed_log()
    paths = [path for path in sorted(FORMATS.glob("*.log*")) if not path.name.startswith("refused")]
    rows, reports = read(
        spark, [planned(path) for path in paths], limits=framed(Framing("whole_file"))
    )
    assert [value for value, _, _ in rows] == [content] * len(paths)
    assert {report.unpacked for report in reports} == {len(content)}
    odd = tmp_path / "odd"
    odd.write_bytes(b"\xef\xbb\xbf\0\xff\r\n")
    rows, _ = read(spark, [planned(odd)], limits=framed(Framing("whole_file"), max_line=100))
    assert [value for value, _, _ in rows] == [b"\xef\xbb\xbf\0\xff\r\n"]
    odd.write_bytes(b"x" * 101)
    rows, _ = read(spark, [planned(odd)], limits=framed(Framing("whole_file"), max_line=100))
    assert [(value, mark) for value, mark, _ in rows] == [(b"xxxxx", TOO_LONG)]


@pytest.mark.long
def test_a_file_of_hadoops_own_snappy_is_read_whole_or_refused(spark, tmp_path):
    content = (AVRO / "hadoop.snappy").read_bytes()
    expected = packed_log().split(b"\n")[:-1]
    wrong = {
        "cut": content[:-1],
        "half": content[: len(content) // 2],
        "behind": content + b"x",
        "text": b"2026-11-01 text\n",
        "head": content[:3],
    }
    files = [table(AVRO / "hadoop.snappy", "hadoop_snappy")]
    for name, bad in wrong.items():
        (tmp_path / name).write_bytes(bad)
        files.append(table(tmp_path / name, "hadoop_snappy"))
    rows, reports = read(spark, files)
    assert lines(rows[: len(expected)]) == expected
    assert [bool(report.problem) for report in reports] == [False] + [True] * len(wrong)
