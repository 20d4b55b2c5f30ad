"""Rights that a user of a cluster needs, and no more: the one list, which
docs/how-to/secure-a-cluster.md shows, tests grant and `shipper doctor` asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from shipper.config.cluster import Cluster
from shipper.config.rules import original
from shipper.kafka.client import GROUP

if TYPE_CHECKING:
    from shipper.config.pipeline import Pipeline

Resource = Literal["topic", "group", "transactional-id"]


@dataclass(frozen=True)
class Right:
    """Operations on one resource, in the words of ``kafka-acls``."""

    resource: Resource
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False
    """True for every resource whose name begins with ``name``."""

    def words(self) -> list[str]:
        """Return the right as arguments of ``kafka-acls --add``."""
        operations = [word for operation in self.operations for word in ("--operation", operation)]
        return [
            f"--{self.resource}",
            self.name,
            *(("--resource-pattern-type", "prefixed") if self.prefixed else ()),
            *operations,
        ]


def transactional_prefix(pipeline: str, cluster: str) -> str:
    """Return the prefix of every lane's transactional.id."""
    return f"{pipeline}.{cluster}."


def transactional_id(pipeline: str, cluster: str, task: int, lane: int) -> str:
    """Return the lane's transactional.id. That of a replay begins as its pipeline's do, since ACLs
    depend on the prefix."""
    own = original(pipeline)
    return f"{transactional_prefix(own, cluster)}{task}.{lane}{pipeline.removeprefix(own)}"


def topic_rights(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the operations needed on each topic that records go to."""
    reads = any(
        check.check == "read_back" and check.mode != "offsets" for check in pipeline.gates.delivery
    )
    return ("Write", "DescribeConfigs", *(("Read",) if reads else ()))


def ledger_rights(cluster: Cluster) -> tuple[str, ...]:
    """Return the operations needed on the ledger."""
    return ("Read", "Write", "DescribeConfigs", *(("Create",) if cluster.ledger.create else ()))


def rights(pipeline: Pipeline, cluster: Cluster) -> list[Right]:
    """Return all rights that the pipeline needs on the cluster. Read and Write imply Describe. Of
    topics that only lines name (`matching`) nothing is said."""
    topics = dict.fromkeys([*pipeline.listed_topics(), *pipeline.needed_topics()])
    found = [Right("topic", topic, topic_rights(pipeline)) for topic in topics]
    found.append(Right("topic", cluster.ledger_topic(pipeline.key), ledger_rights(cluster)))
    found.append(Right("group", GROUP, ("Describe",)))
    if pipeline.delivery.guarantee != "at_least_once":
        prefix = transactional_prefix(pipeline.key, cluster.name)
        found.append(Right("transactional-id", prefix, ("Write",), prefixed=True))
    return found
