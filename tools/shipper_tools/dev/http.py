"""Requests to servers on loopback, with which a proxy of the environment (http_proxy) has no
business."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url: str, timeout_seconds: float = 2.0) -> bool:
    """Return True if an HTTP server answers there, whatever it answers."""
    try:
        DIRECT.open(url, timeout=timeout_seconds).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def json_at(url: str, timeout_seconds: float = 5.0) -> dict[str, Any]:
    """Return the JSON object that a server answers with; empty if it does not."""
    try:
        with DIRECT.open(url, timeout=timeout_seconds) as answer:
            found: dict[str, Any] = json.load(answer)
    except (OSError, ValueError):
        return {}
    return found
