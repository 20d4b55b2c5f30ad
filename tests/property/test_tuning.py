"""Lanes and batches are sized so that the link is full, the topic's limit holds and memory
suffices."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from shipper.worker.tuning import LinkProfile, Sizing, Tuning


def tune(link: LinkProfile, tasks: int, memory_bytes: int, **more: int) -> Tuning:
    return Sizing(link, tasks, memory_bytes, **more).tune()


_links = st.builds(
    LinkProfile,
    rtt_seconds=st.floats(0.0001, 0.3),
    bandwidth_bytes_per_second=st.floats(1e6, 2e9),
    ratio=st.floats(0.9, 20),
    limit_bytes=st.integers(10_000, 20_000_000),
    ack_seconds=st.floats(0.0, 2.0),
    partitions=st.integers(1, 64),
)


@given(_links, st.integers(1, 32), st.integers(16_000_000, 1_000_000_000))
def test_batches_fit_the_topic_and_chunks_the_memory(
    link: LinkProfile, tasks: int, memory_bytes: int
) -> None:
    found = tune(link, tasks, memory_bytes)
    assert found.batch_bytes <= link.limit_bytes * max(1.0, link.ratio)
    assert found.batch_bytes <= found.chunk_bytes
    assert found.lanes * found.chunk_bytes <= memory_bytes
    assert 1 <= found.lanes <= 128


@given(st.floats(0.01, 0.3), st.floats(1, 10), st.integers(1, 8))
def test_in_flight_covers_bandwidth_times_round_trip(
    rtt_seconds: float, ratio: float, tasks: int
) -> None:
    link = LinkProfile(rtt_seconds, 20e6, ratio, 1_048_588)
    found = tune(link, tasks, 1_000_000_000)
    rate = min(20e6 * ratio, tasks * 80e6)
    assert tasks * found.in_flight_bytes >= min(rate, 1e9) * rtt_seconds


@given(_links, st.integers(1, 32), st.integers(1, 10**9), st.floats(2, 200))
def test_under_a_cap_a_transaction_is_sent_in_time_and_the_lanes_reach_the_cap(
    link: LinkProfile, tasks: int, bytes_per_second: int, most_seconds: float
) -> None:
    capped = replace(link, cap_bytes_per_second=bytes_per_second, cap_seconds=most_seconds)
    found = tune(capped, tasks, 192_000_000)
    free = tune(link, tasks, 192_000_000)
    assert found.chunk_bytes <= max(16_000, bytes_per_second / tasks * most_seconds)
    assert found.batch_bytes <= min(free.batch_bytes, found.chunk_bytes)
    rate = min(
        bytes_per_second * link.ratio, link.bandwidth_bytes_per_second * link.ratio / tasks, 80e6
    )
    no_more = found.lanes == 128 or (found.lanes + 1) * found.chunk_bytes > 192_000_000
    assert no_more or found.in_flight_bytes >= rate * link.delay_seconds


@given(_links, st.integers(1, 32), st.integers(1, 10**10))
def test_a_small_window_is_divided_among_the_lanes_that_it_has_batches_for(
    link: LinkProfile, tasks: int, bytes_to_send: int
) -> None:
    """No lane sends one more transaction while others have none: as many rounds as full chunks
    would take are enough. And a window of a few lines opens no thirteen producers."""
    full, found = (tune(link, tasks, 80_000_000, bytes_to_send=each) for each in (0, bytes_to_send))
    share = bytes_to_send / tasks
    whole = not link.is_short and share <= 80_000_000
    largest = max(full.chunk_bytes, 80_000_000 // full.lanes) if whole else full.chunk_bytes
    assert found.batch_bytes == full.batch_bytes <= found.chunk_bytes <= largest
    assert 1 <= found.lanes <= full.lanes
    rounds = math.ceil(share / (full.lanes * largest))
    assert full.lanes * found.chunk_bytes * rounds >= share
    assert (found.chunk_bytes - 1) // found.batch_bytes * full.lanes * rounds < share / (
        found.batch_bytes
    ) + full.lanes * rounds
    assert found.lanes <= max(2, 2 * share / found.batch_bytes + 1)


@given(_links, st.floats(0.03, 2.0))
def test_lanes_are_sized_by_the_delay_that_they_wait_for(
    link: LinkProfile, ack_seconds: float
) -> None:
    """Metadata that come in a millisecond say nothing about acknowledgements that take a second:
    what is in flight must cover these, or be all that memory allows."""
    found = tune(replace(link, rtt_seconds=0.001, ack_seconds=ack_seconds), 2, 160_000_000)
    rate = min(link.bandwidth_bytes_per_second * link.ratio / 2, 80e6)
    no_more = found.lanes == 128 or (found.lanes + 1) * found.chunk_bytes > 160_000_000
    assert no_more or found.in_flight_bytes >= rate * ack_seconds


def test_batches_go_side_by_side_where_the_topic_has_partitions_and_the_link_is_long() -> None:
    slow = LinkProfile(0.002, 125e6, 7, 1_048_588, ack_seconds=0.4, partitions=16)
    found = tune(slow, 2, 160_000_000)
    one = tune(replace(slow, partitions=1), 2, 160_000_000)
    assert (found.side_by_side, found.slice_bytes) == (3, found.batch_bytes)
    assert (one.side_by_side, one.slice_bytes) == (1, one.chunk_bytes)
    assert found.lanes < one.lanes, "fewer connections carry the same"
    near = tune(replace(slow, ack_seconds=0.004), 2, 160_000_000)
    assert (near.side_by_side, near.lanes) == (1, 2)


def test_what_is_set_by_hand_stays() -> None:
    link = LinkProfile(0.14, 125e6, 7, 1_048_588)
    found = tune(
        link,
        2,
        192_000_000,
        lanes=5,
        batch_bytes=700_000,
        chunk_bytes=3_000_000,
        bytes_to_send=1000,
    )
    assert (found.lanes, found.batch_bytes, found.chunk_bytes) == (5, 700_000, 3_000_000)


@given(st.floats(0.00005, 0.0099), st.floats(1e7, 2e8), st.floats(1, 10), st.integers(1, 8))
def test_a_short_link_is_filled_by_fewer_bytes_in_flight_than_a_long_one(
    rtt_seconds: float, bandwidth_bytes_per_second: float, ratio: float, tasks: int
) -> None:
    """Below some milliseconds the processor is the limit, and small batches are kinder to its
    cache."""
    short, long = (
        tune(LinkProfile(rtt, bandwidth_bytes_per_second, ratio, 1_048_588), tasks, 192_000_000)
        for rtt in (rtt_seconds, 0.14)
    )
    assert (
        tasks * short.in_flight_bytes
        >= min(bandwidth_bytes_per_second * ratio, tasks * 80e6) * rtt_seconds
    )
    assert short.batch_bytes < long.batch_bytes
    assert short.lanes <= long.lanes


def test_a_topic_that_takes_next_to_nothing_gets_a_batch_that_a_client_can_be_made_with() -> None:
    """Its records are refused one by one, and the topic is named."""
    assert tune(LinkProfile(0.001, 125e6, 7.0, 100), 2, 80_000_000).batch_bytes >= 1
