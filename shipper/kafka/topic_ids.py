"""Topic ids, confirmed beside each transaction: they tell which incarnation of a topic takes the
records.

A topic that is deleted and created again keeps its name and gets another id. librdkafka does not
say which id acknowledged a record, so a lane puts two looks around its records:

* before the first record it knows the id, by a look of some earlier moment;
* once the records are acknowledged it asks again, while the ledger records are under way, and reads
  the answer before it commits.

Ids never come back. So if both looks give one id, every record in between is in that incarnation.
If not, the transaction is abandoned.

A look is a question to one broker, which answers by the metadata that it has. A broker whose
metadata lag behind (fractions of a second; for longer if it is cut off from the controllers) may
give an id that is no longer the topic's. The claim is wrong only if such a broker answers after
another broker has acknowledged records of the new incarnation; the topic is then named as recreated
all the same, by the next look.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import KafkaException

from shipper import runtime
from shipper.kafka.connection import KafkaFault, Until, to_fault
from shipper.kafka.outcomes import is_refusal
from shipper.types import PresentIds

log = logging.getLogger("shipper.kafka")

#: The id of a topic on brokers before Kafka 2.8, and of an unknown topic: a UUID of zeros.
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
ABSENT = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC")
_LOOK_SECONDS = 5.0
_PATIENCE_SECONDS, _SHORT_PATIENCE_SECONDS = 10.0, 1.0
_PAUSE_SECONDS = 0.2
#: Parallel lookups. With one, a lane would wait for another lane's lookup to end before its own
#: could begin: half a round trip.
_MOST_LOOKS = 4


@dataclass
class Looked:
    """The answer to one look at some topics."""

    ids: dict[str, str | None] = field(default_factory=dict)
    """The ids, see :data:`shipper.types.PresentIds`."""
    faults: dict[str, str] = field(default_factory=dict)
    """Topic → why its id is unknown this time."""
    refused: dict[str, str] = field(default_factory=dict)
    """Topic → why its id will stay unknown, such as a missing ACL."""


Look = Callable[[Collection[str], float], Looked]
"""Function that asks a broker about topics, for so many seconds at most. Never raises for a
cluster's answer."""


def read_answers(
    answers: Mapping[str, Any], explained: Callable[[KafkaFault], KafkaFault]
) -> Looked:
    """Collect the answers. ``answers``: topic → future of AdminClient.describe_topics."""
    found = Looked()
    for topic, answer in answers.items():
        try:
            topic_id = str(answer.result().topic_id)
        except KafkaException as error:
            fault = explained(to_fault(error.args[0]))
            if fault.name in ABSENT:
                found.ids[topic] = None
            else:
                (found.refused if is_refusal(fault.name) else found.faults)[topic] = fault.text
        else:
            found.ids[topic] = "" if topic_id == NO_TOPIC_ID else topic_id
    return found


@dataclass(eq=False)
class IdQuestion:
    """A lane's question: any look that begins after it answers it."""

    number: int
    topics: frozenset[str]
    settled: runtime.Event = field(default_factory=lambda: runtime.Event())
    """An event of its own: an answer must not wake up all other lanes."""


class _Answer(NamedTuple):
    began: int
    """Number of the last question that was asked before the look began."""
    id: str | None


class TopicIdWatch:
    """Ids of the topics that the lanes of a task write to, kept up to date. Safe to call from
    several threads. ``close`` ends its threads."""

    def __init__(
        self,
        look: Look,
        first: Mapping[str, str] | None = None,
        *,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        """Start with known ids. Args: first: ids that were seen before any record was sent.
        patience_seconds: how long to wait for an answer. A transaction is open meanwhile."""
        self._look = look
        self._known: dict[str, str | None] = dict(first or {})
        self._patience = patience_seconds
        self._changed = runtime.Condition()
        self._number = 0
        self._wanted: set[str] = set()
        self._open: dict[int, IdQuestion] = {}
        self._answers: dict[str, _Answer] = {}
        self._why: dict[str, str] = {}
        """Topic → why the last look at it told nothing."""
        self._refused: set[str] = set()
        self._failing = False
        self._threads = self._busy = 0
        self._closed = False
        self.unconfirmed: Counter[str] = Counter()
        """Topic → transactions whose chunks carry no id of it."""

    def why(self, topic: str) -> str:
        """Return the reason why the last question for the topic's id had no answer; empty if it had
        one."""
        return self._why.get(topic, "")

    def known(self, topics: Collection[str], until: Until) -> dict[str, str]:
        """Return the known ids of ``topics``; ask for the others. Raises KafkaFault when the time
        is over."""
        with self._changed:
            unknown = [
                topic for topic in topics if topic not in self._known and topic not in self._refused
            ]
        if unknown:
            self.wait_for(self.ask(unknown), until)
        with self._changed:
            return {topic: found for topic in topics if (found := self._known.get(topic))}

    def ask(self, topics: Collection[str]) -> IdQuestion:
        """Begin to ask; return at once."""
        with self._changed:
            self._number += 1
            question = IdQuestion(self._number, frozenset(topics))
            if not question.topics or self._closed:
                question.settled.set()
                return question
            self._open[question.number] = question
            self._wanted |= question.topics
            if self._busy == self._threads < _MOST_LOOKS:
                self._threads += 1
                runtime.Thread(target=self._watch, name="topic ids", daemon=True).start()
            self._changed.notify()
            return question

    def wait_for(self, question: IdQuestion, until: Until) -> PresentIds:
        """Wait for the ids, and return those that came in time. Raises KafkaFault when ``until`` is
        over."""
        patience = min(self._patience, _SHORT_PATIENCE_SECONDS) if self._failing else self._patience
        ends = runtime.monotonic() + patience
        try:
            while not question.settled.wait(
                max(0.0, min(ends, until(), runtime.monotonic() + 1.0) - runtime.monotonic())
            ):
                if runtime.monotonic() >= until():
                    raise KafkaFault(
                        "_TIMED_OUT", "nobody told the topics' ids in time", retriable=True
                    )
                if runtime.monotonic() >= ends:
                    self._failing = True
                    break
        finally:
            with self._changed:
                self._open.pop(question.number, None)
        with self._changed:
            return {
                topic: self._answers[topic].id
                for topic in question.topics
                if self._is_answered(topic, question.number)
            }

    def close(self) -> None:
        """End the threads without waiting for them. Questions are answered by nothing from now
        on."""
        with self._changed:
            self._closed = True
            for question in self._open.values():
                question.settled.set()
            self._changed.notify_all()

    def _is_answered(self, topic: str, number: int) -> bool:
        return topic in self._answers and self._answers[topic].began >= number

    def _is_settled(self, topic: str, number: int) -> bool:
        return topic in self._refused or self._is_answered(topic, number)

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._closed)
                if self._closed:
                    return
                topics, began = self._wanted, self._number
                self._wanted = set()
                self._busy += 1
            try:
                found = self._look(topics, _LOOK_SECONDS)
            except Exception as error:
                log.warning("topic ids cannot be asked for", exc_info=True)
                found = Looked(refused=dict.fromkeys(topics, f"{type(error).__name__}"))
            self._learn(found, began)
            if found.faults:
                runtime.sleep(_PAUSE_SECONDS)
            with self._changed:
                self._busy -= 1
                still_asked: set[str] = set().union(
                    *(question.topics for question in self._open.values())
                )
                if again := still_asked & found.faults.keys():
                    self._wanted |= again
                    self._changed.notify()

    def _learn(self, found: Looked, began: int) -> None:
        with self._changed:
            for topic, topic_id in found.ids.items():
                before = self._answers.get(topic)
                if before is None or before.began <= began:
                    self._answers[topic] = _Answer(began, topic_id)
                    if (
                        topic_id is not None
                    ):  # an absent topic may reappear: its broker's metadata lagged behind
                        self._known[topic] = topic_id
                self._refused.discard(topic)
            self._why |= found.faults | found.refused
            self._refused |= found.refused.keys()
            self._failing = self._failing and not found.ids
            for question in self._open.values():
                if all(self._is_settled(topic, question.number) for topic in question.topics):
                    question.settled.set()
