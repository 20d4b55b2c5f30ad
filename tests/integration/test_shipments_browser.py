"""The Shipments page in a real browser: by mouse, by keyboard, on a phone, in the dark, and with 500 pipelines."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shipper_tools.samples.shipments import World, fill, large_index, seconds, under_way

from shipper.shipments.server import Server

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
LAST_HOUR = 25
DAY = f"end={seconds(LAST_HOUR)}&range=1"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("world"))
    fill(world)
    return world


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Server]:
    yield from served(world.index)


def served(index: Path) -> Iterator[Server]:
    server = Server(index, 0)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    yield from opened(browser, f"{server.url}#{DAY}")


def opened(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """A page of which no script failed, and that loaded nothing from elsewhere and nothing that its policy forbids."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    found, problems = context.new_page(), []
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    found.on(
        "request",
        lambda asked: problems.append(asked.url) if not asked.url.startswith((url.split("/shipments")[0], "data:")) else None,
    )
    found.goto(url)
    found.wait_for_selector("#rows tr")
    yield found
    context.close()
    assert problems == []


def wait_for(page: Any, what: str) -> None:
    """Until the expression is true. Asked from here: what polls inside the page needs `eval`, which the page's policy forbids."""
    deadline = time.monotonic() + 30
    while not page.evaluate(what):
        assert time.monotonic() < deadline, what
        page.wait_for_timeout(20)


def names(page: Any) -> list[str]:
    found: list[str] = page.evaluate("[...document.querySelectorAll('#rows tr')].map(row => row.dataset.pipeline)")
    return found


def strip(page: Any, pipeline: str) -> Any:
    return page.locator(f'tr[data-pipeline="{pipeline}"] .strip')


def pixels(page: Any, pipeline: str) -> set[str]:
    """The colours that a row of windows is painted in, by their custom properties."""
    found: list[str] = strip(page, pipeline).evaluate(
        """strip => {
          const canvas = strip.firstChild, data = canvas.getContext("2d").getImageData(0, canvas.height - 3, canvas.width, 1).data;
          const style = getComputedStyle(document.documentElement), found = new Set();
          const hex = (i) => "#" + [0, 1, 2].map((n) => data[i + n].toString(16).padStart(2, "0")).join("");
          for (const name of ["shipped", "failed", "blocked", "missing", "shipping", "waiting"])
            for (let i = 0; i < data.length; i += 4)
              if (data[i + 3] && hex(i) === style.getPropertyValue("--" + name).trim()) { found.add(name); break; }
          return [...found];
        }"""
    )
    return set(found)


def test_each_row_says_in_words_and_shows_in_colours_what_became_of_its_windows(page: Any) -> None:
    assert names(page) == ["audit", "billing_events", "edge", "web"]
    assert "4 pipelines" in page.inner_text("#sum")
    assert page.locator('tr[data-pipeline="web"] td').nth(2).inner_text() == "1 failed, 1 blocked by gate, 1 missing"
    wait_for(page, "document.querySelectorAll('canvas')[8].width > 300")
    assert pixels(page, "web") == {"shipped", "failed", "blocked", "missing"}
    assert pixels(page, "edge") == {"shipped", "missing"}
    assert pixels(page, "audit") == {"shipped", "shipping"}
    assert page.locator("#legend li").count() == 9


def test_rows_are_searched_filtered_and_sorted(page: Any) -> None:
    page.fill("#q", "BILL")
    assert names(page) == ["billing_events"]
    assert page.inner_text("#sum").startswith("1 of 4 pipelines")
    page.fill("#q", "")
    page.select_option("#show", "failed")
    assert names(page) == ["web"]
    page.select_option("#show", "attention")
    page.select_option("#sort", "bad")
    assert names(page)[0] == "web"
    page.select_option("#show", "")
    page.select_option("#cluster", "far")
    wait_for(page, "document.querySelectorAll('#rows tr').length === 3")
    assert "cluster=far" in page.url
    page.reload()
    page.wait_for_selector("#rows tr")
    assert names(page)[0] == "web"
    assert page.input_value("#cluster") == "far"


def test_a_window_is_opened_by_mouse_and_leads_to_its_report(page: Any) -> None:
    box = strip(page, "web").bounding_box()
    x = box["width"] * (10.5 - LAST_HOUR + 24) / 24
    strip(page, "web").hover(position={"x": x, "y": 10})
    assert page.inner_text("#tip") == "web · 2026-11-01 10:00 – 11:00 UTC · failed"
    strip(page, "web").click(position={"x": x, "y": 10})
    page.wait_for_selector("#panel h3")
    text = page.inner_text("#panel")
    assert "web, 2026-11-01 10:00 – 11:00 UTC" in text
    assert "Failed while shipping to far" in text
    assert "far does not answer" in text
    assert "shipper run web --window" in text
    assert "/logs/2.log" in text
    with page.context.expect_page() as report:
        page.click("text=Report of this run")
    assert report.value.inner_text("h1") == "Report of r2"
    page.get_by_role("button", name="r1", exact=True).click()
    wait_for(page, "document.querySelector('#panel h3')?.textContent.includes('near has everything')")
    page.keyboard.press("Escape")
    assert not page.is_visible("#panel")


def test_a_ship_that_is_under_way_is_followed(page: Any, world: World) -> None:
    strip(page, "audit").press("Enter")
    page.wait_for_selector("#live progress")
    assert "near: 400,000 records (54.8 MB), 25% of 40 splits, 9,000 records/s, about 3m left" in page.inner_text("#live")
    assert "Records wait for audit.late" in page.inner_text("#live")
    assert "done: plan" in page.inner_text("#live")
    under_way(world, LAST_HOUR - 1, 800_000, splits_done=20)
    wait_for(page, "document.querySelector('#live').textContent.includes('800,000 records')")
    assert page.locator("#live progress").get_attribute("value") == "0.5"
    page.keyboard.press("Escape")


def test_a_clusters_page_says_what_arrived_there(page: Any) -> None:
    page.get_by_role("navigation", name="Clusters").get_by_role("button", name="near").click()
    page.wait_for_selector("#panel svg")
    text = page.inner_text("#panel")
    assert "from 4 of 4 pipelines that ship here" in text
    assert "On its way now" in text
    assert "audit.late" in text
    assert page.locator('#panel [aria-label="What arrived from each pipeline"] tbody tr').count() == 4
    assert page.locator("#panel svg rect").count() >= 20
    assert "on=near" in page.url
    page.reload()
    page.wait_for_selector("#panel svg")
    page.locator('#panel [aria-label="What arrived from each pipeline"]').get_by_role("button", name="web").click()
    assert page.inner_text("#panel-title") == "web"


def test_without_airflow_a_button_has_the_command_to_copy(page: Any) -> None:
    strip(page, "web").click(position={"x": strip(page, "web").bounding_box()["width"] * (10.5 - LAST_HOUR + 24) / 24, "y": 10})
    page.get_by_role("button", name="Ship this window…").click()
    assert "shipper run web --window 2026-11-01T10:00:00Z/2026-11-01T11:00:00Z" in page.inner_text("#ask")
    page.keyboard.press("Escape")
    assert page.is_visible("#panel")
    page.keyboard.press("Escape")
    page.locator('tr[data-pipeline="web"]').get_by_role("button", name="web").click()
    page.get_by_role("button", name="Backfill these windows…").click()
    assert "shipper run web --window 2026-11-01T10:00:00Z/2026-11-02T01:00:00Z" in page.inner_text("#ask")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Replay quarantine…").click()
    assert "shipper quarantine replay web web.jsonl" in page.inner_text("#ask")


def test_everything_can_be_done_by_keyboard(page: Any) -> None:
    page.focus("#now") if page.is_enabled("#now") else page.focus("#later")
    for _ in range(12):  # through links of the first row to its windows
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "slider":
            break
    said = "document.activeElement.getAttribute('aria-valuetext')"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Windows of audit"
    assert page.evaluate(said) == "2026-11-02 00:00 – 01:00 UTC: shipping now"
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Windows of web"
    page.keyboard.press("p")
    page.keyboard.press("p")
    page.keyboard.press("p")
    assert page.evaluate(said) == "2026-11-01 10:00 – 11:00 UTC: failed"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(said) == "2026-11-01 11:00 – 12:00 UTC: shipped"
    page.keyboard.press("n")
    assert page.evaluate(said) == "2026-11-01 12:00 – 13:00 UTC: blocked by gate"
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel h3")
    assert "window=web" in page.url
    assert page.evaluate("document.activeElement.id") == "panel-title"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Windows of web"


def test_a_screen_reader_finds_a_table_with_names(page: Any) -> None:
    tree = page.locator("main").aria_snapshot()
    assert 'table "Windows by pipeline. Times are UTC."' in tree
    for role in (
        'columnheader "Newest window"',
        'rowheader "web',
        'slider "Windows of web"',
        'searchbox "Search"',
        'list "What the colours',
    ):
        assert role in tree, tree
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input, select, a')].filter(e => !(e.innerText || e.labels?.length || e.ariaLabel)).length"
    )
    assert unnamed == 0


def contrast(page: Any, foreground: str, background: str) -> float:
    """As WCAG counts it, between two custom properties."""

    def luminance(name: str) -> float:
        text = page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")
        parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    one, other = sorted((luminance(foreground), luminance(background)))
    return (other + 0.05) / (one + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(browser: Any, server: Server, scheme: str) -> None:
    for page in opened(
        browser, f"{server.url}#{DAY}", viewport={"width": 360, "height": 740}, color_scheme=scheme, has_touch=True
    ):
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert 'rowheader "web' in page.locator("main").aria_snapshot()
        strip(page, "web").tap(position={"x": 328 * 9.5 / 24, "y": 10})
        page.wait_for_selector("#panel h3")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.evaluate("document.getElementById('panel').scrollWidth <= 360")
        for text in ("ink", "dim", "link", "bad", "good", "warn"):
            assert contrast(page, text, "paper") >= 4.5, text
        for shape in ("shipped", "late", "doubt", "waiting", "shipping", "missing", "blocked", "failed"):
            assert contrast(page, shape, "paper") >= 3, shape


def test_500_pipelines_and_30_days_of_hours(browser: Any, tmp_path: Path) -> None:
    """A failure among 720 windows can be seen and found. What it took is said, and fails nothing."""
    large_index(tmp_path / "index.sqlite", int(time.time()))
    for server in served(tmp_path / "index.sqlite"):
        began = time.perf_counter()
        for page in opened(browser, f"{server.url}#range=30"):
            wait_for(page, "document.querySelectorAll('#rows tr').length === 500")
            wait_for(page, "document.querySelector('.strip canvas').width > 300")
            print(f"500 pipelines and 30 days of hours: {time.perf_counter() - began:.2f} s until they are seen")
            assert "failed" in pixels(page, "stream_000")
            newest = page.inner_text("#axis")
            turned = f"document.getElementById('axis').innerText !== {json.dumps(newest)}"
            wait_for(page, "ahead.answer && ahead.answer.then(() => true)")  # fetched while somebody looks at the newest
            page.evaluate("asks = performance.getEntriesByType('resource').length")
            began = time.perf_counter()
            page.evaluate("document.getElementById('earlier').click()")
            wait_for(page, turned)
            print(f"the page of history before: {time.perf_counter() - began:.2f} s")
            assert page.evaluate("performance.getEntriesByType('resource').length === asks"), "it waited for nothing"
            page.click("#now")
            wait_for(page, turned.replace("!==", "==="))
            page.select_option("#show", "failed")
            assert 0 < len(names(page)) <= 500
