"""Every format with every codec from every source, on real servers, from files to what an
independent reader finds in the topic: bytes in are bytes out. `make long` prints the time of each,
and what S3 was asked.

The thin diagonal of it that is in `make test`, by test:

- a folder, text of every codec: `test_formats.py`,
  `…every_file_is_shipped_whole_or_refused_by_name…`
- a folder, each other format, packed and not: `test_source_formats.py`
- S3, text plain and of gzip: `test_s3.py`, `…plain_and_packed_objects_arrive…`; Parquet with zstd:
  `…a_table_in_s3…`
- HDFS, text plain, of gzip and of bzip2: `test_hdfs.py`, `…what_is_done_is_shipped…`; ORC with
  zlib: `…a_table_of_many_blocks…`
"""

import csv
import io
import json
import random
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from shipper.report.run_view import steps
from tests.data.tables.make import CODEC_ROWS

from .hdfs_world import runner
from .test_s3 import Bucket, s3  # noqa: F401
from .world import account_of, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

DATA = Path(__file__).parents[1] / "data"
STREAMS = {"none": "", "gzip": ".gz", "bz2": ".bz2", "zstd": ".zst", "lz4": ".lz4", "snappy": ".sz"}
ROWS = 3_000


def packed(content, codec):
    """Two members, frames or streams one behind the other."""
    half = len(content) // 2
    return b"".join(one(part, codec) for part in (content[:half], content[half:]))


def one(content, codec):
    if codec == "none":
        return content
    if codec == "snappy":
        return snappy_frames(content)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(content)
    return bytes(sink.getvalue())


def snappy_frames(content):
    """google/snappy, framing_format.txt."""
    found = b"\xff\x06\0\0sNaPpY"
    for at in range(0, len(content), 65_536):
        part = content[at : at + 65_536]
        body = masked_crc32c(part).to_bytes(4, "little") + pa.compress(part, "snappy", asbytes=True)
        found += b"\0" + len(body).to_bytes(3, "little") + body
    return found


def masked_crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def rows(cell):
    rng = random.Random(cell)
    texts = ['a"b', "two\nlines", "é📜", "", "x" * 300, "\\", "\t"]
    return [
        {"cell": cell, "n": n, "text": rng.choice(texts) + str(rng.random()), "flag": n % 3 == 0}
        for n in range(ROWS)
    ]


def compact(row):
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


def of_text(format, name):
    """A file's content, and its records."""
    made = rows(name)
    if format == "csv":
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(made[0])
        writer.writerows([row.values() for row in made])
        return text.getvalue().encode(), Counter(
            compact({key: str(value) for key, value in row.items()}) for row in made
        )
    if format == "jsonl":
        return b"".join(compact(row) + b"\n" for row in made), Counter(compact(row) for row in made)
    content = (
        "".join(f"2026-11-01 {row['n']} {name} {row['text']}\r\n" for row in made).encode()
        + b"\xff and no end"
    )
    return content, Counter([content]) if format == "whole_file" else lines_of(content)


def text_files(format):
    for codec, suffix in STREAMS.items():
        content, records = of_text(format, f"{format}-{codec}")
        yield f"{codec}.{format}{suffix}", packed(content, codec), records


def table_files(format, folder):
    codecs = (
        ("none", "snappy", "gzip", "zstd", "lz4")
        if format == "parquet"
        else ("uncompressed", "snappy", "zlib", "zstd", "lz4")
    )
    for codec in codecs:
        made = rows(f"{format}-{codec}")
        path = folder / "table"
        if format == "parquet":
            pq.write_table(pa.Table.from_pylist(made), path, compression=codec, row_group_size=500)
        else:
            orc.write_table(
                pa.Table.from_pylist(made),
                path,
                compression=codec,
                stripe_size=64_000,
                batch_size=256,
            )
        yield f"{codec}.{format}", path.read_bytes(), Counter(compact(row) for row in made)


def avro_files():
    for path in sorted((DATA / "tables").glob("codec-*.avro")):
        yield (
            path.name,
            path.read_bytes(),
            Counter(compact({"n": n, "text": f"line {n}"}) for n in range(CODEC_ROWS)),
        )


class Local:
    """A folder. The others are like it: what writes a file there, and what makes the pipeline read
    from there."""

    def __init__(self, world, request):
        self.world = world

    def put(self, name, content):
        self.world.write_log(name, content)

    def write_pipeline(self, **source):
        self.world.write_pipeline(source={"path": "logs", "settle": "0s", **source})


class InS3(Local):
    def __init__(self, world, request):
        super().__init__(world, request)
        self.bucket = Bucket(world, request.getfixturevalue("s3"))

    def put(self, name, content):
        self.bucket.put(name, content)

    def write_pipeline(self, **source):
        self.bucket.write_pipeline(**source)


class InHdfs(Local):
    def __init__(self, world, request):
        super().__init__(world, request)
        self.files = request.getfixturevalue("hdfs")

    def put(self, name, content):
        self.files.write(f"/matrix/{self.world.name}/{name}", content)

    def write_pipeline(self, **source):
        path = self.files.uri(f"/matrix/{self.world.name}")
        self.world.write_pipeline(source={"path": path, "settle": "0s", **source}, runner=runner())


PLACES = {"folder": Local, "s3": InS3, "hdfs": InHdfs}


def ran(world):
    report = world.report()
    assert report.status == "succeeded", report.error
    return report


@pytest.mark.parametrize("format", ["text", "jsonl", "csv", "whole_file", "parquet", "orc", "avro"])
@pytest.mark.parametrize("where", PLACES)
def test_every_codec_of_a_format(world, tmp_path, where, format, request, capsys):
    files = {"parquet": table_files, "orc": table_files}.get(format)
    cells = list(
        files(format, tmp_path)
        if files
        else avro_files()
        if format == "avro"
        else text_files(format)
    )
    place = PLACES[where](world, request)
    expected = Counter()
    for name, content, records in cells:
        place.put(name, content)
        expected += records
    place.write_pipeline(format=format, split_size="64KiB")
    began = time.monotonic()
    report = ran(world)
    took = time.monotonic() - began
    assert len(report.plan.files) == len(cells)
    assert account_of(report)["delivered"] == expected.total()
    counted = sum(
        (Counter(step.result.source_requests) for step in steps(report) if step.result), Counter()
    )
    asked = ", ".join(f"{count:,} {kind}" for kind, count in counted.items())
    with capsys.disabled():
        print(
            f"\n{where}, {format}: {len(cells)} codecs, {report.plan.total_splits} splits, "
            f"{report.plan.total_bytes / 1e6:.2f} MB, {expected.total():,} records, {took:.1f} "
            f"s{asked and '; asked S3: ' + asked}",
            end="",
        )
    assert world.read() == expected
    assert account_of(ran(world))["delivered"] == 0
