"""Assignment of a slice's rows to topics, to quarantine with a reason, or to neither. Never a step
per row, but for rows that are larger than their topic's limit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shipper import runtime
from shipper.config.record_mapping import (
    TIMESTAMP,
    TOO_LARGE,
    TOO_MANY_TOPICS,
    UNENCODABLE,
    UNPARSEABLE,
    UNREADABLE,
    UNROUTABLE,
    WITHOUT_KEY,
)
from shipper.errors import RecordUnshippable
from shipper.kafka.limits import (
    BATCH_HEADER_BYTES,
    BATCH_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    TopicLimits,
)
from shipper.types import SplitId
from shipper.worker.chunk import HEADER_OVERHEAD_BYTES, NumberedHeaders, header_pairs
from shipper.worker.cut import SplitSlice
from shipper.worker.marks import TOO_LONG
from shipper.worker.marks import UNREADABLE as UNREADABLE_FILE
from shipper.worker.order import ShipOrder

Rows = npt.NDArray[np.int64]
"""Row numbers within a slice, ascending."""

_NONE = -1
_NO_ROWS = np.empty(0, np.int64)
_REASONS = {TOO_LONG: TOO_LARGE, UNREADABLE_FILE: UNREADABLE}
#: A row of this size fits every realistic topic; for a larger row, the topic's limit is looked up.
_SMALL_BYTES = 1_000
_FEW_NAMES = 32
#: Allowed difference between the clocks of this machine and of the brokers.
_CLOCKS_DIFFER_MS = 10_000
_MARGIN_SHARE = 0.1
"""Largest margin of a bound on times, as a share."""


@dataclass(frozen=True)
class Rejection:
    """Rows that are not shipped, all for the same reason."""

    reason: str
    topic: str | None
    """Topic to which the rows would have gone, if known."""
    rows: Rows
    found_by_spark: bool = False
    """True if Spark found them, which then has left them out of its checksum of the rows to
    ship."""


@dataclass
class Assignment:
    """Assignment of each row of a slice."""

    shares: dict[str, Rows | None] = field(default_factory=dict)
    """Topic → its rows; None stands for all rows."""
    rejected: list[Rejection] = field(default_factory=list)
    dropped: dict[str, Rows] = field(default_factory=dict)
    """Rule → rows."""

    @cached_property
    def _rejected_by_topic(self) -> dict[str | None, list[Rows]]:
        found: dict[str | None, list[Rows]] = {}
        for rejection in self.rejected:
            found.setdefault(rejection.topic, []).append(rejection.rows)
        return found

    def rejected_from(self, topic: str) -> list[Rows]:
        """Return the rows rejected from ``topic``; to be asked when all rows are assigned."""
        return self._rejected_by_topic.get(topic, [])


class TimeBounds(NamedTuple):
    """Milliseconds since the epoch, both included."""

    first: float
    last: float


class RecordLimits:
    """Limits of the topics for rows. Topics that were not known before reading are asked for when a
    row could be too large for one."""

    def __init__(self, topics: TopicLimits, order: ShipOrder) -> None:
        self.topics = topics
        self._listed = order.listed
        self._max_topics = order.max_topics
        self._codec = order.lane_options.settings.compression
        self._number_bytes = (
            0 if order.lane_options.settings.transactional else NumberedHeaders.BYTES
        )
        # A record may wait so long until it is sent.
        self._wait_ms = order.lane_options.deadline_seconds * 1000 + _CLOCKS_DIFFER_MS
        self._met: set[str] = set()
        """Topics that came from lines."""

    def beyond(self, names: Sequence[str]) -> set[int]:
        """Return the indexes of names, all of them from lines, that exceed `limits.max_topics`,
        counted over the task."""
        found: set[int] = set()
        for code, name in enumerate(names):
            if name in self._met or name in self._listed:
                continue
            if len(self._met) < self._max_topics:
                self._met.add(name)
            else:
                found.add(code)
        return found

    def uncompressed_limit(self, topic: str) -> int:
        """Return the size in bytes of a row that fits even if it does not compress."""
        known = self.topics.known(topic)
        return _SMALL_BYTES if known is None else max(0, known.max_bytes - BATCH_OVERHEAD_BYTES)

    def times(self, topic: str, now_ms: float) -> TimeBounds:
        """Return the times that a record may have, so that the topic takes the record whenever it
        is sent."""
        limit = self.topics.limit(topic)
        waits = min(self._wait_ms, limit.max_age_ms * _MARGIN_SHARE)
        differs = min(_CLOCKS_DIFFER_MS, limit.max_ahead_ms * _MARGIN_SHARE)
        return TimeBounds(
            max(1, now_ms - limit.max_age_ms + waits), now_ms + limit.max_ahead_ms - differs
        )

    def fits(self, topic: str, record: bytes) -> bool:
        """Return True if the topic accepts a batch with only this record. ``record``: key, headers
        and value. Near the limit it says no, since the producer's codec may do a little worse than
        this one."""
        most, size = self.topics.limit(topic).max_bytes, len(record) + RECORD_OVERHEAD_BYTES
        margin = BATCH_HEADER_BYTES + self._number_bytes
        if self._codec != "none" and size + margin > most:
            size = pa.Codec(self._codec).compress(record).size
            margin += max(512, size // 100)
        return size + margin <= most


def assign(part: SplitSlice, order: ShipOrder, limits: RecordLimits) -> Assignment:
    found = Assignment()
    table, marked = part.table, part.marked
    names, codes = topics_of(table, order.topics)
    dispositions = dispositions_of(table)
    free = (
        None
        if dispositions is None and codes is None and not marked
        else np.ones(len(table), np.bool_)
    )
    for mark, rows_marked in marked.items():
        rows_rejected = np.asarray(rows_marked, np.int64)
        places = (
            _by_topic(rows_rejected, names, codes) if mark == TOO_LONG else [(None, rows_rejected)]
        )
        found.rejected += [Rejection(_REASONS[mark], topic, rows) for topic, rows in places]
        if free is not None:
            free[rows_rejected] = False
    if dispositions is not None and free is not None:
        _follow(found, dispositions, names, codes, order.rules, order.reasons)
        free &= dispositions == _NONE
    if (
        codes is not None
        and free is not None
        and len(nowhere := np.flatnonzero((codes == _NONE) & free))
    ):
        found.rejected.append(Rejection(UNROUTABLE, None, nowhere))
        free[nowhere] = False
    beyond: set[int] = set() if order.topics else limits.beyond(names)
    large = (
        _large(table, names, limits) if order.quarantine is not None else _NO_ROWS
    )  # otherwise a lane finds them
    misfits = _Misfits(table, names, limits)
    for code, rows in _of_each(names, codes, free):
        if code in beyond and rows is not None:
            found.rejected.append(Rejection(TOO_MANY_TOPICS, names[code], rows))
            continue
        for reason, wrong in misfits.of(names[code]):
            rows = _without(found, names[code], rows, wrong, reason, table)
        found.shares[names[code]] = _fitting(found, names[code], rows, large, table, limits)
    return found


def _of_each(
    names: Sequence[str], codes: npt.NDArray[np.int64] | None, free: npt.NDArray[np.bool_] | None
) -> Iterator[tuple[int, Rows | None]]:
    """Yield (index of a name, its rows) for the names that have some; None stands for all rows."""
    if codes is None or free is None:
        rows = None if free is None else np.flatnonzero(free)
        if rows is None or len(rows):
            yield 0, rows
    elif len(names) <= _FEW_NAMES:
        for code in range(len(names)):
            if len(rows := np.flatnonzero((codes == code) & free)):
                yield code, rows
    else:  # as many as lines make up: one sort in place of a look at all rows for each
        rows = np.flatnonzero(free)
        rows = rows[np.argsort(codes[rows], kind="stable")]
        borders = np.flatnonzero(np.diff(codes[rows])) + 1
        for part in np.split(rows, borders) if len(rows) else ():
            yield int(codes[part[0]]), part


def dispositions_of(table: pa.Table) -> npt.NDArray[np.int64] | None:
    """Return the dispositions; None if Spark says of every row that it is to be shipped."""
    if "disposition" not in table.schema.names or (
        column := table.column("disposition")
    ).null_count == len(table):
        return None
    return np.asarray(column.fill_null(_NONE).to_numpy(), np.int64)


class RowTopics(NamedTuple):
    """The topics of a table's rows."""

    names: tuple[str, ...]
    codes: npt.NDArray[np.int64] | None
    """Each row's index into ``names``, ``_NONE`` if it has no legal topic. None: all rows have the
    first."""


def topics_of(table: pa.Table, fixed: tuple[str, ...]) -> RowTopics:
    if len(fixed) == 1:
        return RowTopics(fixed, None)
    column = table.column("topic").combine_chunks()
    if fixed:
        return RowTopics(fixed, np.asarray(column.to_numpy(), np.int64))
    encoded = column.dictionary_encode()
    names = tuple(encoded.dictionary.to_pylist())
    codes = np.asarray(encoded.indices.fill_null(_NONE).to_numpy(zero_copy_only=False), np.int64)
    return RowTopics(names, codes)


def _follow(
    found: Assignment,
    dispositions: npt.NDArray[np.int64],
    names: tuple[str, ...],
    codes: npt.NDArray[np.int64] | None,
    rules: Sequence[str],
    reasons: Sequence[str],
) -> None:
    for number, rule in enumerate(rules):
        if len(rows := np.flatnonzero(dispositions == number)):
            found.dropped[rule] = rows
    for number, reason in enumerate(reasons, len(rules)):
        if len(rows := np.flatnonzero(dispositions == number)):
            found.rejected += [
                Rejection(reason, topic, part, found_by_spark=True)
                for topic, part in _by_topic(rows, names, codes)
            ]


def _by_topic(
    rows: Rows, names: tuple[str, ...], codes: npt.NDArray[np.int64] | None
) -> Iterator[tuple[str | None, Rows]]:
    if codes is None:
        yield names[0], rows
        return
    of_rows = codes[rows]
    for code in np.unique(of_rows):
        yield None if code == _NONE else names[code], rows[of_rows == code]


def _large(table: pa.Table, names: tuple[str, ...], limits: RecordLimits) -> Rows:
    """Return the rows that could be too large for one of the topics."""
    sizes = _sizes(table)
    found = np.flatnonzero(sizes > min(map(limits.uncompressed_limit, names), default=0))
    if len(found):
        limits.topics.learn(names)
        found = np.flatnonzero(sizes > min(map(limits.uncompressed_limit, names)))
    return found


def _fitting(
    found: Assignment,
    topic: str,
    rows: Rows | None,
    large: Rows,
    table: pa.Table,
    limits: RecordLimits,
) -> Rows | None:
    """Return ``rows`` without those that are too large for ``topic``, which are rejected."""
    mine = large if rows is None else np.intersect1d(large, rows, assume_unique=True)
    too_large = np.array(
        [row for row in mine if not limits.fits(topic, _record(table, row))], np.int64
    )
    return _without(found, topic, rows, too_large, TOO_LARGE, table)


def _without(
    found: Assignment, topic: str, rows: Rows | None, wrong: Rows, reason: str, table: pa.Table
) -> Rows | None:
    """Return ``rows`` without those of ``wrong``, which are rejected."""
    wrong = wrong if rows is None else np.intersect1d(wrong, rows, assume_unique=True)
    if len(wrong) == 0:
        return rows
    found.rejected.append(Rejection(reason, topic, wrong))
    return np.setdiff1d(np.arange(len(table)) if rows is None else rows, wrong, assume_unique=True)


class _Misfits:
    """Rows of a slice whose time, or missing key, some topics do not take."""

    def __init__(self, table: pa.Table, names: Collection[str], limits: RecordLimits) -> None:
        self._limits = limits
        self._now_ms = runtime.time() * 1000
        columns = {
            name: table.column(name) for name in ("timestamp", "key") if name in table.schema.names
        }
        times, keys = columns.get("timestamp"), columns.get("key")
        self._times = None if times is None else times.fill_null(int(self._now_ms)).to_numpy()
        self._keyless = (
            np.flatnonzero(keys.is_null().to_numpy())
            if keys is not None and keys.null_count
            else _NO_ROWS
        )
        if self._times is not None or len(self._keyless):
            limits.topics.learn(names)

    def of(self, topic: str) -> Iterator[tuple[str, Rows]]:
        """Yield a reason and its rows."""
        if self._times is not None and self._limits.topics.limit(topic).takes_times:
            first, last = self._limits.times(topic, self._now_ms)
            yield TIMESTAMP, np.flatnonzero((self._times < first) | (self._times > last))
        if len(self._keyless) and self._limits.topics.limit(topic).needs_key:
            yield WITHOUT_KEY, self._keyless


def _sizes(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return the bytes of each row's value, key and headers."""
    columns = [table.column(name) for name in ("value", "key") if name in table.schema.names]
    sizes = [pc.fill_null(pc.binary_length(column), 0) for column in columns]
    if "headers" in table.schema.names:
        headers = table.column("headers")
        sizes += [
            pc.fill_null(
                pc.add(pc.binary_length(values), len(field.name.encode()) + HEADER_OVERHEAD_BYTES),
                0,
            )
            for field, values in zip(headers.type, headers.flatten(), strict=True)
        ]
    return sum((of.to_numpy() for of in sizes), np.zeros(len(table), np.int64))


def _record(table: pa.Table, row: int) -> bytes:
    """Return the bytes of the row's value, key and headers."""
    key = table.column("key")[row].as_py() if "key" in table.schema.names else None
    headers = (
        header_pairs(table.column("headers")[row].as_py())
        if "headers" in table.schema.names
        else []
    )
    named = b"".join(
        name.encode() + value + bytes(HEADER_OVERHEAD_BYTES) for name, value in headers
    )
    return (key or b"") + named + (table.column("value")[row].as_py() or b"")


_WHY = {
    TOO_LARGE: (
        "it is longer than `records.max_line`. Its chunk was not sent. Raise `records.max_line` "
        "(and the topic's `max.message.bytes`), or name a topic for such records in "
        "`quarantine`."
    ),
    UNROUTABLE: (
        "it has no topic: a column in the route's topic is null, or names a topic that the "
        "route's `topics` or `matching` does not allow. Its chunk was not sent. Use coalesce(…) "
        "in `records.columns`, or a `when`, or name a topic for such records in `quarantine`."
    ),
    TOO_MANY_TOPICS: (
        "its topic exceeds `limits.max_topics`. Its chunk was not sent. Check the values of the "
        "route's column, make `matching` narrower or raise the limit, or name a topic for such "
        "records in `quarantine`."
    ),
    TIMESTAMP: (
        "its time, by `records.timestamp`, does not fit topic {topic}. Either the topic "
        "rejects it (message.timestamp.before.max.ms, message.timestamp.after.max.ms), or would "
        "delete the record at once (retention.ms), or no Kafka record can have it (1970-01-01 "
        "and before). Its chunk was not sent. Correct `records.timestamp`, give the topic wider "
        "bounds, or name a topic for such records in `quarantine`."
    ),
    WITHOUT_KEY: (
        "it has no key, by `records.key`, and topic {topic} is compacted and needs one. Its "
        "chunk was not sent. Use coalesce(…) in `records.key`, or name a topic for such records "
        "in `quarantine`."
    ),
    UNPARSEABLE: (
        "it cannot be parsed as `records.parse` says. Its chunk was not sent. Correct "
        "`records.parse`, drop such lines with `records.drop`, or name a topic for them in "
        "`quarantine`."
    ),
    UNENCODABLE: (
        "its value does not fit `records.avro.schema`. Its chunk was not sent. `shipper "
        "preview` names the field. Correct the schema or `records.value`, or name a topic for "
        "such records in `quarantine`."
    ),
}


_NO_OBJECT = (
    "it is no JSON object: {fault}. Its chunk was not sent. Drop such lines with `records.drop`, "
    "name a topic for them in `quarantine`, or ship them as they are with `records.parse: null`."
)


def unshippable(
    rejected: Sequence[Rejection], split: SplitId, part: SplitSlice
) -> RecordUnshippable:
    """Return the error for the first of ``rejected``, which are rows of ``part``."""
    first = min(rejected, key=lambda rejection: int(rejection.rows[0]))
    row = int(first.rows[0])
    where = f"{split.file.path} (split at byte {split.start}), record {part.first + row + 1}"
    has_fault = first.reason == UNPARSEABLE and "why" in part.table.schema.names
    if has_fault and (fault := part.table.column("why")[row].as_py()):
        return RecordUnshippable(f"{where}: {_NO_OBJECT.replace('{fault}', fault)}")
    why = _WHY.get(
        first.reason,
        (
            f"it fails the check {first.reason}, and there is no `quarantine`. Its chunk was not "
            "sent. Correct the check, or name a topic for such records in `quarantine`."
        ),
    )
    return RecordUnshippable(f"{where}: {why.replace('{topic}', str(first.topic))}")
