"""What the Shipments page answers, to whom, and how it is drawn."""

import datetime as dt
import time
from functools import partial
from http import HTTPStatus

import pytest

from shipper.config.environment import EVERYTHING
from shipper.config.load import load_pipeline
from shipper.config.replay_request import Replay, replayed
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import records_of, write_records
from shipper.report.window_state import STATES
from shipper.shipments.app import respond
from shipper.shipments.cluster_page import cluster_page
from shipper.shipments.detail import detail
from shipper.shipments.feed import look
from shipper.shipments.index import Index
from shipper.shipments.view import View, picture
from shipper.windows.window import Window
from tests.samples.shipments import (
    Everything,
    Page,
    World,
    at,
    invented_index,
    run_report,
    seconds,
    under_way,
    windows_of,
)

FAILED = STATES.index("failed")
WINDOW = "2026-11-01T00:00:00Z/2026-11-01T01:00:00Z"
FOLDER = "20261101T000000Z--20261101T010000Z"


class Rights:
    """Sees ``pipelines``, and reads the reports of ``reports``."""

    def __init__(self, *pipelines, reports=()):
        self._pipelines, self._reports = pipelines, reports

    def pipelines(self):
        return self._pipelines

    def may(self, what, pipeline):
        return pipeline in {"see": self._pipelines, "read reports": self._reports}.get(what, ())


@pytest.fixture
def world(tmp_path):
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


def ask(world, path, rights=None, **query):
    found = respond(world.index, path, query, rights or Everything())
    return found.status, Page(found.body)


def rows(world, rights=None, **query):
    status, page = ask(world, "shipments", rights, end=str(seconds(9)), **query)
    assert status == HTTPStatus.OK
    return page.rows


def data_of_window(world, hour=0, name="web", run=None):
    with Index(world.index) as index:
        (known,) = [one for one in index.pipelines() if one.pipeline == name]
        return detail(index, known, Window(at(hour), at(hour + 1)), int(time.time()), run)


def open_window(world, rights=None, window=f"web {WINDOW}", **query):
    return ask(world, "shipments", rights, part="panel", window=window, **query)


@pytest.mark.parametrize("pipeline", ["audit", "none"])
def test_of_another_pipeline_not_even_its_name_is_told(world, pipeline):
    rights = Rights("web", reports=["web", "audit"])
    asked = [
        open_window(world, rights, f"{pipeline} {WINDOW}"),
        ask(world, "shipments", rights, part="panel", list=pipeline),
        ask(world, "windows", rights, of=pipeline, first="0", last="9"),
        ask(world, f"report/{pipeline}/{FOLDER}/r1", rights),
    ]
    for status, page in asked:
        assert status == HTTPStatus.FORBIDDEN
        assert "this pipeline does not exist, or you may not see it" in page.text
    assert rows(world, rights) == ["web"]
    # In front of the page that the person may see, the same is said.
    status, page = ask(world, "shipments", rights, list=pipeline)
    assert (status, page.rows, "you may not see it" in page.text) == (200, ["web"], True)


def test_what_a_report_says_is_over_once_a_run_without_a_report_has_shipped(world):
    """A run that is killed before its report, or whose results somebody has removed."""
    world.report(5, "r1", failed=("far",))
    look(world.config)
    window = f"web {Window(at(5), at(6))}"
    assert "far does not answer" in open_window(world, window=window)[1].text
    for gate in run_report(5, "r2", after=3).delivery_gates:
        write_records(str(world.runs), "web", records_of(gate))
    look(world.config)
    page = open_window(world, window=window)[1]
    assert "Shipped" in page.text
    assert "does not answer" not in page.text
    assert "shipper run web" not in page.text


def test_a_window_tells_its_clusters_runs_and_report(world):
    found = data_of_window(world)
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
    _, page = open_window(world)
    assert "Shipped 7 records to each of near and far" in page.text
    links = {words: said["href"] for words, said in page.links}
    assert links["Report of this run"] == f"report/web/{FOLDER}/r2"
    assert "run=r1" in links["r1"]
    earlier = open_window(world, run="r1")[1]
    assert "Failed while shipping to far; near has everything" in earlier.text


def test_a_window_that_a_later_run_shipped_names_that_run(world):
    world.feed(run_report(2, "r3", looks_back=2))
    found = data_of_window(world, 1)
    assert [(one["state"], one["by"]) for one in found["clusters"]] == [
        ("shipped", {"start": seconds(2), "end": seconds(3)})
    ] * 2
    assert found["runs"] == []


def test_a_report_that_is_gone_is_said_and_the_index_remembers(world):
    for file in world.runs.glob("web/*/r2/report.*"):
        file.unlink()
    found = data_of_window(world)
    assert (found["report"], "no longer in runs_uri" in found["problem"]) == (None, True)
    assert "no longer in runs_uri" in open_window(world)[1].text
    assert ask(world, f"report/web/{FOLDER}/r2")[0] == HTTPStatus.NOT_FOUND


def test_a_report_is_served_whole_and_may_load_nothing(world):
    found = respond(world.index, f"report/web/{FOLDER}/r1", {}, Everything())
    assert (found.status, b"Report of r1" in found.body) == (200, True)
    assert "default-src 'none'" in found.headers["Content-Security-Policy"]
    assert "script-src" not in found.headers["Content-Security-Policy"]


def test_no_path_leads_out_of_the_runs(world):
    (world.runs.parent / "secret").mkdir()
    (world.runs.parent / "secret" / "report.html").write_text("secret")
    (world.runs / "web" / FOLDER / "linked").symlink_to(world.runs.parent / "secret")
    for path in (
        "report/web/../../secret",
        f"report/web/{FOLDER}/..",
        f"report/web/{FOLDER}/../../../secret",
        "report/web//r1",
        f"report/web/{FOLDER}/.",
        f"report/web/{FOLDER}/r1/report.json",
        "report//etc/passwd",
        "page.html.j2",
        "../app.py",
        "",
        f"report/web/{FOLDER}/linked",
    ):
        assert ask(world, path)[0] in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND), path


def test_a_question_that_makes_no_sense_is_refused(world):
    for first, last in (
        ("", ""),
        ("yesterday", "1793577600"),
        ("1793577600", "1793574000"),
        ("1", "1793577600"),
    ):
        query = {"of": "web"} | ({"first": first, "last": last} if first else {})
        assert ask(world, "windows", **query)[0] == HTTPStatus.BAD_REQUEST, query
    assert open_window(world, window="web never")[0] == HTTPStatus.BAD_REQUEST


def test_words_of_an_address_that_make_no_sense_count_as_not_said(world):
    for said in ("99999999999999999999", "-1", "x", "0x1"):
        asked = View.of({"start": said, "end": said, "range": said, "sort": said, "show": said})
        assert asked == View()
        assert ask(world, "shipments", start=said, end=said, range=said)[0] == HTTPStatus.OK
    assert View.of({"dag_id": "web"}).pipeline == "web"
    view = View(q="a b", pipeline="web", range="30d", window="web x")
    assert View.of(dict([part.split("=") for part in view.to().split("?")[1].split("&")])) == View(
        q="a%20b", pipeline="web", range="30d"
    )


def test_without_an_index_the_answer_says_what_to_do(tmp_path):
    status, page = ask(World(tmp_path), "shipments")
    assert (status, "The Shipments page makes it" in page.text) == (503, True)
    assert not (tmp_path / "runs").exists()


def test_rows_are_searched_sorted_and_chosen_by_state(world):
    world.pipeline("edge")
    world.beginning("edge", hour=7)
    world.feed(run_report(7, name="edge"))
    assert rows(world) == ["audit", "web", "edge"]
    assert rows(world, sort="name") == ["audit", "edge", "web"]
    assert rows(world, sort="old") == ["audit", "web", "edge"]
    assert rows(world, q="WE") == ["web"]
    assert rows(world, dag_id="edge") == ["edge"]
    world.feed(run_report(8, name="web", failed=("near",)))
    assert rows(world, show="failed") == ["web"]
    assert rows(world, cluster="none") == []
    page = ask(world, "shipments", end=str(seconds(9)), show="failed")[1]
    chips = [said for _, said in page.links if "data-state" in said]
    assert [one["data-state"] for one in chips] == ["failed", "missing", "shipped"]
    assert ["aria-current" in one for one in chips] == [True, False, False]


def test_a_row_without_windows_in_the_range_leads_to_the_last_one(world):
    """Of a pipeline without a schedule, whose windows nobody expects."""
    world.write(
        "pipelines/hand.yaml", "pipeline: hand\nsource: logs/\ntopic: t\nclusters: [near]\n"
    )
    world.feed(run_report(2, name="hand", clusters=("near",), failed=("near",)))
    page = ask(world, "shipments", end=str(seconds(24 * 60)), pipeline="hand")[1]
    assert page.rows == ["hand"]
    assert "never scheduled" not in page.text
    last = dict(page.links)["last 2026-11-01 02:00"]
    assert "window=hand%202026-11-01T02:00:00Z/2026-11-01T03:00:00Z" in last["href"]


def test_the_last_50_windows_are_as_long_as_the_shortest_ones(world):
    page = ask(world, "shipments", end=str(seconds(100)), range="50w")[1]
    assert page.ids["rows"]["data-start"] == str(seconds(50))


def test_names_and_causes_of_others_are_text_on_the_page(world):
    hostile = "<script>alert(1)</script>\u202e"
    report = run_report(1, "r1", failed=("far",))
    report.error = report.ships[1].error = hostile
    report.plan.files[0].path = f'/logs/"{hostile}'
    world.feed(report)
    world.write(
        "pipelines/evil.yaml",
        f"pipeline: evil\nowner: '{hostile[:-1]}'\nsource: logs/\ntopic: t\nclusters: [near]\n",
    )
    world.feed(run_report(1, name="evil", clusters=("near",)))
    window = "web 2026-11-01T01:00:00Z/2026-11-01T02:00:00Z"
    for query in ({"q": hostile}, {}, {"window": window}, {"list": "evil"}, {"window": hostile}):
        body = respond(world.index, "shipments", query, Everything()).body.decode()
        assert "<script>alert" not in body
        assert "\u202e" not in body
    assert "&lt;script&gt;" in body


def data_of_cluster(world, rights=None, cluster="near"):
    with Index(world.index) as index:
        shipping = index.pipelines(rights.pipelines() if rights else None)
        may_read = partial((rights or Everything()).may, "read reports")
        between = seconds(0), seconds(24)
        return cluster_page(index, cluster, shipping, between, int(time.time()), may_read)


def open_cluster(world, rights=None, cluster="near"):
    return ask(world, "shipments", rights, part="panel", on=cluster, end=str(seconds(24)))


def test_a_clusters_page_adds_up_what_ships_sent_there(world):
    world.feed(run_report(5, "r5", records=20))
    world.feed(run_report(40, "r40", records=1000))
    found = data_of_cluster(world)
    assert [
        (one["pipeline"], one["ships"], one["records"], one["bytes"]) for one in found["pipelines"]
    ] == [("web", 3, 34, 34 * 137), ("audit", 2, 14, 14 * 137)]
    assert [(one["topic"], one["pipeline"], one["records"]) for one in found["topics"]] == [
        ("logs.web", "web", 34),
        ("logs.web", "audit", 14),
    ]
    assert [(at_, records) for at_, records, _ in found["rates"]] == [
        (seconds(1.25), 14),
        (seconds(2), 14),
        (seconds(6.25), 20),
    ]
    page = open_cluster(world)[1]
    assert "48 records (6.6 kB, 960 B on the wire) in 5 ships" in page.text
    # A failed ship delivered nothing there, and counts as one.
    far = data_of_cluster(world, cluster="far")
    assert [(one["pipeline"], one["ships"], one["records"]) for one in far["pipelines"]] == [
        ("web", 3, 27),
        ("audit", 2, 7),
    ]
    assert "logs.web" not in open_cluster(world, Rights("web"))[1].text
    own = open_cluster(world, Rights("web", reports=["web"]))[1]
    assert ("logs.web" in own.text, "audit" in own.text) == (True, False)
    assert [open_cluster(world, cluster="none")[0], open_cluster(world, Rights())[0]] == [404, 404]


def test_a_run_that_is_repeated_takes_nothing_away_from_what_arrived(world):
    """A task that is cleared runs again under the run's id, and sends nothing: all is there."""
    before = data_of_cluster(world)
    again = run_report(0, "r2", after=5, records=0)
    for ship, gate in zip(again.ships, again.delivery_gates, strict=True):
        ship.topics[0].before = gate.topics[0].before = gate.topics[0].ledger = 7
    world.feed(again)
    failed = run_report(0, "r2", after=6, failed=("near", "far"), records=0)
    failed.ships = failed.delivery_gates = []
    world.feed(failed)
    after = data_of_cluster(world)
    assert before["topics"]
    assert {key: after[key] for key in ("pipelines", "rates", "topics")} == {
        key: before[key] for key in ("pipelines", "rates", "topics")
    }


def test_a_run_that_sends_the_rest_counts_with_what_its_earlier_attempts_sent(world):
    again = run_report(0, "r9", after=5, records=2)
    for ship, gate in zip(again.ships, again.delivery_gates, strict=True):
        ship.earlier_wire_bytes, ship.by_earlier_attempts = 100, 5
        for topic in (ship.topics[0], gate.topics[0]):
            topic.before, topic.earlier, topic.earlier_bytes = 6, 5, 700
    before = data_of_cluster(world)
    world.feed(again)
    after = data_of_cluster(world)
    for kind, keys in (
        ("pipelines", ("records", "bytes", "wire_bytes")),
        ("topics", ("records", "bytes")),
    ):
        (old,), (new,) = (
            [one for one in found[kind] if one["pipeline"] == "web"] for found in (before, after)
        )
        added = {"records": 7, "bytes": 2 * 137 + 700, "wire_bytes": 2 * 20 + 100}
        assert {key: new[key] - old[key] for key in keys} == {key: added[key] for key in keys}


def test_a_window_is_on_its_way_once_however_many_runs_of_it_died(world):
    now = (time.time() - seconds(0)) / 3600
    world.begin(9, "dead", now - 1 / 6, "audit")
    world.begin(9, "alive", now - 1 / 60, "audit")
    assert [(one["pipeline"], one["run_id"]) for one in data_of_cluster(world)["running"]] == [
        ("audit", "alive")
    ]


def test_what_is_under_way_is_in_the_window_and_on_the_clusters_page(world):
    world.begin(9, "now", (time.time() - seconds(0)) / 3600 - 1 / 60, "audit")
    under_way(world, 9)
    found = data_of_window(world, 9, "audit")
    assert [one["state"] for one in found["clusters"]] == ["overdue"] * 2
    (run,) = found["begun"]
    assert (run["run_id"], [step.step for step in run["steps"] if step.is_done]) == (
        "now", ["plan"]
    )  # fmt: skip
    (ship,) = run["ships"]
    assert (ship.cluster, ship.records, ship.seconds_left, ship.parked) == (
        "near",
        400_000,
        180,
        ("audit.late",),
    )
    window = "audit 2026-11-01T09:00:00Z/2026-11-01T10:00:00Z"
    _, page = open_window(world, window=window)
    assert "25% of 40 splits" in page.text
    assert "data-under-way" in page.ids["live"]
    assert "400,000" in open_cluster(world)[1].text
    # Who may not read logs learns of no topic.
    assert "audit.late" in page.text
    for hidden in (
        open_window(world, Rights("audit"), window),
        open_cluster(world, Rights("audit")),
    ):
        assert hidden[0] == HTTPStatus.OK
        assert "audit.late" not in hidden[1].text
    # What a killed process, or another version, has left there takes nothing down.
    (
        world.runs / "audit" / "20261101T090000Z--20261101T100000Z" / "now" / "progress.near.json"
    ).write_text("{")
    assert data_of_window(world, 9, "audit")["begun"][0]["ships"] == []


def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline(world):
    for path in ("shipments", "page.css", "page.js"):
        found = respond(world.index, path, {}, Everything())
        policy = found.headers["Content-Security-Policy"]
        assert (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
        )
        assert "unsafe" not in policy
        for word in (b"http://", b"https://", b"innerHTML", b" style=", b" onclick="):
            assert word not in found.body
    assert len(found.body) <= 20_000, "the script stays small"


def test_no_failure_is_too_small_to_be_seen():
    """1,440 windows in 720 units: each column shows the worst of its windows."""
    hours = [[at, 3600, 1, FAILED if at == 3600 * 77 else 0] for at in range(0, 3600 * 1440, 3600)]
    lines, marks = picture(hours, 0, 3600 * 1440)
    assert (dict(lines)["failed"], marks) == ("M38 11h2", [])


def test_a_shorter_window_lies_above_a_longer_one():
    lines, marks = picture([[0, 36_000, 1, FAILED], [3600, 3600, 1, 0]], 0, 36_000)
    assert dict(lines) == {"failed": "M0 11h72M144 11h575", "shipped": "M72 16.5h71"}
    assert [one.sign for one in marks] == ["✗"]


def test_a_pipeline_whose_file_is_gone_is_retired_without_a_word_to_the_index(world):
    def row(name):
        query = {"end": str(seconds(9)), "pipeline": name}
        page = Page(
            respond(world.index, "shipments", query, Everything(), config_dir=world.config).body
        )
        windows = windows_of(world.index, name, seconds(0), seconds(9), config_dir=world.config)
        return "no longer in the configuration" in page.text, len(windows)

    assert row("audit") == (False, 9)
    (world.config / "pipelines" / "audit.yaml").rename(
        world.config / "pipelines" / "audit.yaml.old"
    )
    assert row("audit") == (True, 1)
    assert row("web") == (False, 9)
    (world.config / "pipelines" / "web.yaml").write_text("pipeline: [")
    assert row("web")[0] is False, "a broken file is there"


def test_a_replay_stays_with_its_pipeline_when_that_is_renamed(world):
    asked = {
        "id": "fix-1",
        "reason": "a header was wrong",
        "window_start": at(0),
        "window_end": at(1),
    }
    replay = replayed(load_pipeline(world.config, "web", EVERYTHING), Replay.model_validate(asked))
    (world.runs / replay.key).mkdir()
    look(world.config)
    web = world.config / "pipelines" / "web.yaml"
    (world.config / "pipelines" / "site.yaml").write_text(
        web.read_text().replace("pipeline: web", "pipeline: site\nformerly: web")
    )
    web.unlink()
    look(world.config)
    with Index(world.index, present={"site", "audit"}) as index:
        found = {known.pipeline: (known.replay_of, known.retired) for known in index.pipelines()}
    assert found == {
        "audit": (None, False),
        "site": (None, False),
        "web.replay.fix-1": ("site", False),
    }
    assert rows(world, Rights("site")) == ["site"], "nothing of the replay has run"
    replay_of = {"part": "panel", "list": "web.replay.fix-1"}
    assert ask(world, "shipments", Rights("site"), **replay_of)[0] == HTTPStatus.OK
    assert ask(world, "shipments", Rights("audit"), **replay_of)[0] == HTTPStatus.FORBIDDEN


def test_a_replay_stands_below_its_pipeline(tmp_path):
    window = (seconds(0), seconds(1), "shipped")
    bad = (seconds(0), seconds(1), "failed")
    invented_index(
        path := tmp_path / "index.sqlite",
        {"a": [window], "web": [window], "web.replay.fix": [bad]},
        seconds(0),
    )
    found = respond(path, "shipments", {"end": str(seconds(1))}, Everything())
    assert Page(found.body).rows == ["web", "web.replay.fix", "a"]


def test_a_row_of_very_many_windows_names_those_that_are_not_plainly_shipped(tmp_path, monkeypatch):
    monkeypatch.setattr("shipper.shipments.app._MOST_NAMED", 3)
    states = ["shipped", "failed", "shipped", "late"]
    windows = [(seconds(i), seconds(i + 1), state) for i, state in enumerate(states)]
    invented_index(path := tmp_path / "index.sqlite", {"a.b": windows}, seconds(0))
    found = windows_of(path, "a.b", seconds(0), seconds(4))
    assert [state for *_, state in found] == ["failed", "late"]
    found = windows_of(path, "a.b", seconds(0), seconds(3))
    assert [state for *_, state in found] == ["shipped", "failed", "shipped"]


def test_who_may_not_read_reports_learns_no_more_than_the_states(world):
    world.feed(world.report(1, "r1", failed=("far",)))
    window = "web 2026-11-01T01:00:00Z/2026-11-01T02:00:00Z"
    status, page = open_window(world, Rights("web"), window)
    assert (status, page.states[:3]) == (200, ["failed", "shipped", "failed"])
    for of_the_report in ("does not answer", "Failed while shipping", "Report of this run"):
        assert of_the_report not in page.text
        assert of_the_report in open_window(world, window=window)[1].text


def test_a_broken_and_a_new_pipeline_have_rows_and_former_names_lead_to_the_present_one(world):
    world.write("pipelines/broken.yaml", "pipeline: broken\nsource: [\n")
    web = world.config / "pipelines" / "web.yaml"
    world.write(
        "pipelines/site.yaml",
        web.read_text().replace("pipeline: web", "pipeline: site\nformerly: web"),
    )
    web.unlink()
    look(world.config)
    world.pipeline("newest")
    found = respond(world.index, "shipments", {}, Everything(), config_dir=world.config)
    assert Page(found.body).rows[0] == "broken"
    assert set(Page(found.body).rows) == {"audit", "broken", "newest", "site"}
    assert "broken.yaml:" in open_window(world, window="", list="broken")[1].text
    # The links that went out under the old name.
    assert rows(world, dag_id="web") == ["site"]
    assert "web · 2026" not in (page := open_window(world)[1]).text
    assert "Shipped 7 records to each of near and far" in page.text
    assert ask(world, f"report/web/{FOLDER}/r1")[0] == HTTPStatus.OK


def test_a_window_in_trouble_says_of_each_cluster_what_became_of_it(world):
    """One has everything; the ship to the other failed and is tried again."""
    now = dt.datetime.now(dt.UTC)
    hour = int((now - at(0)) / dt.timedelta(hours=1))
    world.begin(hour - 1, "r5", (now - at(0)) / dt.timedelta(hours=1))
    report = run_report(hour - 1, "r5", failed=("far",))
    assert report.plan
    assert report.gate_source
    folder = RunFolder(str(world.runs), "web", Window(at(hour - 1), at(hour)), "r5")
    for one in (report.plan, report.gate_source, *report.ships, *report.delivery_gates):
        one.started_at = one.finished_at = now + dt.timedelta(seconds=1)
    (gate,) = report.delivery_gates
    assert gate.coverage
    gate.coverage.looked_at = gate.started_at
    report.ships[1].error = "no broker answers. Look at the network. [SHIP-401]"
    for name, result in (
        ("plan", report.plan),
        ("gate_source", report.gate_source),
        *((f"ship.{one.cluster}", one) for one in report.ships),
        *((f"gate_delivery.{one.cluster}", one) for one in report.delivery_gates),
    ):
        folder.write(name, result)
    look(world.config)
    window = f"web {Window(at(hour - 1), at(hour))}"
    page = open_window(world, window=window)[1]
    assert page.states in (["trouble", "shipped", "trouble"], ["overdue", "shipped", "overdue"])
    assert "Done: plan, gate_source, ship:near, gate_delivery:near." in page.text
    assert "ship:far failed and is tried again: no broker answers. [SHIP-401]" in page.text
    assert "no broker answers" not in open_window(world, Rights("web"), window)[1].text
    assert "no broker answers" in ask(world, "shipments", part="panel", on="far")[1].text
    counted = ask(world, "shipments", pipeline="web", range="6h")[1]
    look_at = [words for words, said in counted.links if said.get("data-state") == page.states[0]]
    assert len(look_at) == 1
