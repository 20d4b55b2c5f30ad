"""The named scenarios: what each measures, and its axes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from shipper_tools.bench.results import Case, Contender

OURS = Contender(name="shipper", ours=True, settings="exactly once; sized by shipper")
SPARK_SINK = Contender(
    name="Spark's Kafka sink", settings="at least once; acks=all, linger 100 ms, 1 MB batches"
)
Turned = TypeVar("Turned")


@dataclass(frozen=True)
class Scenario:
    """Every combination of the axes is measured."""

    name: str
    question: str
    kind: Literal["bare", "cold", "scale"]
    """Module that measures it."""
    rtt_ms: tuple[float, ...] = (0.0,)
    request_delay_ms: float = 0.0
    ack_ms: tuple[float, ...] = (0.0,)
    producers: bool = False
    """True if bare producers take part beside what reads files: they send its lines."""
    partitions: tuple[int, ...] = (1,)
    lines: tuple[int, ...] = (6_000_000,)
    """Lines in the files; not bare."""
    lanes: tuple[int, ...] = ()
    """Bare: contenders of ours."""
    rounds: int = 3
    seconds: float = 8.0
    """Bare: about how long one measurement sends."""

    def cases(self) -> list[Case]:
        bare = self.kind == "bare"
        return [
            Case(
                rtt_ms=rtt,
                ack_ms=ack,
                request_delay_ms=self.request_delay_ms,
                partitions=partitions,
                lines=lines,
                record_bytes=1000 if bare else None,
                compression="none" if bare else "zstd",
            )
            for lines, rtt, ack, partitions in itertools.product(
                (None,) if bare else self.lines, self.rtt_ms, self.ack_ms, self.partitions
            )
        ]


_FAR_AND_NEAR = (0.0, 140.0)
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="distance",
            question="How many records a second reach one partition over 140 ms, exactly once, "
            "and how many with what is used instead?",
            kind="bare",
            rtt_ms=(140.0,),
            lanes=(32, 48, 64),
        ),
        Scenario(
            name="end-to-end",
            question="From log files to the topic, as whole processes: what does one partition "
            "cost beside 16, near and far?",
            kind="cold",
            rtt_ms=_FAR_AND_NEAR,
            partitions=(16, 1),
        ),
        Scenario(
            name="cold",
            question="As a user runs it: how long does a whole process take from files to the "
            "topic, beside Spark's own sink and Flink?",
            kind="cold",
            rtt_ms=_FAR_AND_NEAR,
            partitions=(16,),
            lines=(300_000, 2_000_000, 24_000_000),
        ),
        Scenario(
            name="slow-ack",
            question="A Kafka on object storage answers metadata at once and acknowledges late: "
            "how many records a second reach it from files, beside Flink, Spark's sink and bare "
            "producers?",
            kind="cold",
            ack_ms=(0.0, 250.0, 400.0, 1000.0),
            producers=True,
            partitions=(16,),
            lines=(2_000_000, 24_000_000),
            rounds=2,
        ),
        Scenario(
            name="scale",
            question="How does the rate of whole runs change with tasks, files and the ledger's "
            "entries, and what do reading, zstd and the broker cost alone?",
            kind="scale",
            partitions=(16,),
            lines=(4_000_000,),
            rounds=2,
        ),
        Scenario(
            name="slow-broker",
            question="One partition of a broker that takes 20 ms for each request of a "
            "connection: what do lanes bring over one producer?",
            kind="bare",
            request_delay_ms=20.0,
            lanes=(1, 4, 8, 16),
        ),
    )
}


def turned(contenders: Sequence[Turned], round_number: int) -> list[Turned]:
    """Return the contenders in their order, from another one on in each round, so that none always
    follows the same neighbour."""
    first = round_number % len(contenders) if contenders else 0
    return [*contenders[first:], *contenders[:first]]
