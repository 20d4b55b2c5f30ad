"""Ledger records in files: cut into shards in the order of shipping, listed in a manifest. Pure: bytes in, bytes out.

::

    manifest      JSON; name, SHA-256 and hashes of the paths of each shard; of which topic, up to which offsets
    shards        gzip; a line for each record: offset, timestamp, key, value, separated by tabs (which JSON never holds raw)

What was shipped together is asked for together, whatever its folders are called: a window's files lie in few shards, so reading what is
known of them costs the same however long the history is. A shard is never changed: an update writes those anew that it touches, and
a manifest that names the new ones beside the old.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from binascii import a2b_base64, b2a_base64, crc32
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shipper.types import LogRecord

FORMAT = 2
#: Records in a shard when it is cut off: 2,000 are some 700 kB of JSON and 60 kB as stored, and are read in 15 ms.
SHARD_RECORDS = 2_000
_GZIP_LEVEL = 1  # five times as fast as the default, for files a third larger


class Unusable(Exception):
    """A stored file that is missing, damaged, or not of this ledger. The message says which and why."""


@dataclass(frozen=True)
class Origin:
    """Which log the records are of. A topic that was deleted and made anew has another id."""

    pipeline: str
    cluster: str
    topic: str
    cluster_id: str
    topic_id: str


@dataclass(frozen=True)
class Shard:
    name: str
    sha256: str
    """Of the file as stored."""
    records: int
    paths: str
    """The hashes of the paths that it holds, see :func:`path_hashes`, four bytes each, in base64. All records of a path lie in one shard."""

    @property
    def has_room(self) -> bool:
        return self.records < SHARD_RECORDS

    def may_hold(self, hashes: frozenset[int]) -> bool:
        """Whether one of these paths is in here. Of the shards that say so in a history of 100,000 files, one in 40,000 is wrong."""
        packed = a2b_base64(self.paths)
        return not hashes.isdisjoint(struct.unpack(f"<{len(packed) // 4}I", packed))


@dataclass(frozen=True)
class Manifest:
    """A whole snapshot, or a whole archive."""

    origin: Origin
    control_end: int
    """Offset up to which the control partition is in here."""
    chunks_end: int
    standing: tuple[LogRecord, ...]
    """Of the records that are about no file, those that still matter."""
    shards: tuple[Shard, ...]
    """Oldest first."""

    @property
    def read(self) -> int:
        """Offsets of the topic that it covers, over both partitions."""
        return self.control_end + self.chunks_end

    @property
    def records(self) -> int:
        return sum(shard.records for shard in self.shards)

    def covering(self, paths: Collection[str] | None) -> list[Shard]:
        """Shards that may hold one of ``paths``; None: all."""
        if paths is None:
            return list(self.shards)
        hashes = path_hashes(paths)
        return [shard for shard in self.shards if shard.may_hold(hashes)]


def encode_manifest(manifest: Manifest) -> bytes:
    """Two lines: the format with the checksum of the second, and the rest."""
    fields = asdict(manifest) | {"standing": [_as_json(record) for record in manifest.standing]}
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    head = json.dumps({"format": FORMAT, "sha256": sha256(body)}).encode()
    return head + b"\n" + body + b"\n"


def decode_manifest(data: bytes) -> Manifest:
    """Raises Unusable."""
    try:
        head, body, _ = data.split(b"\n")
        about = json.loads(head)
        if about["format"] != FORMAT:
            raise Unusable(f"it has format {about['format']}, and this shipper reads {FORMAT}")
        if about["sha256"] != sha256(body):
            raise Unusable("its checksum is wrong")
        fields = json.loads(body)
        return Manifest(
            origin=Origin(**fields["origin"]),
            control_end=fields["control_end"],
            chunks_end=fields["chunks_end"],
            standing=tuple(_from_json(record) for record in fields["standing"]),
            shards=tuple(Shard(**shard) for shard in fields["shards"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable(f"it cannot be read: {error!r}") from error


def encode_shard(records: Iterable[LogRecord]) -> bytes:
    """The same records give the same bytes."""
    lines = (b"%d\t%d\t%b\t%b\n" % (r.offset, r.timestamp_ms, r.key, r.value) for r in records if r.value is not None)
    return gzip.compress(b"".join(lines), _GZIP_LEVEL, mtime=0)


def decode_shard(data: bytes, expected: Shard) -> list[LogRecord]:
    """Raises Unusable for other bytes than were written."""
    if sha256(data) != expected.sha256:
        raise Unusable(f"the checksum of {expected.name} is wrong")
    found = []
    try:
        for line in gzip.decompress(data).split(b"\n")[:-1]:
            offset, timestamp_ms, key, value = line.split(b"\t")
            found.append(LogRecord(int(offset), int(timestamp_ms), key, value))
    except ValueError as error:
        raise Unusable(f"{expected.name} cannot be read: {error!r}") from error
    return found


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


ByPath = Mapping[str, Mapping[bytes, LogRecord]]


def path_hashes(paths: Iterable[str]) -> frozenset[int]:
    """A CRC-32 for each. 100,000 files make 530 kB of a manifest and are looked through in some milliseconds."""
    return frozenset(crc32(path.encode()) for path in paths)


def packed_hashes(paths: Iterable[str]) -> str:
    """As a shard has them. The same paths give the same text."""
    hashes = sorted(path_hashes(paths))
    return b2a_base64(struct.pack(f"<{len(hashes)}I", *hashes), newline=False).decode()


def cut(by_path: ByPath) -> Iterator[tuple[list[str], list[LogRecord]]]:
    """(paths, records) of each shard that these records become. Tombstones are dropped: nothing earlier is left for them to hide."""
    whole = sum(len(records) for records in by_path.values()) <= 2 * SHARD_RECORDS
    paths: list[str] = []
    shard: list[LogRecord] = []
    for path, records in by_path.items():
        live = [record for _, record in sorted(records.items()) if record.value is not None]
        if live:
            paths.append(path)
            shard += live
        if len(shard) >= SHARD_RECORDS and not whole:
            yield paths, shard
            paths, shard = [], []
    if shard:
        yield paths, shard


def _as_json(record: LogRecord) -> list[Any]:
    return [record.offset, record.timestamp_ms, record.key.decode(), None if record.value is None else record.value.decode()]


def _from_json(fields: list[Any]) -> LogRecord:
    offset, timestamp_ms, key, value = fields
    return LogRecord(offset, timestamp_ms, key.encode(), None if value is None else value.encode())
