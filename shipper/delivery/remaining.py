"""What is left to ship: the plan's files minus what the ledger holds. Pure; the plan and the ship use the same arithmetic."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shipper.errors import DigestChanged, SourceError
from shipper.ledger.chunks import Chunks
from shipper.terms import FileId, SplitId


@dataclass
class Remaining:
    """The window's files, sorted by what the cluster holds of them."""

    complete: list[FileId] = field(default_factory=list)
    left: list[FileId] = field(default_factory=list)
    """Not, or not entirely, there; in the plan's order."""
    partial: list[FileId] = field(default_factory=list)
    """Of ``left``: begun."""
    skipped: list[FileId] = field(default_factory=list)
    """Replaced after they were shipped, and left alone since the pipeline says `on_replaced: skip`."""
    void: list[FileId] = field(default_factory=list)
    """Identities whose chunks must be declared void before shipping: what `reship` ships anew, and what was replaced."""
    records_there: int = 0


def remaining(
    splits_of: Mapping[FileId, Sequence[int]],
    chunks: Chunks,
    *,
    digest: str,
    reship: bool,
    on_replaced: Literal["fail", "skip", "reship"],
    reshipped: Collection[FileId] = (),
) -> Remaining:
    """``splits_of``: file → start of each of its splits. ``reshipped``: files that this very run has declared void before, in
    an earlier try. Raises DigestChanged, SourceError; then nothing may be sent."""
    found = Remaining()
    changed: list[FileId] = []
    replaced: list[FileId] = []
    for file, starts in splits_of.items():
        splits = [SplitId(file, start) for start in starts]
        states = [chunks.splits.get(split) for split in splits]
        known = chunks.files_of_path.get(file.path, set())
        begun, others = file in known, known - {file}
        if reship and file not in reshipped:
            found.void += {*known, file}
            found.left.append(file)
        elif begun and chunks.digests[file] - {digest}:
            changed.append(file)
        elif others and not begun:
            if on_replaced == "skip":
                found.skipped.append(file)
                continue
            if on_replaced == "reship":
                found.void += {*others, file}
                found.left.append(file)
            else:
                replaced.append(file)
        elif all(state is not None and state.complete for state in states):
            found.complete.append(file)
            found.records_there += sum(state.records for state in states if state)
        else:
            found.left.append(file)
            if begun:
                found.partial.append(file)
                found.records_there += sum(state.records for state in states if state)
    if changed:
        raise DigestChanged(
            f"{_some(changed)} shipped before under another transform (format, split_size, records or routes changed since), so nobody "
            "could tell which records are there. Restore the old transform to finish them, or ship them whole again with --reship "
            "(readers then see them twice)."
        )
    if replaced:
        raise SourceError(
            f"{_some(replaced)} replaced after being shipped: size or modification time differ from what the ledger holds. Nothing was "
            "sent. Find out who rewrites finished files; or set `source.on_replaced` to skip or reship."
        )
    return found


def _some(files: Sequence[FileId]) -> str:
    first = files[0].path
    return f"{first} was" if len(files) == 1 else f"{first} and {len(files) - 1} more files were"
