"""A test double of S3: keys that a store of files cannot hold, storage classes, refusals by S3's
own codes, and an endpoint that goes away and comes back. Lists (version 2: delimiter, pages), HEAD,
and GET with Range and If-Match. It looks at no signature."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from shipper_tools.dev.ports import LOOPBACK, free_port


@dataclass
class StoredObject:
    content: bytes
    storage_class: str = "STANDARD"
    restore: str = ""
    """Header `x-amz-restore`."""
    modified: float = field(default_factory=lambda: time.time() - 3600)

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.content).hexdigest()}"'


class S3Double:
    """::

    with S3Double() as store:
        store.objects["bucket"] = {"a//b.log": StoredObject(b"line\\n")}
        store.endpoint
    """

    def __init__(self, *, page: int = 1000):
        """``page``: most entries of an answer to a listing."""
        self.objects: dict[str, dict[str, StoredObject]] = {}
        """Bucket → key → object."""
        self.refusals: dict[str, tuple[int, str]] = {}
        """Regular expression of `METHOD KEY` (of a listing: the prefix) → status and S3's code."""
        self.dies_at: tuple[str, int] | None = None
        """Key, and bytes of it: a GET that gets there ends, and the endpoint stops."""
        self.slow_down_each = 0
        """Of so many requests one is refused, as S3 does to whoever asks too much; 0: none."""
        self.asked: list[str] = []
        self._page, self._port = page, free_port()
        self._server: ThreadingHTTPServer | None = None

    @property
    def running(self) -> bool:
        return self._server is not None

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    def put(self, bucket: str, key: str, content: bytes, **more: Any):
        self.objects.setdefault(bucket, {})[key] = StoredObject(content, **more)

    def __enter__(self):
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                double._answer(self)

            do_HEAD = do_GET  # noqa: N815 - the server's name for it

            def log_message(self, format: str, *args: object):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_: object):
                """Say nothing of a client that is gone."""

        self._server = Server((LOOPBACK, self._port), Handler)
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return self

    def __exit__(self, kind, error, trace):
        self.stop()

    def stop(self):
        """Refuse connections; those that are open end with their next request."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def _answer(self, request):
        if self._server is None:
            request.close_connection = True
            return
        url = urlsplit(request.path)
        query = {key: values[0] for key, values in parse_qs(url.query, True).items()}
        bucket, _, key = unquote(url.path).removeprefix("/").partition("/")
        asked = f"LIST {query.get('prefix', '')}" if not key else f"{request.command} {key}"
        self.asked.append(asked)
        found = self.objects.get(bucket)
        refused = (answer for what, answer in self.refusals.items() if re.search(what, asked))
        if self.slow_down_each and len(self.asked) % self.slow_down_each == 0:
            self._refuse(request, 503, "SlowDown")
        elif (refusal := next(refused, None)) is not None:
            self._refuse(request, *refusal)
        elif found is None:
            self._refuse(request, 404, "NoSuchBucket")
        elif not key:
            self._send(request, 200, self._listing(found, query).encode(), "application/xml")
        elif (stored := found.get(key)) is None:
            self._refuse(request, 404, "NoSuchKey")
        elif (match := request.headers.get("If-Match")) and match.strip('"') != stored.etag[1:-1]:
            self._refuse(request, 412, "PreconditionFailed")
        elif (
            request.command == "GET"
            and stored.storage_class in ("GLACIER", "DEEP_ARCHIVE")
            and ('ongoing-request="false"' not in stored.restore)
        ):
            self._refuse(request, 403, "InvalidObjectState")
        elif request.command == "GET" and self.dies_at and self.dies_at[0] == key:
            self._die(request, stored, self.dies_at[1])
        else:
            self._give(request, stored)

    def _give(self, request, stored):
        content, status = stored.content, 200
        headers = {
            "ETag": stored.etag,
            "Last-Modified": formatdate(stored.modified, usegmt=True),
            "x-amz-storage-class": stored.storage_class,
        }
        if stored.restore:
            headers["x-amz-restore"] = stored.restore
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range") or ""):
            first, last = int(asked[1]), min(int(asked[2] or 2**62), len(content) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            content, status = content[first : last + 1], 206
        self._send(request, status, content, "application/octet-stream", headers)

    def _refuse(self, request, status, code):
        body = f"<Error><Code>{code}</Code><Message>as the test says</Message></Error>"
        self._send(request, status, body.encode(), "application/xml")

    def _send(self, request, status, body, kind, headers=None):
        request.send_response_only(status)
        head = {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}
        for name, value in head.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    def _die(self, request, stored, size):
        self.dies_at = None
        request.send_response_only(200)
        for name, value in (("Content-Length", len(stored.content)), ("ETag", stored.etag)):
            request.send_header(name, str(value))
        request.end_headers()
        request.wfile.write(stored.content[:size])
        request.wfile.flush()
        request.close_connection = True
        self.stop()

    def _listing(self, objects, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token", "")
        entries = dict[str, StoredObject | None]()
        for key in sorted(objects, key=str.encode):
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                entries[prefix + rest.partition(delimiter)[0] + delimiter] = None
            else:
                entries[key] = objects[key]
        left = [entry for entry in entries if entry.encode() > after.encode()]
        given, more = left[: self._page], len(left) > self._page
        parts = [_written(entry, entries[entry]) for entry in given]
        token = (
            f"<NextContinuationToken>{escape(given[-1])}</NextContinuationToken>" if more else ""
        )
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(parts)}"
            "</ListBucketResult>"
        )


def _written(entry, stored):
    name = escape(entry, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})
    if stored is None:
        return f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"
    modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stored.modified))
    return (
        f"<Contents><Key>{name}</Key><LastModified>{modified}</LastModified>"
        f"<ETag>{escape(stored.etag)}</ETag><Size>{len(stored.content)}</Size>"
        f"<StorageClass>{stored.storage_class}</StorageClass></Contents>"
    )
