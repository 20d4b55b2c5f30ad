"""Answers of the Shipments page's addresses, for whoever serves them: Airflow's plugin, or
:mod:`shipper.shipments.server`. Reads only.

::

    shipments                              the page
    page.css  words.js  panel.js           what it is made of
      cluster.js  actions.js  page.js
    api/grid?start=&end=&cluster=          the windows of all pipelines that may be seen, or the newest of them
    api/window?pipeline=&window=&run=      one window
    api/pipeline?pipeline=                 what may be done with a pipeline
    api/cluster?cluster=&start=&end=       what arrived on a cluster
    api/report/PIPELINE/WINDOW/RUN         a run's own page

All addresses are relative to one another, so that the page works below any prefix. A report is
found by the names of its pipeline, window and run, which must be such names; no path comes from a
request.
"""  # noqa: E501

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import fsspec

from shipper.config.load import pipeline_names
from shipper.errors import ShipperError, UsageError
from shipper.report.run_folder import RunFolder
from shipper.shipments.cluster import cluster_page
from shipper.shipments.detail import detail
from shipper.shipments.grid import LONGEST_SECONDS, grid, moment
from shipper.shipments.index import Index, IndexUnusable, Known
from shipper.shipments.unreported import Scheduler
from shipper.windows.window import Window, parse_window

_SCRIPT = "text/javascript; charset=utf-8"
_STATIC = {
    "shipments": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "words.js": ("words.js", _SCRIPT),
    "panel.js": ("panel.js", _SCRIPT),
    "actions.js": ("actions.js", _SCRIPT),
    "cluster.js": ("cluster.js", _SCRIPT),
    "page.js": ("page.js", _SCRIPT),
}
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


class Rights(Protocol):
    """Rights of the person who asks."""

    def pipelines(self) -> Collection[str] | None:
        """Return the pipelines that the person may see. None: all."""

    def may_see(self, pipeline: str) -> bool: ...

    def may_read_reports(self, pipeline: str) -> bool:
        """Return True if the person may read reports, which name files and topics, as the logs of
        tasks do."""

    def may_run(self, pipeline: str) -> bool:
        """Return True if the person may start runs of it. The page's buttons ask Airflow itself to,
        which decides again."""


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


def respond(
    index: Path,
    path: str,
    query: Mapping[str, str],
    rights: Rights,
    *,
    airflow: str | None = None,
    scheduler: Scheduler | None = None,
    config_dir: Path | None = None,
) -> Response:
    """Answer a request. ``path``: decoded, below the page's folder. ``airflow``: where Airflow's
    own pages begin, if this is one of them. ``config_dir``: the configuration whose pipelines are
    due; None: it is not read, and the pipelines of the index's last update are due."""
    if path in _STATIC:
        name, kind = _STATIC[path]
        body = resources.files("shipper.shipments").joinpath("static", name).read_bytes()
        return _response(body, kind, _POLICY)
    try:
        with Index(index, present=pipeline_names(config_dir) if config_dir else None) as opened:
            if path in _ANSWERS:
                found = _ANSWERS[path](opened, query, rights, scheduler)
                return _json(found | {"airflow": airflow})
            if path.startswith("api/report/"):
                return _report(opened, path.removeprefix("api/report/").split("/"), rights)
        raise Refused(HTTPStatus.NOT_FOUND, "this page does not exist")
    except Refused as refused:
        return _json({"error": str(refused)}, refused.status)
    except IndexUnusable as error:
        return _json({"error": error.message}, HTTPStatus.SERVICE_UNAVAILABLE)
    except sqlite3.Error as error:
        return _json(
            {"error": f"the index {index} cannot be read: {error}"}, HTTPStatus.SERVICE_UNAVAILABLE
        )


def _grid(
    index: Index, query: Mapping[str, str], rights: Rights, scheduler: Scheduler | None
) -> dict[str, Any]:
    start, end = _between(query)
    return grid(
        index,
        start,
        end,
        _now(),
        cluster=query.get("cluster", ""),
        only=rights.pipelines(),
        scheduler=scheduler,
    )


def _between(query: Mapping[str, str]) -> tuple[int, int]:
    try:
        start, end = moment(query["start"]), moment(query["end"])
    except (KeyError, ValueError) as error:
        raise Refused(
            HTTPStatus.BAD_REQUEST, "start and end are moments such as 2026-11-01T06:00:00Z"
        ) from error
    if not 0 < end - start <= LONGEST_SECONDS:
        raise Refused(HTTPStatus.BAD_REQUEST, "start is before end, and at most 400 days before it")
    return start, end


def _pipeline(
    index: Index, query: Mapping[str, str], rights: Rights, _: Scheduler | None
) -> dict[str, Any]:
    known = _known(index, query.get("pipeline", ""), rights)
    return {
        "pipeline": known.pipeline,
        "clusters": list(known.clusters),
        "scheduled": known.schedule is not None,
        "may_run": rights.may_run(known.pipeline),
    }


def _cluster(
    index: Index, query: Mapping[str, str], rights: Rights, _: Scheduler | None
) -> dict[str, Any]:
    start, end = _between(query)
    cluster = query.get("cluster", "")
    shipping = [one for one in index.pipelines(rights.pipelines()) if cluster in one.clusters]
    if not shipping:
        raise Refused(
            HTTPStatus.NOT_FOUND, "no pipeline that you may see ships to a cluster of that name"
        )
    return cluster_page(index, cluster, shipping, start, end, _now(), rights.may_read_reports)


def _window(
    index: Index, query: Mapping[str, str], rights: Rights, scheduler: Scheduler | None
) -> dict[str, Any]:
    known = _known(index, query.get("pipeline", ""), rights)
    try:
        window = parse_window(query.get("window", ""))
    except ShipperError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, error.message) from error
    found = detail(index, known, window, _now(), query.get("run"), scheduler)
    found |= {"may_run": rights.may_run(known.pipeline), "scheduled": known.schedule is not None}
    if not rights.may_read_reports(known.dag_id):
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
            for ship in run["ships"]:
                ship["parked"] = []
    return found


_ANSWERS = {
    "api/grid": _grid,
    "api/window": _window,
    "api/pipeline": _pipeline,
    "api/cluster": _cluster,
}


def _report(index: Index, names: list[str], rights: Rights) -> Response:
    if len(names) != 3:
        raise Refused(HTTPStatus.NOT_FOUND, "this report does not exist")
    known = _known(index, names[0], rights)
    if not rights.may_read_reports(known.dag_id):
        raise Refused(
            HTTPStatus.FORBIDDEN,
            "you may not read the logs of the pipeline's tasks, so not its reports either",
        )
    window = RunFolder.window_of(names[1])
    if window is None:
        raise Refused(HTTPStatus.NOT_FOUND, "this report does not exist")
    return _page(known, window, names[2])


def _page(known: Known, window: Window, run_id: str) -> Response:
    try:
        folder = RunFolder(known.runs_uri, known.key, window.start, window.end, run_id)
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
    return _response(text.encode(), "text/html; charset=utf-8", _REPORT_POLICY)


def _lies_in(runs_uri: str, page: str) -> bool:
    """Return True if the page lies below runs_uri. On a disk a link could lead elsewhere."""
    (fs, root), path = fsspec.core.url_to_fs(runs_uri), fsspec.core.url_to_fs(page)[1]
    return "file" not in fs.protocol or Path(path).resolve().is_relative_to(Path(root).resolve())


def _known(index: Index, pipeline: str, rights: Rights) -> Known:
    """Return the pipeline. Only a person who may see it learns whether it exists."""
    found = next((known for known in index.pipelines() if known.pipeline == pipeline), None)
    if not rights.may_see(found.dag_id if found else pipeline):
        raise Refused(HTTPStatus.FORBIDDEN, "this pipeline does not exist, or you may not see it")
    if found:
        return found
    raise Refused(
        HTTPStatus.NOT_FOUND,
        f"the index knows no pipeline {pipeline!r}: `shipper index` brings it up to date",
    )


def _now() -> int:
    return int(dt.datetime.now(dt.UTC).timestamp())


def _json(document: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Response:
    body = json.dumps(document, separators=(",", ":")).encode()
    return _response(body, "application/json", "default-src 'none'", status)


def _response(body: bytes, kind: str, policy: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    headers = {**_ALWAYS, "Content-Type": kind, "Content-Security-Policy": policy}
    return Response(status, body, headers)
