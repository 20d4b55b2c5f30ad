"""The files of a run as tables: those that were shipped or should have been, and those that were left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shipper.config.units import format_bytes
from shipper.report.account import Account
from shipper.report.markup import Column, Html, Row, join, number, plural, table, tag
from shipper.report.results import FileAccount, PlannedFile, RunReport

MOST_ROWS = 200
"""Of 5,000 files a person reads the conspicuous ones; all of them are in report.json."""
_NONE = "–"


@dataclass(frozen=True)
class _File:
    """One file on one cluster; ``counts`` is None where it was not read or left no receipt."""

    path: str
    cluster: str
    planned: PlannedFile | None
    counts: FileAccount | None

    @property
    def missing(self) -> int:
        return self.counts.records - self.counts.delivered - self.counts.before if self.counts else 0

    @property
    def rank(self) -> tuple[bool, int, int, str, str]:
        """Those that do not add up first, then by records, then by size."""
        records = self.counts.records if self.counts else -1
        return not self.missing, -records, -self.planned.size_bytes if self.planned else 0, self.path, self.cluster


def files_section(report: RunReport, found: Sequence[Account]) -> Html | None:
    rows = sorted(_files(report, found), key=lambda file: file.rank)
    if not rows:
        return None
    shown = rows[:MOST_ROWS]
    stem = common_folder([file.path for file in shown])
    counted = any(file.counts for file in rows)
    optional = dict.fromkeys(("Records", "Delivered", "Before"), counted)
    optional |= {"Cluster": len({file.cluster for file in rows}) > 1, "Missing": any(file.missing for file in rows)}
    columns = [c for c in _COLUMNS if optional.get(c.title, True)]
    cells = (_cells(file, stem) for file in shown)
    body = [
        Row([row[c.title] for c in columns], tone="bad" if file.missing else None) for file, row in zip(shown, cells, strict=True)
    ]
    under = tag("p", "Under ", tag("code", stem)) if stem else None
    return tag(
        "section", tag("h2", "Files"), under, table("Files, the most records first", columns, body), _more(len(rows)), id="files"
    )


_COLUMNS = [
    Column("File"),
    Column("Cluster"),
    Column("Size", numeric=True),
    Column("Records", numeric=True),
    Column("Delivered", numeric=True),
    Column("Before", numeric=True),
    Column("Missing", numeric=True),
]


def _files(report: RunReport, found: Sequence[Account]) -> Iterator[_File]:
    """Every file that a cluster counted, and once each planned file that none of them counted."""
    planned = {file.path: file for file in report.plan.files} if report.plan else {}
    left = dict(planned)
    for account in found:
        for counts in account.ship.files if account.ship else []:
            if account.ship_failed and counts.records == 0:
                continue  # not read, or read and its receipt lost: nobody knows
            left.pop(counts.path, None)
            yield _File(counts.path, account.cluster, planned.get(counts.path), counts)
    for path, file in left.items():
        yield _File(path, _NONE, file, None)


def _cells(file: _File, stem: str) -> dict[str, str]:
    counts = file.counts
    return {
        "File": tag("code", file.path[len(stem) :], title=file.path),
        "Cluster": file.cluster,
        "Size": format_bytes(file.planned.size_bytes) if file.planned else _NONE,
        "Records": number(counts.records) if counts else _NONE,
        "Delivered": number(counts.delivered) if counts else _NONE,
        "Before": number(counts.before) if counts else _NONE,
        "Missing": number(file.missing) if counts else _NONE,
    }


def left_out_section(report: RunReport) -> Html | None:
    left_out = report.plan.left_out if report.plan else []
    if not left_out:
        return None
    shown = sorted(left_out, key=lambda file: file.path)[:MOST_ROWS]
    stem = common_folder([file.path for file in shown])
    rows = [Row([tag("code", file.path[len(stem) :], title=file.path), file.reason]) for file in shown]
    under = tag("p", "Under ", tag("code", stem)) if stem else None
    columns = [Column("File"), Column("Reason")]
    return tag(
        "section",
        tag("h2", "Files left out"),
        under,
        table("Files left out of this run, and why", columns, rows),
        _more(len(left_out)),
        id="left-out",
    )


def _more(count: int) -> Html | None:
    if count <= MOST_ROWS:
        return None
    return tag("p", join([f"{plural(count - MOST_ROWS, 'more row')} in ", tag("a", "report.json", href="report.json"), "."]))


def common_folder(paths: Sequence[str]) -> str:
    """What all paths begin with, up to a slash; empty for fewer than two paths, where it would save nothing."""
    if len(paths) < 2:
        return ""
    first, last = min(paths), max(paths)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[: first.rfind("/", 0, same) + 1]
