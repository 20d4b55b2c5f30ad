"""Data of one cluster for the page: the records that arrived there in a stretch of time, by
pipeline and topic; and the runs on their way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shipper.report.window_state import OVERDUE, SHIPPING, STATES, TROUBLE
from shipper.shipments.grid import state_now
from shipper.shipments.index import CODES, Index, Known, window_of
from shipper.shipments.live import live

_COLUMNS = 96
"""Columns of the picture of rates, at most."""
_STEPS = (300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400)
_MOST_TOPICS = 500
_MOST_LIVE = 20
"""Runs whose figures are read for one request."""
_SUMS = ("records", "bytes", "wire_bytes", "quarantined", "parked")


def cluster_page(
    index: Index,
    cluster: str,
    shipping: Sequence[Known],
    between: tuple[int, int],
    now: int,
    may_read: Callable[[str], bool],
) -> dict[str, Any]:
    """Return what ended in [start, end) of ``between`` of the ships of the pipelines ``shipping``
    to the cluster. ``may_read``: whether a DAG's reports may be read, since topics are named in
    them."""
    known, (start, end) = {one.key: one for one in shipping}, between
    step = next((each for each in _STEPS if (end - start) / each <= _COLUMNS), _STEPS[-1])
    pipelines: dict[str, dict[str, Any]] = {}
    topics: dict[tuple[str, str], dict[str, Any]] = {}
    rates: dict[int, list[int]] = {}
    readable = {one.key for one in shipping if may_read(one.dag_id)}
    for key, ended, sent in _ships(index, cluster, start, end):
        if key not in known:
            continue
        name = known[key].pipeline
        of = pipelines.setdefault(
            key, {"pipeline": name, "ships": 0, "last": 0, "ledger": 0, **dict.fromkeys(_SUMS, 0)}
        )
        of |= {what: of[what] + sent[what] for what in _SUMS}
        of["ships"] += 1
        of["last"], of["ledger"] = max(of["last"], ended), max(of["ledger"], sent["ledger"])
        column = rates.setdefault(ended // step * step, [0, 0])
        column[0] += sent["records"]
        column[1] += sent["bytes"]
        for topic in sent.get("topics", ()) if key in readable else ():
            at = topics.setdefault(
                (topic["topic"], key),
                {"topic": topic["topic"], "pipeline": name, "quarantine": topic["quarantine"]}
                | {"records": 0, "bytes": 0, "parked": 0, "last": 0},
            )
            at |= {what: at[what] + topic[what] for what in ("records", "bytes", "parked")}
            at["last"] = max(at["last"], ended)
    return {
        "cluster": cluster,
        "now": now,
        "start": start,
        "end": end,
        "step": step,
        "pipelines": sorted(pipelines.values(), key=lambda one: (-one["records"], one["pipeline"])),
        "rates": [[at, *rates[at]] for at in sorted(rates)],
        "topics": sorted(
            topics.values(), key=lambda one: (-one["records"], one["topic"], one["pipeline"])
        )[:_MOST_TOPICS],
        "running": _running(index, cluster, now, known, may_read),
        "of": len(known),
    }


def _ships(
    index: Index, cluster: str, start: int, end: int
) -> list[tuple[str, int, dict[str, Any]]]:
    """Return pipeline, end and figures of each run's ship. A report that is written again, since a
    task was cleared, takes nothing away: what arrived before it arrived then."""
    rows = index.db.execute(
        "SELECT key, ended, json_extract(body, '$.ended.sent'), "
        "max(json_extract(body, '$.ended.sent.records')) FROM records WHERE step = 'report' AND "
        'cluster = ? AND ended >= ? AND ended < ? GROUP BY key, start, "end", run_id',
        (cluster, start, end),
    )
    return [(key, ended, json.loads(sent)) for key, ended, sent, _ in rows if sent]


def _running(
    index: Index,
    cluster: str,
    now: int,
    known: Mapping[str, Known],
    may_read: Callable[[str], bool],
) -> list[dict[str, Any]]:
    """Return the runs that are under way, the latest first, with the figures of their ships to this
    cluster."""
    rows = index.db.execute(
        'SELECT key, run_id, start, "end", state, ended, complete FROM cells WHERE cluster = ? AND '
        "state IN (?, ?) ORDER BY ended DESC",
        (cluster, CODES[SHIPPING], CODES[TROUBLE]),
    ).fetchall()
    found: list[dict[str, Any]] = []
    for key, run_id, *cell in rows:
        if key not in known or len(found) == _MOST_LIVE:
            continue
        of, (start, end, *_) = known[key], cell
        state = STATES[state_now(of, cell, now)]
        if state not in (SHIPPING, TROUBLE, OVERDUE):
            continue
        figures = live(of, window_of((start, end)), run_id, cell[3])
        step = next((one for one in figures["steps"] if one.cluster == cluster and one.error), None)
        ships = [ship for ship in figures["ships"] if ship.cluster == cluster]
        if not may_read(of.dag_id):
            ships, step = [], None
        found.append(
            {
                "pipeline": of.pipeline,
                "start": start,
                "end": end,
                "run_id": run_id,
                "at": cell[3],
                "state": state,
                "says": step.says if step else "",
                "ship": ships[0] if ships else None,
            }
        )
    return found
