"""What became of every line of a ship, added up from the tasks' receipts and from what the ledger held before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from shipper.config.records import Quarantine
from shipper.driver.files import split_hash
from shipper.driver.pending import Remaining
from shipper.report.plan_result import PlannedFile
from shipper.report.results import FileAccount, ShipResult, TopicAccount, write_checksum
from shipper.types import FileId
from shipper.worker.receipt import Receipt, SplitReceipt
from spark_jobs.context import RunContext, file_id


def topic_accounts(
    before: Mapping[str, int], receipts: Iterable[Receipt], quarantines: Collection[str], parked: Mapping[str, int]
) -> list[TopicAccount]:
    """``before``: in files that were not read. ``parked``: topic → records that could not be sent until the end."""
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
            mine.before += counts.already_there
    for topic, count in parked.items():
        account(topic).parked = count
    return sorted(topics.values(), key=lambda found: found.topic)


def file_accounts(
    files: Sequence[PlannedFile], left: Remaining, receipts: Sequence[Receipt], context: RunContext
) -> list[FileAccount]:
    by_split: dict[int, list[SplitReceipt]] = {}
    for receipt in receipts:
        for split, counts in receipt.splits.items():
            by_split.setdefault(split, []).append(counts)
    complete = set(left.complete)
    accounts = []
    for planned in files:
        file: FileId = file_id(planned)
        if file in complete:
            there = left.records_there[file]
            accounts.append(FileAccount(path=file.path, records=there, delivered=0, before=there, unread=True))
            continue
        starts = context.split_starts(file)
        found = [counts for start in starts for counts in by_split.get(split_hash(planned.uri, file, start), ())]
        accounts.append(
            FileAccount(
                path=file.path,
                records=sum(split.records for split in found),
                delivered=sum(split.delivered for split in found),
                before=sum(split.already_there for split in found),
                filtered=added(split.filtered for split in found),
                quarantined=added(split.quarantined for split in found),
                seconds=round(sum(split.seconds for split in found), 3),
                checksums={t: write_checksum(checksum) for t, checksum in added(split.checksums for split in found).items()},
            )
        )
    return accounts


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for some in counts:
        found.update(some)
    return dict(sorted(found.items()))


def too_many_quarantined(result: ShipResult, quarantine: Quarantine) -> str | None:
    """What is wrong if more of the window's records are in quarantine than the pipeline allows; those of earlier runs count, so that
    trying again is no way around it. Dropped lines are no records."""
    count = sum(topic.delivered + topic.before for topic in result.topics if topic.quarantine)
    records = result.read + result.unread - sum(result.filtered.values())
    if count <= quarantine.max_rate * records:
        return None
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in result.quarantined.items())
    return (
        f"cluster {result.cluster}: {count:,} of {records:,} records of pipeline {result.pipeline} are in quarantine "
        f"({count / max(1, records):.2%}), and `quarantine.max_rate` allows {quarantine.max_rate:.2%}"
        + (f"; this run added {reasons}" if reasons else "")
        + f". All of them are in {quarantine.topic}, and everything else was sent. Look with `shipper quarantine show "
        f"{result.pipeline}`: if the source is wrong, have it mended; if these records are to be expected, raise the limit and run again."
    )
