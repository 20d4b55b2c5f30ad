"""The Shipments page as Airflow's API server mounts it: to whom it answers what."""

import subprocess
import sys
import threading
from urllib.parse import parse_qs, urlsplit

import pytest

from shipper import runtime
from tests.samples.shipments import HOUR, START, Page, World, at, seconds
from tests.waiting import wait_until

pytestmark = pytest.mark.airflow

WINDOW = "2026-11-01T00:00:00Z/2026-11-01T01:00:00Z"
FOLDER = "20261101T000000Z--20261101T010000Z"
ROLES = {
    "viewer": "VIEWER",
    "user": "USER",
    "op": "OP",
    "admin": "ADMIN",
    "web_only": "VIEWER",
    "no_logs": "VIEWER",
    "nobody": None,
}


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = World(tmp_path)
    for name in ("web", "audit"):
        world.pipeline(name)
        world.beginning(name)
        report = world.report(0, "r1", name, failed=("far",))
        world.feed(report)
    monkeypatch.setenv("SHIPPER_CONFIG", str(world.config))
    return world


@pytest.fixture(scope="module")
def client(airflow):
    """Of Airflow's own app, with the plugin as it is installed. Each request looks up the
    configuration."""
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from fastapi.testclient import TestClient

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "dag_roles.DagByDag")
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "a secret of this test, " * 4)
        purge_cached_app()
        yield TestClient(create_app(apps="core"))
        purge_cached_app()


@pytest.fixture
def ask(client, world):
    """``ask(person, path)`` with the cookie that a login gives."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        for name in ("web", "audit"):
            session.merge(DagModel(dag_id=name, bundle_name="dags-folder"))

    def asked(person, path, below="/shipper", body=None, headers=None, method="", **query):
        client.cookies.clear()
        if person:
            token = get_auth_manager().generate_jwt(
                SimpleAuthManagerUser(username=person, role=ROLES[person])
            )
            client.cookies.set("_token", token)
        return client.request(
            method or ("POST" if body else "GET"),
            f"{below}/{path}",
            params=query or None,
            headers=headers,
            json=body,
            follow_redirects=False,
        )

    yield asked
    with create_session() as session:
        for run in session.query(DagRun):
            session.delete(run)


END = {"end": str(seconds(2))}


def open_window(ask, person, pipeline, hour=0):
    """What opens in front of the page."""
    window = f"{pipeline} {at(hour):%Y-%m-%dT%H:%M:%SZ}/{at(hour + 1):%Y-%m-%dT%H:%M:%SZ}"
    answer = ask(person, "shipments", part="panel", window=window)
    return answer.status_code, Page(answer.text)


def test_each_person_sees_what_airflow_lets_them_see(ask):
    report = f"report/audit/{FOLDER}/r1"
    for path, query in (
        ("shipments", {}),
        ("shipments", {"part": "page"}),
        ("shipments", {"part": "panel", "list": "web"}),
        ("page.js", {}),
        ("windows", {"of": "web"}),
        (report, {}),
        ("nothing", {}),
    ):
        assert ask(None, path, **query).status_code == 401, path

    for person in ("viewer", "user", "op", "admin"):
        page = ask(person, "shipments", **END)
        assert (page.status_code, Page(page.text).rows) == (200, ["audit", "web"])
        assert "Report of r1" in ask(person, report).text
        status, window = open_window(ask, person, "audit")
        assert status == 200
        assert "Failed while shipping to far; near has everything" in window.text
        assert dict(window.links)["DAG in Airflow"]["href"] == "/dags/audit"

    assert Page(ask("web_only", "shipments", **END).text).rows == ["web"]
    assert open_window(ask, "web_only", "web")[0] == 200
    assert open_window(ask, "web_only", "audit")[0] == 403
    assert ask("web_only", report).status_code == 403
    assert ask("web_only", report.replace("audit", "web")).status_code == 200

    assert ask("no_logs", report).status_code == 403
    status, window = open_window(ask, "no_logs", "audit")
    assert status == 200
    assert window.states[:3] == ["failed", "shipped", "failed"]
    for of_the_report in ("does not answer", "Failed while shipping", "Report of this run"):
        assert of_the_report not in window.text

    assert Page(ask("nobody", "shipments", **END).text).rows == []
    assert open_window(ask, "nobody", "web")[0] == 403
    assert ask("nobody", report).status_code == 403

    for path in (
        f"report/web/{FOLDER}/..%2f..%2f..%2fsecret",
        "report/web/..%2f..%2f/r1",
        "..%2f..%2fetc%2fpasswd",
    ):
        assert ask("admin", path).status_code == 404, path
    policy = ask("admin", "shipments").headers["content-security-policy"]
    assert "script-src 'self'; style-src 'self'" in policy
    assert "form-action 'none'; frame-ancestors 'self'" in policy
    views = [view["url_route"] for view in airflow_views()]
    assert {"shipments", "dag-shipments"} <= set(views)


def test_a_browser_without_a_login_is_sent_to_it_and_from_there_back(ask):
    query = {"dag_id": "web", "window": f"web {WINDOW}"}
    for path, asked in (("shipments", query), (f"report/web/{FOLDER}/r1", {})):
        answer = ask(None, path, headers={"accept": "text/html,*/*;q=0.8"}, **asked)
        assert (answer.status_code, urlsplit(answer.headers["location"]).path) == (
            302,
            "/api/v2/auth/login",
        )
        login = ask(None, answer.headers["location"].lstrip("/"), "")
        (back,) = parse_qs(urlsplit(login.headers["location"]).query)["next"]
        assert (urlsplit(back).path, parse_qs(urlsplit(back).query)) == (
            f"/shipper/{path}",
            {key: [asked[key]] for key in asked},
        )
    assert ask(None, "shipments").status_code == 401, "a script gets no page instead"


def test_the_buttons_are_for_those_whom_airflow_lets_start_runs(ask):
    """The page says so beforehand; and what a button sends is refused by Airflow itself."""
    window = {"window_start": "2026-11-01T00:00:00Z", "window_end": "2026-11-01T01:00:00Z"}
    run, stretch = (
        {"logical_date": None, "conf": window},
        {"dag_id": "web", **dict.fromkeys(("from_date", "to_date"), window["window_start"])},
    )
    for person, may in (
        ("viewer", False),
        ("web_only", False),
        ("user", True),
        ("op", True),
        ("admin", True),
    ):
        windows = Page(ask(person, "shipments", part="panel", list="web").text)
        assert ("backfill" in windows.ids, "why-not" in windows.ids) == (may, not may), person
        window = open_window(ask, person, "web")[1]
        assert ({"ship", "plan"} <= set(window.ids), "why-not" in window.ids) == (may, not may)
        # (No DAG is serialised here: whoever may, hears that there is none.)
        answers = [ask(person, path, "/api/v2", body) for path, body in (
            ("dags/web/dagRuns", run), ("backfills", stretch), ("backfills/dry_run", stretch))]  # fmt: skip  # noqa: E501
        assert [answer.status_code == 403 for answer in answers] == [not may] * 3, (
            person,
            [answer.text for answer in answers],
        )
    assert ask(None, "dags/web/dagRuns", "/api/v2", run).status_code == 401
    assert ask("web_only", "shipments", part="panel", list="audit").status_code == 403


def test_who_may_start_runs_may_say_that_nothing_will_come(ask, world):
    body = {"pipeline": "web", "window": WINDOW, "reason": "the host was down"}
    for person in (None, "viewer", "web_only"):
        assert ask(person, "accept", body=body).status_code in (401, 403), person
    assert "accept" in open_window(ask, "op", "web")[1].ids
    assert ask("op", "accept", body={**body, "reason": " "}).status_code == 422
    assert ask("op", "accept", body={**body, "window": "now"}).status_code == 400
    assert ask("op", "accept", body=body).json() == {"accepted": WINDOW}
    shown = wait_until(
        lambda: (
            (page := ask("op", "shipments", part="panel", window=f"web {WINDOW}").text)
            and "ccepted by op at" in page
            and page
        )
    )
    assert "the host was down" in shown


def airflow_views():
    from airflow.plugins_manager import get_plugin_info

    return [
        view
        for plugin in get_plugin_info()
        if plugin["name"] == "shipper"
        for view in plugin["external_views"]
    ]


def test_a_broken_platform_file_is_named(ask, world):
    world.write("shipper.yaml", "indx: here\n")
    found = ask("viewer", "shipments")
    assert (found.status_code, "shipper.yaml:1" in found.text) == (503, True)


@pytest.mark.parametrize(("person", "status"), [("viewer", 403), ("user", 404)])
def test_a_closed_gate_is_answered_by_those_alone_whom_airflow_lets_change_tasks(
    ask, person, status
):
    """Whoever may, hears that no such task waits."""
    of_gate = "dags/web/dagRuns/x/taskInstances/gate_source/-1/hitlDetails"
    answer = {"chosen_options": ["Ship all the same"], "params_input": {"reason": "a drill"}}
    answered = ask(person, of_gate, below="/api/v2", body=answer, method="PATCH")
    assert answered.status_code == status, answered.text


def test_whoever_looks_at_the_page_has_its_index_brought_up_to_date(ask, world, monkeypatch):
    """Runs leave their records in runs_uri, and there is no command to run. Whoever is the first
    to look is not told that nothing was ever scheduled."""
    monkeypatch.setattr("shipper_airflow.shipments._PATIENCE_SECONDS", 300)
    world.index.unlink()
    world.report(1, "r1")

    def seen():
        page = ask("viewer", "shipments", **END)
        assert page.status_code == 200
        shown = {said["data-state"]: words for words, said in Page(page.text).links
                 if "data-state" in said}  # fmt: skip
        return shown == {"failed": "2 failed", "missing": "1 missing", "shipped": "1 shipped"}

    assert seen()
    for thread in threading.enumerate():
        if thread.name == "shipments":
            thread.join()
    # An index that cannot be made, or that this user may not write, harms no page but its own.
    world.index.unlink()
    world.index.mkdir()
    found = ask("viewer", "shipments", **END)
    assert (found.status_code, "cannot be used" in found.text) == (503, True)


def test_a_window_that_is_opened_by_a_link_shows_the_run_that_has_just_ended(ask, world):
    """Whoever follows the link of a notice comes before the index knows of the run."""
    assert ask("viewer", "shipments").status_code == 200
    for thread in threading.enumerate():
        if thread.name == "shipments":
            thread.join()
    hour = (runtime.now() - START) // HOUR - 2
    for run, more in (("of-the-link", {}), ("while-it-is-open", {"part": "panel"})):
        ended = world.report(hour, run)
        opened = ask("viewer", "shipments", window=f"web {ended.window}", **more)
        assert (opened.status_code, run in opened.text) == (200, True)


def test_the_plugin_imports_what_parses_and_tasks_need_and_no_more(airflow):
    """Scheduler, DAG processor and tasks load it for the timetable: only a request imports what
    answers it. What is forked off them finds the models there."""
    code = "import sys, shipper_airflow.plugin; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    answers = (
        "shipper.shipments",
        "shipper_airflow.shipments",
        "airflow.api_fastapi.app",
        "airflow.api_fastapi.core_api.security",
    )
    assert {"shipper_airflow.timetable", "shipper.config.load"} <= {*loaded}
    assert [name for name in loaded if name.startswith(answers)] == []


def dag_run(hour, state, *, failed_in="", waits_in="", asks_until=None, conf=None, began=None):
    """A run as Airflow has it in its database: of the schedule, or by hand with ``conf``. One task
    failed, or is scheduled and waits for the pool ``waits_in``, or asks a person."""
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.utils.session import create_session

    kind, interval = ("manual", None) if conf else ("scheduled", (at(hour), at(hour + 1)))
    start, over = at(began if began is not None else hour + 1.1), state in ("failed", "success")
    with create_session() as session:
        run = DagRun(
            dag_id="web",
            run_id=f"{kind}__{hour}",
            run_type=kind,
            data_interval=interval,
            logical_date=None if conf else at(hour),
            run_after=start,
            start_date=start,
            state=state,
            conf=conf or {},
        )
        run.end_date = at(hour + 1.2) if over else None
        session.add(run)
        session.flush()
        if failed_in or waits_in or asks_until:
            version = DagVersion(
                dag_id="web", version_number=1_000 + hour, bundle_name="dags-folder"
            )  # beyond other tests
            session.add(version)
            session.flush()
            task = TaskInstance(
                EmptyOperator(task_id=failed_in or "to_far.ship", pool=waits_in or "default_pool"),
                run_id=run.run_id,
                dag_version_id=version.id,
            )
            task.dag_id, task.state = "web", "failed" if failed_in else "scheduled"
            task.end_date = at(hour + 1.2) if failed_in else None
            if asks_until:
                task.state, task.trigger_timeout = "awaiting_input", at(asks_until)
            session.add(task)


def test_a_run_that_left_no_report_is_on_the_page_with_what_airflow_knows(ask):
    """It died in its first task, or its configuration was broken, so none of its steps began."""

    def states():
        first, last = str(seconds(0)), str(seconds(6))
        windows = Page(ask("viewer", "windows", of="web", first=first, last=last).text).windows()
        by_start = {start: state for start, _, state in windows}
        return [by_start.get(seconds(hour), "") for hour in range(6)]

    assert states() == ["failed", *["missing"] * 5]
    dag_run(1, "failed", failed_in="resolve_window")
    dag_run(2, "running")
    dag_run(3, "queued")
    dag_run(4, "failed", conf={"window_start": at(4).isoformat(), "window_end": at(5).isoformat()})
    assert states() == ["failed", "failed", "overdue", "overdue", "failed", "missing"]
    window = open_window(ask, "viewer", "web", 1)[1]
    assert window.states == ["failed"] * 3
    assert "scheduled__1 failed in resolve_window 2026-11-01 02:12 UTC" in window.text
    # A run leads to Airflow's page of it; so does one that was asked for the window by hand.
    for hour, words in ((1, "scheduled, failed"), (4, "manual, failed")):
        links = dict(open_window(ask, "viewer", "web", hour)[1].links)
        kind = words.split(",")[0]
        assert links[f"Run in Airflow ({words})"]["href"] == f"/dags/web/runs/{kind}__{hour}"
    assert "is under way (scheduled__2)" in open_window(ask, "op", "web", 1)[1].text


def test_a_run_that_was_asked_for_and_refused_makes_no_window_fail(ask):
    """Nobody waits for the window that it named, which may begin and end at any moment."""
    first, last = str(seconds(5)), str(seconds(8))
    before = ask("viewer", "windows", of="web", first=first, last=last).text
    named = {"window_start": at(6.5).isoformat(), "window_end": at(7).isoformat(), "files": ["x"]}
    dag_run(7, "failed", failed_in="resolve_window", conf=named)
    assert ask("viewer", "windows", of="web", first=first, last=last).text == before
    dag_run(6, "failed", failed_in="plan", conf=named)
    after = Page(ask("viewer", "windows", of="web", first=first, last=last).text).windows()
    assert "failed" in [state for *_, state in after]


def test_a_run_that_does_not_go_on_says_what_it_waits_for(ask):
    from airflow.models.dag import DagModel
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session

    def pause(*, yes):
        with create_session() as session:
            session.get(DagModel, "web").is_paused = yes

    with create_session() as session:
        session.merge(Pool(pool="full", slots=0, include_deferred=False))
    waits = {
        11: ("default_pool", "to_far.ship waits for a worker."),
        12: ("full", "to_far.ship waits for pool full, which is full."),
        13: ("gone", "to_far.ship waits for pool gone, which does not exist."),
    }
    paused = "The DAG is paused: no step begins until somebody unpauses it."
    pause(yes=False)
    for hour, (pool, says) in waits.items():
        dag_run(hour, "running", waits_in=pool)
        window = open_window(ask, "viewer", "web", hour)[1]
        assert (says in window.text, paused in window.text) == (True, False)
    dag_run(14, "running", asks_until=20)
    says = "to_far.ship waits for a person's answer until 2026-11-01 20:00:00 UTC."
    assert says in open_window(ask, "viewer", "web", 14)[1].text
    pause(yes=True)
    assert paused in open_window(ask, "viewer", "web", 11)[1].text


def test_what_runs_have_delivered_is_not_taken_back_by_one_that_left_no_report(ask, world):
    world.feed(world.report(1, "r1"))
    dag_run(1, "failed", began=2.5)
    world.begin(2, "dead", 3.1)
    dag_run(2, "failed", began=3.05)
    for hour, wanted in ((1, "shipped"), (2, "failed")):
        states = open_window(ask, "viewer", "web", hour)[1].states
        assert states[:3] == [wanted] * 3, "of the window, and on each cluster"
