"""The reader of lines, by itself: what it gives is what lies in the file, or it says of the file
that it is not."""

import bz2
import random
import zlib

import pytest
import xxhash
from pyspark.sql import functions as F

from shipper.config.pipeline import Pipeline
from shipper.config.rules import sql_column
from shipper.driver.pieces import file_pieces
from shipper.driver.recognition import HEAD_BYTES, recognise
from shipper.report.plan_result import PlannedFile
from shipper.worker.marks import BROKEN, MARK, TOO_LONG, decode_mark
from spark_jobs.hadoop import Hadoop
from spark_jobs.listing import list_files
from spark_jobs.reader import LineLimits, reading
from tests.data import FORMATS, packed_log

from .lz4_frames import linked_frame, of_others

pytestmark = pytest.mark.spark

LINES = packed_log().split(b"\n")[:-1]
SPLIT = 64 * 1024


def planned(path):
    status = path.stat()
    with path.open("rb") as file:
        format = recognise("", file.read(HEAD_BYTES)).format
    return PlannedFile(
        path=str(path),
        uri=f"file:{path}",
        size_bytes=status.st_size,
        modified_ms=status.st_mtime_ns // 10**6,
        splits=1,
        format=format,
    )


def read(spark, files, split=2**25, limits=None, partition_bytes=None):
    with reading(
        spark,
        list(file_pieces(files, split)),
        limits or LineLimits(),
        partition_bytes=partition_bytes or split,
    ) as found:
        frame = found.frame.select(
            F.col("value").cast("binary").alias("value"),
            F.col(sql_column(MARK)).alias("mark"),
            "split",
        )
        rows = [
            (None if row.value is None else bytes(row.value), row.mark, row.split)
            for row in frame.collect()
        ]
        return rows, found.reports()


def including(*globs):
    return Pipeline.model_validate(
        {
            "pipeline": "web",
            "source": {"path": "/logs", "include": list(globs), "wait": "0s"},
            "routes": [{"topic": "t"}],
            "clusters": ["none"],
        }
    )


def lines(rows):
    return [value for value, mark, _ in rows if mark != BROKEN]


def test_a_packed_file_whose_name_does_not_say_so_is_read_once_however_many_splits_it_has(
    spark, tmp_path
):
    """Splits go by the name. What unpacks a file may read its header as soon as it is opened, and
    the second split has nothing of it."""
    paths = [tmp_path / f"{path.name}.txt" for path in sorted(FORMATS.glob("[!r]*.log.*"))]
    for path in paths:
        path.write_bytes((FORMATS / path.name.removesuffix(".txt")).read_bytes())
    files = [planned(path) for path in paths]
    rows, reports = read(spark, files, split=100, partition_bytes=2**25)
    assert lines(rows) == LINES * len(paths)
    stored = {report.split: report.stored for report in reports}
    for file in files:
        pieces = [stored[piece.split] for piece in file_pieces([file], 100)]
        assert len(pieces) > 3
        assert file.format == "bzip2" or sum(pieces) == file.size_bytes, file.path


def damaged(content):
    at = len(content) * 3 // 4
    return {
        "the last byte is missing": content[:-1],
        "the last seven bytes are missing": content[:-7],
        "more than half of it is missing": content[: len(content) * 2 // 5],
        "all but its head is missing": content[:40],
        "text behind it": content + b"and then somebody wrote a line here\n",
        "zeros behind it": content + bytes(512),
        "a bit is wrong": content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :],
        "zeros in it": content[:at] + bytes(100) + content[at + 100 :],
    }


def test_a_damaged_file_is_never_read_in_part_without_a_word(spark, tmp_path):
    """Nor does it keep the files behind it from being read."""
    cases, files = [], []
    for path in sorted(FORMATS.glob("[!r]*.log.*")):
        for what, content in damaged(path.read_bytes()).items():
            damaged_file = tmp_path / f"{len(cases):03}"
            damaged_file.write_bytes(content)
            files.append(planned(damaged_file))
            files[-1].format = recognise("", path.read_bytes()[:HEAD_BYTES]).format
            cases.append(f"{path.name}: {what}")
    assert len(cases) == 13 * 8
    rows, reports = read(spark, [*files, planned(FORMATS / "gzip.log.gz")])
    splits = {report.split: report for report in reports}
    of_split = {split: [] for split in splits}
    for row in rows:
        of_split[decode_mark(row[2], splits)[0]].append(row)
    for case, piece in zip(cases, file_pieces(files, 2**25), strict=True):
        found, problem = of_split[piece.split], splits[piece.split].problem
        assert [mark for _, mark, _ in found if mark] == ([BROKEN] if problem else []), case
        if not problem:
            assert lines(found) == LINES, case
            assert "zeros behind it" in case, f"{case}: nothing was missing?"
            assert splits[piece.split].padding_bytes == 512, case
    assert lines(rows)[-len(LINES) :] == LINES


@pytest.mark.long
def test_a_bzip2_file_without_the_beginning_of_a_block_is_refused(spark, tmp_path):
    """Hadoop's codec looks for the next one, and the lines of the block are gone."""
    content = b"".join(b"line %d %s\n" % (i, b"x" * (i % 90)) for i in range(30_000))
    bits = "".join(f"{byte:08b}" for byte in bz2.compress(content, 1))
    places = [at for at in range(len(bits)) if bits.startswith(f"{0x314159265359:048b}", at)]
    assert len(places) > 4
    at = places[2] + 20
    wrong = bits[:at] + "10"[int(bits[at])] + bits[at + 1 :]
    for name, packed in {"good": bits, "bad": wrong}.items():
        path = tmp_path / f"{name}.log.bz2"
        path.write_bytes(bytes(int(packed[i : i + 8], 2) for i in range(0, len(packed), 8)))
        for split in (2**25, SPLIT // 4):
            rows, reports = read(spark, [planned(path)], split)
            if name == "good":
                assert b"".join(b"%s\n" % value for value in lines(rows)) == content
            assert [report.problem for report in reports if report.problem] == (
                []
                if name == "good"
                else [f"a block is damaged or missing before byte {len(bits) // 8}"]
            )


def test_plain_text_is_cut_into_the_lines_and_splits_of_sparks_own_reader(spark, tmp_path):
    rng = random.Random(7)
    for case in range(6):
        content = b"\xef\xbb\xbf" if case % 3 == 0 else b""
        while len(content) < 150_000:
            long = rng.choice([0, 1, 200, 70_000 if rng.random() < 0.02 else 30])
            content += b"a" * rng.randrange(long + 1) + rng.choice(
                [b"\n", b"\n", b"\r\n", b"\xff\n"]
            )
        content += b"the last line has no end" if case % 2 else b""
        path = tmp_path / f"{case}.log"
        path.write_bytes(content)
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(SPLIT))
        spark.conf.set("spark.sql.files.openCostInBytes", "0")
        spark.conf.set("spark.sql.files.minPartitionNum", "1")
        of = [
            f"_metadata.{name}"
            for name in ("file_path", "file_size", "file_modification_time", "file_block_start")
        ]
        text = spark.read.option("lineSep", "\n").text(str(path))
        sparks = [
            (bytes(row.v), row.s)
            for row in text.select(
                F.col("value").cast("binary").alias("v"), F.xxhash64(*of).alias("s")
            ).collect()
        ]
        rows, _ = read(spark, [planned(path)], SPLIT)
        assert sorted((value, split) for value, _, split in rows) == sorted(sparks)
        assert (
            lines(rows)
            == content.removeprefix(b"\xef\xbb\xbf").split(b"\n")[: None if case % 2 else -1]
        )


@pytest.mark.long
def test_a_line_of_more_than_two_gigabytes_is_one_row_and_the_others_are_read(spark, tmp_path):
    """Zeros in front of a log, as copytruncate leaves them: they take no place on the disk."""
    path, hole = tmp_path / "a.log", 2**31 + 5
    with path.open("wb") as file:
        file.seek(hole)
        file.write(b"\nbehind\n")
    limits = LineLimits(max_line=1000, keep=4)
    rows, reports = read(spark, [planned(path)], 2**32, limits)
    assert [(value, mark) for value, mark, _ in rows] == [(b"\0" * 4, TOO_LONG), (b"behind", None)]
    assert [(report.problem, report.unpacked) for report in reports] == [("", hole + 8)]


def test_a_line_that_is_too_long_is_one_row_with_its_beginning(spark, tmp_path):
    path = tmp_path / "long.log"
    path.write_bytes(
        b"y" * 1001 + b"\n" + b"one\n" + b"x" * (3 * SPLIT + 5) + b"\n" + b"z" * 1000 + b"\ntwo"
    )
    rows, reports = read(spark, [planned(path)], SPLIT, LineLimits(max_line=1000, keep=4))
    first = rows[1][2]
    assert [(value, mark) for value, mark, _ in rows] == [
        (b"yyyy", TOO_LONG),
        (b"one", None),
        (b"xxxx", TOO_LONG),
        (b"z" * 1000, None),
        (b"two", None),
    ]
    assert [split for *_, split in rows[:3]] == [~first, first, ~first]
    assert sum(report.unpacked for report in reports) == path.stat().st_size


@pytest.mark.long
def test_a_bomb_costs_no_more_memory_than_a_line(spark, tmp_path):
    """One line of 600 MB in 600 kB, in a JVM that has less."""
    path = tmp_path / "bomb.log.gz"
    packer = zlib.compressobj(wbits=31)
    with path.open("wb") as file:
        for _ in range(600):
            file.write(packer.compress(bytes(10**6)))
        file.write(packer.compress(b"\nbehind it\n") + packer.flush())
    rows, (report,) = read(spark, [planned(path)], limits=LineLimits(max_line=2**20, keep=3))
    assert [(value, mark) for value, mark, _ in rows] == [
        (b"\0\0\0", TOO_LONG),
        (b"behind it", None),
    ]
    assert report.unpacked == 6 * 10**8 + 11


def test_a_file_that_was_replaced_or_removed_after_the_plan_is_said_to_be(spark, tmp_path):
    for name in ("gone", "replaced", "there"):
        (tmp_path / name).write_bytes(b"one\n")
    files = [planned(tmp_path / name) for name in ("gone", "replaced", "there")]
    (tmp_path / "gone").unlink()
    (tmp_path / "replaced").write_bytes(b"another\n")
    rows, reports = read(spark, files)
    assert lines(rows) == [b"one"]
    assert "it is gone" in reports[0].problem
    assert "replaced or written to after it was planned" in reports[1].problem


@pytest.mark.long
def test_a_listing_stops_at_the_limit_and_makes_nothing_of_the_rest(spark, tmp_path):
    """A window of a million files would be refused only when all of them were listed, and made into
    objects."""
    for n in range(500):
        (tmp_path / f"{n:03}.log").touch()
        (tmp_path / f"{n:03}.tmp").touch()
    hadoop = Hadoop.of(spark)
    found = list_files(hadoop, [str(tmp_path)], including("*.log"), most=20)
    assert found.too_many
    assert sum(file.name.endswith(".log") for file in found.files) == 21
    everything = list_files(hadoop, [str(tmp_path)], including("*.log"), most=500)
    assert not everything.too_many
    assert sum(file.count for file in everything.files) == 1_000
    assert sum(file.name.endswith(".log") for file in everything.files) == 500


@pytest.mark.long
def test_a_name_may_match_any_of_several_globs(spark, tmp_path):
    for name in ("a.log", "b.log.gz", "c.txt", "b.log.gz.old"):
        (tmp_path / name).touch()
    wanted = including("*.log", "[ab]*.gz")
    found = list_files(Hadoop.of(spark), [str(tmp_path)], wanted, most=2)
    assert {file.name for file in found.files if not file.left} == {"a.log", "b.log.gz"}
    assert {(file.left, file.count) for file in found.files if file.left} == {("unwanted", 2)}
    assert not found.too_many


@pytest.mark.long
def test_a_path_that_cannot_be_listed_keeps_nothing_of_the_others_back(spark, tmp_path):
    (tmp_path / "here.log").write_bytes(b"one\n")
    paths = ["nosuch://host/logs/", str(tmp_path), str(tmp_path / "nothing there")]
    found = list_files(Hadoop.of(spark), paths, including("*"), most=10)
    assert [file.name for file in found.files] == ["here.log"]
    assert found.files[0].uri == (tmp_path / "here.log").as_uri(), (
        "as Spark's _metadata.file_path has it"
    )
    assert list(found.problems) == [paths[0]]
    assert "nosuch" in found.problems[paths[0]]


@pytest.mark.long
def test_a_file_whose_size_is_not_known_is_left_out(spark):
    """Hadoop's client for HTTP gives every file -1 bytes. Pipelines may not use it."""
    paths = ["http://127.0.0.1:1/a.log"]
    (found,) = list_files(Hadoop.of(spark), paths, including("*"), most=10).files
    assert (found.left, found.count, found.id.path) == (
        "negative-size",
        1,
        "http://127.0.0.1:1/a.log",
    )


@pytest.mark.long
def test_lz4_frames_whose_blocks_need_each_other_are_read_to_the_last_byte(spark, tmp_path):
    """Also one behind the other, with frames that stand alone and with what is to be skipped in
    between."""
    rng = random.Random(4)
    made = [
        linked_frame(rng, rng.randint(0, 12), kind=rng.choice((4, 4, 5)), sums=rng.random() < 0.7)
        for _ in range(12)
    ]
    text = b"".join(b"%d %s\n" % (n, rng.choice(LINES)) for n in range(6_000))
    made += [(frame, text) for frame in of_others(text)]
    skipped = b"\x5a\x2a\x4d\x18\x05\0\0\0skip!"
    made.append(
        (skipped.join(frame for frame, _ in made), b"".join(content for _, content in made))
    )
    files = []
    for number, (frames, _) in enumerate(made):
        (tmp_path / f"{number:02}.lz4").write_bytes(frames)
        files.append(planned(tmp_path / f"{number:02}.lz4").model_copy(update={"format": "lz4"}))
    rows, reports = read(spark, files, partition_bytes=2**30)
    assert [report.problem for report in reports] == [""] * len(files)
    assert [report.stored for report in reports] == [file.size_bytes for file in files]
    found = {piece.split: [] for piece in file_pieces(files, 2**25)}
    for value, _, split in rows:
        found[split].append(value)
    for (_, content), values in zip(made, found.values(), strict=True):
        assert b"".join(b"%s\n" % value for value in values).removesuffix(
            b"\n"
        ) == content.removesuffix(b"\n")


@pytest.mark.long
def test_a_damaged_frame_with_linked_blocks_is_never_taken_for_a_whole_one(spark, tmp_path):
    rng = random.Random(5)
    frame, _ = linked_frame(rng, 9)
    assert len(frame) > 3_000
    cases = [
        frame[:at] for at in (5, 14, 20, len(frame) - 1, *rng.sample(range(20, len(frame)), 30))
    ]
    for at in (*range(4, 15), *rng.sample(range(15, len(frame)), 100)):
        cases.append(frame[:at] + bytes([frame[at] ^ 1 << rng.randrange(8)]) + frame[at + 1 :])
    plain, content = linked_frame(
        rng, 9, sums=False
    )  # nothing but its own form says that it is damaged
    for wrong in (-1, 1):
        head = bytes([0x48, plain[5]]) + (len(content) + wrong).to_bytes(8, "little")
        cases.append(
            plain[:4] + head + bytes([xxhash.xxh32_intdigest(head) >> 8 & 0xFF]) + plain[7:]
        )
    unsure = [
        plain[:at] + rng.randbytes(3) + plain[at + 3 :]
        for at in rng.sample(range(4, len(plain)), 100)
    ]
    files = []
    for number, content in enumerate([*cases, frame + b"x", *unsure]):
        (tmp_path / f"{number}").write_bytes(content)
        files.append(planned(tmp_path / f"{number}").model_copy(update={"format": "lz4"}))
    _, reports = read(spark, files, partition_bytes=2**30)
    problems = {report.split: report.problem for report in reports}
    found = [problems[piece.split] for piece in file_pieces(files, 2**25)]
    sure = found[: len(cases) + 1]
    assert all(sure), [number for number, problem in enumerate(sure) if not problem]
    assert all("lz4" in problem for problem in sure), sorted(set(sure))
    assert not any("Exception: Index" in problem for problem in found), sorted(set(found))
