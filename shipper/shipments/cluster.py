"""Data of one cluster for the page: the records that arrived there in a stretch of time, by
pipeline and topic; and the records on their way."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from shipper.shipments.grid import KILLED_AFTER_SECONDS
from shipper.shipments.index import Index, Known
from shipper.shipments.live import live
from shipper.windows.window import Window

_COLUMNS = 96
"""Columns of the picture of rates, at most."""
_STEPS = (300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400)
_MOST_TOPICS = 500
_MOST_LIVE = 20
"""Runs whose figures are read for one request."""


def cluster_page(
    index: Index,
    cluster: str,
    shipping: Sequence[Known],
    start: int,
    end: int,
    now: int,
    may_read: Callable[[str], bool],
) -> dict[str, Any]:
    """Return what ended in [``start``, ``end``) of the ships of the pipelines ``shipping``
    to the cluster. ``may_read``: whether a DAG's reports may be read, since topics are named in
    them."""
    known = {one.pipeline: one for one in shipping}
    step = next((each for each in _STEPS if (end - start) / each <= _COLUMNS), _STEPS[-1])
    return {
        "cluster": cluster,
        "now": now,
        "start": start,
        "end": end,
        "step": step,
        "pipelines": _pipelines(index, cluster, start, end, known),
        "rates": _rates(index, cluster, start, end, step, known),
        "topics": _topics(index, cluster, start, end, known, may_read),
        "running": _running(index, cluster, now, known, may_read),
        "of": len(known),
    }


def _pipelines(
    index: Index, cluster: str, start: int, end: int, known: Collection[str]
) -> list[dict[str, Any]]:
    """Return the pipelines that sent something in this time, most records first."""
    rows = index.db.execute(
        "SELECT pipeline, count(*), sum(records), sum(bytes), sum(wire_bytes), sum(quarantined), "
        "sum(parked), max(ended), max(ledger) FROM ships WHERE cluster = ? AND ended >= ? AND "
        "ended < ? GROUP BY pipeline ORDER BY 3 DESC, 1",
        (cluster, start, end),
    )
    keys = (
        "pipeline",
        "ships",
        "records",
        "bytes",
        "wire_bytes",
        "quarantined",
        "parked",
        "last",
        "ledger",
    )
    return [dict(zip(keys, row, strict=True)) for row in rows if row[0] in known]


def _rates(
    index: Index, cluster: str, start: int, end: int, step: int, known: Collection[str]
) -> list[list[int]]:
    """Return [begin of the column, records, bytes], by the moment when each ship ended."""
    sums: dict[int, list[int]] = {}
    rows = index.db.execute(
        "SELECT pipeline, ended / ?4, sum(records), sum(bytes) FROM ships WHERE cluster = ?1 AND "
        "ended >= ?2 AND ended < ?3 GROUP BY 1, 2",
        (cluster, start, end, step),
    )
    for pipeline, column, records, size in rows:
        if pipeline in known:
            found = sums.setdefault(column * step, [0, 0])
            found[0] += records
            found[1] += size
    return [[at, *sums[at]] for at in sorted(sums)]


def _topics(
    index: Index,
    cluster: str,
    start: int,
    end: int,
    known: Mapping[str, Known],
    may_read: Callable[[str], bool],
) -> list[dict[str, Any]]:
    rows = index.db.execute(
        "SELECT topic, pipeline, sum(records), sum(bytes), max(quarantine), sum(parked), "
        "max(ended) FROM arrivals WHERE cluster = ? AND ended >= ? AND ended < ? GROUP BY 1, 2 "
        "ORDER BY 3 DESC, 1, 2",
        (cluster, start, end),
    ).fetchall()
    readable = {
        name for name in {row[1] for row in rows} & set(known) if may_read(known[name].dag_id)
    }
    keys = ("topic", "pipeline", "records", "bytes", "quarantine", "parked", "last")
    return [dict(zip(keys, row, strict=True)) for row in rows if row[1] in readable][:_MOST_TOPICS]


def _running(
    index: Index,
    cluster: str,
    now: int,
    known: Mapping[str, Known],
    may_read: Callable[[str], bool],
) -> list[dict[str, Any]]:
    """Return the runs that have begun and left no report, the latest first, with the figures of
    their ships to this cluster. Of several over one window the last one: those before it are dead.
    """
    rows = index.db.execute(
        'SELECT pipeline, start, "end", run_id, max(at) FROM begun WHERE cluster = ? AND at > ? '
        "GROUP BY 1, 2, 3 ORDER BY 5 DESC",
        (cluster, now - KILLED_AFTER_SECONDS),
    ).fetchall()
    found = []
    for pipeline, start, end, run_id, at in [row for row in rows if row[0] in known][:_MOST_LIVE]:
        window = Window(*(dt.datetime.fromtimestamp(moment, dt.UTC) for moment in (start, end)))
        run = (
            live(known[pipeline], window, [(run_id, at)])[0]
            if may_read(known[pipeline].dag_id)
            else {"run_id": run_id, "at": at, "ships": []}
        )
        ships = [ship for ship in run["ships"] if ship["cluster"] == cluster]
        found.append(
            {
                "pipeline": pipeline,
                "start": start,
                "end": end,
                "run_id": run_id,
                "at": at,
                "ship": ships[0] if ships else None,
            }
        )
    return found
