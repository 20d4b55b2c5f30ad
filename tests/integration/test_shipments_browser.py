"""The Shipments page, and the report of a run, in a real browser: by mouse, by keyboard, on a
phone, in the dark."""

import itertools

import pytest

from shipper.report.page import render
from tests.browser import CHROMIUM
from tests.samples import reports
from tests.samples.shipments import World, fill, seconds, serving, under_way
from tests.waiting import wait_until

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH"), pytest.mark.long]
LAST_HOUR = 25
DAY = f"end={seconds(LAST_HOUR)}&range=24h"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world"))
    fill(world)
    return world


@pytest.fixture(scope="module")
def url(world):
    with serving(world.index) as url:
        yield url


@pytest.fixture
def page(browser, url):
    yield from opened(browser, f"{url}?{DAY}")


def opened(browser, url, **options):
    """A page of which no script failed, and that loaded nothing from elsewhere and nothing that its
    policy forbids."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    found, problems = context.new_page(), []
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    found.on(
        "request",
        lambda asked: (
            problems.append(asked.url)
            if not asked.url.startswith((url.split("/shipments")[0], "data:"))
            else None
        ),
    )
    found.goto(url)
    found.wait_for_selector("#rows tr")
    yield found
    context.close()
    assert problems == []


def wait_for(page, what):
    """Until the expression is true. Asked from here: what polls inside the page needs `eval`, which
    the page's policy forbids."""
    wait_until(lambda: page.evaluate(what), 60)


def names(page):
    found = page.evaluate(
        "[...document.querySelectorAll('#rows tr')].map(row => row.dataset.pipeline)"
    )
    return found


def strip(page, pipeline):
    return page.locator(f'tr[data-pipeline="{pipeline}"] .strip')


def drawn(page, pipeline):
    """The states of the windows that a row is drawn with."""
    lines = strip(page, pipeline).locator("path").all()
    return {line.get_attribute("class") for line in lines if line.bounding_box()["width"] > 0}


def test_each_row_says_in_words_and_shows_in_colours_what_became_of_its_windows(page):
    assert names(page) == ["web", "edge", "billing_events", "audit"]
    assert page.inner_text("#sum") == "4 pipelines · 2026-11-01 01:00 – 2026-11-02 01:00 UTC"
    look = page.locator('tr[data-pipeline="web"]').get_by_role("link").nth(1)
    assert look.get_attribute("aria-label") == "1 failed, 1 blocked by gate, 1 missing"
    assert drawn(page, "web") == {"shipped", "failed", "blocked", "missing"}
    assert drawn(page, "edge") == {"shipped", "missing"}
    assert drawn(page, "audit") == {"shipped", "overdue"}
    colours = page.evaluate(
        "[...document.querySelectorAll('.strip path')].map(one => getComputedStyle(one).stroke)"
    )
    assert len(set(colours)) == 5
    assert "none" not in colours


def counts(page):
    """The line of counts at the top, from left to right."""
    return [" ".join(one.inner_text().split()) for one in page.locator("#counts a").all()]


def test_what_is_wrong_comes_first_and_a_count_shows_its_pipelines(page):
    assert [one.split(" ", 1)[1] for one in counts(page)] == [
        "failed",
        "blocked by gate",
        "missing",
        "overdue",
        "shipped",
    ]
    failed, missing = (
        page.locator(f'#counts [data-state="{state}"]') for state in ("failed", "missing")
    )
    red = page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--bad').trim()"
    )
    assert (
        failed.evaluate("one => getComputedStyle(one).color")
        == f"rgb({', '.join(str(int(red[i : i + 2], 16)) for i in (1, 3, 5))})"
    )
    missing.click()
    wait_for(page, "document.querySelectorAll('#rows tr').length === 3")
    assert names(page) == ["web", "edge", "billing_events"]
    assert missing.get_attribute("aria-current") == "true"
    assert "show=missing" in page.url
    assert len(counts(page)) == 5, "the others can still be chosen"
    failed.click()
    wait_for(page, "document.querySelectorAll('#rows tr').length === 1")
    assert names(page) == ["web"]
    failed.click()
    wait_for(page, "document.querySelectorAll('#rows tr').length === 4")


def test_what_is_chosen_while_the_script_still_loads_is_not_lost(browser, url):
    page = browser.new_page()
    page.route("**/page.js", lambda route: (page.wait_for_timeout(500), route.continue_()))
    page.goto(f"{url}?{DAY}", wait_until="commit")
    page.locator("#rows tr").first.wait_for()
    page.locator("#range").select_option("30d")
    page.wait_for_selector("#range option[value='30d'][selected]", state="attached", timeout=10_000)
    page.close()


def test_the_address_is_the_state(page):
    """Back, Forward and an address that somebody changes do what they say, without a reload."""
    page.evaluate("document.loadedOnce = true")
    page.locator('#counts [data-state="failed"]').click()
    wait_for(page, "document.querySelectorAll('#rows tr').length === 1")
    strip(page, "web").press("Home")
    strip(page, "web").press("Enter")
    page.wait_for_selector("#panel table")
    page.go_back()
    page.wait_for_selector("#panel", state="hidden")
    assert names(page) == ["web"]
    page.go_back()
    wait_for(page, "document.querySelectorAll('#rows tr').length === 4")
    page.go_forward()
    wait_for(page, "document.querySelectorAll('#rows tr').length === 1")
    page.go_forward()
    page.wait_for_selector("#panel table")
    page.keyboard.press("Escape")
    page.wait_for_selector("#panel", state="hidden")
    wait_for(page, "!location.search.includes('window=')")
    page.get_by_role("link", name="web", exact=True).click()
    wait_for(page, "document.getElementById('panel-title')?.textContent === 'web'")
    assert "list=web" in page.url
    page.get_by_role("link", name="Close").click()
    page.wait_for_selector("#panel", state="hidden")
    assert "list=" not in page.url
    assert page.evaluate("document.loadedOnce")
    # However an address is written, to close what is open adds no step of its own.
    page.evaluate("""go(address({}).replace(/[?]/, "?q=a%20b&"))""")
    wait_for(page, "document.querySelectorAll('#rows tr').length === 0")
    page.evaluate("go(location.href + '&on=near')")
    wait_for(page, "document.getElementById('panel-title')?.textContent === 'Cluster near'")
    page.go_back()
    page.wait_for_selector("#panel", state="hidden")
    page.go_forward()
    page.wait_for_selector("#panel[open]")


def test_a_window_is_opened_by_mouse_and_leads_to_its_report(page):
    box = strip(page, "web").bounding_box()
    x = box["width"] * (10.5 - LAST_HOUR + 24) / 24
    strip(page, "web").hover(position={"x": x, "y": 10})
    page.wait_for_selector("#tip:not([hidden])")
    assert page.inner_text("#tip") == "web · 2026-11-01 10:00 – 11:00 UTC: failed"
    strip(page, "web").click(position={"x": x, "y": 10})
    page.wait_for_selector("#panel h3")
    text = page.inner_text("#panel")
    assert (
        page.inner_text("#panel-title")
        == "web · 2026-11-01 10:00 – 11:00 UTC\nFailed while shipping to far; near has everything"
    )
    assert (
        text.index("far does not answer")
        < text.index("30m after the window ended")
        < text.rindex("Records")
    )
    assert "shipper run web --window" in text
    with page.context.expect_page() as report:
        page.click("text=Report of this run")
    assert report.value.inner_text("h1") == "Report of r2"
    page.get_by_role("link", name="r1", exact=True).click()
    wait_for(page, "document.getElementById('panel-title').textContent.includes('run r1')")
    assert "run=r1" in page.url
    page.keyboard.press("Escape")
    assert not page.is_visible("#panel")


def test_a_ship_that_is_under_way_is_followed(page, world):
    strip(page, "audit").focus()
    strip(page, "audit").press("Enter")
    page.wait_for_selector("#live progress")
    assert (
        "near: 400,000 records (54.8 MB), 25% of 40 splits, 9,000 records/s, about 3m left"
        in page.inner_text("#live")
    )
    assert "Records wait for audit.late" in page.inner_text("#live")
    assert "Done: plan" in page.inner_text("#live")
    under_way(world, LAST_HOUR - 1, 800_000, splits_done=20)
    wait_for(page, "document.querySelector('#live').textContent.includes('800,000 records')")
    assert page.locator("#live progress").get_attribute("value") == "0.5"
    page.keyboard.press("Escape")


def test_an_open_window_learns_of_the_run_that_follows(browser, tmp_path):
    world = World(tmp_path)
    world.pipeline()
    world.beginning()
    world.feed(world.report(0))
    later = world.report(1, "later")
    with serving(world.index) as url:
        for shown in opened(browser, f"{url}?{DAY}&window=web {later.window}"):
            assert "later" not in shown.inner_text("#panel")
            world.feed(later)
            wait_for(shown, "document.querySelector('#panel').textContent.includes('later')")


def test_without_scripts_the_page_can_be_read(browser, url):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{url}?{DAY}")
    assert page.locator("#rows tr").count() == 4
    page.get_by_role("link", name="web", exact=True).click()
    page.get_by_role("link", name="2026-11-01 10:00").click()
    assert "far does not answer" in page.inner_text("#panel")
    page.get_by_role("link", name="Close").click()
    page.get_by_role("link", name="near").click()
    assert "Cluster near" in page.inner_text("#panel")
    context.close()


def test_a_stretch_is_zoomed_into_by_dragging_and_by_keyboard(page):
    box = strip(page, "web").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 10, steps=5)
    page.mouse.up()
    wait_for(page, "document.getElementById('whole')")
    first, last = (int(page.get_attribute("#rows", f"data-{end}")) for end in ("start", "end"))
    assert abs(first - seconds(7)) <= 240
    assert abs(last - seconds(13)) <= 240
    strip(page, "web").focus()
    page.keyboard.press("+")
    wait_for(page, f"document.getElementById('rows').dataset.start !== '{first}'")
    shorter = int(page.get_attribute("#rows", "data-end")) - int(
        page.get_attribute("#rows", "data-start")
    )
    assert abs(shorter - (last - first) / 2) <= 120
    page.keyboard.press("0")
    wait_for(page, "!document.getElementById('whole')")


def settle(page):
    """Until all keys are served."""
    page.evaluate("new Promise(done => setTimeout(done, 50)).then(() => served)")


def test_everything_can_be_done_by_keyboard(page):
    page.focus("#now")
    for _ in range(12):  # through links of the first row to its windows
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "slider":
            break
    said = "document.activeElement.getAttribute('aria-valuetext')"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Windows of web"
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    settle(page)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Windows of audit"
    settle(page)
    assert page.evaluate(said) == "2026-11-02 00:00 – 01:00 UTC: overdue"
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("p")
    page.keyboard.press("p")
    page.keyboard.press("p")
    settle(page)
    assert page.evaluate(said) == "2026-11-01 10:00 – 11:00 UTC: failed"
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.evaluate(said) == "2026-11-01 11:00 – 12:00 UTC: shipped"
    page.keyboard.press("n")
    settle(page)
    assert page.evaluate(said) == "2026-11-01 12:00 – 13:00 UTC: blocked by gate"
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel h3")
    assert "window=web" in page.url
    assert page.evaluate("document.activeElement.id") == "panel-title"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Windows of web"


def test_a_screen_reader_finds_a_table_with_names(page):
    tree = page.locator("main").aria_snapshot()
    assert 'table "Windows by pipeline. Times are UTC."' in tree
    for role in (
        'columnheader "Newest window"',
        'rowheader "web',
        'slider "Windows of web"',
        'searchbox "Search"',
        'group "Windows by state',
    ):
        assert role in tree, tree
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input, select, a')].filter(e => !(e.innerText || "
        "e.labels?.length || e.ariaLabel)).length"
    )
    assert unnamed == 0


def contrast(page, foreground, background):
    """As WCAG counts it, between two custom properties."""

    def luminance(name):
        text = page.evaluate(
            f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()"
        )
        parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (
            part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    one, other = sorted((luminance(foreground), luminance(background)))
    return (other + 0.05) / (one + 0.05)


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 360), ("dark", 300)], ids=["light", "dark, in Airflow's frame"]
)
def test_a_phone_shows_it_without_scrolling_sideways(browser, url, scheme, width):
    for page in opened(
        browser,
        f"{url}?{DAY}",
        viewport={"width": width, "height": 740},
        color_scheme=scheme,
        has_touch=True,
    ):
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert 'rowheader "web' in page.locator("main").aria_snapshot()
        strip(page, "web").tap(position={"x": (width - 32) * 9.5 / 24, "y": 10})
        page.wait_for_selector("#panel h3")
        row = page.locator('#panel [aria-label="Records by cluster"] tbody tr').first.locator(
            "th, td"
        )
        edges = [cell.bounding_box() for cell in row.all()]
        assert all(
            upper["y"] + upper["height"] <= lower["y"] + 1
            for upper, lower in itertools.pairwise(edges)
        ), "stacked"
        assert (
            "quarantined"
            in page.locator('#panel [aria-label="Records by cluster"]').aria_snapshot()
        )
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.getElementById('panel').scrollWidth") <= width
        for text in ("ink", "dim", "link", "bad", "good", "warn", "look"):
            assert contrast(page, text, "paper") >= 4.5, text
        for shape in (
            "shipped",
            "late",
            "doubt",
            "waiting",
            "shipping",
            "trouble",
            "overdue",
            "missing",
            "blocked",
            "failed",
        ):
            assert contrast(page, shape, "paper") >= 3, shape


def test_the_report_of_any_run_fits_a_phone_and_runs_no_script(browser):
    page = browser.new_page(viewport={"width": 360, "height": 740})
    for sample in reports.SAMPLES:
        page.set_content(render(sample()))
        assert page.evaluate("document.documentElement.scrollWidth") == 360, sample.__name__
        assert page.inner_text("h1")
        assert page.evaluate("document.scripts.length") == 0
    page.close()
