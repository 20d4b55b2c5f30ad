"""Windows of the schedule that are not complete, as a section of the page."""

from __future__ import annotations

from shipper.report.gaps import merged
from shipper.report.markup import Column, Html, Row, folded, number, tag
from shipper.report.results import RunReport

MOST_ROWS = 200


def incomplete_section(report: RunReport) -> Html | None:
    if not report.gaps:
        return None
    rows = [
        Row([gap.cluster, gap.window, number(gap.windows), gap.why + (f": {gap.paths[0]}" if gap.paths else "")], tone="warn")
        for gap in merged(report.gaps)[:MOST_ROWS]
    ]
    columns = [Column("Cluster"), Column("Windows from/to"), Column("Number", numeric=True), Column("Why")]
    return tag(
        "section",
        tag("h2", "Earlier windows that are not complete"),
        folded("Windows of the schedule before this one, of the last seven days", columns, rows, "row"),
        tag(
            "p",
            "All of them: ",
            tag("code", f"shipper gaps {report.pipeline}"),
            ". A run of such a window ships what is missing.",
        ),
        id="incomplete",
    )
