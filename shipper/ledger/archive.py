"""Archiving: moving the ledger's records of old windows out of the topic, into files beside the
runs.

The archive stays part of the ledger: plan, ship and gate look into it for their window's files, so
an old window that is run again is recognised as before. The topic names the archive, with its
checksum; if the name exists but the archive does not, nothing is shipped.

An archiving is a run that ships nothing. It announces a generation and fences all earlier lanes, so
that nobody adds to what it has read. It writes in transactions of a lane, which the next run
fences. So an archiving that was paused and continues later can neither remove a newer record nor
name an archive that a later one has replaced. The archive is complete, and read back, before the
first record leaves the topic; its name commits together with the first tombstones.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from shipper.config.pipeline import Pipeline
from shipper.config.units import plural
from shipper.errors import ClusterError, WindowError
from shipper.ledger.codec import decode, encode_archive, peek_key
from shipper.ledger.fold import LedgerRecords
from shipper.ledger.log import LedgerLog, ask_files
from shipper.ledger.records import Alias, Archive, ChunkValue
from shipper.ledger.snapshot import RecordStore, SnapshotUnusable, StoredManifest
from shipper.ledger.takeover import sole_run
from shipper.ledger.writing import write_as_lane
from shipper.types import EncodedRecord, LogRecord
from shipper.windows.window import parse_window


@dataclass(frozen=True)
class ArchiveResult:
    """Result of one archiving."""

    moved: int
    """Records that left the topic."""
    files: int
    left: int
    """Records of chunks that stay in the topic."""
    archived: int
    """Records in the archive now, earlier ones included."""
    manifest: str | None
    """Path at which the archive begins; None: there is no archive."""


def archive(
    ledger: LedgerLog,
    pipeline: Pipeline,
    before: dt.datetime,
    run_id: str,
    say: Callable[[str], None],
) -> ArchiveResult:
    """Move the records of windows that ended by ``before`` to the archive in the ledger's folder.
    Raises ClusterError, Superseded, OSError."""
    assert ledger.folder is not None
    store = ledger.folder.archives
    with sole_run(ledger, pipeline, run_id, say) as (generation, settings):
        read = ledger.decide(ask_files()).answer
        chosen = old_chunks(pipeline.key, read, before)
        left = sum(1 for _ in _live_chunks(pipeline.key, read)) - len(chosen)
        if not chosen:
            found = read.files.archived()
            where = f"{store.uri}/{found.manifest}" if found else None
            return ArchiveResult(0, 0, left, found.entries if found else 0, where)
        written = write_archive(store, ledger, read, chosen)
        until = f"{before.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
        named = Archive(
            written.name, written.sha256, written.manifest.records, until, generation, run_id
        )
        say(
            f"{ledger.cluster.name}: {plural(named.entries, 'ledger record')} in {store.uri}; "
            f"removing {len(chosen)} from {ledger.topic}"
        )
        marker = encode_archive(pipeline.key, named)
        over = [EncodedRecord(record.key, None) for record in chosen]
        write_as_lane(
            ledger, settings, generation, [marker, *over],
            f"not all archived records could be removed from {ledger.topic}: {{}}. They are now in "
            "the archive and in the topic, and count once. Run the command again.",
        )  # fmt: skip
    ledger.keep_snapshot(longer_than=0)
    paths = {about.path for record in chosen if (about := peek_key(pipeline.key, record))}
    return ArchiveResult(
        len(chosen), len(paths), left, named.entries, f"{store.uri}/{named.manifest}"
    )


def old_chunks(pipeline: str, read: LedgerRecords, before: dt.datetime) -> list[LogRecord]:
    """Return the chunk records in the topic whose window ended by ``before``."""
    return [
        record
        for record, value in _live_chunks(pipeline, read)
        if (end := window_end(value.window)) and end <= before
    ]


def _live_chunks(
    pipeline: str, read: LedgerRecords
) -> Iterator[tuple[LogRecord, ChunkValue | Alias]]:
    """Yield chunks and aliases. A record that a later record of the archive has replaced is left
    out: a snapshot may still have it."""
    archived = {record.key: record.offset for record in read.archived}
    for records in read.files.by_path.values():
        for record in records.values():
            if record.offset < archived.get(record.key, 0):
                continue
            match decode(pipeline, record):
                case (_, ChunkValue() | Alias() as value):
                    yield record, value


def window_end(window: str) -> dt.datetime | None:
    """Return the end of the window; None for a window that shipper did not write."""
    try:
        return parse_window(window).end
    except WindowError:
        return None


def write_archive(
    store: RecordStore,
    ledger: LedgerLog,
    read: LedgerRecords,
    chosen: Iterable[LogRecord],
) -> StoredManifest:
    """Write the earlier archive with ``chosen`` on top, as new files beside the old ones, and read
    all of them back. Raises ClusterError."""
    pipeline = ledger.pipeline
    changes: dict[str, dict[bytes, LogRecord]] = {}
    for record in chosen:
        if about := peek_key(pipeline, record):
            changes.setdefault(about.path, {})[record.key] = record
    earlier = read.files.archived()
    try:
        base = store.named(earlier.manifest, earlier.sha256) if earlier else None
        written = store.write(base, changes, ledger.origin(), 0, read.chunks_end, [])
        records = written.manifest.records
        readable = sum(1 for _ in store.records(store.named(written.name, written.sha256), None))
        if readable != records:
            raise SnapshotUnusable(f"{readable} of {plural(records, 'record')} can be read back")
    except SnapshotUnusable as why:
        raise ClusterError(
            f"the archive of {pipeline} in {store.uri} could not be written: {why}. The topic "
            "was not changed. Run the command again.",
            code="SHIP-507",
        ) from why
    return written
