"""The Shipments page as Airflow's API server mounts it: to whom it answers what."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from shipper_tools.samples.shipments import World, at

from shipper.config import load_pipeline
from shipper.config.environment import EVERYTHING
from shipper.shipments.feed import feed

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
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path)
    for name in ("web", "audit"):
        world.pipeline(name)
        world.beginning(name)
        report = world.report(0, "r1", name, failed=("far",))
        feed(world.config, load_pipeline(world.config, name, EVERYTHING), str(world.runs), report)
    monkeypatch.setenv("SHIPPER_CONFIG", str(world.config))
    return world


@pytest.fixture
def ask(airflow: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """``ask(person, path)`` of Airflow's own app, with the plugin as it is installed, and the cookie that a login gives."""
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "dag_roles.DagByDag")
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "a secret of this test, " * 4)
    from airflow.api_fastapi.app import create_app, get_auth_manager, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session
    from fastapi.testclient import TestClient

    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        for name in ("web", "audit"):
            session.merge(DagModel(dag_id=name, bundle_name="dags-folder"))
    purge_cached_app()
    client = TestClient(create_app(apps="core"))

    def asked(person: str | None, path: str, below: str = "/shipper", body: Any = None, headers: Any = None, **query: str) -> Any:
        client.cookies.clear()
        if person:
            token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=person, role=ROLES[person]))
            client.cookies.set("_token", token)
        return (
            client.post(f"{below}/{path}", json=body)
            if body
            else client.get(f"{below}/{path}", params=query or None, headers=headers, follow_redirects=False)
        )

    yield asked
    purge_cached_app()


GRID = {"start": at(0).isoformat(), "end": at(2).isoformat()}


def test_each_person_sees_what_airflow_lets_them_see(ask: Callable[..., Any]) -> None:
    report = f"api/report/audit/{FOLDER}/r1"
    for path, query in (
        ("shipments", {}),
        ("page.js", {}),
        ("api/grid", GRID),
        ("api/window", {}),
        ("api/pipeline", {}),
        ("api/cluster", {}),
        (report, {}),
        ("nothing", {}),
    ):
        assert ask(None, path, **query).status_code == 401, path

    for person in ("viewer", "user", "op", "admin"):
        assert ask(person, "shipments").status_code == 200
        assert [row["pipeline"] for row in ask(person, "api/grid", **GRID).json()["pipelines"]] == ["audit", "web"]
        assert "Report of r1" in ask(person, report).text
        found = ask(person, "api/window", pipeline="audit", window=WINDOW).json()
        assert (found["report"]["headline"], found["airflow"]) == ("Failed while shipping to far; near has everything", "/")

    assert [row["pipeline"] for row in ask("web_only", "api/grid", **GRID).json()["pipelines"]] == ["web"]
    assert ask("web_only", "api/window", pipeline="web", window=WINDOW).status_code == 200
    assert ask("web_only", "api/window", pipeline="audit", window=WINDOW).status_code == 403
    assert ask("web_only", report).status_code == 403
    assert ask("web_only", report.replace("audit", "web")).status_code == 200

    assert ask("no_logs", report).status_code == 403
    without = ask("no_logs", "api/window", pipeline="audit", window=WINDOW)
    assert (without.status_code, without.json()["report"], "does not answer" in without.text) == (200, None, False)

    assert ask("nobody", "api/grid", **GRID).json()["pipelines"] == []
    assert ask("nobody", "api/window", pipeline="web", window=WINDOW).status_code == 403
    assert ask("nobody", report).status_code == 403

    for path in (f"api/report/web/{FOLDER}/..%2f..%2f..%2fsecret", "api/report/web/..%2f..%2f/r1", "..%2f..%2fetc%2fpasswd"):
        assert ask("admin", path).status_code == 404, path
    assert "script-src 'self'" in ask("admin", "shipments").headers["content-security-policy"]
    # What the page asks Airflow itself, with the same login, to find a window's run. (No DAG is serialised here, so Airflow knows no run.)
    runs = {
        person: ask(person, "dags/audit/dagRuns", "/api/v2", logical_date_gte=GRID["start"])
        for person in (None, "web_only", "viewer")
    }
    assert [answer.status_code for answer in runs.values()] == [401, 403, 404]
    views = [view["url_route"] for view in airflow_views()]
    assert {"shipments", "dag-shipments"} <= set(views)


def test_a_browser_without_a_login_is_sent_to_it_and_from_there_back(ask: Callable[..., Any]) -> None:
    query = {"dag_id": "web", "window": f"web {WINDOW}"}
    for path, asked in (("shipments", query), (f"api/report/web/{FOLDER}/r1", {})):
        answer = ask(None, path, headers={"accept": "text/html,*/*;q=0.8"}, **asked)
        assert (answer.status_code, urlsplit(answer.headers["location"]).path) == (302, "/api/v2/auth/login")
        login = ask(None, answer.headers["location"].lstrip("/"), "")
        (back,) = parse_qs(urlsplit(login.headers["location"]).query)["next"]
        assert (urlsplit(back).path, parse_qs(urlsplit(back).query)) == (f"/shipper/{path}", {key: [asked[key]] for key in asked})
    assert ask(None, "shipments").status_code == 401, "a script gets no page instead"


def test_the_buttons_are_for_those_whom_airflow_lets_start_runs(ask: Callable[..., Any]) -> None:
    """The page says so beforehand; and what a button sends is refused by Airflow itself."""
    window = {"window_start": "2026-11-01T00:00:00Z", "window_end": "2026-11-01T01:00:00Z"}
    run, stretch = (
        {"logical_date": None, "conf": window},
        {"dag_id": "web", **dict.fromkeys(("from_date", "to_date"), window["window_start"])},
    )
    for person, may in (("viewer", False), ("web_only", False), ("user", True), ("op", True), ("admin", True)):
        assert ask(person, "api/pipeline", pipeline="web").json()["may_run"] is may, person
        assert ask(person, "api/window", pipeline="web", window=WINDOW).json()["may_run"] is may, person
        # (No DAG is serialised here: whoever may, hears that there is none.)
        answers = [ask(person, path, "/api/v2", body) for path, body in (
            ("dags/web/dagRuns", run), ("backfills", stretch), ("backfills/dry_run", stretch))]  # fmt: skip
        assert [answer.status_code == 403 for answer in answers] == [not may] * 3, (person, [answer.text for answer in answers])
    assert ask(None, "dags/web/dagRuns", "/api/v2", run).status_code == 401
    assert ask("web_only", "api/pipeline", pipeline="audit").status_code == 403


def test_a_clusters_page_holds_what_the_person_may_see(ask: Callable[..., Any]) -> None:
    day = {"start": at(0).isoformat(), "end": at(24).isoformat()}
    found = {person: ask(person, "api/cluster", cluster="near", **day).json() for person in ("viewer", "web_only", "no_logs")}
    assert [[one["pipeline"] for one in page["pipelines"]] for page in found.values()] == [
        ["audit", "web"],
        ["web"],
        ["audit", "web"],
    ]
    assert [len(page["topics"]) for page in found.values()] == [2, 1, 0]
    assert [sum(rate[1] for rate in page["rates"]) for page in found.values()] == [14, 7, 14]
    assert ask("nobody", "api/cluster", cluster="near", **day).status_code == 404


def airflow_views() -> list[dict[str, Any]]:
    from airflow.plugins_manager import get_plugin_info

    return [view for plugin in get_plugin_info() if plugin["name"] == "shipper" for view in plugin["external_views"]]


def test_a_broken_platform_file_is_named_and_a_page_without_an_index_says_how_to_get_one(
    ask: Callable[..., Any], world: World
) -> None:
    world.write("shipper.yaml", "indx: here\n")
    found = ask("viewer", "api/grid", **GRID)
    assert (found.status_code, "shipper.yaml:1" in found.text) == (503, True)
    world.write("shipper.yaml", "index: nowhere/at_all.sqlite\n")
    assert "`shipper index` makes it" in ask("viewer", "api/grid", **GRID).json()["error"]


def test_the_plugin_costs_other_processes_nothing(airflow: Path) -> None:
    """Scheduler, DAG processor and tasks load it for the timetable: only a request imports what answers it."""
    code = "import sys, shipper_airflow.plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    answers = (
        "shipper.shipments",
        "shipper_airflow.shipments",
        "airflow.api_fastapi.app",
        "airflow.api_fastapi.core_api.security",
    )
    assert "shipper_airflow.timetable" in loaded
    assert [name for name in loaded if name.startswith(answers)] == []
