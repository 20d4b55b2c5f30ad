"""What `delivery` promises beyond exactly-once: order within a file, at least once, a late topic
and a rate cap, end to end."""

import pytest
from shipper_tools.dev.console_consumer import read_records

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
    world.fails(code=1, says=r"\(`delivery.stall_timeout`\).*SHIP-608")
