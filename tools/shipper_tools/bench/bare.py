"""Bare producers side by side: round by round, each contender in turn, every measurement into a new topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from shipper_tools.bench.plan import Scenario
from shipper_tools.bench.results import Case, Contender, Measurement
from shipper_tools.bench.senders import LEDGER_TOPIC, Lanes, Sender, SenderFailed, Sending, peers
from shipper_tools.bench.world import World
from shipper_tools.dev.jars import Say

_BATCHES_PER_TRANSACTION = 7
Turned = TypeVar("Turned")


def measure(scenario: Scenario, folder: Path, peers_folder: Path | None, *, with_peers: bool, say: Say) -> Iterator[Measurement]:
    """Round 0 is the warm-up; it also tells how many records each contender sends in the rounds that count."""
    ours: list[Sender] = [Lanes(lanes or 8, _BATCHES_PER_TRANSACTION) for lanes in scenario.axes.lanes]
    senders = ours + (peers(peers_folder) if with_peers else [])
    cases = scenario.axes.cases()
    with World(folder) as world:
        world.client.create_topics({LEDGER_TOPIC: 1}, {"cleanup.policy": "compact"})
        counts: dict[tuple[Case, Contender], int] = {}
        for round_number in range(scenario.rounds + 1):
            for case in cases:
                for sender in turned([s for s in senders if s.cannot(case) is None], round_number):
                    key = (case, sender.contender)
                    asked = counts.get(key, sender.first_records)
                    measured = _measure(world, sender, case, asked, round_number)
                    if measured.seconds:
                        # A short measurement looks slower than it is, so the next one may be longer, never shorter.
                        enough = int(measured.records / measured.seconds * scenario.seconds)
                        counts[key] = max(1000, counts.get(key, 0), enough)
                    say(line_of(measured))
                    yield measured


def turned(contenders: Sequence[Turned], round_number: int) -> list[Turned]:
    """Begins with another one each round, so that none always follows the same neighbour."""
    first = round_number % len(contenders) if contenders else 0
    return [*contenders[first:], *contenders[:first]]


def _measure(world: World, sender: Sender, case: Case, records: int, round_number: int) -> Measurement:
    measured = Measurement(case=case, contender=sender.contender, round=round_number)
    topic = world.create_topic(case)
    world.shape(case)
    before = world.cpu_seconds()
    try:
        sent = sender.send(world.bootstrap(case), topic, case, records, warming=round_number == 0)
        after = world.cpu_seconds()
        _fill(measured, sent, {kind: after[kind] - before[kind] for kind in after})
        there = world.records_in(topic, case.partitions)
        if there < sent.records:
            measured.error = f"{sent.records} records sent, but the topic ends at {there}"
    except SenderFailed as failed:
        measured.error = failed.message
    world.delete_topic(topic)
    return measured


def _fill(measured: Measurement, sent: Sending, others_cpu_seconds: dict[str, float]) -> None:
    measured.records, measured.bytes, measured.seconds = sent.records, sent.bytes, sent.seconds
    measured.opening_seconds, measured.note = sent.opening_seconds, sent.note
    measured.cpu_seconds = {"client": round(sent.cpu_seconds, 2)} | {
        kind: round(seconds, 2) for kind, seconds in others_cpu_seconds.items()
    }


def line_of(measured: Measurement) -> str:
    """For people, while it runs."""
    what = f"round {measured.round}  {measured.case.title}  {measured.contender.name}"
    if measured.error:
        return f"{what}: FAILED: {measured.error}"
    rate = measured.records / measured.seconds
    cpu = ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in measured.cpu_seconds.items() if seconds)
    return (
        f"{what}: {rate:,.0f} rec/s, {measured.bytes / measured.seconds / 1e6:.0f} MB/s ({measured.seconds:.1f} s; CPU s: {cpu})"
    )
