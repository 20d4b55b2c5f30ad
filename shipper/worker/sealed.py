"""An error of a task on its way to the driver, through Spark's text, which quotes log lines: marked by what no log line can know."""

from __future__ import annotations

import json
import secrets

from shipper.errors import ShipperError, of_kind


def new_seal() -> str:
    """Made for one order, known to its tasks alone."""
    return secrets.token_hex(16)


def sealed(error: ShipperError, seal: str) -> str:
    return f"shipper-error {seal} {json.dumps([type(error).__name__, error.message])}"


def unsealed(text: str, seal: str) -> ShipperError | None:
    """The last error that was sealed with ``seal`` in ``text``; None if there is none."""
    _, mark, rest = text.rpartition(f"shipper-error {seal} ")
    if not mark:
        return None
    try:
        (kind, message), _ = json.JSONDecoder().raw_decode(rest)
    except ValueError:  # cut off by somebody who passed it on
        return None
    return of_kind(kind, message)
