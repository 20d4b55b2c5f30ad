"""Ledger records in files beside the runs, on any file system that fsspec knows: a snapshot of the
topic, and its archive.

::

    {runs_uri}/{pipeline}/ledger.{cluster}/ledger.json  which topic it is (shipper.ledger.identity)
    {runs_uri}/{pipeline}/ledger.{cluster}/snapshot/    can be lost at any time: the topic holds all of it
    {runs_uri}/{pipeline}/ledger.{cluster}/archive/     cannot: `shipper ledger archive` moved it out of the topic

    manifest      JSON; name, SHA-256, hashes of the paths and of the heads of each shard; of which topic, up to which offsets
    shards        gzip; a line for each record: offset, timestamp, key, value, separated by tabs (which JSON never holds raw)

What was shipped together is asked for together, whatever its folders are called: a window's files
lie in few shards, so reading what is known of them costs the same however long the history is. A
shard is never changed: an update writes those anew that it touches, and a manifest that names the
new ones beside the old.

No file is ever written over: each has a name of its own, and is checked against its checksum when
it is read. So a write is atomic wherever it happens: a manifest that is there in part is no
manifest, and one that is whole names shards that are.
"""  # noqa: E501

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from binascii import a2b_base64, b2a_base64, crc32
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from pydantic import TypeAdapter

from shipper import runtime
from shipper.ledger.codec import peek_key
from shipper.ledger.heads import Heads, index_of
from shipper.types import LogRecord
from shipper.whole_files import file_system, remove, write_whole

FORMAT = 4
#: Records in a shard when it is cut off: 2,000 are some 700 kB of JSON and 60 kB as stored, and are
#: read in 15 ms.
SHARD_RECORDS = 2_000
_GZIP_LEVEL = 1  # five times as fast as the default, for files a third larger
_SHARDS_AT_ONCE = 32
#: The previous manifest stays for readers that have just read it.
_KEPT_MANIFESTS = 2


class SnapshotUnusable(Exception):
    """A stored file that is missing, damaged, or not of this ledger. The message says which and
    why."""


@dataclass(frozen=True)
class Origin:
    """Identity of the log that the records belong to. A recreated topic has another id."""

    pipeline: str
    cluster: str
    topic: str
    cluster_id: str
    topic_id: str


@dataclass(frozen=True)
class Shard:
    name: str
    sha256: str
    """SHA-256 of the file as stored."""
    records: int
    paths: str
    """The hashes of the paths that it holds, see :func:`path_hashes`, four bytes each, in base64.
    All records of a path lie in one shard."""
    heads: str
    """Index of the heads of files by which its records are found, see
    :func:`shipper.ledger.heads.index_of`, in base64."""

    @property
    def has_room(self) -> bool:
        return self.records < SHARD_RECORDS

    def may_hold(self, hashes: frozenset[int]) -> bool:
        """Return True if one of these paths may be in the shard. Of the shards that say so in a
        history of 100,000 files, one in 40,000 is wrong."""
        packed = a2b_base64(self.paths)
        return not hashes.isdisjoint(struct.unpack(f"<{len(packed) // 4}I", packed))

    def may_begin_like(self, heads: Heads) -> bool:
        """Return True if one of its files may begin like the wanted ones, or was renamed."""
        return heads.may_be_in(a2b_base64(self.heads))


@dataclass(frozen=True)
class Manifest:
    """A whole snapshot, or a whole archive."""

    origin: Origin
    control_end: int
    """Offset up to which the control partition is in here."""
    chunks_end: int
    standing: tuple[LogRecord, ...]
    """Records that are about no file and that still matter."""
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
        """Return the shards that may hold one of ``paths``; None: all."""
        if paths is None:
            return list(self.shards)
        hashes = path_hashes(paths)
        return [shard for shard in self.shards if shard.may_hold(hashes)]


@cache
def _manifests() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest in two lines: the format with the checksum of the second, and the rest."""
    body = _manifests().dump_json(manifest)
    head = json.dumps({"format": FORMAT, "sha256": sha256(body)}).encode()
    return head + b"\n" + body + b"\n"


def decode_manifest(data: bytes) -> Manifest:
    """Decode a manifest. Raises SnapshotUnusable."""
    try:
        head, body, _ = data.split(b"\n")
        about = json.loads(head)
        if about["format"] != FORMAT:
            raise SnapshotUnusable(
                f"it has format {about['format']}, and this shipper reads {FORMAT}"
            )
        if about["sha256"] != sha256(body):
            raise SnapshotUnusable("its checksum is wrong")
        return _manifests().validate_json(body)
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotUnusable(f"it cannot be read: {error!r}") from error


def encode_shard(records: Iterable[LogRecord]) -> bytes:
    """Encode a shard. The same records give the same bytes."""
    lines = (
        b"%d\t%d\t%b\t%b\n" % (r.offset, r.timestamp_ms, r.key, r.value)
        for r in records
        if r.value is not None
    )
    return gzip.compress(b"".join(lines), _GZIP_LEVEL, mtime=0)


def decode_shard(data: bytes, expected: Shard) -> list[LogRecord]:
    """Decode a shard. Raises SnapshotUnusable for other bytes than were written."""
    if sha256(data) != expected.sha256:
        raise SnapshotUnusable(f"the checksum of {expected.name} is wrong")
    found = []
    try:
        for line in gzip.decompress(data).split(b"\n")[:-1]:
            offset, timestamp_ms, key, value = line.split(b"\t")
            found.append(LogRecord(int(offset), int(timestamp_ms), key, value))
    except ValueError as error:
        raise SnapshotUnusable(f"{expected.name} cannot be read: {error!r}") from error
    return found


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


ByPath = Mapping[str, Mapping[bytes, LogRecord]]


def path_hashes(paths: Iterable[str]) -> frozenset[int]:
    """Return a CRC-32 for each path. 100,000 files make 530 kB of a manifest and are looked through
    in some milliseconds."""
    return frozenset(crc32(path.encode()) for path in paths)


def packed_hashes(paths: Iterable[str]) -> str:
    """Pack the hashes as a shard has them. The same paths give the same text."""
    hashes = sorted(path_hashes(paths))
    return b2a_base64(struct.pack(f"<{len(hashes)}I", *hashes), newline=False).decode()


def _cut(by_path: ByPath) -> Iterator[tuple[list[str], list[LogRecord]]]:
    """Yield (paths, records) of each shard that these records become. Tombstones are dropped:
    nothing earlier is left for them to hide."""
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


class StoredManifest(NamedTuple):
    """A manifest as it lies in a folder."""

    name: str
    sha256: str
    manifest: Manifest


class Newest(NamedTuple):
    """Usable manifest of a folder, and those that were skipped."""

    stored: StoredManifest | None
    """The latest one that can be used."""
    passed_over: list[str]
    """Reasons why later manifests were skipped."""


class RecordStore:
    """Store in one folder: ``{uri}/at-{log}-{offsets}-{token}.json`` are manifests,
    ``{uri}/shards/`` what they name. ``log`` stands for the topic's id and ``offsets`` for how far
    the manifest reaches, so which one is the latest does not depend on a clock."""

    def __init__(self, uri: str, pipeline: str, *, durable: bool = False) -> None:
        """Make the store. ``durable``: what is written to a local disk survives a power failure,
        too."""
        self.uri = uri.rstrip("/")
        self._pipeline = pipeline
        self._durable = durable

    def newest(self, fits: Callable[[str, Manifest], str | None], topic_id: str = "") -> Newest:
        """Return the latest manifest that is whole and to which, by its name, ``fits`` has no
        objection. Those of the topic ``topic_id`` come before others."""
        passed_over: list[str] = []
        try:
            names = sorted(self._manifest_names(), key=_rank(topic_id), reverse=True)
        except OSError as error:
            return Newest(None, [f"{self.uri} cannot be listed: {error}"])
        for name in names:
            try:
                data = self._read(name)
                manifest = decode_manifest(data)
            except SnapshotUnusable as why:
                passed_over.append(f"{self.uri}/{name}: {why}")
                continue
            if reason := fits(name, manifest):
                passed_over.append(f"{self.uri}/{name}: {reason}")
                continue
            return Newest(StoredManifest(name, sha256(data), manifest), passed_over)
        return Newest(None, passed_over)

    def any(self) -> bool:
        """Return True if there is a manifest, or if the folder cannot be listed."""
        try:
            return bool(self._manifest_names())
        except OSError:
            return True

    def named(self, name: str, checksum: str) -> Manifest:
        """Return exactly this manifest. Raises SnapshotUnusable."""
        data = self._read(name)
        if sha256(data) != checksum:
            raise SnapshotUnusable(
                f"{self.uri}/{name} is not what was written: its checksum is wrong"
            )
        return decode_manifest(data)

    def records(self, manifest: Manifest, paths: Collection[str] | None) -> Iterator[LogRecord]:
        """Yield the records of ``paths`` (None: all), and other records in the same shards. Raises
        SnapshotUnusable."""
        return self._records(manifest.covering(paths))

    def beginning_like(self, manifest: Manifest, heads: Heads) -> Iterator[LogRecord]:
        """Yield the records that ``heads`` must take in, and other records in the same shards.
        Raises SnapshotUnusable."""
        return self._records([shard for shard in manifest.shards if shard.may_begin_like(heads)])

    def write(
        self,
        base: Manifest | None,
        changes: ByPath,
        origin: Origin,
        control_end: int,
        chunks_end: int,
        standing: list[LogRecord],
    ) -> StoredManifest:
        """Write a manifest of ``base`` with ``changes`` on top, and the shards that differ."""
        fs, folder = file_system(f"{self.uri}/shards")
        fs.makedirs(folder, exist_ok=True)
        hashes = path_hashes(changes)
        new = dict(changes)
        shards: list[Shard] = []
        for shard in base.shards if base else ():
            held = self._by_path(shard) if shard.may_hold(hashes) else {}
            changed = [path for path in held if path in new]
            for path in changed:
                held[path].update(new.pop(path))
            shards += self._write_shards(held) if changed else [shard]
        if new:
            behind = self._by_path(shards.pop()) if shards and shards[-1].has_room else {}
            shards += self._write_shards({**behind, **new})
        manifest = Manifest(origin, control_end, chunks_end, tuple(standing), tuple(shards))
        data = encode_manifest(manifest)
        name = f"at-{_tag(origin.topic_id)}-{manifest.read:020d}-{runtime.token_hex(4)}.json"
        self._put(name, data)
        return StoredManifest(name, sha256(data), manifest)

    def _put(self, name: str, data: bytes) -> None:
        write_whole(f"{self.uri}/{name}", data, durable=self._durable)

    def clean_up(self, topic_id: str) -> None:
        """Remove all manifests but the latest two of the topic, and the shards that neither of them
        names. A process that writes at this moment may lose a shard; a reader of its manifest then
        finds it unusable."""
        kept: set[str] = set()
        names = sorted(self._manifest_names(), key=_rank(topic_id), reverse=True)
        for name in names[:_KEPT_MANIFESTS]:
            try:
                kept |= {shard.name for shard in decode_manifest(self._read(name)).shards}
            except SnapshotUnusable:
                continue
        for name in names[_KEPT_MANIFESTS:]:
            remove(f"{self.uri}/{name}")
        fs, folder = file_system(f"{self.uri}/shards")
        for path in fs.ls(folder, detail=False):
            if path.rsplit("/", 1)[-1] not in kept:
                fs.rm_file(path)

    def _manifest_names(self) -> list[str]:
        fs, folder = file_system(self.uri)
        fs.invalidate_cache()
        try:
            paths = fs.ls(folder, detail=False)
        except FileNotFoundError:
            return []
        return [name for path in paths if (name := path.rsplit("/", 1)[-1]).endswith(".json")]

    def _read(self, name: str) -> bytes:
        fs, path = file_system(f"{self.uri}/{name}")
        try:
            return bytes(fs.cat_file(path))
        except FileNotFoundError as error:
            raise SnapshotUnusable(f"{self.uri}/{name} is not there") from error
        except OSError as error:
            raise SnapshotUnusable(f"{self.uri}/{name} cannot be read: {error}") from error

    def _records(self, shards: Collection[Shard]) -> Iterator[LogRecord]:
        """Yield the records of several shards at a time: object stores answer slowly, but many
        requests at once."""
        fs, folder = file_system(f"{self.uri}/shards")
        waiting = list(shards)
        while waiting:
            batch, waiting = waiting[:_SHARDS_AT_ONCE], waiting[_SHARDS_AT_ONCE:]
            paths = {f"{folder}/{shard.name}": shard for shard in batch}
            try:
                data = (
                    fs.cat(list(paths))
                    if len(paths) > 1
                    else {path: fs.cat_file(path) for path in paths}
                )
            except FileNotFoundError as error:
                raise SnapshotUnusable(
                    f"a shard in {self.uri}/shards is missing: {error}"
                ) from error
            except OSError as error:
                raise SnapshotUnusable(
                    f"a shard in {self.uri}/shards cannot be read: {error}"
                ) from error
            for path, shard in paths.items():
                yield from decode_shard(bytes(data[path]), shard)

    def _by_path(self, shard: Shard) -> dict[str, dict[bytes, LogRecord]]:
        found: dict[str, dict[bytes, LogRecord]] = {}
        for record in self._records([shard]):
            if about := peek_key(self._pipeline, record):
                found.setdefault(about.path, {})[record.key] = record
        return found

    def _write_shards(self, by_path: ByPath) -> Iterator[Shard]:
        for paths, records in _cut(by_path):
            data = encode_shard(records)
            checksum = sha256(data)
            name = f"{checksum[:16]}-{runtime.token_hex(4)}.gz"
            self._put(f"shards/{name}", data)
            heads = b2a_base64(index_of(records), newline=False).decode()
            yield Shard(name, checksum, len(records), packed_hashes(paths), heads)


def _tag(topic_id: str) -> str:
    return f"{crc32(topic_id.encode()):08x}"


def _rank(topic_id: str) -> Callable[[str], tuple[bool, str]]:
    """Return a sort key: by the topic, then by how far the manifest reaches."""
    ours = f"at-{_tag(topic_id)}-"
    return lambda name: (name.startswith(ours), name)


class LedgerFolder:
    """Folder of one pipeline's ledger files for one cluster."""

    def __init__(self, runs_uri: str, pipeline: str, cluster: str) -> None:
        self.runs = f"{runs_uri.rstrip('/')}/{pipeline}"
        self.uri = f"{self.runs}/ledger.{cluster}"
        self.snapshots = RecordStore(f"{self.uri}/snapshot", pipeline)
        self.archives = RecordStore(f"{self.uri}/archive", pipeline, durable=True)
