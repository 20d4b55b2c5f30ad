"""Facts about the files that a ledger does not know: of which delivered files they may be the
content, and the sums that decide it (docs/adr/0037).

Facts are about bytes. They cannot be out of date unless a file changes, and then it is another
file. What the plan has found is kept with its files, and the ship asks for no more than is missing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from shipper.config.pipeline import Source
from shipper.driver.context import RunContext
from shipper.driver.decide import Original, Originals, distance, rotated_from
from shipper.driver.engine import ToSum
from shipper.driver.files import ListedFile
from shipper.driver.recognition import PLAIN
from shipper.driver.recreated import judge
from shipper.kafka.admin import ClusterAdmin
from shipper.ledger.fold import Chunks
from shipper.ledger.heads import HEAD_BYTES, Heads, length_of
from shipper.ledger.log import LedgerQuestion, ask_heads, ask_state
from shipper.report.plan_result import PlannedFile
from shipper.types import FileId

#: Originals of a file that are compared: many files may begin alike, as CSV files do.
_MOST_ORIGINALS = 16
_PACKED = (".gz", ".zst", ".lz4", ".snappy", ".deflate", ".bz2")

Ask = Callable[[LedgerQuestion[Any]], Any]
"""Asks the ledger: by a look, or for a decision."""


def heads_to_ask(context: RunContext, files: Iterable[PlannedFile]) -> set[str]:
    """Return the heads by which the run asks what ``files`` may be; none if it recognises no
    renamed file."""
    asks = context.pipeline.source.on_renamed == "recognise" and not context.request.reship
    return {file.head for file in files if file.head} if asks else set()


def look_into(
    context: RunContext,
    client: ClusterAdmin,
    ask: Ask,
    chunks: Chunks,
    files: Iterable[PlannedFile],
    alike: Heads | None = None,
) -> Originals:
    """Find out what those of ``files`` may be that the ledger does not know. ``chunks``: what it
    has at their paths; what it has at others is added. ``alike``: what begins like them, as far as
    that was asked. Notes the sums of the beginnings that decide, and the faults of files that
    cannot be read. Raises ShipperError."""
    overwritten = chunks.overwritten(files)
    new = [
        file
        for file in files
        if file.head and not file.problem and (not chunks.knows(file.id) or file.id in overwritten)
    ]
    if context.request.reship or not new:
        return {}
    asked = {file.path for file in files}

    def read(paths: set[str]) -> None:
        if more := paths - asked:
            chunks.include(judge(client, ask(ask_state(more)).chunks, set()).chunks)
            asked.update(more)

    if not (heads := heads_to_ask(context, new)):
        alike = None
    elif alike is None or not heads <= alike.wanted:
        alike = ask(ask_heads(heads))
    before = {file.id: rotated_from(file.path) if alike else [] for file in new}
    read({path for paths in before.values() for path in paths})
    may_be = _may_be(context.pipeline.source, alike, chunks, before, new)
    paths = {one.path for ones in may_be.values() for one in ones}
    read(paths)
    there = context.engine.look_for(sorted(paths)) if paths else {}
    originals = {
        file.id: [
            Original(one, chunks.content(one) if chunks.standing(one) == "complete" else None)
            for one in sorted(may_be[file.id], key=lambda one: distance(one, file.id))
            if chunks.knows(one)
            and one not in chunks.succeeded
            and not _lies_there(one, chunks.etags.get(one, ()), there[one.path])
            and _fits(one, file)
        ][:_MOST_ORIGINALS]
        for file in new
    }
    _sum_up(context, new, originals)
    return {file.id: originals[file.id] for file in new if not file.problem}


def _may_be(
    source: Source,
    alike: Heads | None,
    chunks: Chunks,
    before: Mapping[FileId, Sequence[str]],
    files: Sequence[PlannedFile],
) -> dict[FileId, list[FileId]]:
    """Return the files of the ledger that each file may be, there or not: those of its own path,
    those that begin ``alike`` (None: renamed files are not recognised) and, since a file that was
    short when it was shipped has another head by now, short ones of the names from which it may
    have been rotated."""
    nearest = {head: _Nearest(those) for head, those in alike.found.items()} if alike else {}
    return {
        file.id: [
            *(
                one
                for one in sorted(chunks.files_of_path.get(file.path, ()))
                if one != file.id and source.on_replaced in ("fail", "continue")
            ),
            *(
                one
                for path in before[file.id]
                for one in chunks.files_of_path.get(path, ())
                if 0 < length_of(chunks.heads.get(one, "")) < HEAD_BYTES
            ),
            *(nearest[file.head].to(file) if file.head in nearest else ()),
        ]
        for file in files
    }


def _sum_up(
    context: RunContext, files: Sequence[PlannedFile], originals: Mapping[FileId, list[Original]]
) -> None:
    wanted = list[ToSum]()
    for file in files:
        known = {one.length for one in file.beginnings}
        end = next((one.length for one in file.beginnings if one.whole), None)
        lengths = {one.content.length for one in originals[file.id] if one.content is not None}
        if missing := {one for one in lengths - known - {0} if end is None or one < end}:
            wanted.append(ToSum(file, sorted(missing)))
    if wanted:
        with context.phases("recognising files"):
            context.engine.sum_up(wanted)


class _Nearest:
    """Files with one head, by their times. A ledger may have one of each hour of some years."""

    def __init__(self, files: Iterable[FileId]) -> None:
        self._files = sorted(files, key=lambda one: (one.modified_ms, one))

    def to(self, file: PlannedFile) -> list[FileId]:
        at = bisect_left(self._files, file.modified_ms, key=lambda one: one.modified_ms)
        around = self._files[max(0, at - _MOST_ORIGINALS) : at + _MOST_ORIGINALS]
        elsewhere = [one for one in around if one.path != file.path]
        return sorted(elsewhere, key=lambda one: distance(one, file.id))[:_MOST_ORIGINALS]


def _fits(one: FileId, file: PlannedFile) -> bool:
    """Return False for a plain file that is longer than ``file``: delivered, it is never shorter
    now."""
    return file.format != PLAIN or one.path.endswith(_PACKED) or one.size_bytes <= file.size_bytes


def _lies_there(one: FileId, etags: Collection[str], there: ListedFile | None) -> bool:
    """Return True if the file still lies at its path. ETags are compared if there are any, as the
    reader does: a listing may give milliseconds where the answer about one object gives seconds."""
    if there is None or there.id.size_bytes != one.size_bytes:
        return False
    return there.etag in etags if there.etag and etags else there.id.modified_ms == one.modified_ms
