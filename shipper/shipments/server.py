"""The page without Airflow: a server that only this machine reaches."""

from __future__ import annotations

import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from shipper.shipments.app import Response, respond

_LOOPBACK = "127.0.0.1"
_NAMES = (_LOOPBACK, "localhost")


class Everything:
    """Rights of every client of this server: a person with an account on this machine; the page
    shows the reports in `runs_uri` that this process may read."""

    def pipelines(self) -> None:
        return None

    def may_see(self, pipeline: str) -> bool:
        return True

    def may_read_reports(self, pipeline: str) -> bool:
        return True

    def may_run(self, pipeline: str) -> bool:
        """Return False: runs are started by the command line, not by this server."""
        return False


class Server(ThreadingHTTPServer):
    """Web server on loopback. ``port`` 0 takes a free one. Raises OSError."""

    daemon_threads = True

    def __init__(self, index: Path, port: int, config_dir: Path | None = None) -> None:
        self.index, self.config_dir = index, config_dir
        super().__init__((_LOOPBACK, port), _Handler)

    @property
    def url(self) -> str:
        return f"http://{_LOOPBACK}:{self.server_port}/shipments"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "shipper", ""

    def do_GET(self) -> None:
        # A page of another site whose name is made to point here would have that name in its
        # requests.
        if self.headers.get("Host", "").rpartition(":")[0] not in _NAMES:
            self._send(
                Response(HTTPStatus.MISDIRECTED_REQUEST, b"this server is for 127.0.0.1 alone\n")
            )
            return
        address = urllib.parse.urlsplit(self.path)
        if address.path == "/":
            self._send(Response(HTTPStatus.FOUND, b"", {"Location": "/shipments"}))
            return
        query = dict(urllib.parse.parse_qsl(address.query))
        path = urllib.parse.unquote(address.path).lstrip("/")
        self._send(
            respond(self.server.index, path, query, Everything(), config_dir=self.server.config_dir)
        )

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:
        """Drop the message: a request is no news."""
