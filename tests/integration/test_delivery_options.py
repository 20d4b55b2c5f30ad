"""What `delivery` promises beyond exactly-once: order within a file, at least once, a late topic
and a rate cap, end to end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter

import pytest
from shipper_tools.dev.console_consumer import read_records

from shipper.errors import ClusterError
from shipper.report.progress import ShipProgress

from .world import lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_QUICK = {"lease": "2s", "lease_wait": "30s", "metadata_wait": "60s", "transaction_timeout": "20s"}


def test_records_of_a_file_keep_their_order_in_one_partition(make_world):
    world = make_world()
    world.write_pipeline(
        source={"path": "logs", "settle": "0s", "split_size": "64KiB"},
        delivery=_QUICK
        | {"ordering": "file", "chunk_size": "20kB", "batch_size": "5kB", "lanes": 3},
    )
    contents = {
        name: b"".join(b"%s line %d\n" % (name.encode(), n) for n in range(20_000))
        for name in ("a.log", "b.log", "c.log")
    }
    for name, content in contents.items():
        world.write_log(name, content)
    world.run()
    found = read_records(world.bootstrap, world.topic())
    for name, content in contents.items():
        mine = sorted(
            (r for r in found if r.value.startswith(name.encode())),
            key=lambda r: (r.partition, r.offset),
        )
        assert len({record.partition for record in mine}) == 1
        assert [record.value for record in mine] == content.splitlines()


@pytest.mark.long
def test_at_least_once_says_so_and_a_rerun_sends_nothing(make_world):
    world = make_world()
    world.write_pipeline(delivery=_QUICK | {"guarantee": "at_least_once"})
    content = b"".join(b"line %d\n" % n for n in range(50_000))
    world.write_log("a.log", content)
    assert world.run()["delivered"] == 50_000
    assert world.read() == lines_of(content)
    assert world.run()["delivered"] == 0
    reports = sorted((world.root / "runs").rglob("report.html"))
    assert "Sent at least once, without transactions." in reports[0].read_text()


@pytest.mark.long
def test_a_topic_that_is_created_during_the_run_gets_its_records_and_the_other_does_not_wait(
    make_world,
):
    world = make_world(topics={"-there": 2})
    world.write_pipeline(
        topic=None,
        records={"columns": {"kind": "split_part(value, ' ', 1)"}},
        routes=[
            {
                "topic": f"{world.name}-{{kind}}",
                "topics": [world.topic("-there"), world.topic("-late")],
            }
        ],
        delivery=_QUICK | {"chunk_size": "100kB"},
    )
    content = b"".join(b"%s %d\n" % (b"late" if n % 2 else b"there", n) for n in range(100_000))
    world.write_log("a.log", content)
    seen: list[ShipProgress] = []

    def create_when_the_other_is_there() -> None:
        deadline, end = time.monotonic() + 120, 0
        while end == 0 and time.monotonic() < deadline:
            time.sleep(0.5)
            with contextlib.suppress(
                ClusterError
            ):  # a topic that was made a moment ago may have no leader yet
                end = world.client.end_offset(world.topic("-there"), 0)
        while (
            not any(one.parked for one in seen) and time.monotonic() < deadline
        ):  # what the Shipments page shows meanwhile
            seen.extend(
                ShipProgress.model_validate_json(file.read_text())
                for file in world.root.rglob("progress.*.json")
            )
            time.sleep(0.2)
        world.client.create_topics({world.topic("-late"): 2}, replication_factor=1)

    thread = threading.Thread(target=create_when_the_other_is_there)
    thread.start()
    account = world.run()
    thread.join()
    assert account["delivered"] == 100_000
    assert world.read("-there") + world.read("-late") == Counter(content.splitlines())
    assert seen[-1].parked == (world.topic("-late"),)
    assert 0 < seen[-1].records <= 50_000
    assert list(world.root.rglob("progress.*")) == []


@pytest.mark.cold  # a thread of Java's computes on when all else has ended
@pytest.mark.long
def test_a_ship_that_an_expression_holds_up_for_ever_is_stopped_and_says_so(make_world):
    """Java's regular expressions take exponential time on such a line."""
    world = make_world()
    world.write_pipeline(
        records={
            "columns": {"word": r"regexp_extract(value, '^((a|aa)+)\\2b$', 1)"},
            "headers": {"word": "word"},
        },
        delivery=_QUICK
        | {"metadata_wait": "5s", "transaction_timeout": "10s", "stall_timeout": "20s"},
    )
    world.write_log("a.log", b"a" * 200 + b"\n")
    world.fails(
        code=1,
        says=r"\(`delivery.stall_timeout`\).*SHIP-608",
    )
