"""The rights that docs/how-to/secure-a-cluster.md lists are those that the code asks for, and that
the tests grant."""

import re
import shlex
from pathlib import Path

from shipper.config.cluster import Ledger
from shipper.ledger.rights import rights, transactional_id
from tests.samples.config import cluster_of, pipeline_of

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "secure-a-cluster.md"
CLUSTER = cluster_of("frankfurt", bootstrap="kafka-1.example:9092")


def pipeline(**more):
    of_docs = {"pipeline": "web_access", "topic": "logs.web", "clusters": ["frankfurt"]}
    return pipeline_of(**of_docs | more)


def test_the_commands_in_the_docs_grant_exactly_the_rights_that_are_needed():
    section = _PAGE.read_text().partition("\n## Grant the ACLs\n")[2].partition("\n## ")[0]
    section = section.replace("\\\n", "")
    commands = [shlex.split(line)[1:] for line in section.splitlines() if re.match(r"acl --", line)]
    gates = {"gates": {"delivery": [{"check": "sum_closes"}]}}
    assert commands == [right.words() for right in rights(pipeline(**gates), CLUSTER)]


def test_rights_follow_what_the_pipeline_does():
    read_back = {"gates": {"delivery": [{"check": "read_back", "mode": "full"}]}}
    assert "Read" in rights(pipeline(**read_back), CLUSTER)[0].operations
    at_least_once = rights(pipeline(delivery={"guarantee": "at_least_once"}), CLUSTER)
    assert all(right.resource != "transactional-id" for right in at_least_once)
    ready_made = CLUSTER.model_copy(update={"ledger": Ledger(create=False)})
    (ledger,) = [
        right for right in rights(pipeline(), ready_made) if right.name == "_shipper.web_access"
    ]
    assert "Create" not in ledger.operations
    quarantined = rights(pipeline(quarantine={"topic": "logs.bad"}), CLUSTER)
    assert [right.name for right in quarantined[:2]] == ["logs.web", "logs.bad"]


def test_every_lane_has_an_id_that_the_right_covers():
    *_, ids = rights(pipeline(), CLUSTER)
    assert ids.prefixed
    assert transactional_id("web_access", "frankfurt", 127, 127).startswith(ids.name)
