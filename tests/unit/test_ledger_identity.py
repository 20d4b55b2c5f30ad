"""Whether a ledger that is gone, or was made anew, is missed. The log is in memory;
tests/integration has real topics."""

from dataclasses import dataclass

import pytest

from shipper.errors import ClusterError, LedgerGone
from shipper.kafka.admin import TopicFacts
from shipper.ledger.identity import LedgerIdentity
from shipper.ledger.log import CONTROL_NOW, LedgerLog
from shipper.ledger.snapshot import LedgerFolder
from tests.doubles.memory_log import MemoryLog
from tests.samples.config import cluster_of

CLUSTER = cluster_of()


@dataclass
class World:
    folder: LedgerFolder
    log: MemoryLog

    def identity(self, *, new_ledger=False, cluster=CLUSTER):
        return LedgerIdentity(
            LedgerLog(self.log, cluster, "web", self.folder), new_ledger=new_ledger
        )

    def ship(self, **options):
        identity = self.identity(**options)
        identity.check(exists=True)
        return identity.remember("r1", "now")


@pytest.fixture
def world(tmp_path):
    return World(LedgerFolder(str(tmp_path), "web", "c"), MemoryLog())


def test_a_new_pipeline_begins_its_ledger_without_a_word(world):
    world.identity().check(exists=False)
    assert world.ship() == []
    world.identity().check(exists=True)


def test_a_ledger_that_is_gone_or_made_anew_stops_the_run_until_somebody_gives_it_up(world):
    world.ship()
    for again in range(2):  # and stays so
        with pytest.raises(
            LedgerGone, match=r"cluster c: .*_shipper\.web does not exist, .*run r1 .*SHIP-503"
        ) as caught:
            world.identity().check(exists=False)
        assert not caught.value.retriable, again
    world.log.recreate()
    with pytest.raises(LedgerGone, match="made anew"):
        world.identity().check(exists=True)
    [note] = world.ship(new_ledger=True)
    assert "forgotten" in note
    assert LedgerLog(world.log, CLUSTER, "web").look(CONTROL_NOW).identity.run_id == "r1"
    assert world.ship(new_ledger=True) == [], "given up once"
    world.identity().check(exists=True)


def test_a_ledger_that_is_made_anew_while_a_run_waits_for_its_lease_stops_the_run(world):
    world.ship()
    identity = world.identity()
    identity.check(exists=True)
    world.log.recreate()
    identity.remember("r2", "now")
    with pytest.raises(LedgerGone, match="made anew"):
        identity.confirm()


def test_a_first_run_that_was_paused_believes_no_ledger_that_took_the_place_of_anothers(world):
    paused = world.identity()
    paused.check(exists=False)
    world.ship()
    world.log.recreate()
    with pytest.raises(LedgerGone, match="made anew"):
        paused.remember("r2", "now")
    with pytest.raises(LedgerGone, match="made anew"):
        world.identity().check(exists=True)


def test_another_name_in_the_configuration_is_another_ledger(world):
    world.ship()
    renamed = cluster_of(ledger={"topic": "audit.{pipeline}"})
    with pytest.raises(LedgerGone, match=r"was topic _shipper\.web, and is audit\.web now"):
        world.identity(cluster=renamed).check(exists=True)


def test_what_cannot_be_read_is_not_taken_for_nothing(world, tmp_path):
    world.ship()
    (tmp_path / "web" / "ledger.c" / "ledger.json").write_text("{")
    with pytest.raises(ClusterError, match=r"ledger\.json.*cannot be read"):
        world.identity().check(exists=True)


@pytest.mark.parametrize(
    ("ledger", "data", "says"),
    [
        ((1, 3, "1"), (1, 3, "1"), ["replication factor 1, and the cluster has 3 brokers"]),
        ((1, 1, "1"), (1, 1, "1"), []),
        ((1, 1, "1"), (1, 1, "2"), []),
        ((2, 3, "1"), (3, 3, "1"), ["replication factor 2, and topics of this pipeline have 3"]),
        ((3, 3, "1"), (3, 3, "2"), ["min.insync.replicas=1"]),
        ((3, 3, "1"), (3, 3, "1"), ["min.insync.replicas=1"]),
        ((3, 3, "2"), (3, 3, "2"), []),
        ((3, 3, "2", "false"), (3, 3, "2", "true"), []),
        ((3, 3, "2", "true"), (3, 3, "2", "true"), ["unclean.leader.election.enable=true"]),
        ((1, 1, "1", "true"), (1, 1, "1", "true"), []),
    ],
)
def test_a_ledger_that_is_less_durable_than_the_data_is_said(world, ledger, data, says):
    def facts(replication, brokers, min_insync, unclean="false"):
        settings = {
            "cleanup.policy": "compact",
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": min_insync,
        }
        settings["unclean.leader.election.enable"] = unclean
        return TopicFacts(2, settings, replication, brokers)

    opened = LedgerLog(world.log, CLUSTER, "web")
    assert opened.exists_by({"_shipper.web": facts(*ledger), "t": facts(*data)})
    found = opened.weaknesses()
    assert len(found) == len(says)
    assert all(part in one.text + one.remedy for part, one in zip(says, found, strict=True))
