"""A topic that is deleted and created again, and records that expire, through the commands that
users have."""

import json
from dataclasses import replace

import pytest

from shipper.ledger.codec import encode_chunk
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, ChunkKey
from shipper.types import FileId, SplitId
from tests.samples.ledger import chunk_value

from .world import World

pytestmark = [pytest.mark.kafka]

VALUE = chunk_value(generation=0, splits=1, window="2026-11-01T00:00:00Z/2026-11-02T00:00:00Z")


@pytest.fixture
def world(tmp_path, kafka):
    return World(tmp_path, kafka.bootstrap, topics={"": 2, "-b": 2})


def verify(world):
    done = world.shipper("ledger", "verify", world.name, "--json")
    return done.returncode, json.loads(done.stdout)["local"]["findings"]


def test_verify_tells_gone_chunks_from_those_that_were_sent_again(world):
    ledger = LedgerLog(world.client, world.cluster, world.name)
    ledger.create()
    present = world.client.present_ids([world.topic()])[world.topic()]

    def chunk(path, topic, topic_id, first=0, last=10, generation=0):
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
    assert {(one["severity"], one["code"], one["subject"]) for one in found} == {
        ("fail", "recreated", "no.such.topic"),
        ("fail", "recreated", world.topic()),
    }
    assert {one["text"].partition(" (")[0] for one in found} == {
        "topic no.such.topic was deleted",
        f"topic {world.topic()} was deleted and created again",
    }
    shown = json.loads(world.shipper("ledger", "show", world.name, "--files", "--json").stdout)[
        "local"
    ]["files"]
    assert {file["path"]: file["complete"] for file in shown} == {
        "there": 1,
        "older ledger": 1,
        "sent again": 1,
    }
