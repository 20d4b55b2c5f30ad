"""What a plan and a ship make of topics that were deleted, or deleted and created again."""

from dataclasses import replace

import pytest

from shipper.driver import recreated as module
from shipper.driver.decide import Decisions, FileDecision
from shipper.driver.recreated import judge, look_again, refuse_late
from shipper.errors import ClusterError
from shipper.ledger.fold import Chunks
from shipper.ledger.incarnations import RecreatedTopic
from shipper.ledger.records import ChunkKey
from shipper.types import FileId, SplitId
from tests.samples.config import cluster_of
from tests.samples.ledger import chunk_value

OWN, LATE = FileId("own", 10, 1), FileId("late", 10, 1)
VALUE = chunk_value(last=5, records=5, bytes=1, splits=1)
CLUSTER = cluster_of("far")


class Client:
    def __init__(self, **ids):
        self.ids, self.asked = ids, list[set[str]]()

    def present_ids(self, topics):
        self.asked.append(set(topics))
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}


def chunks(topic_id="A"):
    found = Chunks("web")
    for file in (OWN, LATE):
        found.add(ChunkKey(SplitId(file, 0), 0, "t"), replace(VALUE, topic_id=topic_id))
    return found


def judged(client, held, **more):
    return judge(client, held, {OWN, LATE}, **more)


def test_what_is_lost_does_not_count_as_there():
    found = judged(Client(t="B"), chunks())
    assert not found.chunks.splits
    [lost] = found.named(resent=True)
    assert lost == RecreatedTopic(topic="t", before="A", now="B", records=10, files=2, resent=True)


def test_late_files_are_left_alone_by_name_unless_they_are_to_be_sent_again():
    lost = judged(Client(t="B"), chunks()).lost_files
    for policy in ("fail", "resend"):
        each = [FileDecision(OWN, "new", "ship"), FileDecision(LATE, "rest", "ship", begun=True)]
        left = refuse_late(Decisions(each, {LATE}), lost, policy)
        if policy == "resend":
            assert (left.left, left.refused) == ([OWN, LATE], {})
        else:
            assert (left.left, left.partial) == ([OWN], [])
            assert "topic t was deleted" in left.refused[LATE]


@pytest.mark.parametrize(("second", "agree"), [("B", True), ("A", False), (None, False)])
def test_two_connections_must_agree_before_records_are_sent_again(monkeypatch, second, agree):
    monkeypatch.setattr(module, "_SECOND_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "ClusterAdmin", lambda cluster: Client(t=second))
    found = judged(Client(t="B"), chunks())
    if agree:
        look_again(found, CLUSTER)
        return
    with pytest.raises(ClusterError, match="SHIP-406") as raised:
        look_again(found, CLUSTER)
    assert raised.value.retriable
