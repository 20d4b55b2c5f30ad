"""Page as an ASGI application, and a server of it for this machine alone. Airflow's plugin serves
the same application, with the rights of the person who asks.

Needs FastAPI and uvicorn, which Airflow installs; elsewhere the extra `ui`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import RedirectResponse

from shipper.shipments.app import Rights, respond
from shipper.shipments.unreported import Scheduler

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class PageRequest:
    """Request for the page. Its fields are the arguments of
    :func:`shipper.shipments.app.respond`."""

    index: Path
    rights: Rights
    airflow: str | None = None
    scheduler: Scheduler | None = None
    config_dir: Path | None = None


def application(asked: Callable[..., PageRequest]) -> FastAPI:
    """Make the application. ``asked``: FastAPI's dependency that gives the request."""
    app = FastAPI(title="Shipments", docs_url=None, redoc_url=None, openapi_url=None)
    person = Depends(asked)

    @app.get("/{path:path}")
    def answer(path: str, request: Request, by: PageRequest = person) -> Response:
        if not path:
            return RedirectResponse("shipments", 302)
        asked = {**vars(by), "query": dict(request.query_params)}
        found = respond(path=path, **asked)
        return Response(found.body, found.status, dict(found.headers))

    return app


class Everything:
    """Rights of every user with an account on this machine: all that this process may read."""

    def pipelines(self) -> None:
        return None

    def may_see(self, pipeline: str) -> bool:
        return True

    def may_read_reports(self, pipeline: str) -> bool:
        return True

    def may_run(self, pipeline: str) -> bool:
        """Return False: runs are started by the command line, not by this server."""
        return False


class Server:
    """Server of the page on loopback. ``port`` 0 takes a free one. Raises OSError."""

    def __init__(self, index: Path, port: int, config_dir: Path | None = None) -> None:
        app = application(lambda: PageRequest(index, Everything(), config_dir=config_dir))
        # A page of another site whose name is made to point here has that name in its requests.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[_LOOPBACK, "localhost"])
        self._socket = socket.create_server((_LOOPBACK, port))
        self.url = f"http://{_LOOPBACK}:{self._socket.getsockname()[1]}/shipments"
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )

    def run(self) -> None:
        """Serve until :meth:`stop`, or a signal."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        self._server.should_exit = True
