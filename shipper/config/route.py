"""One line of a pipeline's routing table, and which topics a line of a log may choose."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import Field, field_validator

from shipper.config.base import Model
from shipper.config.rules import TOPIC_COLUMN, check_topic, legal_topic, reserved_topics


class Route(Model):
    """One line of the routing table; the first whose `when` holds takes the record."""

    topic: str = Field(min_length=1, examples=["logs.web", "logs.{service}"])
    """Topic name; `{column}` is filled in from each record (`file_name`, or a column of `records.columns`). What a line says decides then
    where it goes, so `topics` or `matching` must say where it may."""
    when: str | None = None
    """Spark SQL condition. The last route has none: it takes what is left."""
    topics: tuple[str, ...] = ()
    """With a `{column}` in `topic`: the whole names of all topics that it may lead to. A record that would go to another one has no topic: it goes
    to quarantine as `unroutable` or, without one, fails the run. May be changed at any time."""
    matching: str | None = Field(default=None, min_length=1, examples=["logs\\\\.[a-z]{1,20}"])
    """In place of `topics`: a Java regular expression for the whole name. `limits.max_topics` bounds how many there may be. Names that Kafka
    does not take, ledgers of shipper (`_shipper.…`) and internal topics (`__…`) never match."""

    @field_validator("topic")
    @classmethod
    def _legal_topic(cls, value: str) -> str:
        check_topic(TOPIC_COLUMN.sub("x", value))
        return value

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the topic is made of; empty for a fixed topic."""
        return tuple(TOPIC_COLUMN.findall(self.topic))

    def faults(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """(path below the route, what is wrong): contradictions between its fields."""
        if not self.columns:
            for name in ("topics", "matching"):
                if getattr(self, name):
                    yield (
                        (name,),
                        f"`{name}` is for a topic with a {{column}} in it; {self.topic!r} is the only one here; remove it",
                    )
        elif self.topics and self.matching is not None:
            yield ("matching",), "`topics` and `matching` contradict each other: keep the list, or the pattern"
        elif not self.topics and self.matching is None:
            example = TOPIC_COLUMN.sub("a", self.topic)
            yield (
                ("topic",),
                f"any line could choose any topic: list the ones that {self.topic!r} may lead to, `topics: [{example}, …]`, or give a pattern "
                f"for them, `matching: '{self._prefix()}[a-z0-9-]{{1,40}}'`",
            )
        for index, topic in enumerate(self.topics):
            try:
                check_topic(topic)
            except ValueError as error:
                yield ("topics", index), str(error)
            else:
                if self.columns and not self._made_from_columns(topic):
                    yield ("topics", index), f"{self.topic!r} never leads to {topic!r}"

    def _prefix(self) -> str:
        return re.escape(TOPIC_COLUMN.split(self.topic)[0])

    def _made_from_columns(self, topic: str) -> bool:
        parts = TOPIC_COLUMN.sub("{}", self.topic).split("{}")
        return re.fullmatch(".+".join(map(re.escape, parts)), topic) is not None

    def matches(self, topic: str) -> bool:
        """Whether the route can lead to ``topic``. Of `matching`, what only Java understands is taken to match."""
        if not legal_topic(topic) or re.fullmatch(reserved_topics(), topic) or not self._made_from_columns(topic):
            return False
        if self.topics:
            return topic in self.topics
        try:
            return self.matching is None or re.fullmatch(self.matching, topic) is not None
        except re.error:
            return True
