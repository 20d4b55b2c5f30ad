"""Records that have expired: delivered, and deleted since from the beginning of their partitions
(`retention.ms`, `retention.bytes`, delete-records).

The ledger has no offsets. A ship whose delivery gate reads back notes where each partition ended
before its first record (`ends_before`), and all that earlier ships sent lies in front of that. So
the results of the newest runs tell, until one is found of which everything has expired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from shipper.errors import ShipperError
from shipper.finding import Finding, ok
from shipper.kafka.admin import LogFacts
from shipper.ledger.records import Entry
from shipper.report.results import ShipResult
from shipper.report.run_folder import RunFolder
from shipper.windows.window import parse_window


class ShipRun(NamedTuple):
    """A ship, as the ledger's chunks name it. Ordered by time."""

    generation: int
    run_id: str
    window: str


Sent = dict[ShipRun, Counter[tuple[str, int | None]]]
"""Ship → (topic, partition) → records. None: records with keys, in any partition."""
EndsBefore = Mapping[str, list[int]]
"""Topic → per partition, its end before the ship. -1: unknown."""


def count(sent: Sent, of_path: Iterable[Entry]) -> None:
    """Add the chunks of a path to ``sent``."""
    for entry in of_path:
        value = entry.value
        if not entry.invalidated and entry.key.topic and value.records:
            run = ShipRun(value.generation, value.run_id, value.window)
            sent.setdefault(run, Counter())[entry.key.topic, value.partition] += value.records


def expired(
    sent: Sent, logs: Mapping[str, LogFacts], ends_before: Callable[[ShipRun], EndsBefore | None]
) -> Counter[str]:
    """Return topic → records that have expired at most. ``ends_before`` is asked from the newest
    ship on, and of no more than is needed."""
    found: Counter[str] = Counter()
    moved = {topic: facts for topic, facts in logs.items() if any(facts.starts)}
    frontier = {
        (topic, number): end
        for topic, facts in moved.items()
        for number, end in enumerate(facts.ends)
    }

    def start(place: tuple[str, int]) -> int:
        return moved[place[0]].starts[place[1]]

    for run in sorted(sent, reverse=True):
        all_expired = all(end <= start(place) for place, end in frontier.items())
        ends = None if all_expired else ends_before(run)
        for (topic, partition), records in sent[run].items():
            if topic not in moved:
                continue
            places = [
                place for place in frontier if place[0] == topic and partition in (None, place[1])
            ]
            if all(frontier[place] <= start(place) for place in places):
                found[topic] += records
            elif ends and topic in ends:
                known = {(topic, number): end for number, end in enumerate(ends[topic]) if end >= 0}
                found[topic] += min(
                    records,
                    sum(max(0, start(place) - known.get(place, start(place))) for place in places),
                )
        for topic in moved.keys() & (ends or {}).keys():
            for number, end in enumerate((ends or {})[topic]):
                if end >= 0 and (topic, number) in frontier:
                    frontier[topic, number] = min(end, frontier[topic, number])
    return found


def findings(found: Counter[str], logs: Mapping[str, LogFacts]) -> Iterator[Finding]:
    """Yield findings on expired records. Nothing is wrong with them: consumers had as long for
    these records as the topic's settings allow."""
    for topic, records in sorted(found.items()):
        if records:
            starts = ", ".join(
                f"{number} at offset {start}"
                for number, start in enumerate(logs[topic].starts)
                if start
            )
            text = (
                f"up to {records:,} delivered records have expired (partition {starts}): "
                "`retention.ms` or `retention.bytes` of the topic, or delete-records. A rerun "
                "does not send them again"
            )
            yield ok(text, code="expired", subject=topic)


def by_results(
    runs_uri: str, pipeline: str, cluster: str
) -> Callable[[ShipRun], EndsBefore | None]:
    """Return ``ends_before`` as the ships' results have it; None for a ship that did not read back,
    or whose result is gone."""

    def ends_before(run: ShipRun) -> EndsBefore | None:
        try:
            window = parse_window(run.window)
            ship = RunFolder(runs_uri, pipeline, window, run.run_id).find(
                f"ship.{cluster}", ShipResult
            )
        except ShipperError:
            return None
        return ship.ends_before if ship else None

    return ends_before
