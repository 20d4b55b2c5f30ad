"""Answers of the Shipments page's addresses, for Airflow's plugin. Reads only.

::

    shipments?…               the page: the grid, and what is open in front of it
    shipments?…&part=page     the grid alone, and …&part=panel what is open alone: the page's script
                              puts them where the old ones were
    windows?of=PIPELINE&…     a row's windows in words, for keyboard and pointer
    page.css  page.js         what the page is made of
    report/PIPELINE/WINDOW/RUN
                              a run's own page

The query holds the view (:class:`shipper.shipments.view.View`). All addresses are relative to one
another, so that the page works below any prefix. A report is found by the names of its pipeline,
window and run, which must be such names; no path comes from a request.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import quote

from jinja2 import Environment

from shipper import runtime
from shipper.config.load import pipeline_names
from shipper.errors import ShipperError, UsageError
from shipper.report.run_folder import RunFolder
from shipper.report.templates import environment
from shipper.report.window_state import SHIPPED, SHIPPING, STATES, WAITING
from shipper.shipments import view as drawing
from shipper.shipments.cluster_page import cluster_page
from shipper.shipments.detail import delay, detail, judged
from shipper.shipments.index import Index, IndexUnusable, Known
from shipper.shipments.overview import overview, row_of, stretch
from shipper.shipments.unreported import Scheduler
from shipper.shipments.view import View
from shipper.whole_files import file_system, is_local
from shipper.windows.window import Window, parse_window

_STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
}
_HTML = "text/html; charset=utf-8"
_MOST_LISTED = 500
_MOST_NAMED = 5_000
"""Windows of a row; of more, those that are plainly shipped are not named until somebody zooms in,
and no pointer could tell them apart."""
#: The page may load its own files, and ask its own server; nothing else runs or is loaded, whatever
#: a name or an error text holds.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
#: A report is one file: its own policy repeats this.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action "
    "'none'; frame-ancestors 'self'; sandbox allow-popups"
)
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


Right = Literal["see", "read reports", "see runs", "run"]
"""Reports name files and topics, as the logs of tasks do. Who may run a pipeline has the page's
buttons, which ask Airflow itself, and that decides again."""


class Rights(Protocol):
    """Rights of the person who asks."""

    def pipelines(self) -> Collection[str] | None:
        """Return the pipelines that the person may see. None: all."""

    def may(self, what: Right, pipeline: str) -> bool:
        """Return True if the person may do this with the pipeline."""


@dataclass(frozen=True)
class Response:
    status: HTTPStatus
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """No answer, and why."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class _Question:
    index: Index
    view: View
    rights: Rights
    scheduler: Scheduler | None
    now: int


def respond(
    index: Path,
    path: str,
    query: Mapping[str, str],
    rights: Rights,
    *,
    scheduler: Scheduler | None = None,
    config_dir: Path | None = None,
) -> Response:
    """Answer a request. ``path``: decoded, below the page's folder. ``scheduler``: the Airflow that
    serves the page. ``config_dir``: the configuration whose pipelines are due; None: those of the
    index are."""
    if path in _STATIC:
        body = resources.files("shipper.shipments").joinpath(path).read_bytes()
        return _response(body, _STATIC[path], _POLICY)
    try:
        with Index(index, present=pipeline_names(config_dir) if config_dir else None) as opened:
            asked = _Question(opened, View.of(query), rights, scheduler, _now())
            if path == "shipments":
                return _page(asked, query.get("part", ""))
            if path == "windows":
                return _windows(asked, query)
            if path.startswith("report/"):
                return _report(opened, path.removeprefix("report/").split("/"), rights)
        raise Refused(HTTPStatus.NOT_FOUND, "this page does not exist")
    except Refused as refused:
        return _drawn("refused.html.j2", {"problem": str(refused)}, refused.status)
    except (IndexUnusable, sqlite3.Error) as error:
        why = getattr(error, "message", f"the index {index} cannot be read: {error}")
        return _drawn("refused.html.j2", {"problem": why}, HTTPStatus.SERVICE_UNAVAILABLE)


@functools.cache
def _templates() -> Environment:
    made = environment("shipper.shipments")
    names = ("moment", "iso", "span", "duration", "figure", "compact", "words", "waits", "worst")
    made.globals.update({name: getattr(drawing, name) for name in names})
    made.filters["coded"] = drawing.coded
    made.globals.update(
        looks=drawing.LOOKS,
        states=STATES,
        orders=drawing.ORDERS,
        ranges=drawing.RANGES,
        never=drawing.NEVER,
        chart=drawing.chart,
        folder=_folder,
        json=json.dumps,
    )
    return made


def _drawn(template: str, shown: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Response:
    text = _templates().get_template(template).render(shown)
    return _response(text.encode(), _HTML, _POLICY, status)


def _page(asked: _Question, part: str) -> Response:
    """Draw the page. A part of it that is refused says so where it would stand."""
    view, status = asked.view, HTTPStatus.OK
    shown: dict[str, Any] = {"view": view, "part": part, "panel": "", "problem": ""}
    if part != "panel":
        only = asked.rights.pipelines()
        shown |= overview(asked.index, view, asked.now, only, asked.scheduler)
    if part != "page":
        opened = next((kind for kind in _PANELS if getattr(view, kind)), "")
        try:
            shown |= {"panel": opened, "open": _PANELS[opened](asked)} if opened else {}
        except Refused as refused:
            shown |= {"panel": "refused", "problem": str(refused)}
            status = refused.status if part else status
    return _drawn("page.html.j2", shown, status)


def _windows(asked: _Question, query: Mapping[str, str]) -> Response:
    known = _known(asked.index, query.get("of", ""), asked.rights)
    try:
        between = int(query["first"]), int(query["last"])
    except (KeyError, ValueError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "first and last are moments in seconds") from error
    view = View.of({**query, "start": str(between[0]), "end": str(between[1])})
    if not view.start:
        raise Refused(
            HTTPStatus.BAD_REQUEST, "first is before last, and at most 400 days before it"
        )
    row = row_of(asked.index, known, view, between, asked.now, asked.scheduler)
    found = drawing.cells(row["segments"])
    if len(found) > _MOST_NAMED:
        found = [cell for cell in found if STATES[cell[2]] != SHIPPED][-_MOST_NAMED:]
    shown = {"view": asked.view, "known": known, "windows": found, "now": asked.now}
    return _drawn("windows.html.j2", shown)


def _pipeline(asked: _Question) -> dict[str, Any]:
    """Return the windows of a pipeline, and what may be done with them."""
    known = _known(asked.index, asked.view.list, asked.rights)
    between = stretch(asked.index, asked.view, [known], asked.now)
    row = row_of(asked.index, known, asked.view, between, asked.now, asked.scheduler)
    found = drawing.cells(row["segments"])
    listed = [cell for cell in found if STATES[cell[2]] != SHIPPED][::-1]
    # From the first window that is not shipped to the last; of a pipeline with none, what was seen.
    over = (SHIPPING, WAITING)
    bad = [cell for cell in listed[::-1] if STATES[cell[2]] not in over] or found
    return {
        **_doing(asked, known),
        "row": row,
        "now": asked.now,
        "listed": listed[:_MOST_LISTED],
        "more": len(listed[_MOST_LISTED:]),
        "first": bad[0][0] if bad else between[0],
        "last": bad[-1][0] if bad else between[0],
    }


def _cluster(asked: _Question) -> dict[str, Any]:
    shipping = [
        one
        for one in asked.index.pipelines(asked.rights.pipelines())
        if asked.view.on in one.clusters
    ]
    if not shipping:
        raise Refused(
            HTTPStatus.NOT_FOUND, "no pipeline that you may see ships to a cluster of that name"
        )
    between = stretch(asked.index, asked.view, shipping, asked.now)
    may_read = functools.partial(asked.rights.may, "read reports")
    return cluster_page(asked.index, asked.view.on, shipping, between, asked.now, may_read)


def _window(asked: _Question) -> dict[str, Any]:
    pipeline, _, text = asked.view.window.partition(" ")
    known = _known(asked.index, pipeline, asked.rights)
    try:
        window = parse_window(text)
    except ShipperError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, error.message) from error
    run = asked.view.run or None
    found = detail(asked.index, known, window, asked.now, run, asked.scheduler)
    if not asked.rights.may("read reports", known.dag_id):
        found |= {
            "report": None,
            "problem": (
                "You may see this pipeline, but not the logs of its tasks, so not its reports "
                "either."
            ),
        }
        for run in found["runs"]:
            for cluster in run["clusters"]:
                cluster["cause"] = ""
        for run in found["begun"]:
            run["steps"] = [step._replace(error="", code=None) for step in run["steps"]]
            run["ships"] = [ship.model_copy(update={"parked": ()}) for ship in run["ships"]]
    of_window = (found["start"], found["end"])
    by = asked.scheduler if asked.rights.may("see runs", known.dag_id) else None
    runs = by.over(known, of_window) if by else ()
    found |= {"judged": judged(found), "delay": delay(found["clusters"]), "airflow_runs": runs}
    return found | _doing(asked, known)


def _doing(asked: _Question, known: Known) -> dict[str, Any]:
    """Return what the person may do with the pipeline in Airflow, and where that knows it."""
    may_run, by = asked.rights.may("run", known.pipeline), asked.scheduler
    root = by.root if by else "/"
    dag = f"{root}dags/{quote(known.dag_id, safe='')}"
    api = f"{root}api/v2/"
    return {
        "known": known,
        "dag": dag,
        "runs_api": f"{api}dags/{quote(known.pipeline, safe='')}/dagRuns",
        "backfills_api": f"{api}backfills",
        "may_run": may_run,
        "waits_for": by.waits_for(known.pipeline) if by and may_run else "",
    }


#: What may be open: the key of the address, which is the name of its template, too.
_PANELS = {"window": _window, "on": _cluster, "list": _pipeline}


def _folder(start: int, end: int) -> str:
    """Return the name of a window's folder, as a report's address has it."""
    return RunFolder.name_of(
        Window(*(dt.datetime.fromtimestamp(at, dt.UTC) for at in (start, end)))
    )


def _report(index: Index, names: list[str], rights: Rights) -> Response:
    if len(names) != 3:
        raise Refused(HTTPStatus.NOT_FOUND, "this report does not exist")
    known = _known(index, names[0], rights)
    if not rights.may("read reports", known.dag_id):
        raise Refused(
            HTTPStatus.FORBIDDEN,
            "you may not read the logs of the pipeline's tasks, so not its reports either",
        )
    window = RunFolder.window_of(names[1])
    if window is None:
        raise Refused(HTTPStatus.NOT_FOUND, "this report does not exist")
    return _report_page(known, window, names[2])


def _report_page(known: Known, window: Window, run_id: str) -> Response:
    try:
        folder = known.folder(window, run_id)
        text = (
            folder.read_text("report.html")
            if _lies_in(known.runs_uri, folder.path("report.html"))
            else None
        )
    except UsageError:  # no name of a run
        text = None
    except (ShipperError, ValueError) as error:
        raise Refused(
            HTTPStatus.SERVICE_UNAVAILABLE, f"the report cannot be read: {error}"
        ) from error
    if text is None:
        raise Refused(
            HTTPStatus.NOT_FOUND, "the run has left no report page, or it has been deleted since"
        )
    return _response(text.encode(), _HTML, _REPORT_POLICY)


def _lies_in(runs_uri: str, page: str) -> bool:
    """Return True if the page lies below runs_uri. On a disk a link could lead elsewhere."""
    (fs, root), path = file_system(runs_uri), file_system(page)[1]
    return not is_local(fs) or Path(path).resolve().is_relative_to(Path(root).resolve())


def _known(index: Index, pipeline: str, rights: Rights) -> Known:
    """Return the pipeline, also by a former name. Only a person who may see it learns whether it
    exists."""
    every = index.pipelines()
    called = [known for known in every if pipeline in (known.pipeline, *known.formerly)]
    found = min(called, key=lambda known: (known.retired, known.pipeline != pipeline), default=None)
    if not rights.may("see", found.dag_id if found else pipeline):
        raise Refused(HTTPStatus.FORBIDDEN, "this pipeline does not exist, or you may not see it")
    if found:
        return found
    raise Refused(HTTPStatus.NOT_FOUND, f"no pipeline {pipeline!r} is known")


def _now() -> int:
    return int(runtime.now().timestamp())


def _response(body: bytes, kind: str, policy: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    headers = {**_ALWAYS, "Content-Type": kind, "Content-Security-Policy": policy}
    return Response(status, body, headers)
