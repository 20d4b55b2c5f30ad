"""Bundling, then taking apart as the consumer contract says, gives the lines; and what is counted stays the lines."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from shipper_tools.testing.bundles import unbundle

from shipper.config.records import LINES_HEADER
from shipper.kafka.limits import TopicLimits
from shipper.kafka.producer import LaneSettings
from shipper.ledger.intervals import IntervalSet
from shipper.types import FileId, SplitId
from shipper.worker import cut as cutter
from shipper.worker.assign import Limits
from shipper.worker.bundles import bundled
from shipper.worker.order import BundleOrder, OrderedSplit, ShipOrder
from shipper.worker.receipt import Receipt
from shipper.worker.shipment import Records

LINE = st.binary(max_size=40).map(lambda line: line.replace(b"\n", b""))
ODD = st.one_of(LINE, st.none(), st.binary(max_size=40), st.just(b"\n"))


def chunked(values: list[bytes | None], cuts: list[int]) -> pa.ChunkedArray:
    """As a slice of an Arrow table is: in several arrays, each of which begins somewhere in its buffer."""
    borders = sorted({0, len(values), *(cut % (len(values) + 1) for cut in cuts)})
    arrays = [
        pa.array([b"before", *values[first:behind], None], pa.binary()).slice(1, behind - first)
        for first, behind in itertools.pairwise(borders)
    ]
    return pa.chunked_array(arrays, pa.binary())


def taken_apart(values: list[bytes | None], lines: list[int]) -> list[list[bytes | None]]:
    return [unbundle(value, [(LINES_HEADER, b"%d" % count)]) for value, count in zip(values, lines, strict=True)]


@settings(deadline=None)
@given(st.lists(LINE, min_size=1, max_size=60), st.lists(st.integers(0), max_size=4), st.integers(1, 200))
def test_lines_come_back_in_order_and_bundles_are_as_full_as_they_can_be(
    lines: list[bytes | None], cuts: list[int], most: int
) -> None:
    found = bundled(chunked(lines, cuts), most, all_lines=True)
    values = found.values.to_pylist()
    parts = taken_apart(values, found.lines)
    assert [line for part in parts for line in part] == lines
    for index, value in enumerate(values):
        assert len(value) <= most or found.lines[index] == 1
        if index + 1 < len(values):
            assert len(value) + 1 + len(parts[index + 1][0] or b"") > most, "the next line would have fitted"


@settings(deadline=None)
@given(st.lists(ODD, min_size=1, max_size=60), st.lists(st.integers(0), max_size=4), st.integers(1, 200))
def test_values_that_are_no_lines_come_back_too_each_in_a_bundle_of_its_own(
    values: list[bytes | None], cuts: list[int], most: int
) -> None:
    found = bundled(chunked(values, cuts), most, all_lines=False)
    parts = taken_apart(found.values.to_pylist(), found.lines)
    assert [value for part in parts for value in part] == values
    assert all(len(part) == 1 for part in parts if part[0] is None or any(b"\n" in (value or b"") for value in part))


def test_a_consumer_notices_a_count_that_is_wrong() -> None:
    assert unbundle(b"a\nb", [("file", b"x")]) == [b"a\nb"]
    with pytest.raises(ValueError, match="says 3 lines, and the value holds 2"):
        unbundle(b"a\nb", [(LINES_HEADER, b"3")])


@dataclass
class Shipment:
    """Keeps what the cutter hands over."""

    there: IntervalSet = field(default_factory=IntervalSet)
    receipt: Receipt = field(default_factory=lambda: Receipt(0))
    added: list[tuple[int, int, bool, Records]] = field(default_factory=list)

    def end_known(self, split: SplitId) -> bool:
        return False

    def gaps(self, split: SplitId, topic: str, first: int, last: int) -> list[tuple[int, int]]:
        return self.there.gaps(first, last)

    def quarantines(self, split: SplitId) -> frozenset[str]:
        return frozenset()

    def add(self, split: int, first: int, last: int, end: bool, records: Records) -> None:
        self.added.append((first, last, end, records))

    def send_full(self) -> None:
        pass


def order(bundle: BundleOrder | None, *, bom: bool = False) -> ShipOrder:
    split = OrderedSplit(SplitId(FileId("a.log", 1, 1), 0), bom=bom, headers=(("file", b"a.log"),))
    return ShipOrder(
        pipeline="web", cluster="local", run_id="r", window="w", digest="d", generation=0, chunks_end=0, ledger_topic="l",
        settings=LaneSettings({}, 1, "none", 1), limits={}, lanes=1, batch_bytes=100, chunk_size_bytes=100, deadline_seconds=1, topics=("t",),
        splits={7: split}, bundle=bundle,
    )  # fmt: skip


def cut(lines: list[bytes], given: ShipOrder, there: tuple[int, int] | None = None) -> Shipment:
    columns: dict[str, Any] = {
        "split": pa.array([7] * len(lines), pa.int64()),
        "value": pa.array(lines, pa.binary()),
        "checksum": pa.array([xxhash.xxh64_intdigest(line, 42) for line in lines], pa.uint64()).view(pa.int64()),
    }
    shipment = Shipment()
    if there is not None:
        shipment.there.add(*there)
    pieces = cutter.pieces(iter([pa.record_batch(columns)]), given.chunk_size_bytes)
    cutter.ship(pieces, given, shipment, Limits("none", TopicLimits({"t": 1_000_000})))  # type: ignore[arg-type]
    return shipment


@settings(deadline=None)
@given(st.lists(LINE, min_size=1, max_size=60), st.integers(0, 60), st.integers(0, 60), st.integers(1, 50), st.booleans())
def test_chunks_of_bundles_are_the_chunks_of_lines(lines: list[bytes], a: int, b: int, most: int, bom: bool) -> None:
    there = (min(a, b), max(a, b)) if a != b else None
    plain = cut(lines, order(None, bom=bom), there)
    packed = cut(lines, order(BundleOrder(most, all_lines=True), bom=bom), there)
    assert plain.receipt == packed.receipt
    assert len(plain.added) == len(packed.added)
    for (*where, of_lines), (*same, of_bundles) in zip(plain.added, packed.added, strict=True):
        assert where == same
        assert (of_lines.checksum, of_lines.size_bytes) == (of_bundles.checksum, of_bundles.size_bytes)
        assert of_bundles.lines == len(of_lines.values) or not of_lines.values
        if of_bundles.values:
            assert of_bundles.headers is not None
            assert all(headers[1:] == [("file", b"a.log")] for headers in of_bundles.headers)
            parts = [unbundle(v, h) for v, h in zip(of_bundles.values[:], of_bundles.headers, strict=True)]
            assert [line for part in parts for line in part] == of_lines.values[:]
            assert sum(xxhash.xxh64_intdigest(line or b"", 42) for part in parts for line in part) % 2**64 == of_bundles.checksum
