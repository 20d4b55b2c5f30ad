"""Shards and manifests of ledger records in a folder, on any file system that fsspec knows.

No file is ever written over: each has a name of its own, and is checked against its checksum when it is read. So a write is
atomic wherever it happens: a manifest that is there in part is no manifest, and one that is whole names shards that are.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterator
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
    sha256,
    touched,
)
from shipper.terms import LogRecord

_SHARDS_AT_ONCE = 32
#: The one before stays for those who have just read its manifest.
_KEPT_MANIFESTS = 2


class RecordStore:
    """One folder: ``{uri}/{nanoseconds}-{token}.json`` are manifests, ``{uri}/shards/`` what they name."""

    def __init__(self, uri: str, pipeline: str) -> None:
        self.uri = uri.rstrip("/")
        self._pipeline = pipeline

    def newest(self, fits: Callable[[Manifest], str | None]) -> tuple[Manifest | None, list[str]]:
        """The latest manifest that is whole and that ``fits`` says nothing against, and why later ones were passed over."""
        passed_over: list[str] = []
        try:
            names = sorted(self._manifest_names(), reverse=True)
        except OSError as error:
            return None, [f"{self.uri} cannot be listed: {error}"]
        for name in names:
            try:
                manifest = decode_manifest(self._read(name))
            except Unusable as why:
                passed_over.append(f"{self.uri}/{name}: {why}")
                continue
            if reason := fits(manifest):
                passed_over.append(f"{self.uri}/{name}: {reason}")
                continue
            return manifest, passed_over
        return None, passed_over

    def named(self, name: str, checksum: str) -> Manifest:
        """Exactly this manifest. Raises Unusable."""
        data = self._read(name)
        if sha256(data) != checksum:
            raise Unusable(f"{self.uri}/{name} is not what was written: its checksum is wrong")
        return decode_manifest(data)

    def records(self, manifest: Manifest, paths: Collection[str] | None) -> Iterator[LogRecord]:
        """Records of ``paths`` (None: all), shard by shard. Raises Unusable."""
        for _, records in self._shards(manifest.covering(paths)):
            for record in records:
                about = subject(self._pipeline, record)
                if about and (paths is None or about.path in paths):
                    yield record

    def write(
        self, base: Manifest | None, changes: ByPath, origin: Origin, control_end: int, chunks_end: int, standing: list[LogRecord]
    ) -> tuple[str, bytes, Manifest]:
        """A manifest of what ``base`` holds with ``changes`` on top, and the shards that differ. Returns (name, bytes, manifest)."""
        fs = self._fs()
        fs.makedirs(self._path("shards"), exist_ok=True)
        old = base.shards if base else ()
        places = touched(old, changes)
        shards: list[Shard] = []
        for place in range(max(1, len(old))):
            if place not in places:
                shards += old[place : place + 1]
                continue
            by_path = self._by_path(old[place : place + 1])
            for path in places[place]:
                by_path.setdefault(path, {}).update(changes[path])
            shards += [self._write_shard(fs, first, records) for first, records in cut(by_path)]
        manifest = Manifest(origin, control_end, chunks_end, tuple(standing), tuple(shards))
        data = encode_manifest(manifest)
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
        fs.pipe_file(self._path(name), data)
        return name, data, manifest

    def clean_up(self) -> None:
        """Removes all manifests but the latest two, and the shards that neither of them names. Somebody who is writing at this moment
        may lose a shard by it, and whoever reads that manifest then finds it unusable."""
        fs = self._fs()
        kept: set[str] = set()
        names = sorted(self._manifest_names(), reverse=True)
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

    def _shards(self, shards: Collection[Shard]) -> Iterator[tuple[Shard, list[LogRecord]]]:
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
                yield shard, decode_shard(bytes(data[path]), shard)

    def _by_path(self, shards: Collection[Shard]) -> dict[str, dict[bytes, LogRecord]]:
        found: dict[str, dict[bytes, LogRecord]] = {}
        for _, records in self._shards(shards):
            for record in records:
                if about := subject(self._pipeline, record):
                    found.setdefault(about.path, {})[record.key] = record
        return found

    def _write_shard(self, fs: Any, first: str, records: list[LogRecord]) -> Shard:
        data = encode_shard(records)
        checksum = sha256(data)
        shard = Shard(first, f"{checksum[:16]}-{secrets.token_hex(4)}.gz", checksum, len(records))
        fs.pipe_file(self._path(f"shards/{shard.name}"), data)
        return shard
