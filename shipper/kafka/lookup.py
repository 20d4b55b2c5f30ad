"""What the cluster says of topics right now."""

from __future__ import annotations

import logging
from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from shipper.kafka.connection import Complaints, fault_of, made
from shipper.kafka.producer import LaneSettings

log = logging.getLogger("shipper.kafka")


@dataclass(frozen=True)
class TopicState:
    """What the cluster says of a topic."""

    partitions: tuple[int, ...] = ()
    """Those that have a leader."""
    reason: str = ""
    """Why there are none."""
    existing: tuple[int, ...] = ()
    """All of them, with a leader or without."""


class TopicLookup:
    """Asks the cluster about topics, with a connection of its own."""

    def __init__(self, settings: LaneSettings) -> None:
        self._complaints = Complaints()
        self._client = made(AdminClient, settings.cluster, settings.connection, {"error_cb": self._complaints.hear}, log)

    def __call__(self, topics: Collection[str], timeout_seconds: float) -> dict[str, TopicState]:
        """One request for all. Never raises: what goes wrong is the reason why a topic has no partitions right now."""
        named = [topic for topic in topics if topic]
        unnamed = dict.fromkeys(set(topics) - set(named), TopicState(reason="a topic's name cannot be empty"))
        if not named:
            return unnamed
        asked = self._client.describe_topics(TopicCollection(named), request_timeout=timeout_seconds)
        return unnamed | {topic: self._state(answer) for topic, answer in asked.items()}

    def _state(self, answer: Future[Any]) -> TopicState:
        try:
            partitions = answer.result().partitions
        except KafkaException as error:
            self._client.poll(0)
            return TopicState(reason=self._complaints.explained(fault_of(error.args[0])).text)
        self._complaints.forget()
        led = tuple(sorted(partition.id for partition in partitions if partition.leader is not None and partition.leader.id >= 0))
        existing = tuple(sorted(partition.id for partition in partitions))
        return TopicState(led, "" if led else "none of its partitions has a leader", existing)
