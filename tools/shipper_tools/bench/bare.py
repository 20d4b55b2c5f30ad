"""Bare producers side by side: round by round, each contender in turn, every measurement into new topics."""

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


def measure(
    scenario: Scenario, folder: Path, peers_folder: Path | None, *, with_peers: bool, records: int | None, say: Say
) -> Iterator[Measurement]:
    """Round 0 is the warm-up; it also tells how many records each contender sends in the rounds that count, unless
    ``records`` says it."""
    ours: list[Sender] = [
        Lanes(lanes or 8, batch or 1_000_000, _BATCHES_PER_TRANSACTION) for lanes, batch in scenario.axes.sizes()
    ]
    senders = ours + (peers(peers_folder) if with_peers else [])
    cases = scenario.axes.cases()
    with World(folder, scenario.axes.replicas) as world:
        world.client.create_topics({LEDGER_TOPIC: 1}, {"cleanup.policy": "compact"}, scenario.axes.replicas)
        counts: dict[tuple[Case, Contender], int] = {}
        for round_number in range(scenario.rounds + 1):
            for case in cases:
                for sender in turned([s for s in senders if s.cannot(case) is None], round_number):
                    key = (case, sender.contender)
                    asked = records or counts.get(key, sender.first_records)
                    exactly = records is not None or round_number == 0
                    measured = _measure(world, sender, case, asked, round_number, exactly=exactly)
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


def _measure(world: World, sender: Sender, case: Case, records: int, round_number: int, *, exactly: bool) -> Measurement:
    measured = Measurement(case=case, contender=sender.contender, round=round_number)
    topics = world.create_topics(case, case.topics)
    world.shape(case)
    before = world.cpu_seconds()
    try:
        sent = sender.send(world.bootstrap(case), topics, case, records, exactly=exactly)
        after = world.cpu_seconds()
        _fill(measured, sent, {kind: after[kind] - before[kind] for kind in after})
        there = world.records_in(dict.fromkeys(topics, case.partitions))
        if there < sent.records:
            measured.error = f"{sent.records} records sent, but the topics end at {there}"
    except SenderFailed as failed:
        measured.error = failed.message
    world.delete_topics(topics)
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
