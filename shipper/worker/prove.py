"""Sums over the records of a file, as a ship would make them now, to be compared with the ledger's
sums of another file. Sends nothing."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable

import numpy as np

from shipper.ledger.records import spark_hash
from shipper.worker.assign import dispositions_of, topics_of
from shipper.worker.cut import SplitSlice
from shipper.worker.order import ProofOrder, SplitToProve
from shipper.worker.receipt import SplitSums
from shipper.worker.shipment import as_read

_UINT64 = 1 << 64


def sums_of(slices: Iterable[SplitSlice], order: ProofOrder) -> dict[int, SplitSums]:
    """Return the sums of each split that the slices are of. A split that could not be read to its
    end has not ``ended``."""
    found: dict[int, SplitSums] = {}
    bytes_read: dict[int, int | None] = {}
    for part in slices:
        wanted = order.splits[part.split]
        sums = found.setdefault(
            part.split, SplitSums(counts=[0] * len(wanted.parts), checksums=[0] * len(wanted.parts))
        )
        before, here = bytes_read.get(part.split, 0), part.bytes_read
        bytes_read[part.split] = read = None if before is None or here is None else before + here
        sums.lines += part.rows
        if part.rows and not part.broken:
            _add(sums, part, wanted, order)
        if part.ends_split:
            sums.ended = True
            sums.read = (
                part.stored
                if not wanted.counts_bytes
                else None
                if read is None
                else read + wanted.skipped_bytes
            )
    return found


def _add(sums: SplitSums, part: SplitSlice, wanted: SplitToProve, order: ProofOrder) -> None:
    table = part.table
    hashes = np.concatenate(
        [chunk.to_numpy().view(np.uint64) for chunk in table.column("checksum").chunks]
    )
    names, codes = topics_of(table, order.topics)
    decided = dispositions_of(table)
    dropped = (
        np.zeros(part.rows, np.bool_)
        if decided is None
        else (decided >= 0) & (decided < order.rules)
    )
    for number, one in enumerate(wanted.parts):
        for interval in one.intervals:
            first = max(interval.first - part.first, 0)
            end = min(interval.end - part.first, part.rows)
            if first >= end:
                continue
            if one.kind == "dropped":
                chosen = dropped[first:end]
            elif one.kind == "quarantined":
                chosen = np.ones(end - first, np.bool_)
            else:
                chosen = ~dropped[first:end]
                if codes is not None:
                    chosen &= codes[first:end] == (
                        names.index(one.topic) if one.topic in names else -2
                    )
                elif names[0] != one.topic:
                    continue
            rows = np.flatnonzero(chosen) + first
            sums.counts[number] += len(rows)
            if one.kind == "quarantined":
                sums.checksums[number] += sum(
                    spark_hash(_kept(part, wanted, int(row), order.keep_bytes)) for row in rows
                )
            elif one.kind == "shipped":
                sums.checksums[number] += int(hashes[rows].sum(dtype=np.uint64))
                if wanted.bom and part.first == 0 and len(rows) and rows[0] == 0:
                    without = table.column("value")[0].as_py()
                    sums.checksums[number] += spark_hash(BOM_UTF8 + without) - spark_hash(without)
            sums.checksums[number] %= _UINT64


def _kept(part: SplitSlice, wanted: SplitToProve, row: int, keep_bytes: int) -> bytes | None:
    value = as_read(part.table.column("value")[row].as_py(), part.first + row, bom=wanted.bom)
    return value and value[:keep_bytes]
