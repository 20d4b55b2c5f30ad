"""Bundles on real servers: an independent reader takes them apart and finds the lines."""

import random
from collections import Counter

import pytest
from shipper_tools.dev.console_consumer import read_records, unbundle
from shipper_tools.dev.kafka_tools import run_kafka_tool

from shipper.ledger.log import LedgerLog, ask_state

from .world import lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def lines_in(records):
    return Counter(line for record in records for line in unbundle(record.value, record.headers))


def kafka_records_of_ledger(world):
    ledger = LedgerLog(world.client, world.cluster, world.name)
    values = [
        chunk
        for state in ledger.look(ask_state(), 60).chunks.splits.values()
        for chunk in state.chunks.values()
    ]
    return sum(value.records if value.bundles is None else value.bundles for value in values)


def test_every_line_arrives_in_few_records_with_the_headers_that_it_would_have_alone(make_world):
    world = make_world()
    records = {
        "columns": {
            "status": "split_part(value, ' ', 1)",
            "folder": "element_at(split(file_path, '/'), -2)",
        },
        "headers": {
            "file": "file_name",
            "path": "file_path",
            "folder": "folder",
            "none": "cast(null as string)",
            "fixed": "'x'",
        },
    }
    source = {"path": "logs", "recursive": True, "settle": "0s"}
    rng = random.Random(7)
    contents = {
        "a/odd [name] {1}*%20 \xe4#?.log": b"windows\r\n\r\nlone\rreturn\n\n\nno newline at the end",  # noqa: E501
        "a/binary.log": bytes(rng.randrange(256) for _ in range(50_000)) + b"\n\0\n\xff\xfe\n",
        "b/bom.log": b"\xef\xbb\xbfwith a mark\nwithout\n",
        "b/long.log": b"short\n" + b"x" * 50_000 + b"\nshort again\n",
        "b/blank.log": b"\n",
        "b/empty.log": b"",
        "c/many.log": b"".join(b"%d a line like many others\n" % n for n in range(30_000)),
    }
    for name, content in contents.items():
        world.write_log(name, content)
    expected = lines_of(*contents.values())
    world.write_pipeline(source=source, records=records)
    world.run()
    alone = read_records(world.bootstrap, world.topic())
    assert lines_in(alone) == expected

    world.write_pipeline(source=source, records={**records, "bundle": {"max_bytes": "4kB"}})
    account = world.run("--reship", "--reason", "another transform")

    found = [
        record
        for record in read_records(world.bootstrap, world.topic())
        if record.headers[0][0] == "shipper-lines"
    ]
    assert lines_in(found) == expected
    assert {record.headers[1:] for record in found} == {record.headers for record in alone}
    assert account["delivered"] == account["read"] == expected.total() > 20 * len(found)
    assert account["topics"][world.topic()]["ledger"] == expected.total()
    assert kafka_records_of_ledger(world) == len(found)
    again = world.run()
    assert (again["delivered"], again["before"]) == (0, expected.total())


def test_values_that_are_no_lines_are_told_from_bundles(make_world):
    """A null and a value with a line break travel alone: what a bundle of one holds is the value as
    it is."""
    world = make_world()
    world.write_pipeline(
        records={
            "value": "if(value = 'gone', null, replace(value, '|', '\\n'))",
            "bundle": {"max_bytes": "1kB"},
        },
        delivery={"chunk_size": "1kB"},
    )
    world.write_log("a.log", b"one\ngone\na|b\n\n|\ntwo\nthree\n" * 100)
    world.run()
    found = read_records(world.bootstrap, world.topic())
    assert lines_in(found) == Counter(
        dict.fromkeys((b"one", None, b"a\nb", b"", b"\n", b"two", b"three"), 100)
    )
    assert len(found) < 700


@pytest.mark.long
def test_a_file_that_was_begun_in_bundles_is_finished_without(make_world):
    world = make_world(topics={"": 1})
    delivery = {
        "chunk_size": "1kB",
        "lanes": 1,
        "metadata_wait": "20s",
        "transaction_timeout": "20s",
    }
    world.write_pipeline(records={"bundle": {"max_bytes": "1kB"}}, delivery=delivery)
    content = b"".join(b"line %d\n" % n for n in range(2000))
    world.write_log(
        "a.log", content + random.Random(3).randbytes(30_000).replace(b"\n", b"") + b"\nlast\n"
    )
    limit(world, 10_000)
    world.fails(code=1, says=r"a\.log.*max\.message\.bytes")
    begun = world.ledger_count()
    assert 0 < begun < 2002

    limit(world, 1_000_000)
    world.write_pipeline(delivery=delivery)
    assert world.run()["delivered"] == 2002 - begun
    found = read_records(world.bootstrap, world.topic())
    assert lines_in(found) == lines_of(*[file.read_bytes() for file in world.logs.iterdir()])
    assert {bool(record.headers) for record in found} == {True, False}


def limit(world, size):
    arguments = [
        "--bootstrap-server",
        world.bootstrap,
        "--alter",
        "--entity-type",
        "topics",
        "--entity-name",
        world.topic(),
    ]
    run_kafka_tool(
        "kafka.admin.ConfigCommand", [*arguments, "--add-config", f"max.message.bytes={size}"]
    )


@pytest.mark.long
def test_a_header_that_depends_on_the_line_is_refused_before_anything_is_sent(make_world):
    world = make_world()
    records = {
        "columns": {"user": "split_part(value, ' ', 1)"},
        "headers": {"user": "user"},
        "bundle": {},
    }
    world.write_pipeline(records=records)
    world.write_log("a.log", b"me too\n")
    done = world.shipper("validate")
    flat = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2
    assert (
        "records.headers.user: `headers` and `bundle` contradict each other: 'user' depends on the "
        "line" in flat
    )
    world.fails(
        code=2, says=r"records\.headers\.user: `headers` and `bundle` contradict each other"
    )
    assert world.nothing_was_sent()
