"""Records that cross to Python in blocks are those that cross row by row."""

import gzip
import random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shipper.driver.pieces import file_pieces
from shipper.ledger.records import spark_hash
from shipper.worker.cut import split_slices
from spark_jobs.frame import blocks, records
from spark_jobs.reader import LineLimits, reading
from tests.samples.config import pipeline_of

from .test_reader import planned

pytestmark = pytest.mark.spark

MAX_LINE = 40
PIPELINE = pipeline_of(topic="logs.web")
BLOCK_BYTES = 256 * 1024


class Crossed(NamedTuple):
    """What the worker makes of a frame, by split."""

    records: dict[int, list[tuple[bytes | None, int]]]
    """Value and hash, in the order of ordinals."""
    marked: dict[int, list[tuple[int, int]]]
    """Mark, ordinal."""
    ends: dict[int, tuple[bool, bool, int | None, int | None, int]]
    """Ended, broken, stored, unpacked, ordinal behind the last record."""


def crossed(spark, path, split_bytes, slice_bytes, limits, columns):
    pieces = list(file_pieces([planned(path)], split_bytes))
    found = Crossed({}, {}, {})
    with reading(spark, pieces, limits, partition_bytes=10**9, ends=True) as read:
        batches = columns(read.frame).toArrow().to_batches()
        for part in split_slices(
            iter(batches), lambda: slice_bytes, {piece.split for piece in pieces}
        ):
            mine = found.records.setdefault(part.split, [])
            assert part.first == len(mine)
            if part.rows:
                values, hashes = (
                    part.table.column(name).to_pylist() for name in ("value", "checksum")
                )
                assert part.bytes == sum(map(len, values))
                mine += zip(values, hashes, strict=True)
            marked = found.marked.setdefault(part.split, [])
            marked += [
                (mark, part.first + row) for mark, rows in part.marked.items() for row in rows
            ]
            found.ends[part.split] = (
                part.ends_split, part.broken, part.stored, part.unpacked, part.end,
            )  # fmt: skip
    return found


def by_row(frame):
    return records(frame, PIPELINE)


line = st.one_of(
    st.sampled_from(
        [b"", b"\r", b"\x00", b"\xff\xfe", b"a\rb", b"x" * MAX_LINE, b"x" * (MAX_LINE + 1)]
    ),
    st.binary(max_size=MAX_LINE + 5).map(lambda content: content.replace(b"\n", b"")),
)
content = st.tuples(
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(line, max_size=30),
    st.sampled_from([b"", b"\n"]),
).map(lambda parts: parts[0] + b"\n".join(parts[1]) + parts[2])


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    content=content,
    kind=st.sampled_from(["plain", "gzip", "cut off"]),
    split_bytes=st.integers(7, 200),
    slice_bytes=st.integers(1, 300),
)
@pytest.mark.long
def test_blocks_and_rows_give_the_same_records_ordinals_hashes_and_ends(
    spark, tmp_path_factory, content, kind, split_bytes, slice_bytes
):
    path = tmp_path_factory.mktemp("blocks") / ("a.log" if kind == "plain" else "a.log.gz")
    packed = content if kind == "plain" else gzip.compress(content)
    path.write_bytes(packed[:-5] if kind == "cut off" else packed)
    limits = LineLimits(MAX_LINE, keep=10)
    rows, found = (
        crossed(spark, path, split_bytes, slice_bytes, limits, columns)
        for columns in (by_row, blocks)
    )
    assert found == rows


@pytest.mark.parametrize(
    "framing",
    [
        *(pytest.param(each, marks=pytest.mark.long) for each in ("short", "long")),
        "one that is larger than a block",
    ],
)
def test_a_file_of_several_blocks_crosses_whole(spark, tmp_path, framing):
    chance = random.Random(framing)
    sizes = {
        "short": [chance.randrange(3) for _ in range(400_000)],
        "long": [chance.randrange(100_000) for _ in range(30)],
        "one that is larger than a block": [10, 3 * BLOCK_BYTES, 10, BLOCK_BYTES, 5],
    }[framing]
    lines = [
        b"%d " % number + chance.randbytes(size).replace(b"\n", b" ")
        for number, size in enumerate(sizes)
    ]
    path = tmp_path / "a.log"
    path.write_bytes(b"\n".join(lines) + b"\n")
    found = crossed(spark, path, 2**25, 1_000_000, LineLimits(), blocks)
    ((split, there),) = found.records.items()
    assert [value for value, _ in there] == lines
    assert [hashed % 2**64 for _, hashed in there] == list(map(spark_hash, lines))
    size = path.stat().st_size
    assert found.ends[split] == (True, False, size, size, len(lines))
