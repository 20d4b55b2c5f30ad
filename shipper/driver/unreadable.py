"""Files that cannot be read, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import groupby

from shipper.config.formats import TABLES
from shipper.config.units import listed, plural
from shipper.driver import kerberos
from shipper.driver.context import RunContext
from shipper.driver.pieces import FilePiece, PieceReport
from shipper.driver.recognition import PLAIN, UNREADABLE, is_named_as_text
from shipper.errors import SourceError, SourceUnreachable
from shipper.report.plan_result import PlannedFile
from shipper.terminal import say
from shipper.types import FileId
from shipper.worker.receipt import Receipt

_MOST_REASONS, _MOST_NAMED = 50, 3
#: What the SDK's parser of XML says of a listing in which a key has a character that XML forbids.
_CUT_OFF_KEY = "close tag for element <Key>"


def unreadable(files: Sequence[PlannedFile]) -> str:
    """Return one paragraph that names each file, with its reason and the remedy."""
    count = f"{plural(len(files), 'file')} cannot be read"
    faulty = [file for file in files if not file.passing]
    repair = (
        f"Repair or remove {'it' if len(faulty) == 1 else 'them'}, and run" if faulty else "Run"
    )
    return (
        f"{count}: {_named([*faulty, *(file for file in files if file.passing)])}. {repair} again."
    )


def cannot_list(pipeline: str, paths: Sequence[str], why: str) -> SourceError:
    if _CUT_OFF_KEY in why:
        return SourceError(
            f"pipeline {pipeline}: {listed(paths, _MOST_NAMED)} cannot be listed: a key there most "
            f"likely has a control character, which no answer of S3 in XML can hold ({why}). "
            "Nothing was sent. `aws s3api list-objects-v2 --encoding-type url` shows the key. "
            "Rename the object, or let `source.path` name folders without it.",
            code=SourceUnreachable.code,
        )
    if kerberos.is_refused(why):
        return SourceUnreachable(
            f"pipeline {pipeline}: {paths[0]} cannot be listed: {why}. Nothing was sent. "
            f"{kerberos.remedy()}.",
            code=kerberos.CODE,
        )
    return SourceUnreachable(
        f"pipeline {pipeline}: {listed(paths, _MOST_NAMED)} cannot be "
        f"listed: {why}. Nothing was sent, because the files of the window are unknown. Run it "
        "again when this is put right."
    )


def cannot_be_read(files: Sequence[PlannedFile], sent: str) -> SourceError:
    """Return the error: SourceUnreachable if the faults of all files may pass, so that another run
    may succeed. ``sent``: a sentence on the records sent so far."""
    kind = SourceUnreachable if all(file.passing for file in files) else SourceError
    if all(kerberos.is_refused(file.problem) for file in files):
        return kind(f"{unreadable(files)} {sent} {kerberos.remedy()}.", code=kerberos.CODE)
    return kind(f"{unreadable(files)} {sent}")


def _named(files: Sequence[PlannedFile]) -> str:
    """Return the paths by reason: the first few of each, and how many more there are."""
    by_reason: dict[str, list[str]] = {}
    for file in files:
        by_reason.setdefault(file.problem, []).append(file.path)
    told = [
        f"{listed(paths, _MOST_NAMED)}: {reason}"
        for reason, paths in [*by_reason.items()][:_MOST_REASONS]
    ]
    left = sum(map(len, [*by_reason.values()][_MOST_REASONS:]))
    return "; ".join(told) + (f"; and {left:,} more" if left else "")


def quarantine_whole(
    context: RunContext, files: Sequence[PlannedFile], begun: Container[FileId]
) -> str:
    """Quarantine each of ``files`` that cannot be read, as one record; packed files are read for
    that. Three kinds of files are left out: partly shipped files, whose lines are in their topic
    already; files that another run may be able to read; and files that may be text by their name,
    since whoever writes the first line of a log must not have the whole log taken for done. Returns
    a note."""
    surely_read = (PLAIN, "") if context.pipeline.source.verbatim else ("",)
    doubtful = [file for file in files if not file.problem and file.format not in surely_read]
    if doubtful:
        say(
            f"reading {plural(len(doubtful), 'packed file')}, to quarantine those that cannot be "
            "read"
        )
        context.start_spark()
        context.engine.read_through(doubtful)
    bad = [
        file
        for file in files
        if file.problem and not (file.passing or file.id in begun or _may_be_text(context, file))
    ]
    said = f"Quarantined whole: {_named(bad)}."
    for file in bad:
        file.format, file.problem, file.bom = UNREADABLE, "", False
    return said if bad else ""


def _may_be_text(context: RunContext, file: PlannedFile) -> bool:
    """Return True if a file's bytes say that it is packed, and neither its name nor the pipeline
    does."""
    source = context.pipeline.source
    return (
        source.codec == "auto"
        and source.format not in TABLES
        and file.format not in (PLAIN, "")
        and is_named_as_text(file.path)
    )


def wrong_sizes(
    pieces: Sequence[FilePiece],
    reports: Sequence[PieceReport],
    receipts: Sequence[Receipt],
    *,
    verbatim: bool = True,
) -> list[PlannedFile]:
    """Return files whose lines, as the tasks saw them, are not all of the file; their problem is
    noted.

    The tasks and the listing share no code with the reader. Of plain text the bytes of all lines
    with their ends are the file's size (one more if the last line has no end). Of a packed file,
    and of records that were made (not ``verbatim``), they are what the reader says it unpacked, and
    what its pieces account for is the file's size.
    """
    said = {report.split: report for report in reports}
    seen: dict[int, int | None] = {}
    for receipt in receipts:
        for split, counts in receipt.splits.items():
            seen[split] = counts.read
    found = []
    for of_file in _by_file(pieces):
        file, splits = of_file[0].file, [piece.split for piece in of_file]
        read = [seen.get(split, 0) for split in splits]
        if (
            file.problem
            or file.format == UNREADABLE
            or None in read
            or any(split not in said for split in splits)
        ):
            continue
        mark = 3 * file.bom if verbatim and not file.begins else 0
        lines = sum(size or 0 for size in read) + mark
        unpacked = sum(said[split].unpacked for split in splits)
        stored = [said[split].stored for split in splits if said[split].stored >= 0]
        if file.format == PLAIN and verbatim:
            fault = _differs(lines, file.size_bytes - file.begins, "are to be read")
        else:
            fault = _differs(lines, unpacked, "were unpacked")
            size = file.size_bytes - (file.begins if file.format == PLAIN else 0)
            if not fault and stored and sum(stored) != size:
                fault = f"{sum(stored):,} of its {size:,} bytes were read"
        if fault:
            file.problem = (
                f"{fault}. Do not trust what was shipped of it, and report this as a bug of shipper"
            )
            found.append(file)
    return found


def without_records(pieces: Sequence[FilePiece], receipts: Sequence[Receipt]) -> list[str]:
    """Return the paths of files that have bytes and no record."""
    records: dict[int, int] = {}
    for receipt in receipts:
        for split, counts in receipt.splits.items():
            records[split] = records.get(split, 0) + counts.records
    of_files = [(of_file[0].file, of_file) for of_file in _by_file(pieces)]
    return [
        file.path
        for file, of_file in of_files
        if file.size_bytes
        and not file.problem
        and all(records.get(piece.split) == 0 for piece in of_file)
    ]


def too_long(pieces: Sequence[FilePiece], reports: Sequence[PieceReport]) -> str:
    """Return a note on the bytes of records that are longer than allowed, with the file that has
    the most; empty if there are none."""
    total, most = _most(pieces, {report.split: report.long_bytes for report in reports})
    return (
        f"Records that are longer than `records.max_line` hold {total:,} bytes ({most})."
        if total
        else ""
    )


def padded(pieces: Sequence[FilePiece], reports: Sequence[PieceReport]) -> str:
    """Return a note on zeros behind packed content, which were passed over; empty if there are
    none."""
    total, most = _most(pieces, {report.split: report.padding_bytes for report in reports})
    return f"{total:,} zero bytes lie behind packed content ({most})." if total else ""


def _most(pieces: Sequence[FilePiece], sizes: Mapping[int, int]) -> tuple[int, str]:
    """Return the sum of ``sizes``, which are by split, and the file with the most."""
    of_files: Counter[str] = Counter()
    for piece in pieces:
        of_files[piece.file.path] += sizes.get(piece.split, 0)
    [(worst, most)] = of_files.most_common(1) or [("", 0)]
    return of_files.total(), f"{worst}: {most:,}"


def _differs(lines: int, size: int, what: str) -> str:
    """Return the difference in words; empty if there is none. The end of the last line may be
    missing."""
    return (
        "" if lines in (size, size + 1) else f"its lines have {lines:,} bytes, and {size:,} {what}"
    )


def _by_file(pieces: Sequence[FilePiece]) -> Iterator[list[FilePiece]]:
    for _, group in groupby(pieces, key=lambda piece: piece.file.path):
        yield list(group)
