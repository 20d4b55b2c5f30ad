"""Take the pictures of the docs: ``python -m tests.samples.picture docs/img``.

They show invented data: the Shipments page of a week, and the report of a run that was shipped.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from shipper.report.page import render
from shipper.report.window_state import BLOCKED, DOUBT, FAILED, LATE, SHIPPED, SHIPPING, WAITING
from tests.samples import reports
from tests.samples.shipments import invented_index, serving

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


def _windows(first):
    """``first``: when the first window begins, in seconds."""
    found = {}
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


def _picture_of_shipments(browser, target):
    begin = int(time.time()) // 3600 * 3600 - _HOURS * 3600
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.sqlite"
        invented_index(path, _windows(begin), begin)
        with serving(path) as url:
            page = browser.new_page(viewport={"width": 1200, "height": 420}, color_scheme="light")
            page.goto(f"{url}?range=3d")
            page.wait_for_selector("#rows tr")
            page.wait_for_timeout(500)
            page.screenshot(path=target)


def _picture_of_report(browser, target):
    page = browser.new_page(viewport={"width": 1100, "height": 820}, color_scheme="light")
    page.set_content(render(reports.shipped()))
    page.screenshot(path=target)


def main(folder: Path):
    chromium = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if chromium is None:
        raise SystemExit("no chromium on PATH")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        _picture_of_shipments(browser, folder / "shipments.png")
        _picture_of_report(browser, folder / "report.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
