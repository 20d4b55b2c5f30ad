"""Shipments page in Airflow, behind Airflow's own rights.

An app that a plugin mounts has no authentication of its own, so every route asks for it. Without
login the answer is 401 (a browser that opens a page is sent to the login); for a pipeline whose DAG
the person may not read, it is 403. Reports name files and topics, as tasks' logs do, so they
require the right to read these.

Imported with the first request: other processes of Airflow load the plugin too, and do not need
this module. While somebody looks at the page, a thread brings its index up to date.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from shipper import runtime
from shipper.config.environment import EVERYTHING
from shipper.config.load import load_pipeline
from shipper.config.rules import resolve_uri
from shipper.errors import ConfigError, ShipperError
from shipper.report.window_records import accept
from shipper.shipments.app import Right, respond
from shipper.shipments.feed import LookResult, index_path, look, look_at, look_is_due
from shipper.windows.window import parse_window
from shipper_airflow.place import config_dir, root
from shipper_airflow.runs import AirflowRuns

_log = logging.getLogger(__name__)
_PATIENCE_SECONDS = 10.0
"""Longest time that a page waits for a look at all days."""
_PANEL_PATIENCE_SECONDS = 3.0
"""Longest time that a window waits for a look at its pipeline."""


_RIGHTS: dict[Right, tuple[ResourceMethod, DagAccessEntity | None]] = {
    "see": ("GET", None),
    "read reports": ("GET", DagAccessEntity.TASK_LOGS),
    "see runs": ("GET", DagAccessEntity.RUN),
    "run": ("POST", DagAccessEntity.RUN),
}


class PersonsRights:
    """Rights of a person by the auth manager, whichever it is."""

    def __init__(self, user: GetUserDep) -> None:
        self._user, self._manager = user, get_auth_manager()

    @property
    def name(self) -> str:
        return str(self._user.get_name())

    def pipelines(self) -> Collection[str]:
        return self._manager.get_authorized_dag_ids(user=self._user, method="GET")

    def may(self, what: Right, pipeline: str) -> bool:
        method, entity = _RIGHTS[what]
        details = DagDetails(id=pipeline, team_name=DagModel.get_team_name(pipeline))
        return self._manager.is_authorized_dag(
            method=method, access_entity=entity, details=details, user=self._user
        )


@dataclass(frozen=True)
class _Asked:
    rights: PersonsRights
    index: Path
    config: Path


def _asked(user: GetUserDep) -> _Asked:
    config = config_dir(Path(conf.get("core", "dags_folder")))
    try:
        return _Asked(PersonsRights(user), index_path(config), config)
    except ConfigError as error:
        raise HTTPException(503, error.message) from error


_BY_PERSON = Depends(_asked)
app = FastAPI(title="Shipments", docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/{path:path}")
def answer(path: str, request: Request, by: _Asked = _BY_PERSON) -> Response:
    if not path:
        return RedirectResponse("shipments", 302)
    if path == "shipments":
        if request.query_params.get("part") != "panel":
            bring_up_to_date(by.config)
        if pipeline := request.query_params.get("window", "").partition(" ")[0]:
            _in_thread(lambda: look_at(by.config, pipeline), _PANEL_PATIENCE_SECONDS)
    found = respond(
        by.index,
        path,
        dict(request.query_params),
        by.rights,
        scheduler=AirflowRuns(root()),
        config_dir=by.config,
    )
    return Response(found.body, found.status, dict(found.headers))


class _Accepted(BaseModel):
    pipeline: str
    window: str
    reason: str = Field(pattern=r"\S")


@app.post("/accept")
def accept_window(asked: _Accepted, by: _Asked = _BY_PERSON) -> dict[str, str]:
    """Note that nothing more will come of a window, in the person's name. The right is that to
    start runs of the DAG."""
    if not by.rights.may("run", asked.pipeline):
        raise HTTPException(403, "this needs the right to start runs of the pipeline's DAG")
    try:
        spec = load_pipeline(by.config, asked.pipeline, EVERYTHING)
        runs_uri, window = resolve_uri(by.config, spec.runs_uri), parse_window(asked.window)
        accept(runs_uri, spec.key, window, why=asked.reason, who=by.rights.name)
    except ShipperError as error:
        raise HTTPException(400, error.message) from error
    except OSError as error:
        raise HTTPException(503, f"the window cannot be noted: {error}") from error
    bring_up_to_date(by.config)
    return {"accepted": asked.window}


def bring_up_to_date(config: Path) -> runtime.Thread | None:
    """Look for records that the index lacks. At most one of all processes of the API server looks,
    every fifteen seconds or more. A request waits for a look at all days, which a new index needs,
    and for no other. What is wrong with that goes to the log: the page shows what the index has."""
    try:
        whole = look_is_due(config, int(runtime.time()))
    except ShipperError as error:
        _log.warning("The Shipments page shows what its index had before: %s", error)
        return None
    if whole is None:
        return None
    return _in_thread(lambda: look(config, whole=whole), _PATIENCE_SECONDS if whole else 0.0)


def _in_thread(looks: Callable[[], LookResult], patience_seconds: float) -> runtime.Thread:
    """Look in a thread, and wait so long for it."""
    thread = runtime.Thread(target=_tell_problems, args=(looks,), name="shipments", daemon=True)
    thread.start()
    thread.join(patience_seconds)
    return thread


def _tell_problems(looks: Callable[[], LookResult]) -> None:
    try:
        for problem in looks().problems:
            _log.warning("The Shipments page lacks something: %s", problem)
    except ShipperError as error:
        _log.warning("The Shipments page shows what its index had before: %s", error)


@app.exception_handler(HTTPException)
async def refuse(request: Request, error: HTTPException) -> Response:
    """Send a browser that opens a page without a login to Airflow's login, which leads back.
    Scripts get the error."""
    if error.status_code == 401 and "text/html" in request.headers.get("accept", ""):
        asked = f"{root()}shipper/{quote(request.path_params['path'])}?{request.url.query}".removesuffix(  # noqa: E501
            "?"
        )
        return RedirectResponse(f"{root()}api/v2/auth/login?{urlencode({'next': asked})}", 302)
    return await http_exception_handler(request, error)
