"""A receiver of OpenTelemetry metrics on loopback: what arrives, by name, tags and value."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Received:
    def __init__(self):
        self.url = ""
        self.points: list[tuple[str, dict[str, str], float]] = []
        """(name, tags, value) in the order of arrival; a counter's value is its sum in the process
        that sent it."""

    def of(self, name: str, **tags: str) -> list[float]:
        return [
            value
            for found, its, value in self.points
            if found == name and tags.items() <= its.items()
        ]


@contextmanager
def receiver() -> Iterator[Received]:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )

    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.points += _points(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _points(request):
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind in ("sum", "gauge"):
                    for point in getattr(metric, kind).data_points:
                        tags = {pair.key: pair.value.string_value for pair in point.attributes}
                        yield metric.name, tags, float(point.as_int or point.as_double)
