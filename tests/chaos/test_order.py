"""`ordering: file` under faults: an independent reader finds each file in one partition, in its
order, every record once."""

import time

import pytest
from shipper_tools.dev.console_consumer import read_records

from shipper.kafka.client import ClusterClient
from tests.chaos.numbered import identity_of, path_of

pytestmark = [pytest.mark.kafka]

_PARTITIONS = 6
_RECORDS = 6000


def in_order(new_pipe, **settings):
    """A topic whose partitions have one replica each, so that a broker takes the leaders of some
    with it when it goes."""
    delivery = {"ordering": "file", "metadata_wait": "90s"}
    shape = {
        "files": (0, 6),
        "splits": 1,
        "records": _RECORDS,
        "records_per_second": 3000,
        "tasks": 1,
        "lanes": 3,
    }
    pipe = new_pipe(topics=0, missing=1, delivery=delivery, **shape, **settings)
    ClusterClient(pipe.numbered().cluster).create_topics(
        {pipe.topic: _PARTITIONS}, {"min.insync.replicas": "1"}, 1
    )
    pipe.site.kafka.wait_until_in_sync(pipe.topic)
    return pipe


def home_of(pipe, file):
    """The partition in which the ledger has the file's beginning."""
    states = [
        state for split, state in pipe.chunks().splits.items() if split.file.path == path_of(file)
    ]
    return states[0].partition(pipe.topic) if states else None


def wait_for_home(pipe, file, ship):
    assert ship.wait_for("shipping"), ship.last_words()
    deadline = time.monotonic() + 90
    while (home := home_of(pipe, file)) is None:
        assert ship.running, ship.last_words()
        assert time.monotonic() < deadline, ship.last_words()
        time.sleep(0.05)
    return home


def assert_each_file_in_order_in_one_partition(pipe):
    pipe.assert_exact()
    places = {}
    for record in read_records(pipe.site.kafka.bootstrap, pipe.topic):
        path, _, ordinal = identity_of(record.value or b"")
        places.setdefault(path, []).append((record.partition, record.offset, ordinal))
    for path, found in places.items():
        assert len({partition for partition, _, _ in found}) == 1, (
            f"{path} lies in several partitions"
        )
        assert [ordinal for _, _, ordinal in sorted(found)] == list(range(_RECORDS)), (
            f"{path} is not in its order"
        )


@pytest.mark.parametrize(
    "parking",
    [64_000_000, 60_000],
    ids=["and all that waits has room", "and the parking overflows"],
)
def test_a_partition_loses_its_leader_and_gets_it_back(new_pipe, parking):
    """In the middle of a file that goes there. Other files go on; this one waits, or follows in
    another pass."""
    pipe = in_order(new_pipe, parking_bytes=parking)
    kafka = pipe.site.kafka
    ship = pipe.ship()
    home = wait_for_home(pipe, 1, ship)
    broker = kafka.leader_of(pipe.topic, home)
    kafka.kill(broker)
    time.sleep(4)
    kafka.restart(broker)
    ship.succeeds(300)
    assert_each_file_in_order_in_one_partition(pipe)


def test_partitions_are_added_while_a_file_is_half_there(new_pipe):
    """Both between two pieces of it, and between a ship that is killed and the one that finishes
    it."""
    pipe = in_order(new_pipe)
    kafka = pipe.site.kafka
    ship = pipe.ship()
    wait_for_home(pipe, 1, ship)
    kafka.add_partitions(pipe.topic, _PARTITIONS + 1)
    wait_for_home(pipe, 3, ship)
    ship.kill("all")
    ship.wait()
    kafka.add_partitions(pipe.topic, _PARTITIONS + 3)
    pipe.rerun()
    assert_each_file_in_order_in_one_partition(pipe)
