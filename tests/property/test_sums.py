"""Sums of contents one behind the other are the sum of both."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.ledger.sums import ByteSum, sum_of


def crc32c(content):
    """As the standard writes it: bit by bit."""
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ 0x82F63B78 if found & 1 else found >> 1
    return found ^ 0xFFFFFFFF


def sum_of_bytes(content):
    return ByteSum(len(content), zlib.crc32(content), crc32c(content))


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_it_does_not_matter_how_content_is_cut(parts):
    found = sum_of(map(sum_of_bytes, parts))
    assert found == sum_of_bytes(b"".join(parts))
    assert ByteSum.parse(str(found)) == found


@pytest.mark.parametrize("text", ["", "5", "5:12", "-5:0000000000000000", "5:000000000000000g"])
def test_what_is_no_sum_is_refused(text):
    with pytest.raises(ValueError, match="no sum"):
        ByteSum.parse(text)
