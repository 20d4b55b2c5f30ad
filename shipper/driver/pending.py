"""Difference between the plan's files and the ledger: the pieces that are still to ship. Pure; the
plan and the ship use the same arithmetic."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from shipper.errors import SourceError
from shipper.ledger.fold import Chunks, SplitState, standing_as_cut, standing_of
from shipper.report.markup import plural
from shipper.types import FileId, SplitId

#: Reasons why a file cannot be shipped, in the order in which they are reported.
_Obstacle = Literal["misread", "changed", "other Spark", "grown", "replaced"]
OnReplaced = Literal["fail", "skip", "reship", "continue"]


@dataclass
class Pending:
    """The window's files, sorted by what the cluster holds of them."""

    complete: list[FileId] = field(default_factory=list)
    older: list[FileId] = field(default_factory=list)
    """Files of ``complete`` that were shipped under another transform than the pipeline's own
    now."""
    left: list[FileId] = field(default_factory=list)
    """Files that the cluster lacks, or lacks in part; in the plan's order."""
    partial: list[FileId] = field(default_factory=list)
    """Files of ``left`` that were begun."""
    skipped: list[FileId] = field(default_factory=list)
    """Replaced after they were shipped, and left alone since the pipeline says
    `on_replaced: skip`."""
    void: list[FileId] = field(default_factory=list)
    """Identities whose chunks must be invalidated before shipping: files that `reship` ships again,
    and replaced files."""
    refused: dict[FileId, str] = field(default_factory=dict)
    """Late files that cannot be shipped → why. The window's own raise."""
    records_there: dict[FileId, int] = field(default_factory=dict)
    """File that is complete or begun → records on the cluster."""

    def ship_anew(self, file: FileId, shipped: Collection[FileId]) -> None:
        """Count a file as not shipped. ``shipped``: the identities of its path that the ledger
        knows, which count no more."""
        self.void += {*shipped, file}
        self.left.append(file)

    def note_complete(self, file: FileId, states: Iterable[SplitState | None]) -> None:
        self.complete.append(file)
        self.records_there[file] = sum(state.records for state in states if state)

    def note_left(self, file: FileId, states: Iterable[SplitState | None], *, begun: bool) -> None:
        self.left.append(file)
        if begun:
            self.partial.append(file)
            self.records_there[file] = sum(state.records for state in states if state)


def pending(
    splits_of: Mapping[FileId, Sequence[int]],
    chunks: Chunks,
    *,
    digest: str,
    reship: bool,
    on_replaced: OnReplaced | None,
    reshipped: Collection[FileId] = (),
    late: Collection[FileId] = (),
    spark: str | None = None,
    etags: Mapping[FileId, str] = MappingProxyType({}),
    renamed: Collection[FileId] = (),
    grown: Collection[FileId] = (),
) -> Pending:
    """Compare the files with the ledger. ``splits_of``: file → start of each of its splits.
    ``reshipped``: files that this very run has invalidated in an earlier try. ``late``: files of
    earlier windows; a late file that cannot be shipped must not hold up the window. ``etags``: as
    listed, of an object store. ``on_replaced``: None while it is unknown which files were renamed;
    then a file at the path of another one is left. ``renamed``: files whose content lies elsewhere
    or nowhere now, so the files at their paths are new. ``grown``: files that begin with all
    shipped bytes of their predecessor.

    A complete file is done, under whatever transform it was shipped; a partly shipped file cannot
    be finished under another transform. Raises SourceError; then nothing may be
    sent.
    """
    found = Pending()
    own: dict[_Obstacle, list[FileId]] = {}

    def stop(file: FileId, obstacle: _Obstacle) -> None:
        if file in late:
            begins = f"{misread(file, chunks)}. " if obstacle == "misread" else ""
            found.refused[file] = begins + _LATE[obstacle]
        else:
            own.setdefault(obstacle, []).append(file)

    def holds_lines(file: FileId) -> bool:
        """Return False for an empty file: nothing of it was sent, so the file at its path now has
        replaced nothing."""
        return file.size_bytes > 0 or chunks.splits.get(SplitId(file, 0), SplitState()).lines > 0

    overwritten = chunks.overwritten(etags)
    cut_then = chunks.splits_of(
        {file for file in splits_of if chunks.digests.get(file, {digest}) - {digest}}
    )
    for file, starts in splits_of.items():
        states = [chunks.splits.get(SplitId(file, start)) for start in starts]
        known = chunks.files_of_path.get(file.path, set())
        others = {
            other
            for other in (known if file in overwritten else known - {file})
            if other not in renamed and holds_lines(other)
        }
        standing = standing_of(file, states, len(starts))
        as_shipped = file in known and file not in overwritten
        if reship and file not in reshipped:
            found.ship_anew(file, known)
        elif as_shipped and chunks.digests[file] - {digest}:
            there = [chunks.splits[split] for split in cut_then[file]]
            match standing_as_cut(file, there):
                case "complete":
                    found.older.append(file)
                    found.note_complete(file, there)
                case "misread":
                    stop(file, "misread")
                case "partial":
                    stop(file, "changed")
        elif (others or file in grown) and not as_shipped and on_replaced is not None:
            if on_replaced == "skip":
                found.skipped.append(file)
            elif on_replaced == "reship":
                found.ship_anew(file, others)
            else:
                stop(file, "grown" if file in grown else "replaced")
        elif standing == "complete":
            found.note_complete(file, states)
        elif standing == "misread":
            stop(file, "misread")
        elif file in known and spark and chunks.sparks.get(file, {spark}) != {spark}:
            stop(file, "other Spark")
        else:
            found.note_left(file, states, begun=file in known)
    _raise_first(own, chunks, spark)
    return found


#: Why a late file is refused; the window's own raise.
_LATE: Mapping[_Obstacle, str] = {
    "misread": "Compare the file with its topic, and re-ship it with --reship",
    "changed": (
        "it was shipped in part under another transform, and cannot be finished under this one"
    ),
    "other Spark": (
        "it was shipped in part under another version of Spark, and cannot be finished under this "
        "one"
    ),
    "grown": (
        "it has grown since it was shipped, and `source.on_replaced: continue` ships the rest"
    ),
    "replaced": (
        "it was replaced after it was shipped: size, modification time or ETag differ from what "
        "the ledger holds"
    ),
}


def _raise_first(
    own: Mapping[_Obstacle, Sequence[FileId]], chunks: Chunks, spark: str | None
) -> None:
    """Raise the first error. ``own``: the window's own files that cannot be shipped. Raises
    SourceError."""
    if wrong := own.get("misread"):
        raise SourceError(
            f"{_some(wrong)} shipped, but other bytes were read than the source has: "
            f"{misread(wrong[0], chunks)}. Lines may be missing or wrong in the topic. Compare "
            "the file with the topic, and report this as a bug. Then re-ship the file with "
            "`--reship`: consumers will see duplicates.",
            code="SHIP-307",
        )
    if changed := own.get("changed"):
        raise SourceError(
            f"{_some(changed)} shipped in part under another transform: `format`, "
            "`split_size`, `records` or `routes` changed since. The ledger cannot tell which "
            "records of the new transform are delivered, so nothing was sent. Restore the "
            "earlier transform to finish the files, or re-ship them with `--reship`: "
            "consumers will see duplicates.",
            code="SHIP-309",
        )
    if other_spark := own.get("other Spark"):
        versions = sorted(set().union(*(chunks.sparks[file] for file in other_spark)) - {spark})
        raise SourceError(
            f"{_some(other_spark)} shipped in part with Spark {' and '.join(versions)}, and "
            f"this is Spark {spark}, which may read other records from the same lines. Nothing "
            "was sent. Finish the files with the earlier Spark (`runner.python`), or re-ship "
            "them with `--reship`: consumers will see duplicates.",
            code="SHIP-310",
        )
    if grown := own.get("grown"):
        raise SourceError(
            f"{_some(grown)} shipped and has grown since. It still begins with the bytes that "
            "were shipped. Nothing was sent. Set `source.on_replaced: continue` to ship only "
            "the rest.",
            code="SHIP-306",
        )
    if replaced := own.get("replaced"):
        raise SourceError(
            f"{_some(replaced)} replaced after being shipped: size, modification time or ETag "
            "differ from the ledger. Nothing was sent. Find out who rewrites finished files. "
            "Or set `source.on_replaced`: `continue` ships what was added, and a file with "
            "another beginning; `skip` leaves the file alone; `reship` ships the whole file.",
            code="SHIP-305",
        )


def shipped_under_another(count: int) -> str:
    """Return the note on complete files of another transform."""
    were = "was" if count == 1 else "were"
    return (
        f"{plural(count, 'file')} {were} shipped completely before `records`, `routes`, `format` "
        "or `split_size` were changed, and count as done: their records stay as they are. "
        "`--reship` sends them again, by the present configuration."
    )


def misread(file: FileId, chunks: Chunks) -> str:
    """Return how the bytes that the ledger accounts for differ from the file's, in words."""
    read = sum(state.read or 0 for split, state in chunks.splits.items() if split.file == file)
    return (
        f"run {chunks.run_of(file)} read {read:,} bytes of it, and its size is {file.size_bytes:,}"
    )


def _some(files: Sequence[FileId]) -> str:
    first = files[0].path
    return f"{first} was" if len(files) == 1 else f"{first} and {len(files) - 1} more files were"
