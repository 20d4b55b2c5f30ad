"""Bundling, then taking apart as the consumer contract says, gives the lines; and what is counted
stays the lines."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from shipper_tools.dev.console_consumer import unbundle

from shipper.config.records import LINES_HEADER
from shipper.kafka.limits import TopicLimit
from shipper.types import FileId, SplitId
from shipper.worker.chunk import Chunk, bundle_values
from shipper.worker.order import BundleOrder, OrderedSplit, ShipOrder
from shipper.worker.receipt import Receipt
from tests.doubles.task import order_with, run_task

LINE = st.binary(max_size=40).map(lambda line: line.replace(b"\n", b""))
ODD = st.one_of(LINE, st.none(), st.binary(max_size=40), st.just(b"\n"))


def chunked(values: list[bytes | None], cuts: list[int]) -> pa.ChunkedArray:
    """As a slice of an Arrow table is: in several arrays, each of which begins somewhere in its
    buffer."""
    borders = sorted({0, len(values), *(cut % (len(values) + 1) for cut in cuts)})
    arrays = [
        pa.array([b"before", *values[first:end], None], pa.binary()).slice(1, end - first)
        for first, end in itertools.pairwise(borders)
    ]
    return pa.chunked_array(arrays, pa.binary())


def taken_apart(values: list[bytes | None], lines: list[int]) -> list[list[bytes | None]]:
    return [
        unbundle(value, [(LINES_HEADER, b"%d" % count)])
        for value, count in zip(values, lines, strict=True)
    ]


@given(
    st.lists(LINE, min_size=1, max_size=60),
    st.lists(st.integers(0), max_size=4),
    st.integers(1, 200),
)
def test_lines_come_back_in_order_and_bundles_are_as_full_as_they_can_be(
    lines: list[bytes | None], cuts: list[int], most: int
) -> None:
    found = bundle_values(chunked(lines, cuts), most, all_lines=True)
    values = found.values.to_pylist()
    parts = taken_apart(values, found.lines)
    assert [line for part in parts for line in part] == lines
    for index, value in enumerate(values):
        assert len(value) <= most or found.lines[index] == 1
        if index + 1 < len(values):
            assert len(value) + 1 + len(parts[index + 1][0] or b"") > most, (
                "the next line would have fitted"
            )


@given(
    st.lists(ODD, min_size=1, max_size=60),
    st.lists(st.integers(0), max_size=4),
    st.integers(1, 200),
)
def test_values_that_are_no_lines_come_back_too_each_in_a_bundle_of_its_own(
    values: list[bytes | None], cuts: list[int], most: int
) -> None:
    found = bundle_values(chunked(values, cuts), most, all_lines=False)
    parts = taken_apart(found.values.to_pylist(), found.lines)
    assert [value for part in parts for value in part] == values
    assert all(
        len(part) == 1
        for part in parts
        if part[0] is None or any(b"\n" in (value or b"") for value in part)
    )


def test_a_consumer_notices_a_count_that_is_wrong() -> None:
    assert unbundle(b"a\nb", [("file", b"x")]) == [b"a\nb"]
    with pytest.raises(ValueError, match="says 3 lines, and the value holds 2"):
        unbundle(b"a\nb", [(LINES_HEADER, b"3")])


def order(
    bundle: BundleOrder | None, *, bom: bool, there: dict[str, list[tuple[int, int]]]
) -> ShipOrder:
    split = OrderedSplit(
        SplitId(FileId("a.log", 1, 1), 0), bom=bom, there=there, headers=(("file", b"a.log"),)
    )
    return order_with(
        limits={"t": TopicLimit(1_000_000)}, chunk_size_bytes=100, splits={7: split}, bundle=bundle
    )


def cut(lines: list[bytes], given: ShipOrder) -> tuple[Receipt, list[Chunk]]:
    columns: dict[str, Any] = {
        "split": pa.array([7] * len(lines) + [7 ^ 1 << 62], pa.int64()),
        "value": pa.array([*lines, None], pa.binary()),
        "checksum": pa.array(
            [xxhash.xxh64_intdigest(line, 42) for line in lines] + [0], pa.uint64()
        ).view(pa.int64()),
    }
    chunks: list[Chunk] = []
    return run_task(given, pa.record_batch(columns), chunks.extend), chunks


def without_times(receipt: Receipt) -> Receipt:
    for split in receipt.splits.values():
        split.seconds = 0
    return receipt


@given(
    st.lists(LINE, min_size=1, max_size=60),
    st.integers(0, 60),
    st.integers(0, 60),
    st.integers(1, 50),
    st.booleans(),
)
def test_chunks_of_bundles_are_the_chunks_of_lines(
    lines: list[bytes], a: int, b: int, most: int, bom: bool
) -> None:
    there = {"t": [(min(a, b), max(a, b))]} if a != b else {}
    receipt, plain = cut(lines, order(None, bom=bom, there=there))
    same_receipt, packed = cut(
        lines, order(BundleOrder(most, all_lines=True), bom=bom, there=there)
    )
    assert without_times(receipt) == without_times(same_receipt)
    assert len(plain) == len(packed)
    for of_lines, of_bundles in zip(plain, packed, strict=True):
        assert of_lines.ledger_key == of_bundles.ledger_key
        assert of_lines.entry is not None
        assert of_bundles.entry == replace(of_lines.entry, bundles=len(of_bundles.values) or None)
        assert of_bundles.counted == len(of_lines.values)
        assert of_bundles.size_bytes == of_lines.size_bytes + len(of_lines.values) - len(
            of_bundles.values
        )
        if of_bundles.values:
            assert of_bundles.headers is not None
            assert all(headers[1:] == [("file", b"a.log")] for headers in of_bundles.headers)
            parts = [
                unbundle(v, h)
                for v, h in zip(of_bundles.values[:], of_bundles.headers, strict=True)
            ]
            assert [line for part in parts for line in part] == of_lines.values[:]
            checksum = (
                sum(xxhash.xxh64_intdigest(line or b"", 42) for part in parts for line in part)
                % 2**64
            )
            assert checksum == of_bundles.entry.checksum
