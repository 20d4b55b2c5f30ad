"""Reading ahead of a slow reader."""

import threading

import pytest

from shipper.worker.cut import Prefetch


def test_the_source_is_read_before_anybody_asks_and_not_further_than_the_depth():
    read = []
    enough = threading.Event()

    def source():
        for number in range(10):
            read.append(number)
            if len(read) == 3:  # two in the queue, one waiting to get in
                enough.set()
            yield number

    with Prefetch(source(), depth=2):
        assert enough.wait(5)
    assert read == [0, 1, 2]


def test_what_the_source_raises_is_raised_to_the_reader():
    def source():
        yield 1
        raise OSError("gone")

    with Prefetch(source(), depth=2) as numbers:
        assert next(numbers) == 1
        with pytest.raises(OSError, match="gone"):
            next(numbers)


def test_leaving_early_ends_the_thread():
    before = threading.active_count()
    with Prefetch(iter(range(1000)), depth=1) as numbers:
        next(numbers)
    assert threading.active_count() == before
