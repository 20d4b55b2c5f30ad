"""The picture of the Shipments page in the README, of an invented week: ``python -m
tests.samples.picture docs/img/shipments.png``."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from shipper.report.standing import BLOCKED, DOUBT, FAILED, LATE, SHIPPED, SHIPPING, WAITING
from shipper.shipments.server import Server
from tests.samples.shipments import invented_index

_HOURS = 3 * 24
_NAMES = (
    "access_eu",
    "access_us",
    "api_gateway",
    "audit",
    "billing_events",
    "checkout",
    "dns_queries",
    "edge_cache",
    "mail_relay",
)
_TROUBLE = {
    "audit": {range(40, 41): FAILED},
    "billing_events": {range(26, 30): BLOCKED},
    "checkout": {range(55, 58): LATE},
    "dns_queries": {range(12, 13): DOUBT},
    "access_us": {range(_HOURS - 1, _HOURS): WAITING},
    "edge_cache": {range(_HOURS - 1, _HOURS): SHIPPING},
}
_NEVER_RUN = {"mail_relay": range(33, 36)}


def _windows(first: int) -> dict[str, list[tuple[int, int, str]]]:
    """``first``: when the first window begins, in seconds."""
    found: dict[str, list[tuple[int, int, str]]] = {}
    for name in _NAMES:
        states = {hour: state for hours, state in _TROUBLE.get(name, {}).items() for hour in hours}
        found[name] = [
            (first + hour * 3600, first + (hour + 1) * 3600, states.get(hour, SHIPPED))
            for hour in range(_HOURS)
            if hour not in _NEVER_RUN.get(name, ())
        ]
    begin = first + 50 * 3600
    found["audit.replay.lost-offsets"] = [(begin, begin + 3600, SHIPPED)]
    found["sync_by_hand"] = [
        (begin + hours * 3600, begin + (hours + 2) * 3600, SHIPPED) for hours in (-30, -9, 12)
    ]
    return found


def main(target: Path) -> None:
    chromium = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if chromium is None:
        raise SystemExit("no chromium on PATH")
    begin = int(time.time()) // 3600 * 3600 - _HOURS * 3600
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.sqlite"
        invented_index(path, _windows(begin), begin)
        server = Server(path, 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 420}, color_scheme="light")
            page.goto(f"{server.url}#range=3d")
            page.wait_for_selector("#rows tr")
            page.wait_for_timeout(500)
            page.screenshot(path=target)
            browser.close()
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
