"""Records for the quarantine topic: their headers, and what is kept of their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from shipper.ledger.intervals import MOST_RUNS, encode_ordinals
from shipper.ledger.quarantine import QuarantineHeaders
from shipper.ledger.records import spark_hash
from shipper.worker.assign import Held, Rows
from shipper.worker.order import OrderedSplit, QuarantineOrder, ShipOrder
from shipper.worker.shipment import Records

UTF8_BOM = b"\xef\xbb\xbf"


def runs(ordinals: Rows) -> Iterator[tuple[int, int]]:
    """Half-open intervals of consecutive numbers."""
    if len(ordinals):
        breaks = np.flatnonzero(np.diff(ordinals) > 1)
        yield from zip(ordinals[np.r_[0, breaks + 1]].tolist(), (ordinals[np.r_[breaks, -1]] + 1).tolist(), strict=True)


def quarantined(
    held: Sequence[Held], table: pa.Table, first: int, split: OrderedSplit, order: ShipOrder, quarantine: QuarantineOrder
) -> Iterator[tuple[int, int, Records]]:
    """(first ordinal, the one behind the last, records), each so small that the ledger's record of it is."""
    rows = np.concatenate([group.rows for group in held])
    groups = np.repeat(np.arange(len(held)), [len(group.rows) for group in held])
    in_order = np.argsort(rows)
    for start in range(0, len(rows), MOST_RUNS):
        part = in_order[start : start + MOST_RUNS]
        ordinals = rows[part] + first
        whole = table.column("value").take(pa.array(rows[part])).to_pylist()
        values = [
            _kept(_as_read(value, split, ordinal), quarantine.keep_bytes) for value, ordinal in zip(whole, ordinals, strict=True)
        ]
        of_rows = [held[group] for group in groups[part]]
        yield (
            int(ordinals[0]),
            int(ordinals[-1]) + 1,
            Records(
                quarantine.topic,
                values,
                sum(len(value or b"") for value in values),
                sum(map(spark_hash, values)) % 2**64,
                headers=[_headers(group, int(ordinal), split, order) for group, ordinal in zip(of_rows, ordinals, strict=True)],
                reasons=dict(Counter(group.reason for group in of_rows)),
                ordinals=encode_ordinals(runs(ordinals)),
            ),
        )


def _as_read(value: bytes | None, split: OrderedSplit, ordinal: int) -> bytes | None:
    return UTF8_BOM + (value or b"") if split.bom and ordinal == 0 else value


def _kept(value: bytes | None, keep_bytes: int) -> bytes | None:
    return None if value is None else value[:keep_bytes]


def _headers(held: Held, ordinal: int, split: OrderedSplit, order: ShipOrder) -> list[tuple[str, bytes]]:
    headers = QuarantineHeaders(
        order.pipeline, split.id.file.path, split.id.start, ordinal + 1, held.reason, order.run_id, held.topic
    )
    return headers.encode()
