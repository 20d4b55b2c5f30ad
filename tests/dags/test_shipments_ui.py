"""The Shipments page where people meet it: in the frame that Airflow's own pages show it in, in a
real browser, each person with the rights of their role; and what its buttons make Airflow do. The
Spark side is a stand-in, and what the page shows comes from reports."""

import datetime as dt
import json
import os
from pathlib import Path

import pytest
from drills import airflow_on_postgres, wait_for

from shipper.report.run_folder import RunFolder
from shipper.shipments.feed import look
from shipper.windows.window import Window
from tests.browser import CHROMIUM
from tests.samples.shipments import leave, run_report

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.scheduler,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH"),
]
PEOPLE = {"admin": "ADMIN", "viewer": "VIEWER"}
HOURS = 6


def reports(runs, name):
    """As runs of six windows have left them: at 02:00 one cluster failed, at 04:00 nobody ran."""
    known = runs / name / "schedule" / "1.json"
    known.parent.mkdir(parents=True)
    first = ", ".join(f'"{cluster}": "2026-11-01T00:00:00+00:00"' for cluster in ("near", "far"))
    known.write_text(f'{{"version": 1, "first_window": {{{first}}}}}')
    for hour in set(range(HOURS)) - {4}:
        report = run_report(hour, f"r{hour}", name, failed=("far",) if hour == 2 else ())
        folder = RunFolder(str(runs), name, report.window, report.run_id)
        folder.write("report", report)
        folder.write_text(
            "report.html", f"<!doctype html><title>{name}</title><h1>Report of r{hour}</h1>"
        )
        leave(runs, report)


@pytest.fixture
def standalone(tmp_path, config, spark):
    for name in ("web", "audit"):
        config.pipeline(name, '{cron: "0 * * * *", start: 2026-11-01, catchup: false}')
        reports(tmp_path / "runs", name)
    look(config.folder)
    passwords = tmp_path / "passwords.json"
    passwords.write_text(json.dumps(dict.fromkeys(PEOPLE, "a password")))
    environment = {
        "SHIPPER_CONFIG": str(config.folder),
        "SPARK_FAKE": str(spark.folder),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
            f"{name}:{role}" for name, role in PEOPLE.items()
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
    }
    with airflow_on_postgres(tmp_path, environment) as server:
        yield server


class Person:
    """Somebody who has logged in, with a browser of their own."""

    def __init__(self, chromium, url, name, **options):
        self.context, self.url = (
            chromium.new_context(viewport={"width": 1440, "height": 900}, **options),
            url,
        )
        login = self.context.request.post(
            f"{self.url}/auth/token", data={"username": name, "password": "a password"}
        )
        assert login.ok, login.text()
        self.context.add_cookies(
            [{"name": "_token", "value": login.json()["access_token"], "url": self.url}]
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(300_000)  # on a busy machine, too
        self.problems = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._said)

    def _said(self, message):
        if message.type == "error" and "/shipper/" in message.location["url"]:
            self.problems.append(message.text)

    def api(self, method, path, body=None):
        return self.context.request.fetch(f"{self.url}/api/v2/{path}", method=method, data=body)

    def shipments(self, where="plugin/shipments"):
        """The page in its frame."""
        self.page.goto(f"{self.url}/{where}")
        frame = self.page.frame_locator("iframe")
        frame.locator("#rows tr").first.wait_for()
        return frame


def rows(frame):
    return [row.get_attribute("data-pipeline") for row in frame.locator("#rows tr").all()]


def open_window(frame, pipeline, words):
    """By keyboard, from the first window on to the one that is not shipped and whose state has
    these words."""
    strip = frame.locator(f'tr[data-pipeline="{pipeline}"] .strip')
    strip.focus()
    strip.press("Home")
    for _ in range(10):
        strip.press("n")
        strip.evaluate("async () => { await served }")
        if words in strip.get_attribute("aria-valuetext"):
            break
    strip.press("Enter")
    frame.locator("#panel #live").wait_for(state="attached")


def test_people_see_and_do_in_airflow_what_their_role_lets_them(standalone, spark, tmp_path):
    """One Airflow for all of it, since it takes half a minute to start."""
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            admin = Person(chromium, standalone.url, "admin")
            wait_for(standalone, lambda: admin.api("GET", "dags").json()["total_entries"] == 2)
            log_in_on_the_way(chromium, standalone.url)
            find_in_the_menu(admin)
            follow_links(admin)
            only_look(Person(chromium, standalone.url, "viewer"))
            ship_a_window(standalone, admin, spark)
            backfill(standalone, admin, spark)
            assert admin.problems == []
        finally:
            chromium.close()


def log_in_on_the_way(chromium, url):
    """Somebody opens a notice's address in a browser that is not logged in."""
    page = chromium.new_context().new_page()
    page.goto(address_of_window(url))
    page.locator('input[name="username"]').fill("viewer")
    page.locator('input[name="password"]').fill("a password")
    page.locator('button[type="submit"]').click()
    page.locator("#panel h3").first.wait_for()
    assert "far does not answer" in page.locator("#panel").inner_text()


def address_of_window(url):
    """Return where notices lead that tell of the window from 2 to 3 o'clock."""
    from shipper_airflow.dags.links import (
        base_url,
        window_page,
    )  # with Airflow, which must not be imported before its home is known

    between = (dt.datetime(2026, 11, 1, hour, tzinfo=dt.UTC) for hour in (2, 3))
    return window_page("web", Window(*between)).replace(base_url(), url)


def find_in_the_menu(admin):
    admin.page.goto(admin.url)
    admin.page.get_by_role("button", name="Browse").first.click()
    admin.page.get_by_text("Shipments").first.click()
    frame = admin.page.frame_locator("iframe")
    frame.locator("#rows tr").first.wait_for()
    assert rows(frame) == ["audit", "web"]
    assert "/plugin/shipments" in admin.page.url
    frame = admin.shipments("dags/web/plugin/dag-shipments")
    assert rows(frame) == ["web"]


def earlier(frame):
    """To the days that the reports are of."""
    frame.locator("#range").select_option("30d")
    frame.locator("#page:not([aria-busy]) #range:has(option[value='30d'][selected])").wait_for()


def follow_links(admin):
    frame = admin.shipments()
    earlier(frame)
    open_window(frame, "web", "failed")
    assert "far does not answer" in frame.locator("#panel").inner_text()
    frame.get_by_role("link", name="Report of this run").click()
    frame.get_by_role("heading", name="Report of r2").wait_for()
    admin.page.go_back()
    frame.locator("#panel #live").wait_for(state="attached")
    frame.get_by_role("link", name="DAG in Airflow").click()
    admin.page.wait_for_url("**/dags/web**")


def only_look(viewer):
    frame = viewer.shipments()
    earlier(frame)
    open_window(frame, "web", "failed")
    for name in ("Ship this window…", "Plan (dry run)…"):
        button = frame.get_by_role("button", name=name)
        assert button.is_disabled()
        why = frame.locator(f"#{button.get_attribute('aria-describedby')}").inner_text()
        assert "not start runs of its DAG" in why
    assert viewer.problems == []


def ship_a_window(airflow, admin, spark):
    frame = admin.shipments()
    earlier(frame)
    open_window(frame, "web", "failed")
    frame.get_by_role("button", name="Ship this window…").click()
    said = frame.locator("#ship")
    said.get_by_text("The DAG is paused").wait_for()
    said.get_by_role("checkbox", name="near").uncheck()
    said.locator("pre", has_text='"clusters"').wait_for()
    said.get_by_role("button", name="Ship the window").click()
    said.get_by_role("link", name="See it in Airflow").wait_for()
    assert admin.api("PATCH", "dags/web", {"is_paused": False}).ok
    (run,) = [run for run in runs_of(admin) if run["run_type"] == "manual"]
    assert run["triggering_user_name"] == "admin"
    window = {"window_start": "2026-11-01T02:00:00Z", "window_end": "2026-11-01T03:00:00Z"}
    assert run["conf"] == {**window, "clusters": ["far"]}
    wait_for(
        airflow,
        lambda: any(
            call["step"] == "ship:far" and call["window"].startswith("2026-11-01T02")
            for call in spark.calls
        ),
    )
    said.get_by_role("link", name="See it in Airflow").click()
    admin.page.wait_for_url("**/dags/web/runs/manual__**")
    assert {call["step"] for call in spark.calls if call["window"].startswith("2026-11-01T02")} >= {
        "plan",
        "ship:far",
    }
    assert not [
        call
        for call in spark.calls
        if call["window"].startswith("2026-11-01T02") and call["step"] == "ship:near"
    ]


def runs_of(admin):
    found = admin.api("GET", "dags/web/dagRuns").json()["dag_runs"]
    return found


def backfill(airflow, admin, spark):
    frame = admin.shipments()
    earlier(frame)
    frame.locator('tr[data-pipeline="web"]').get_by_role("link", name="web", exact=True).click()
    frame.get_by_role("button", name="Backfill these windows…").click()
    said = frame.locator("#backfill")
    said.get_by_label("First window begins (UTC)").fill("2026-11-01T02:00")
    said.get_by_label("Last window begins (UTC)").fill("2026-11-01T04:00")
    said.get_by_text("3 runs would be made").wait_for()
    start, taken = (
        said.get_by_role("button", name="Start the backfill"),
        said.get_by_text("Airflow has taken it"),
    )

    def started():
        """SQLite may be locked by the scheduler: Airflow says so (503), and the person
        tries again."""
        start.click()
        taken.or_(said.locator(".refused")).first.wait_for()
        return bool(taken.is_visible())

    wait_for(airflow, started)

    def shipped():
        return {call["window"][:13] for call in spark.calls if call["step"] == "ship:near"} >= {
            f"2026-11-01T{hour:02}" for hour in (2, 3, 4)
        }

    wait_for(airflow, shipped)
    # What was asked for by hand and what was backfilled are runs over the same window, which need
    # not be a failed one any more.
    admin.page.goto(address_of_window(airflow.url))
    for kind in ("manual", "backfill"):
        admin.page.get_by_role("link", name=f"Run in Airflow ({kind}").wait_for()
    made = [run for run in runs_of(admin) if run["run_type"] == "backfill"]
    assert sorted(run["logical_date"] for run in made) == [
        f"2026-11-01T{hour:02}:00:00Z" for hour in (2, 3, 4)
    ]
