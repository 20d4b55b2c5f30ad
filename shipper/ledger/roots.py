"""Present and former places of a source: the same file under another host, mount or scheme is the
same file. Pure.

The ledger has files by their whole paths, as they were when they were shipped. A *root* is the part
of the source's pattern before the first placeholder or glob; the rest of a path identifies the
file. So when the root has changed, a record's path is read as if the file had always lain under the
present one. Only reading does that: keys in the ledger, its snapshot and its archive stay what they
are. A file that was begun under the old root is finished with keys of the new one; both count for
the same splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shipper.ledger.records import ChunkKey, Decoded, InvalidationKey
from shipper.types import FileId, SplitId


@dataclass(frozen=True)
class Roots:
    current: str = ""
    """Present root, with a slash at its end; empty: not known, and each path stands for itself."""
    former: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, current: str | None, recorded: Sequence[str], formerly: Sequence[str] | None
    ) -> Roots:
        """Make the roots. ``recorded``: the ledger's roots, the latest last. ``formerly``: the
        configuration's roots, which override those."""
        if current is None:
            current = recorded[-1] if recorded else ""
        former = recorded if formerly is None else formerly
        return cls(current, tuple(dict.fromkeys(root for root in former if root != current)))

    def now(self, path: str) -> str:
        """Return the present path of the file that the ledger knows by ``path``. A path under the
        present root stays: a longer or a shorter pattern over the same folders moves no file."""
        if not self.former or path.startswith(self.current):
            return path
        root = max((root for root in self.former if path.startswith(root)), key=len, default=None)
        return path if root is None else self.current + path[len(root) :]

    def names(self, paths: Iterable[str]) -> dict[str, str]:
        """Return every path by which the ledger may know one of ``paths`` → its present path."""
        found: dict[str, str] = {}
        for path in paths:
            now = self.now(path)
            found[path] = found[now] = now
            if self.former and now.startswith(self.current):
                for root in self.former:
                    found.setdefault(root + now[len(self.current) :], now)
        return found


def moved(entry: Decoded, path: str) -> Decoded:
    """Return the entry, of the file at ``path``."""
    match entry:
        case (ChunkKey() as key, value):
            return ChunkKey(_at(key.split, path), key.first, key.topic), value
        case (InvalidationKey() as key, value):
            return key._replace(file=key.file._replace(path=path)), value
        case (FileId() as file, value):
            return file._replace(path=path), value
    return entry


def _at(split: SplitId, path: str) -> SplitId:
    return SplitId(split.file._replace(path=path), split.start)
