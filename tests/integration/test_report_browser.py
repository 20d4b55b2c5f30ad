"""The page in a real browser, at the width of a phone."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shipper.report.page import render
from shipper.report.results import RunReport
from tests.browser import CHROMIUM
from tests.samples import reports as samples

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")

FLAGS = [
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ),
    *(
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--virtual-time-budget=5000",
    ),
]
# Chromium's own window cannot be as narrow as a phone, so the page is looked at in a frame of its
# own.
OUTSIDE = """<!doctype html><meta charset="utf-8">
<iframe id="phone" style="width:{width}px;height:800px;border:0" srcdoc="{page}"></iframe>
<script>
onload = () => {{
  const inside = document.getElementById("phone").contentWindow.document;
  const wide = [...inside.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > {width} + 0.5);
  const found = {{
    width: inside.documentElement.scrollWidth,
    wide: wide.map(e => e.tagName + "." + e.getAttribute("class")),
    headline: inside.querySelector("h1").innerText,
    scripts: inside.scripts.length,
    ribbon: inside.querySelector(".node") ? inside.querySelector(".node").getBoundingClientRect().height : null,
  }};
  document.body.dataset.found = JSON.stringify(found);
}};
</script>"""  # noqa: E501


def look(report: RunReport, width: int, folder: Path) -> dict[str, object]:
    assert CHROMIUM is not None
    page = folder / "outside.html"
    page.write_text(OUTSIDE.format(width=width, page=html.escape(render(report))), encoding="utf-8")
    command = [
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found, done.stderr
    return dict(json.loads(html.unescape(found[1])))


@pytest.mark.parametrize(
    "sample", [pytest.param(sample, id=sample.__name__) for sample in samples.SAMPLES]
)
def test_page_shows_without_horizontal_overflow(
    sample: Callable[[], RunReport], tmp_path: Path
) -> None:
    found = look(sample(), 360, tmp_path)
    assert found["width"] == 360, found["wide"]
    assert found["headline"]
    assert found["scripts"] == 0
