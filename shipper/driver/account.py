"""Account of every line of a ship, added up from the tasks' receipts and from what the ledger held
before."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from shipper.config.record_mapping import UNREADABLE, Quarantine
from shipper.config.units import plural
from shipper.driver.context import RunContext
from shipper.driver.decide import Decisions
from shipper.driver.engine import Scan
from shipper.driver.files import split_hash
from shipper.driver.forecast import limit_of
from shipper.driver.pieces import starts_of
from shipper.ledger.fold import Chunks
from shipper.report.plan_result import PlannedFile
from shipper.report.results import (
    FileAccount,
    ShipResult,
    TopicAccount,
    write_checksum,
)
from shipper.types import FileId
from shipper.worker.receipt import MOST_NAMED, Receipt, SplitReceipt

_NOTED_THROTTLING_SECONDS = 5.0


class ReceiptAccount:
    """Account of all scans of one ship; it goes into the ship's result."""

    def __init__(self, result: ShipResult) -> None:
        self._result = result
        self._receipts: list[Receipt] = []
        self._unsent: dict[str, int] = {}
        """Topic → records that the last scan could not send."""

    def add_first(self, scan: Scan) -> None:
        result = self._result
        result.read = scan.read
        result.cpu_seconds += scan.cpu_seconds
        if scan.checksum is not None:
            result.checksum = write_checksum(scan.checksum)
        if scan.observed:
            result.observed = {"read": scan.read, **scan.observed}
        self._receipts += scan.receipts
        self._unsent = scan.unsent

    def add_later(self, scan: Scan) -> None:
        """Add a later scan. The first scan has counted these lines as read; a later one adds what
        it delivered."""
        self._result.cpu_seconds += scan.cpu_seconds
        self._unsent = scan.unsent if scan.receipts else self._unsent
        for receipt in scan.receipts:
            for split in receipt.splits.values():
                split.records = split.already_committed = split.adjusted = 0
                split.filtered, split.already_quarantined = {}, {}
            for topic in receipt.topics.values():
                topic.already_committed = 0
        self._receipts += scan.receipts

    def close(
        self,
        context: RunContext,
        files: Sequence[PlannedFile],
        left: Decisions,
        before: Mapping[str, int],
        quarantines: Collection[str],
    ) -> None:
        """Close the account. ``files``: the plan's; ``before``: topic → records of files that were
        not read; ``quarantines``: topics that hold quarantined records."""
        result, receipts = self._result, self._receipts
        splits = [split for receipt in receipts for split in receipt.splits.values()]
        result.topics = topic_accounts(before, receipts, quarantines, self._unsent)
        result.files = file_accounts(files, left, receipts, context)
        late = {file.path for file in files if file.late_window}
        result.late_records = sum(file.delivered for file in result.files if file.path in late)
        result.filtered = added(file.filtered for file in result.files)
        result.quarantined = added(file.quarantined for file in result.files)
        result.settled = added(split.already_quarantined for split in splits)
        if result.checksum is not None:
            result.checksum_added = write_checksum(sum(split.adjusted for split in splits))
        if result.ends_before is not None:
            mine = {topic.topic for topic in result.topics} | set(context.pipeline.needed_topics())
            result.ends_before = {
                topic: ends for topic, ends in result.ends_before.items() if topic in mine
            }
        result.task_retries = sum(receipt.retries for receipt in receipts)
        result.lane_reopened = sum(receipt.lane_reopened for receipt in receipts)
        result.possible_duplicates = sum(receipt.possible_duplicates for receipt in receipts)
        acks = [each.ack_seconds for each in receipts if each.ack_seconds]
        result.held_ack_ms = statistics.median(acks) * 1000 if acks else None
        result.wire_bytes = sum(receipt.wire_bytes for receipt in receipts)
        result.cpu_seconds += sum(receipt.cpu_seconds for receipt in receipts)
        result.parked = dict(sum((Counter(receipt.parked) for receipt in receipts), Counter()))
        lowered, unconfirmed = dict[str, int](), dict[str, str]()
        for receipt in receipts:
            lowered |= receipt.lowered
            unconfirmed |= receipt.unconfirmed
        for topic, batch_bytes in lowered.items():
            result.note(
                f"Batches of {topic} were larger than the topic allows. They were halved, to "
                f"{batch_bytes:,} bytes in the end (uncompressed).",
                code="batches",
            )
        result.note(possible_duplicates(receipts, result), code="duplicates")
        result.note(throttling(receipts, result.cluster), code="throttled")
        for topic, why in unconfirmed.items():
            result.note(
                f"The id of topic {topic} could not be confirmed for some chunks ({why}). If the "
                "topic is deleted and created again, later runs cannot tell that these records are "
                "gone.",
                code="topic-id",
            )
        starts = [receipt.first_at for receipt in receipts if receipt.first_at]
        ends = [receipt.last_at for receipt in receipts if receipt.last_at]
        if starts and ends:
            result.ship_seconds = max(ends) - min(starts)
        result.limited_by = limit_of(result, receipts, context.clusters[result.cluster].bandwidth)


def possible_duplicates(receipts: Iterable[Receipt], result: ShipResult) -> str:
    """Name what a ship without transactions may have doubled; empty: nothing."""
    if not result.possible_duplicates:
        return ""
    named = [label for receipt in receipts for label in receipt.doubtful]
    more = " and others" if len(named) > MOST_NAMED else ""
    twice = f"p to {plural(result.possible_duplicates, 'record')} may be there twice, since"
    told = (
        f"Shipped at least once: u{twice} they were sent again after a fault, or after a task or "
        "run that did not end. Consumers know them by the headers `shipper-chunk` and "
        "`shipper-number`."
        if result.guarantee == "at_least_once"
        else f"U{twice} the run before shipped at least once and did not end. What it sent has the "
        "headers `shipper-chunk` and `shipper-number`; the records of this run have none."
    )
    return f"{told} They are of {'; '.join(named[:MOST_NAMED])}{more}."


def throttling(receipts: Iterable[Receipt], cluster: str) -> str:
    """Return a note on brokers that throttled; empty if they did not."""
    throttled = max((receipt.throttled_seconds for receipt in receipts), default=0.0)
    if throttled < _NOTED_THROTTLING_SECONDS:
        return ""
    return (
        f"The brokers of {cluster} throttled this ship, one task for {throttled:.0f} s: a quota "
        "(`producer_byte_rate` or `request_percentage`) for its user or client.id is lower than "
        "what the lanes can send. The lanes took turns. Raise the quota to ship faster."
    )


def topic_accounts(
    before: Mapping[str, int],
    receipts: Iterable[Receipt],
    quarantines: Collection[str],
    parked: Mapping[str, int],
) -> list[TopicAccount]:
    """Return each topic's account. ``before``: records in files that were not read. ``parked``:
    topic → records that could not be sent until the end."""
    topics: dict[str, TopicAccount] = {}

    def account(topic: str) -> TopicAccount:
        return topics.setdefault(topic, TopicAccount(topic=topic, quarantine=topic in quarantines))

    for topic, count in before.items():
        account(topic).before += count
    for receipt in receipts:
        for topic, counts in receipt.topics.items():
            mine = account(topic)
            mine.delivered += counts.delivered
            mine.delivered_bytes += counts.bytes
            mine.before += counts.already_committed
    for topic, count in parked.items():
        account(topic).parked = count
    return sorted(topics.values(), key=lambda found: found.topic)


def file_accounts(
    files: Sequence[PlannedFile], left: Decisions, receipts: Sequence[Receipt], context: RunContext
) -> list[FileAccount]:
    by_split: dict[int, list[SplitReceipt]] = {}
    for receipt in receipts:
        for split, counts in receipt.splits.items():
            by_split.setdefault(split, []).append(counts)
    complete, known = set(left.complete), left.records
    accounts = []
    for planned in files:
        file = planned.id
        if file in complete:
            there = known[file]
            accounts.append(
                FileAccount(path=file.path, records=there, delivered=0, before=there, unread=True)
            )
            continue
        starts = starts_of(planned, context.pipeline.split_size_bytes)
        found = [
            counts
            for start in starts
            for counts in by_split.get(split_hash(planned.uri, file, start), ())
        ]
        accounts.append(
            FileAccount(
                path=file.path,
                records=sum(split.records for split in found),
                delivered=sum(split.delivered for split in found),
                before=sum(split.already_committed for split in found),
                filtered=added(split.filtered for split in found),
                quarantined=added(split.quarantined for split in found),
                seconds=round(sum(split.seconds for split in found), 3),
                checksums={
                    t: write_checksum(checksum)
                    for t, checksum in added(split.checksums for split in found).items()
                },
            )
        )
    return accounts


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for some in counts:
        found.update(some)
    return dict(sorted(found.items()))


def records_behind(result: ShipResult, files: Collection[FileId], chunks: Chunks) -> int:
    """Return about how many records the quarantined ones stand for, beyond themselves, by the
    ledger.

    A row of CSV with a stray quote stands for the rows that the quote made part of it. A file that
    could not be read stands for as many records as its bytes would hold, by how many the other
    ``files`` have for theirs."""
    swallowed = sum(chunks.swallowed(file) for file in files)
    unreadable = {
        file for file in files if any(UNREADABLE in state.reasons for state in chunks.states(file))
    }
    hidden_bytes = sum(file.size_bytes for file in unreadable)
    seen = sum(file.size_bytes for file in files) - hidden_bytes
    records = (
        result.read + result.unread - sum(result.filtered.values()) + swallowed - len(unreadable)
    )
    return swallowed + (max(0, hidden_bytes * records // seen - len(unreadable)) if seen > 0 else 0)


def too_many_quarantined(result: ShipResult, quarantine: Quarantine, behind: int = 0) -> str | None:
    """Return an error text if the quarantine holds more of the window's records than the pipeline
    allows. Records of earlier runs count, so that a retry does not evade the limit. Dropped lines
    do not count as records. ``behind``: see :func:`records_behind`."""
    count = (
        sum(topic.delivered + topic.before for topic in result.topics if topic.quarantine) + behind
    )
    records = result.read + result.unread - sum(result.filtered.values()) + behind
    if count <= quarantine.max_rate * records:
        return None
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in result.quarantined.items())
    return (
        f"cluster {result.cluster}: {count:,} of {plural(records, 'record')} of pipeline "
        f"{result.pipeline} went to quarantine ({count / max(1, records):.2%}), and "
        "`quarantine.max_rate` allows "
        f"{quarantine.max_rate:.2%}"
        + (
            f"; about {behind:,} of them are rows of CSV behind a stray quote, or in files that "
            "could not be read"
            if behind
            else ""
        )
        + (f"; this run added {reasons}" if reasons else "")
        + (
            f". All of them are in {quarantine.topic}, and everything else was sent. Look at them "
            f"with `shipper quarantine show {result.pipeline}`. If the source is wrong, have it "
            "corrected. If such records are normal, raise the limit and run again."
        )
    )
