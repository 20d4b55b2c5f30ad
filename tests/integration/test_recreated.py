"""A topic that is deleted and created again, and records that expire, through the commands that
users have."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from shipper_tools.dev.kafka import KafkaServer

from shipper.ledger.codec import encode_chunk
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, ChunkKey
from shipper.types import FileId, SplitId
from tests.samples.ledger import chunk_value
from tests.waiting import wait_until

from .world import World

pytestmark = [pytest.mark.kafka]

DELIVERY = {
    "lease": "2s",
    "lease_wait": "30s",
    "metadata_wait": "20s",
    "transaction_timeout": "20s",
}
VALUE = chunk_value(generation=0, splits=1, window="2026-11-01T00:00:00Z/2026-11-02T00:00:00Z")


@pytest.fixture
def world(tmp_path: Path, kafka: KafkaServer) -> World:
    return World(tmp_path, kafka.bootstrap, topics={"": 2, "-b": 2})


def recreate(world: World, suffix: str = "") -> None:
    topic = world.topic(suffix)
    admin = AdminClient({"bootstrap.servers": world.bootstrap})  # it must outlive its futures
    admin.delete_topics([topic])[topic].result(20)
    wait_until(lambda: topic not in world.client.topics())
    world.client.create_topics({topic: 2}, replication_factor=1)


def verify(world: World) -> tuple[int, list[dict[str, Any]]]:
    done = world.shipper("ledger", "verify", world.name, "--json")
    return done.returncode, json.loads(done.stdout)["local"]["findings"]


@pytest.mark.spark
@pytest.mark.long
def test_what_is_gone_is_named_and_sent_again_when_the_pipeline_says_so(world: World) -> None:
    routes = [{"when": "value LIKE 'b%'", "topic": world.topic("-b")}, {"topic": world.topic()}]
    gates = {
        "delivery": [
            {"check": "sum_closes"},
            {"check": "checksum"},
            {"check": "read_back", "mode": "full"},
        ]
    }
    spec: dict[str, Any] = {"topic": None, "routes": routes, "gates": gates, "schedule": "@daily"}
    world.write_pipeline(**spec)
    world.write_log(
        "one.log", b"".join(b"%s %05d\n" % (kind, n) for n in range(1_000) for kind in (b"a", b"b"))
    )
    world.write_log("two.log", b"".join(b"a %05d\n" % n for n in range(1_000, 1_500)))
    assert world.run()["delivered"] == 2_500
    assert verify(world) == (0, [])
    assert world.shipper("gaps", world.name, "--since", "2026-11-01", "--json").stdout

    recreate(world)
    said = " ".join(
        world.fails(code=1, says=f"topic {world.topic()} was deleted and created again").split()
    )
    assert "1,500 records of 2 files were in the earlier topic" in said
    assert "on_recreated: resend" in said
    assert (
        world.client.end_offset(world.topic(), 0) == world.client.end_offset(world.topic(), 1) == 0
    )
    code, found = verify(world)
    [finding] = [one for one in found if one["severity"] != "unfinished"]
    assert (code, finding["severity"], finding["kind"], finding["where"]) == (
        1,
        "wrong",
        "recreated",
        world.topic(),
    )
    assert "1,500 records of 2 files went to the earlier topic" in finding["text"]
    gaps = json.loads(world.shipper("gaps", world.name, "--since", "2026-11-01", "--json").stdout)[
        "gaps"
    ]
    assert [gap["why"] for gap in gaps if gap["window"].startswith("2026-11-01")] == [
        f"topic {world.topic()} was deleted and created again after 1,500 records were delivered "
        "to it"
    ]

    world.write_pipeline(
        **spec,
        delivery=DELIVERY | {"on_recreated": "resend", "chunk_size": "7kB", "batch_size": "7kB"},
    )
    again = world.run()
    assert (again["delivered"], again["before"]) == (1_500, 1_000)
    assert any("They are sent again" in note for note in again["notes"])
    assert [(lost["topic"], lost["records"], lost["resent"]) for lost in again["recreated"]] == [
        (world.topic(), 1_500, True)
    ]
    assert world.read() == Counter(b"a %05d" % n for n in range(1_500))
    assert world.read("-b") == Counter(b"b %05d" % n for n in range(1_000))
    assert verify(world) == (0, [])
    world.write_pipeline(**spec)
    assert world.run()["delivered"] == 0
    gaps = json.loads(world.shipper("gaps", world.name, "--since", "2026-11-01", "--json").stdout)[
        "gaps"
    ]
    assert not [gap for gap in gaps if gap["window"].startswith("2026-11-01")]

    # What expires is told apart from what is gone.
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    for number in range(2):
        where = TopicPartition(
            world.topic(), number, world.client.end_offset(world.topic(), number)
        )
        admin.delete_records([where])[where].result(20)
    wait_until(lambda: (facts := world.client.log_facts(world.topic())).starts == facts.ends)
    code, [finding] = verify(world)
    assert (code, finding["severity"], finding["where"]) == (0, "expired", world.topic())
    assert "up to 1,500 delivered records have expired" in finding["text"]
    assert world.run()["delivered"] == 0


def test_verify_tells_gone_chunks_from_those_that_were_sent_again(world: World) -> None:
    ledger = LedgerLog(world.client, world.cluster, world.name)
    ledger.create()
    present = world.client.present_ids([world.topic()])[world.topic()]

    def chunk(
        path: str,
        topic: str,
        topic_id: str | None,
        first: int = 0,
        last: int = 10,
        generation: int = 0,
    ) -> Any:
        value = replace(
            VALUE,
            last=last,
            end=last == 10,
            records=last - first,
            topic_id=topic_id,
            generation=generation,
        )
        return encode_chunk(
            world.name, ChunkKey(SplitId(FileId(path, 100, 5), 0), first, topic), value
        )

    ledger._append(
        CHUNKS,
        [
            chunk("there", world.topic(), present),
            chunk("older ledger", world.topic(), None),
            *(
                chunk("sent again", world.topic(), "earlier", first, last)
                for first, last in ((0, 4), (4, 8), (8, 10))
            ),
            *(
                chunk("sent again", world.topic(), present, first, last, 1)
                for first, last in ((0, 5), (5, 10))
            ),
        ],
    )
    assert verify(world) == (0, [])
    ledger._append(
        CHUNKS,
        [chunk("gone", world.topic(), "earlier"), chunk("deleted", "no.such.topic", "whatever")],
    )
    code, found = verify(world)
    assert code == 1
    assert {(one["severity"], one["kind"], one["where"]) for one in found} == {
        ("wrong", "recreated", "no.such.topic"),
        ("wrong", "recreated", world.topic()),
    }
    assert "was deleted, and the cluster has no topic of this name" in next(
        one["text"] for one in found if one["where"] == "no.such.topic"
    )
    shown = json.loads(world.shipper("ledger", "show", world.name, "--files", "--json").stdout)[
        "local"
    ]["files"]
    assert {file["path"]: file["complete"] for file in shown} == {
        "there": 1,
        "older ledger": 1,
        "sent again": 1,
    }
