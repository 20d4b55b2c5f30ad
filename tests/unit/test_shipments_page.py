"""What the Shipments page answers, to whom, and what an answer costs."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Collection, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from shipper.cli.main import app as cli
from shipper.config import load_pipeline
from shipper.config.environment import EVERYTHING
from shipper.config.replay import Replay, replayed
from shipper.shipments.app import respond
from shipper.shipments.index import Index
from shipper.shipments.server import Everything, Server
from tests.samples.shipments import World, at, run_report, seconds, serving, under_way

WINDOW = "2026-11-01T00:00:00Z/2026-11-01T01:00:00Z"
FOLDER = "20261101T000000Z--20261101T010000Z"


class Rights:
    """Sees ``pipelines``, and reads the reports of ``reports``."""

    def __init__(self, *pipelines: str, reports: Collection[str] = ()) -> None:
        self._pipelines, self._reports = pipelines, reports

    def pipelines(self) -> Collection[str]:
        return self._pipelines

    def may_read_reports(self, pipeline: str) -> bool:
        return pipeline in self._reports

    def may_run(self, pipeline: str) -> bool:
        return False

    def may_see(self, pipeline: str) -> bool:
        return pipeline in self._pipelines


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two pipelines, each with a failed window, shipped by a second run."""
    world = World(tmp_path)
    for name in ("web", "audit"):
        world.pipeline(name)
        world.beginning(name)
        for report in (
            world.report(0, "r1", name, failed=("far",)),
            world.report(0, "r2", name, after=1),
        ):
            world.feed(report)
    return world


def ask(world: World, path: str, rights: Any = None, **query: str) -> tuple[int, Any]:
    found = respond(world.index, path, query, rights or Everything())
    return found.status, json.loads(found.body) if found.headers[
        "Content-Type"
    ] == "application/json" else found.body.decode()


def ask_grid(world: World, rights: Any = None) -> list[str]:
    status, found = ask(world, "api/grid", rights, start=at(0).isoformat(), end=at(9).isoformat())
    assert status == HTTPStatus.OK
    return [row["pipeline"] for row in found["pipelines"]]


@pytest.mark.parametrize(
    "path", ["api/window", f"api/report/audit/{FOLDER}/r1", f"api/report/none/{FOLDER}/r1"]
)
def test_of_another_pipeline_not_even_its_name_is_told(world: World, path: str) -> None:
    for pipeline in ("audit", "none"):
        status, found = ask(
            world, path, Rights("web", reports=["web", "audit"]), pipeline=pipeline, window=WINDOW
        )
        assert (status, found) == (
            403,
            {"error": "this pipeline does not exist, or you may not see it"},
        )


def test_a_window_tells_its_clusters_runs_and_report(world: World) -> None:
    _, found = ask(world, "api/window", pipeline="web", window=WINDOW)
    assert [(one["cluster"], one["state"], one["run_id"]) for one in found["clusters"]] == [
        ("near", "shipped", "r2"),
        ("far", "shipped", "r2"),
    ]
    assert [run["run_id"] for run in found["runs"]] == ["r2", "r1"]
    assert found["runs"][1]["clusters"][0] == {
        "cluster": "far",
        "state": "failed",
        "records": 0,
        "there": 0,
        "cause": "far does not answer",
    }
    assert found["report"]["headline"] == "Shipped 7 records to each of near and far"
    assert [file["path"] for file in found["report"]["files"]] == [
        "/logs/0.log",
        "/logs/1.log",
        "/logs/2.log",
    ]
    assert found["report"]["checks"][0]["observed"] == "3"
    _, found = ask(world, "api/window", pipeline="web", window=WINDOW, run="r1")
    assert found["report"]["headline"] == "Failed while shipping to far; near has everything"


def test_a_window_that_a_later_run_shipped_names_that_run(world: World) -> None:
    world.feed(run_report(2, "r3", looks_back=2))
    _, found = ask(
        world, "api/window", pipeline="web", window="2026-11-01T01:00:00Z/2026-11-01T02:00:00Z"
    )
    assert [(one["state"], one["by"]) for one in found["clusters"]] == [
        ("shipped", {"start": seconds(2), "end": seconds(3)})
    ] * 2
    assert found["runs"] == []


def test_a_report_that_is_gone_is_said_and_the_index_remembers(world: World) -> None:
    for file in world.runs.glob("web/*/r2/report.*"):
        file.unlink()
    _, found = ask(world, "api/window", pipeline="web", window=WINDOW)
    assert (found["report"], found["problem"]) == (
        None,
        "The run's report is no longer in runs_uri. This is what the index holds.",
    )
    assert ask(world, f"api/report/web/{FOLDER}/r2")[0] == 404


def test_a_report_is_served_whole_and_may_load_nothing(world: World) -> None:
    found = respond(world.index, f"api/report/web/{FOLDER}/r1", {}, Everything())
    assert (found.status, b"Report of r1" in found.body) == (200, True)
    assert "default-src 'none'" in found.headers["Content-Security-Policy"]
    assert "script-src" not in found.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "api/report/web/../../secret", f"api/report/web/{FOLDER}/..", f"api/report/web/{FOLDER}/../../../secret", "api/report/web//r1",  # noqa: E501
        f"api/report/web/{FOLDER}/.", f"api/report/web/{FOLDER}/r1/report.json", "api/report//etc/passwd", "page.html", "../page.html", "",  # noqa: E501
        f"api/report/web/{FOLDER}/linked",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_runs(world: World, path: str) -> None:
    (world.runs.parent / "secret").mkdir()
    (world.runs.parent / "secret" / "report.html").write_text("secret")
    (world.runs / "web" / FOLDER / "linked").symlink_to(world.runs.parent / "secret")
    status, found = ask(world, path)
    assert status in (403, 404)
    assert "error" in found


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("api/grid", {}),
        ("api/grid", {"start": "yesterday", "end": "2026-11-02"}),
        ("api/grid", {"start": "2026-11-02", "end": "2026-11-01"}),
        ("api/grid", {"start": "2020-01-01", "end": "2026-11-01"}),
        ("api/window", {"pipeline": "web", "window": "never"}),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    world: World, path: str, query: dict[str, str]
) -> None:
    assert ask(world, path, **query)[0] == 400


def test_without_an_index_the_answer_says_what_to_do(tmp_path: Path) -> None:
    status, found = ask(World(tmp_path), "api/grid", start="2026-11-01", end="2026-11-02")
    assert (status, "`shipper index` makes it" in found["error"]) == (503, True)
    assert not (tmp_path / "runs").exists()


def ask_cluster(world: World, rights: Any = None, **query: str) -> tuple[int, Any]:
    return ask(
        world,
        "api/cluster",
        rights,
        **{"cluster": "near", "start": at(0).isoformat(), "end": at(24).isoformat(), **query},
    )


def test_a_clusters_page_adds_up_what_ships_sent_there(world: World) -> None:
    world.feed(run_report(5, "r5", records=20))
    world.feed(run_report(40, "r40", records=1000))
    _, found = ask_cluster(world)
    assert [
        (one["pipeline"], one["ships"], one["records"], one["bytes"]) for one in found["pipelines"]
    ] == [
        ("web", 3, 34, 34 * 137),
        ("audit", 2, 14, 14 * 137),
    ]
    assert [(one["topic"], one["pipeline"], one["records"]) for one in found["topics"]] == [
        ("logs.web", "web", 34),
        ("logs.web", "audit", 14),
    ]
    assert [(at_, records) for at_, records, _ in found["rates"]] == [
        (seconds(1.25), 14),
        (seconds(2), 14),
        (seconds(6.25), 20),
    ]
    # A failed ship delivered nothing there, and counts as one.
    _, far = ask_cluster(world, cluster="far")
    assert [(one["pipeline"], one["ships"], one["records"]) for one in far["pipelines"]] == [
        ("web", 3, 27),
        ("audit", 2, 7),
    ]
    assert ask_cluster(world, Rights("web", reports=[]))[1]["topics"] == []
    assert [
        one["pipeline"]
        for one in ask_cluster(world, Rights("web", reports=["web"]))[1]["pipelines"]
    ] == ["web"]
    assert [ask_cluster(world, cluster="none")[0], ask_cluster(world, Rights())[0]] == [404, 404]


def test_a_run_that_is_repeated_takes_nothing_away_from_what_arrived(world: World) -> None:
    """A task that is cleared runs again under the run's id, and sends nothing: all is there."""
    before = ask_cluster(world)[1]
    again = run_report(0, "r2", after=5, records=0)
    for ship, gate in zip(again.ships, again.delivery_gates, strict=True):
        ship.topics[0].before = gate.topics[0].before = gate.topics[0].ledger = 7
    world.feed(again)
    failed = run_report(0, "r2", after=6, failed=("near", "far"), records=0)
    failed.ships = failed.delivery_gates = []
    world.feed(failed)
    after = ask_cluster(world)[1]
    assert before["topics"]
    assert {key: after[key] for key in ("pipelines", "rates", "topics")} == {
        key: before[key] for key in ("pipelines", "rates", "topics")
    }


def test_a_run_that_sends_the_rest_counts_with_what_its_earlier_attempts_sent(world: World) -> None:
    again = run_report(0, "r9", after=5, records=2)
    for ship, gate in zip(again.ships, again.delivery_gates, strict=True):
        ship.earlier_wire_bytes, ship.by_earlier_attempts = 100, 5
        for topic in (ship.topics[0], gate.topics[0]):
            topic.before, topic.earlier, topic.earlier_bytes = 6, 5, 700
    before = ask_cluster(world)[1]
    world.feed(again)
    after = ask_cluster(world)[1]
    for kind, keys in (
        ("pipelines", ("records", "bytes", "wire_bytes")),
        ("topics", ("records", "bytes")),
    ):
        (old,), (new,) = (
            [one for one in found[kind] if one["pipeline"] == "web"] for found in (before, after)
        )
        added = {"records": 7, "bytes": 2 * 137 + 700, "wire_bytes": 2 * 20 + 100}
        assert {key: new[key] - old[key] for key in keys} == {key: added[key] for key in keys}


def test_a_window_is_on_its_way_once_however_many_runs_of_it_died(world: World) -> None:
    now = int(time.time())
    with Index(world.index, make=True) as index, index.writing():
        index.begun("audit", seconds(9), seconds(10), "dead", ["near"], now - 600)
        index.begun("audit", seconds(9), seconds(10), "alive", ["near"], now - 60)
    assert [(one["pipeline"], one["run_id"]) for one in ask_cluster(world)[1]["running"]] == [
        ("audit", "alive")
    ]


def test_what_is_under_way_is_in_the_window_and_on_the_clusters_page(world: World) -> None:
    with Index(world.index, make=True) as index, index.writing():
        index.begun("audit", seconds(9), seconds(10), "now", ["near"], int(time.time()) - 60)
    under_way(world, 9)
    about = {"pipeline": "audit", "window": "2026-11-01T09:00:00Z/2026-11-01T10:00:00Z"}
    assert [one["state"] for one in ask(world, "api/window", **about)[1]["clusters"]] == [
        "shipping",
        "missing",
    ]
    (run,) = ask(world, "api/window", **about)[1]["begun"]
    assert (run["run_id"], run["done"]) == ("now", ["plan"])
    (ship,) = run["ships"]
    assert (ship["cluster"], ship["records"], ship["seconds_left"], ship["parked"]) == (
        "near",
        400_000,
        180,
        ["audit.late"],
    )
    (there,) = ask_cluster(world)[1]["running"]
    assert (there["pipeline"], there["ship"]["records"]) == ("audit", 400_000)
    # Who may not read logs learns of no topic.
    hidden = json.dumps(
        [ask(world, "api/window", Rights("audit"), **about), ask_cluster(world, Rights("audit"))]
    )
    assert "audit.late" not in hidden
    # What a killed process, or another version, has left there takes nothing down.
    (
        world.runs / "audit" / "20261101T090000Z--20261101T100000Z" / "now" / "progress.near.json"
    ).write_text("{")
    assert ask(world, "api/window", **about)[1]["begun"][0]["ships"] == []


def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline(world: World) -> None:
    for path in (
        "shipments",
        "page.css",
        "words.js",
        "panel.js",
        "cluster.js",
        "actions.js",
        "page.js",
    ):
        found = respond(world.index, path, {}, Rights())
        policy = found.headers["Content-Security-Policy"]
        assert (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
        )
        assert "unsafe" not in policy
        assert b"http://" not in found.body.replace(b"http://www.w3.org", b"")
        assert b"https://" not in found.body
        assert b"innerHTML" not in found.body


@pytest.fixture
def server(world: World) -> Iterator[Server]:
    with serving(world.index) as server:
        yield server


def get(server: Server, path: str, host: str | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    connection.request("GET", path, headers={"Host": host} if host else {})
    return connection.getresponse()


def test_a_pipeline_whose_file_is_gone_is_retired_without_a_word_to_the_index(world: World) -> None:
    def row(name: str) -> Any:
        query = {"start": at(0).isoformat(), "end": at(9).isoformat()}
        found = respond(world.index, "api/grid", query, Everything(), config_dir=world.config)
        return next(row for row in json.loads(found.body)["pipelines"] if row["pipeline"] == name)

    assert (row("audit")["retired"], row("audit")["counts"]) == (
        False,
        {"shipped": 1, "missing": 8},
    )
    (world.config / "pipelines" / "audit.yaml").rename(
        world.config / "pipelines" / "audit.yaml.old"
    )
    assert (row("audit")["retired"], row("audit")["counts"]) == (True, {"shipped": 1})
    assert (row("web")["retired"], row("web")["counts"]) == (False, {"shipped": 1, "missing": 8})
    (world.config / "pipelines" / "web.yaml").write_text("pipeline: [")
    assert row("web")["retired"] is False, "a broken file is there"


def test_a_replay_stays_with_its_pipeline_when_that_is_renamed(world: World) -> None:
    asked = {
        "id": "fix-1",
        "reason": "a header was wrong",
        "window_start": at(0),
        "window_end": at(1),
    }
    replay = replayed(load_pipeline(world.config, "web", EVERYTHING), Replay.model_validate(asked))
    with Index(world.index, make=True) as index, index.writing():
        index.know(replay, str(world.runs), {}, None)
    web = world.config / "pipelines" / "web.yaml"
    (world.config / "pipelines" / "site.yaml").write_text(
        web.read_text().replace("pipeline: web", "pipeline: site\nformerly: web")
    )
    web.unlink()
    with Index(world.index, make=True) as index, index.writing():
        index.know(load_pipeline(world.config, "site", EVERYTHING), str(world.runs), {}, None)
    with Index(world.index, present={"site", "audit"}) as index:
        found = {known.pipeline: (known.replay_of, known.retired) for known in index.pipelines()}
    assert found == {
        "audit": (None, False),
        "site": (None, False),
        "web.replay.fix-1": ("site", False),
    }
    assert ask_grid(world, Rights("site")) == ["site", "web.replay.fix-1"]
    of_window = {
        "pipeline": "web.replay.fix-1",
        "start": at(0).isoformat(),
        "end": at(1).isoformat(),
    }
    assert ask(world, "api/pipeline", Rights("site"), **of_window)[0] == HTTPStatus.OK
    assert ask(world, "api/pipeline", Rights("audit"), **of_window)[0] == HTTPStatus.FORBIDDEN


def test_the_server_answers_this_machine_alone(server: Server) -> None:
    assert urlsplit(server.url).hostname == "127.0.0.1"
    assert get(server, "/").getheader("Location") == "shipments"
    assert get(server, "/shipments").status == 200
    assert get(server, f"/api/report/web/{FOLDER}/r1").status == 200
    assert get(server, f"/api/report/web/{FOLDER}/..%2f..%2fr1").status == 404
    assert get(server, f"/api/grid?start={at(0):%Y-%m-%d}&end={at(30):%Y-%m-%d}").status == 200
    # A name that somebody else has pointed to this machine.
    assert get(server, "/shipments", host="evil.example").status == 400
    assert get(server, "/shipments", host=f"localhost:{urlsplit(server.url).port}").status == 200


def test_the_commands_make_the_index_and_say_what_it_holds(world: World) -> None:
    world.index.unlink()
    done = CliRunner().invoke(cli, ["index", "--config", str(world.config), "--json"])
    assert (done.exit_code, json.loads(done.stdout)["runs"]) == (0, 4)
    done = CliRunner().invoke(cli, ["index", "--config", str(world.config)])
    assert (done.exit_code, "2 pipelines, 0 reports read, 4 runs known before" in done.stdout) == (
        0,
        True,
    )
    (world.runs / "web" / FOLDER / "r1" / "report.json").write_text("{}")
    done = CliRunner().invoke(cli, ["index", "--config", str(world.config), "--anew"])
    assert (done.exit_code, "3 reports read" in done.stdout) == (1, True)
