"""The little that development needs of an S3 client: buckets and objects, with or without a
signature.

(Signature version 4: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html)
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from shipper_tools.dev import http

_REGION = "us-east-1"


@dataclass(frozen=True)
class S3Client:
    """Client of one server. Each call is one request. Raises http.Refused, and OSError if nobody
    answers."""

    endpoint: str
    access_key: str
    secret_key: str

    def make_bucket(self, name: str) -> None:
        """Does nothing if it is there."""
        try:
            self._request("PUT", f"/{name}")
        except http.Refused as error:
            if error.status != 409:
                raise

    def put(self, bucket: str, key: str, content: bytes) -> None:
        self._request("PUT", f"/{bucket}/{quote(key)}", content)

    def get(self, bucket: str, key: str) -> bytes:
        return self._request("GET", f"/{bucket}/{quote(key)}")

    def delete(self, bucket: str, key: str) -> None:
        self._request("DELETE", f"/{bucket}/{quote(key)}")

    def keys(self, bucket: str) -> list[str]:
        """Up to a thousand."""
        answer = ElementTree.fromstring(self._request("GET", f"/{bucket}"))
        return [element.text or "" for element in answer.iterfind(".//{*}Key")]

    def _request(self, method: str, path: str, content: bytes = b"") -> bytes:
        headers = self._signed(method, path)
        if method == "PUT":
            headers["Content-Type"] = "application/octet-stream"
        body = content if method == "PUT" else None
        return http.request(method, self.endpoint + path, body, headers)

    def _signed(self, method: str, path: str) -> dict[str, str]:
        # A server keeps content that is signed as a whole in memory, to check it first.
        content_hash = "UNSIGNED-PAYLOAD"
        now = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
        headers = {
            "host": urlsplit(self.endpoint).netloc,
            "x-amz-content-sha256": content_hash,
            "x-amz-date": now,
        }
        names = ";".join(headers)
        signed = [f"{name}:{value}" for name, value in headers.items()]
        canonical = "\n".join([method, path, "", *signed, "", names, content_hash])
        scope = f"{now[:8]}/{_REGION}/s3/aws4_request"
        to_sign = "\n".join(
            ["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()]
        )
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        credential = f"Credential={self.access_key}/{scope}"
        return {
            **headers,
            "Authorization": (
                f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"
            ),
        }
