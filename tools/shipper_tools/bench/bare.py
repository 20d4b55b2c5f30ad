"""Bare producers side by side: round by round, each contender in turn, every measurement into a new
topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shipper_tools.bench.lanes import LEDGER_TOPIC
from shipper_tools.bench.plan import Scenario, turned
from shipper_tools.bench.results import Case, Contender, Measurement
from shipper_tools.bench.senders import Sender, SenderFailed, lanes, peers
from shipper_tools.bench.world import World
from shipper_tools.dev.jars import Say

_FIRST_RECORDS = 60_000
"""For the warm-up, when nobody knows yet how fast a contender is."""


def measure(
    scenario: Scenario, folder: Path, peers_folder: Path | None, say: Say
) -> Iterator[Measurement]:
    """Yield measurements. Round 0 is the warm-up; it also tells how many records each contender
    sends in the rounds that count."""
    senders = [*map(lanes, scenario.lanes), *peers(peers_folder)]
    with World(folder / "kafka") as world:
        world.client.create_topics({LEDGER_TOPIC: 1}, {"cleanup.policy": "compact"})
        counts: dict[tuple[Case, Contender], int] = {}
        for round_number in range(scenario.rounds + 1):
            for case in scenario.cases():
                for sender in turned(senders, round_number):
                    key = (case, sender.contender)
                    measured = measure_one(
                        world, sender, case, counts.get(key, _FIRST_RECORDS), round_number
                    )
                    if measured.seconds:
                        # A short measurement looks slower than it is, so the next one may be
                        # longer, never shorter.
                        enough = int(measured.records / measured.seconds * scenario.seconds)
                        counts[key] = max(1000, counts.get(key, 0), enough)
                    yield measured


def measure_one(
    world: World, sender: Sender, case: Case, records: int, round_number: int
) -> Measurement:
    """Let a sender send so many records to a new topic."""
    measured = Measurement(case=case, contender=sender.contender, round=round_number)
    with world.topic(case) as topic, world.measured(measured):
        try:
            sender.send(world.bootstrap(case), topic, measured, records)
            if (arrived := world.records_in(topic, case.partitions)) < measured.records:
                measured.error = f"{measured.records} records sent, but the topic ends at {arrived}"
        except SenderFailed as failed:
            measured.error = failed.message
    return measured
