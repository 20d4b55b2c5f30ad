"""Requests to servers on loopback, with which a proxy of the environment (http_proxy) has no
business."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Refused(Exception):
    """A server answered that it does not do what it was asked."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"{status} {said}")
        self.status = status


def request(
    method: str,
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float = 60.0,
) -> bytes:
    """Return the body of the answer. Raises Refused; OSError if nobody answers."""
    asked = urllib.request.Request(url, body, dict(headers or {}), method=method)
    try:
        with _DIRECT.open(asked, timeout=timeout_seconds) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        raise Refused(error.code, error.read().decode(errors="replace")[:1000]) from error


def answers(url: str) -> bool:
    """Return True if an HTTP server answers there, whatever it answers."""
    try:
        request("GET", url, timeout_seconds=2.0)
    except Refused:
        return True
    except OSError:
        return False
    return True


def json_at(url: str, timeout_seconds: float = 5.0) -> dict[str, Any]:
    """Return the JSON object that a server answers with; empty if it does not."""
    try:
        found: dict[str, Any] = json.loads(request("GET", url, timeout_seconds=timeout_seconds))
    except (OSError, ValueError, Refused):
        return {}
    return found
