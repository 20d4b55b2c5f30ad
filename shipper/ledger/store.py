"""Shards and manifests of ledger records in a folder, on any file system that fsspec knows.

No file is ever written over: each has a name of its own, and is checked against its checksum when it is read. So a write is
atomic wherever it happens: a manifest that is there in part is no manifest, and one that is whole names shards that are.
"""

from __future__ import annotations

import os
import secrets
from binascii import crc32
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import fsspec

from shipper.ledger.records import subject
from shipper.ledger.shards import (
    ByPath,
    Manifest,
    Origin,
    Shard,
    Unusable,
    cut,
    decode_manifest,
    decode_shard,
    encode_manifest,
    encode_shard,
    packed_hashes,
    path_hashes,
    sha256,
)
from shipper.types import LogRecord

_SHARDS_AT_ONCE = 32
#: The one before stays for those who have just read its manifest.
_KEPT_MANIFESTS = 2


class RecordStore:
    """One folder: ``{uri}/at-{log}-{offsets}-{token}.json`` are manifests, ``{uri}/shards/`` what they name. ``log`` stands for the topic's id
    and ``offsets`` for how far the manifest reaches, so which one is the latest does not depend on anybody's clock."""

    def __init__(self, uri: str, pipeline: str, *, durable: bool = False) -> None:
        """``durable``: what is written to a local disk is there after a power failure too."""
        self.uri = uri.rstrip("/")
        self._pipeline = pipeline
        self._durable = durable

    def newest(self, fits: Callable[[Manifest], str | None], topic_id: str = "") -> tuple[Manifest | None, str, list[str]]:
        """The latest manifest that is whole and that ``fits`` says nothing against, its SHA-256, and why later ones were passed over. Those of
        the topic ``topic_id`` come before others."""
        passed_over: list[str] = []
        try:
            names = sorted(self._manifest_names(), key=_rank(topic_id), reverse=True)
        except OSError as error:
            return None, "", [f"{self.uri} cannot be listed: {error}"]
        for name in names:
            try:
                data = self._read(name)
                manifest = decode_manifest(data)
            except Unusable as why:
                passed_over.append(f"{self.uri}/{name}: {why}")
                continue
            if reason := fits(manifest):
                passed_over.append(f"{self.uri}/{name}: {reason}")
                continue
            return manifest, sha256(data), passed_over
        return None, "", passed_over

    def any(self) -> bool:
        """Whether there is a manifest; True if the folder cannot be listed."""
        try:
            return bool(self._manifest_names())
        except OSError:
            return True

    def named(self, name: str, checksum: str) -> Manifest:
        """Exactly this manifest. Raises Unusable."""
        data = self._read(name)
        if sha256(data) != checksum:
            raise Unusable(f"{self.uri}/{name} is not what was written: its checksum is wrong")
        return decode_manifest(data)

    def records(self, manifest: Manifest, paths: Collection[str] | None) -> Iterator[LogRecord]:
        """Records of ``paths`` (None: all), shard by shard. Raises Unusable."""
        for record in self._records(manifest.covering(paths)):
            about = subject(self._pipeline, record)
            if about and (paths is None or about.path in paths):
                yield record

    def write(
        self, base: Manifest | None, changes: ByPath, origin: Origin, control_end: int, chunks_end: int, standing: list[LogRecord]
    ) -> tuple[str, bytes, Manifest]:
        """A manifest of what ``base`` holds with ``changes`` on top, and the shards that differ. Returns (name, bytes, manifest)."""
        fs = self._fs()
        fs.makedirs(self._path("shards"), exist_ok=True)
        hashes = path_hashes(changes)
        new = dict(changes)
        shards: list[Shard] = []
        for shard in base.shards if base else ():
            held = self._by_path(shard) if shard.may_hold(hashes) else {}
            changed = [path for path in held if path in new]
            for path in changed:
                held[path].update(new.pop(path))
            shards += self._write_shards(fs, held) if changed else [shard]
        if new:
            behind = self._by_path(shards.pop()) if shards and shards[-1].has_room else {}
            shards += self._write_shards(fs, {**behind, **new})
        manifest = Manifest(origin, control_end, chunks_end, tuple(standing), tuple(shards))
        data = encode_manifest(manifest)
        name = f"at-{_tag(origin.topic_id)}-{manifest.read:020d}-{secrets.token_hex(4)}.json"
        self._put(fs, name, data)
        return name, data, manifest

    def _put(self, fs: Any, name: str, data: bytes) -> None:
        path = self._path(name)
        if not self._durable or "file" not in (fs.protocol if isinstance(fs.protocol, tuple | list) else (fs.protocol,)):
            fs.pipe_file(path, data)
            return
        with Path(path).open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        for folder in (Path(path).parent, Path(path).parent.parent):  # else the file's name may be lost
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def clean_up(self, topic_id: str) -> None:
        """Removes all manifests but the latest two of the topic, and the shards that neither of them names. Somebody who is writing at this moment
        may lose a shard by it, and whoever reads that manifest then finds it unusable."""
        fs = self._fs()
        kept: set[str] = set()
        names = sorted(self._manifest_names(), key=_rank(topic_id), reverse=True)
        for name in names[:_KEPT_MANIFESTS]:
            try:
                kept |= {shard.name for shard in decode_manifest(self._read(name)).shards}
            except Unusable:
                continue
        for name in names[_KEPT_MANIFESTS:]:
            fs.rm_file(self._path(name))
        for path in fs.ls(self._path("shards"), detail=False):
            if path.rsplit("/", 1)[-1] not in kept:
                fs.rm_file(path)

    def _fs(self) -> Any:
        return fsspec.core.url_to_fs(self.uri)[0]

    def _path(self, name: str) -> str:
        return f"{fsspec.core.url_to_fs(self.uri)[1]}/{name}"

    def _manifest_names(self) -> list[str]:
        fs = self._fs()
        fs.invalidate_cache()
        try:
            paths = fs.ls(self._path("").rstrip("/"), detail=False)
        except FileNotFoundError:
            return []
        return [name for path in paths if (name := path.rsplit("/", 1)[-1]).endswith(".json")]

    def _read(self, name: str) -> bytes:
        try:
            return bytes(self._fs().cat_file(self._path(name)))
        except FileNotFoundError as error:
            raise Unusable(f"{self.uri}/{name} is not there") from error
        except OSError as error:
            raise Unusable(f"{self.uri}/{name} cannot be read: {error}") from error

    def _records(self, shards: Collection[Shard]) -> Iterator[LogRecord]:
        """Several at a time, since object stores answer slowly and many at once."""
        waiting = list(shards)
        while waiting:
            batch, waiting = waiting[:_SHARDS_AT_ONCE], waiting[_SHARDS_AT_ONCE:]
            paths = {self._path(f"shards/{shard.name}"): shard for shard in batch}
            try:
                data = self._fs().cat(list(paths)) if len(paths) > 1 else {path: self._fs().cat_file(path) for path in paths}
            except FileNotFoundError as error:
                raise Unusable(f"a shard in {self.uri}/shards is missing: {error}") from error
            except OSError as error:
                raise Unusable(f"a shard in {self.uri}/shards cannot be read: {error}") from error
            for path, shard in paths.items():
                yield from decode_shard(bytes(data[path]), shard)

    def _by_path(self, shard: Shard) -> dict[str, dict[bytes, LogRecord]]:
        found: dict[str, dict[bytes, LogRecord]] = {}
        for record in self._records([shard]):
            if about := subject(self._pipeline, record):
                found.setdefault(about.path, {})[record.key] = record
        return found

    def _write_shards(self, fs: Any, by_path: ByPath) -> Iterator[Shard]:
        for paths, records in cut(by_path):
            data = encode_shard(records)
            checksum = sha256(data)
            name = f"{checksum[:16]}-{secrets.token_hex(4)}.gz"
            self._put(fs, f"shards/{name}", data)
            yield Shard(name, checksum, len(records), packed_hashes(paths))


def _tag(topic_id: str) -> str:
    return f"{crc32(topic_id.encode()):08x}"


def _rank(topic_id: str) -> Callable[[str], tuple[bool, str]]:
    """By the topic, then by how far it reaches. Names from before they said so begin with digits, and come before all others."""
    ours = f"at-{_tag(topic_id)}-"
    return lambda name: (name.startswith(ours), name)
