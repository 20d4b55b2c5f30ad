"""What records will take on the wire is estimated from themselves, and corrected by what was
sent."""

import base64
import random

import pytest

from shipper.worker.chunk import Chunk
from shipper.worker.lane import BatchSlice
from shipper.worker.wire_size import WireSize

NOISE = base64.b64encode(random.Random(1).randbytes(300_000))
NOISY = [NOISE[at : at + 100] for at in range(0, 300_000, 100)]
TEXT = [b"GET /api/v1/items/%d 200".ljust(100, b".") % number for number in range(3_000)]


def chunk(values):
    return Chunk("t", values, sum(map(len, values)), b"k", lambda *_: b"v", "c")


def test_records_that_do_not_compress_as_the_sample_did_are_known():
    wire = WireSize("zstd")
    noisy, text = wire.estimate(chunk(NOISY), 0, 3_000), wire.estimate(chunk(TEXT), 0, 3_000)
    assert 200_000 < noisy < 330_000
    assert text < noisy / 8


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_slice_is_cut_until_it_fits_wherever_the_content_changes(compression):
    wire, mixed = WireSize(compression), chunk([*TEXT, *NOISY])
    parts = list(BatchSlice(mixed, 0, 6_000).cut(20_000, wire))
    assert [part.first for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert (parts[0].first, parts[-1].end) == (0, 6_000)
    assert all(wire.estimate(*part) <= 20_000 for part in parts)
    one = list(BatchSlice(mixed, 5_000, 5_003).cut(1, wire))
    assert [part.end - part.first for part in one] == [1, 1, 1], "a record is not cut"


def test_estimates_that_are_wrong_by_one_factor_are_corrected_by_it_and_no_more():
    wire = WireSize("zstd")
    for _ in range(50):
        wire.learn(10_000, 11_000)
    assert wire.factor() == pytest.approx(1.1, rel=0.01)
