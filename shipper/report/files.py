"""The files of a run as tables: those that were shipped or should have been, and those that were
left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shipper.config.units import format_bytes, format_duration
from shipper.report.account import Account
from shipper.report.cells import Cell, TableRow
from shipper.report.markup import number
from shipper.report.plan_result import PlannedFile
from shipper.report.results import FileAccount, RunReport

MOST_ROWS = 200
"""Rows of the table: of 5,000 files a person reads the conspicuous ones; all of them are in
report.json."""
_NONE = "–"


@dataclass(frozen=True)
class FileRow:
    """One file on one cluster; ``counts`` is None if it was not read or left no receipt."""

    path: str
    cluster: str
    planned: PlannedFile | None
    counts: FileAccount | None
    unfinished: bool = False
    """True if the ship failed and the state of the file is unknown."""

    @property
    def missing(self) -> int:
        return self.counts.missing if self.counts else 0

    @property
    def quarantined(self) -> int:
        return sum(self.counts.quarantined.values()) if self.counts else 0

    @property
    def filtered(self) -> int:
        return sum(self.counts.filtered.values()) if self.counts else 0

    @property
    def seconds(self) -> float:
        return self.counts.seconds if self.counts else 0.0

    @property
    def rank(self) -> tuple[bool, bool, float, int, int, str, str]:
        """Key that sorts files which do not add up first, then unfinished ones, then the slowest,
        then by records, then by size."""
        records = self.counts.records if self.counts else -1
        size = -self.planned.size_bytes if self.planned else 0
        return (
            not self.missing,
            not self.unfinished,
            -self.seconds,
            -records,
            size,
            self.path,
            self.cluster,
        )


def ranked_files(report: RunReport, found: Sequence[Account]) -> list[FileRow]:
    return sorted(_files(report, found), key=lambda file: file.rank)


def shown_files(report: RunReport, found: Sequence[Account]) -> list[FileRow]:
    """Return the files that have a row of their own, in the order of the rows."""
    return ranked_files(report, found)[:MOST_ROWS]


def place_of_file(row: int) -> str:
    """Return the id of a row."""
    return f"file-{row}"


def file_table(report: RunReport, found: Sequence[Account]) -> dict[str, Any]:
    """Return the table of files. Of 5,000 files a person reads the conspicuous ones; all of them
    are in report.json."""
    files = ranked_files(report, found)
    shown = files[:MOST_ROWS]
    stem = common_folder([file.path for file in shown])
    slow = any(file.seconds for file in files)
    order = (
        "the slowest first"
        if slow
        else "the most records first"
        if any(file.counts for file in files)
        else "the largest first"
    )
    return {
        "stem": stem,
        "order": order,
        "says": _order(files, order, slow),
        "columns": _columns(files),
        "total": len(files),
        "rows": [
            TableRow(_cells(file, stem), "bad" if file.missing else None, place_of_file(i))
            for i, file in enumerate(shown)
        ],
    }


def _order(files: Sequence[FileRow], order: str, slow: bool) -> str:
    if len(files) < 2:
        return ""
    ahead = ["what does not add up"] if any(file.missing for file in files) else []
    ahead += ["what was not finished"] if any(file.unfinished for file in files) else []
    says = f"{' and '.join(ahead)}, then {order}" if ahead else order
    seconds = (
        " Time is what Spark's tasks spent on a file: reading, and waiting for a free lane."
        if slow
        else ""
    )
    return f"{says[0].upper()}{says[1:]}.{seconds}"


def _columns(files: Sequence[FileRow]) -> dict[str, str]:
    """Return the columns without those that would be empty."""
    counted = any(file.counts for file in files)
    optional = dict.fromkeys(("Records", "Delivered", "Before"), counted)
    optional |= {
        "Cluster": len({file.cluster for file in files}) > 1,
        "Time": any(file.seconds for file in files),
        "Filtered": any(file.filtered for file in files),
        "Quarantined": any(file.quarantined for file in files),
        "Missing": any(file.missing for file in files),
    }
    figures = (
        "Size",
        "Time",
        "Records",
        "Delivered",
        "Before",
        "Filtered",
        "Quarantined",
        "Missing",
    )
    columns = {"File": "code", "Cluster": "", **dict.fromkeys(figures, "num")}
    return {title: kind for title, kind in columns.items() if optional.get(title, True)}


def _files(report: RunReport, found: Sequence[Account]) -> Iterator[FileRow]:
    """Yield every file for every cluster that counted it or failed over it; otherwise yield each
    planned file once."""
    planned = {file.path: file for file in report.plan.files} if report.plan else {}
    left = dict(planned)
    for account in found:
        for counts in account.ship.files if account.ship else []:
            left.pop(counts.path, None)
            # In a failed ship, a file without a record was not read, or was read and its receipt is
            # lost: this cannot be decided.
            unknown = account.ship_failed and counts.records == 0
            yield FileRow(
                counts.path,
                account.cluster,
                planned.get(counts.path),
                None if unknown else counts,
                unfinished=unknown,
            )
    for path, file in left.items():
        yield FileRow(path, _NONE, file, None)


def _cells(file: FileRow, stem: str) -> dict[str, str | Cell]:
    counts = file.counts
    cells: dict[str, str | Cell] = {
        "File": Cell(file.path[len(stem) :], title=file.path),
        "Cluster": file.cluster,
        "Size": format_bytes(file.planned.size_bytes) if file.planned else _NONE,
        "Time": format_duration(file.seconds) if file.seconds else _NONE,
    }
    figures = {
        "Records": counts.records if counts else None,
        "Delivered": counts.delivered if counts else None,
        "Before": counts.before if counts else None,
        "Filtered": file.filtered if counts else None,
        "Quarantined": file.quarantined if counts else None,
        "Missing": file.missing if counts else None,
    }
    cells |= {
        title: _NONE if figure is None else number(figure) for title, figure in figures.items()
    }
    return cells | {"Records": Cell("not finished", "bad")} if file.unfinished else cells


def left_out_table(report: RunReport) -> dict[str, Any]:
    left_out = report.plan.left_out if report.plan else []
    shown = sorted(left_out, key=lambda file: (not file.warns, file.path))[:MOST_ROWS]
    stem = common_folder([file.path for file in shown])
    rows = [
        TableRow(
            {
                "Entry": Cell(file.path[len(stem) :], title="\n".join([file.path, *file.more])),
                "Entries": number(file.count),
                "Window": file.window or "this run's",
                "Reason": file.reason,
            },
            "warn" if file.warns else None,
        )
        for file in shown
    ]
    return {"stem": stem, "rows": rows}


def common_folder(paths: Sequence[str]) -> str:
    """Return the common beginning of all paths, up to a slash; empty for fewer than two paths,
    where it would save nothing."""
    if len(paths) < 2:
        return ""
    first, last = min(paths), max(paths)
    same = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    return first[: first.rfind("/", 0, same) + 1]
