"""Tables of the page. ``page.html.j2`` turns their rows into markup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shipper.config.units import format_bytes, format_duration, number, plural
from shipper.report.cluster_view import ClusterView, disagreement
from shipper.report.incomplete import merged
from shipper.report.results import CheckResult, Count, FileAccount, GateResult, RunReport
from shipper.report.run_view import checks, gates

MOST_ROWS = 200
"""Rows of one table: of 5,000 files a person reads the conspicuous ones; report.json has all."""
_NONE = "–"


class Cell(NamedTuple):
    """A cell that is more than its text."""

    text: str
    tone: str = ""
    more: str = ""
    """A second, quieter line."""
    title: str = ""
    """Shown when a pointer rests on it."""


class Row(NamedTuple):
    """Cells by the title of their column. ``tone`` colours the row: ``bad`` or ``warn``."""

    cells: Mapping[str, str | Cell]
    tone: str | None = None


def gate_tables(report: RunReport) -> dict[str, Any] | None:
    left, every = gates(report), checks(report)
    if not left:
        return None
    return {
        "held": [_check(title, check) for title, check in every if check.passed],
        "broken": [_check(title, check) for title, check in every if not check.passed],
        "scopes": " ".join(f"{title}: {scope}." for title, gate in left if (scope := _scope(gate))),
    }


def _scope(gate: GateResult) -> str:
    if gate.checks or gate.status == "failed":
        read = plural(gate.scans, "scan") + " of the content" if gate.scans else ""
        return ", ".join(part for part in (gate.scope, read) if part)
    return f"{gate.status} without a check{f', {gate.scope}' if gate.scope else ''}"


def _check(title: str, check: CheckResult) -> Row:
    tone = "bad" if check.severity == "block" else "warn"
    what = "quarantined" if check.severity == "quarantine" else "failed"
    cells: dict[str, str | Cell] = {
        "Check": check.check,
        "Gate": title,
        "Expected": Cell(check.expected, more=_before(check.history) if check.history else ""),
        "Observed": check.observed,
        "Severity": check.severity,
        "Result": Cell("✓ passed", "good")
        if check.passed
        else Cell(f"{'✗' if tone == 'bad' else '!'} {what}", tone),
    }
    return Row(cells, None if check.passed else tone)


def _before(history: Sequence[float]) -> str:
    """Return ``5 runs before: 11 to 13``."""
    low, high = (
        number(value) if value == round(value) or value >= 1000 else f"{value:.3g}"
        for value in (min(history), max(history))
    )
    return f"{plural(len(history), 'run')} before: {low if low == high else f'{low} to {high}'}"


def figure_table(account: ClusterView) -> dict[str, Any]:
    """Return the figures of a cluster by the place where they were counted, and what each topic
    got. Figures that disagree come first."""
    topics = {topic.topic: topic for topic in account.topics}
    counted = {count.name for count in account.counts}
    figures = [*account.counts]
    figures += [
        Count(name=name, receipts=topic.delivered)
        for name, topic in topics.items()
        if name not in counted
    ]
    rows = []
    for count in figures:
        topic = topics.get(count.name)
        wrong = disagreement(count)
        if not wrong and topic and not topic.agrees:
            wrong = f"of the window the ledger holds {number(topic.ledger or 0)}"
        shown = {
            "Spark": count.spark,
            "Receipts": count.receipts,
            "Ledger": count.ledger,
            "Read-back": count.read_back,
            "Before": topic.before if topic else None,
            "Parked": topic.parked if topic else None,
        }
        cells: dict[str, str | Cell] = {
            name: _NONE if value is None else number(value) for name, value in shown.items()
        }
        cells |= {
            "Figure": Cell(count.name, more="quarantine" if topic and topic.quarantine else ""),
            "Bytes": format_bytes(topic.delivered_bytes) if topic else _NONE,
            "Agree": Cell(f"✗ {wrong}", "bad")
            if wrong
            else Cell("✓ yes", "good")
            if sum(value is not None for value in [*shown.values()][:4]) > 1
            else Cell("counted once", "dim"),
        }
        rows.append(Row(cells, "bad" if wrong or (topic and topic.parked) else None))
    titles = ["Spark", "Receipts", "Ledger", "Read-back"]
    titles += ["Before", "Parked", "Bytes"] if topics else []
    return _table(
        sorted(rows, key=lambda row: row.tone != "bad"),
        {"Figure": "code", **dict.fromkeys(titles, "num"), "Agree": ""},
        account=account,
    )


def file_table(report: RunReport, found: Sequence[ClusterView]) -> dict[str, Any]:
    """Return the table of files: those that do not add up first, then those that were not
    finished, then the slowest."""
    files = sorted(_files(report, found), key=lambda file: (file[0], file[1]["File"]))
    stem = common_folder([str(cells["File"]) for _, cells in files])
    rows = [
        Row(
            cells | {"File": Cell(cells["File"][len(stem) :], title=cells["File"])},
            "bad" if rank[0] < 0 else None,
        )
        for rank, cells in files
    ]
    titles = ("Size", "Time", "Records", "Delivered", "Before", "Filtered", "Quarantined")
    columns = {"File": "code", "Cluster": "", **dict.fromkeys((*titles, "Missing"), "num")}
    return _table(rows, columns, stem=stem)


def _files(
    report: RunReport, found: Sequence[ClusterView]
) -> Iterator[tuple[tuple[int, bool, float, int], dict[str, str]]]:
    """Yield rank and cells of each file on each cluster that counted it or failed over it. Of
    other planned files yield each once."""
    sizes = {file.path: file.size_bytes for file in report.plan.files} if report.plan else {}
    left = dict(sizes)
    for account in found:
        for counts in account.ship.files if account.ship else []:
            left.pop(counts.path, None)
            # In a failed ship, a file without a record was not read, or was read and its receipt is
            # lost: this cannot be decided.
            unknown = account.ship_failed and counts.records == 0
            rank = -abs(counts.missing), not unknown, -counts.seconds, -counts.records
            yield rank, _file(account.cluster, counts, sizes.get(counts.path), unknown=unknown)
    for path, size in left.items():
        yield (0, True, 0.0, 1), {"File": path, "Cluster": _NONE, "Size": format_bytes(size)}


def _file(cluster: str, counts: FileAccount, size: int | None, *, unknown: bool) -> dict[str, str]:
    cells = {
        "File": counts.path,
        "Cluster": cluster,
        "Size": _NONE if size is None else format_bytes(size),
    }
    if unknown:
        return cells | {"Records": "not finished"}
    figures = {
        "Records": counts.records,
        "Delivered": counts.delivered,
        "Before": counts.before,
        "Filtered": sum(counts.filtered.values()),
        "Quarantined": sum(counts.quarantined.values()),
        "Missing": counts.missing,
    }
    time = format_duration(counts.seconds) if counts.seconds else _NONE
    return cells | {"Time": time} | {name: number(value) for name, value in figures.items()}


def left_out_table(report: RunReport) -> dict[str, Any]:
    left_out = report.plan.left_out if report.plan else []
    stem = common_folder([file.path for file in left_out])
    rows = [
        Row(
            {
                "Entry": Cell(file.path[len(stem) :], title="\n".join([file.path, *file.more])),
                "Entries": number(file.count),
                "Window": file.window or "this run's",
                "Reason": file.reason,
            },
            "warn" if file.warns else None,
        )
        for file in sorted(left_out, key=lambda file: (not file.warns, file.path))
    ]
    columns = {"Entry": "code", "Entries": "num", "Window": "", "Reason": ""}
    return _table(rows, columns, stem=stem)


def gap_table(report: RunReport) -> dict[str, Any]:
    rows = [
        Row(
            {
                "Cluster": gap.cluster,
                "Windows from/to": gap.window,
                "Number": number(gap.windows),
                "Why": str(gap),
            },
            "warn",
        )
        for gap in merged(report.gaps or [])
    ]
    return _table(rows, {"Cluster": "", "Windows from/to": "", "Number": "num", "Why": ""})


def _table(rows: Sequence[Row], columns: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """Return a table without columns in which no row has a figure."""
    empty = {"", "0", _NONE}
    kept = {
        title: kind
        for title, kind in columns.items()
        if kind != "num" or any(row.cells.get(title, "") not in empty for row in rows)
    }
    return {"columns": kept, "total": len(rows), "rows": rows[:MOST_ROWS], "stem": "", **more}


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
