"""An HTTP server on loopback, in a thread, for what a double answers."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shipper_tools.dev.ports import LOOPBACK


class QuietHandler(BaseHTTPRequestHandler):
    """Answers one request, and logs nothing."""

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, code: int, content: bytes, kind: str, **headers: str):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any):
        pass


class HttpDouble:
    """Serves while the block runs."""

    def __init__(self, handler: type[QuietHandler], tls: ssl.SSLContext | None = None):
        self._scheme = "https" if tls else "http"
        self._server = ThreadingHTTPServer((LOOPBACK, 0), handler)
        # the handshake in the thread of its connection: a client that breaks it off disturbs nobody
        if tls:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="double", daemon=True
        )

    @property
    def url(self) -> str:
        return f"{self._scheme}://{LOOPBACK}:{self._server.server_address[1]}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, error, trace):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
