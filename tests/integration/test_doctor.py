"""`shipper doctor` on real servers: all is well where it is, and each thing that is wrong has its
own line with what to do."""

import json
import os

import pytest

from shipper.config.load import load_cluster
from shipper.kafka.client import GROUP
from shipper.ledger.rights import Right, rights
from tests import warm

from .test_security import PASSWORD, SecuredWorld
from .world import WINDOW

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: Seconds; the machine may be busy with other tests.
LIMIT = "60"


@pytest.fixture
def world(tmp_path, kafka, secured):
    world = SecuredWorld(tmp_path / "world", kafka.bootstrap)
    world.set_up(secured)
    world.write_log("a.log", b"line\n")
    secured.grant("shipper", world.rights)
    return world


def doctor(world, **environment):
    """Exit code, and findings by what was looked at; of several with one name the worst."""
    done = warm.run(
        [
            "shipper",
            "doctor",
            world.name,
            "--json",
            "--limit",
            LIMIT,
            "--config",
            str(world.root / "config"),
        ],
        {**os.environ, **environment} if environment else None,
    )
    document = json.loads(done.stdout)
    assert PASSWORD not in done.stdout + done.stderr
    assert document["ok"] == (done.returncode == 0)
    order = ("ok", "warn", "fail")
    found = sorted(document["findings"], key=lambda each: order.index(each["severity"]))
    return done.returncode, {
        ": ".join(filter(None, (each["cluster"], each["subject"]))): each for each in found
    }


def bad(found):
    return {check: each for check, each in found.items() if each["severity"] == "fail"}


def alone(found, check):
    """The one that failed; there is no other."""
    assert list(bad(found)) == [check], bad(found)
    assert found[check]["remedy"]
    return found[check]


def write_far(world, kafka, listener="SECURE", **properties):
    spec = {
        "cluster": "far",
        "bootstrap": kafka.at(listener),
        "properties": {**kafka.properties("shipper", PASSWORD), **properties},
        "ledger": {"replication_factor": 1},
    }
    (world.root / "config" / "clusters" / "far.yaml").write_text(json.dumps(spec))


def test_all_is_well_before_the_first_ship_and_after_it(world, secured):
    code, found = doctor(world)
    assert code == 0, bad(found)
    assert "may create it" in found["far: ledger"]["text"]
    assert found["far: clock"]["code"] == "skipped"
    assert "365 days" in found["far: TLS"]["text"] or "364 days" in found["far: TLS"]["text"]
    assert "SASL_SSL by SCRAM-SHA-512" in found["far: login"]["text"]
    assert world.shipper("run", world.name, "--window", WINDOW).returncode == 0
    code, found = doctor(world)
    assert code == 0, bad(found)
    well = {
        "configuration",
        "Java",
        "Python",
        "Spark",
        "runs_uri",
        "far: file",
        "far: address",
        "far: TLS",
        "far: login",
        "far: brokers",
    }
    well |= {
        f"far: topic {world.topic()}",
        "far: ledger",
        "far: transactions",
        "far: group",
        "far: clock",
        "disk",
    }
    assert {check for check, each in found.items() if each["severity"] == "ok"} >= well, bad(found)
    assert world.far.topics().keys() & {"doctor"} == set()
    assert list(world.root.rglob("*doctor*")) == []


@pytest.mark.long
def test_a_wrong_password_and_a_certificate_that_has_expired_have_their_lines(world, secured):
    write_far(world, secured, **{"sasl.password": "a-wrong-one"})
    code, found = doctor(world)
    assert code == 1
    assert "`sasl.username` and `sasl.password`" in alone(found, "far: login")["text"]
    assert found["far: ledger"]["code"] == "skipped"
    write_far(world, secured, "EXPIRED")
    assert "has expired" in alone(doctor(world)[1], "far: TLS")["text"]
    write_far(world, secured, **{"ssl.ca.location": "/nowhere/ca.pem"})
    assert "there is no file /nowhere/ca.pem" in alone(doctor(world)[1], "far: file")["text"]


@pytest.mark.long
def test_every_right_that_is_missing_and_a_topic_that_is_not_there_have_their_lines(world, secured):
    topic, ledger, group, ids = rights(world.pipeline, load_cluster(world.root / "config", "far"))
    secured.revoke(
        "shipper",
        [
            Right("topic", topic.name, ("Write",)),
            group,
            ids,
            Right("topic", ledger.name, ("Create",)),
        ],
    )
    code, found = doctor(world)
    assert code == 1
    failed = bad(found)
    assert set(failed) == {
        f"far: topic {topic.name}",
        "far: group",
        "far: transactions",
        "far: ledger",
    }
    assert "lacks Write" in failed[f"far: topic {topic.name}"]["text"]
    assert failed["far: group"]["remedy"].endswith(f"--group {GROUP} --operation Describe")
    prefixed = f"--transactional-id {ids.name} --resource-pattern-type prefixed --operation Write"
    assert failed["far: transactions"]["remedy"].endswith(prefixed)
    assert "--operation Create" in failed["far: ledger"]["remedy"]
    secured.grant("shipper", [topic, ledger, group, ids])
    world.write_pipeline(clusters=["far"], topic=f"{world.name}.gone")
    gone = Right("topic", f"{world.name}.gone", topic.operations)
    assert "cannot be seen" in alone(doctor(world)[1], f"far: topic {gone.name}")["text"]
    secured.grant("shipper", [gone])
    assert "kafka-topics --create" in alone(doctor(world)[1], f"far: topic {gone.name}")["remedy"]


@pytest.mark.long
def test_an_empty_source_is_a_warning_and_without_java_the_rest_is_looked_at(world):
    world.write_pipeline(clusters=["far"], source={"path": "nothing-here", "settle": "0s"})
    assert doctor(world)[1]["source"]["severity"] == "warn"
    code, found = doctor(world, JAVA_HOME="/nowhere")
    assert code == 1
    assert found["Java"]["severity"] == "fail"
    assert found["far: login"]["severity"] == "ok", "what needs no Java is looked at all the same"


@pytest.mark.long
def test_a_topic_that_asks_for_more_replicas_than_it_has_is_a_warning(world):
    world.write_pipeline(clusters=["local"])
    world.set_topic("min.insync.replicas", "2")
    assert world.run()["delivered"] == 1, "the broker takes the lower of the two"
    code, found = doctor(world)
    assert code == 0, bad(found)
    assert found[f"local: topic {world.topic()}"]["severity"] == "warn"
    assert found["local: ledger"]["severity"] == "ok"
