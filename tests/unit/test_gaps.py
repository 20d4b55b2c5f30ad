"""Which windows of a schedule count as complete, by results and ledgers that are written by
hand."""

import datetime as dt
import json

import pytest
from typer.testing import CliRunner

from shipper.cli.main import app
from shipper.errors import UsageError
from shipper.ledger.incarnations import RecreatedTopic
from shipper.ledger.inventory import Inventory, Tally
from shipper.report import incomplete
from shipper.report.incomplete import (
    KnownSchedule,
    beginnings,
    find_gaps,
    gaps_before,
    merged,
    read_schedule,
)
from shipper.report.late import fresh_until
from shipper.report.plan_result import ClusterPlan, LeftOut, PlanResult
from shipper.report.results import (
    Coverage,
    DeliveryGateResult,
    Gap,
    GateResult,
    LeftFile,
    ShipResult,
    Uncovered,
)
from shipper.report.run_folder import RunFolder
from shipper.report.run_view import run_view
from shipper.report.window_records import WindowRecord, accept, read_records
from shipper.report.window_state import window_state
from shipper.types import FileId
from shipper.whole_files import write_whole
from shipper.windows.window import Window
from tests.samples.config import pipeline_of, write_config
from tests.samples.reports import shipped
from tests.samples.results import checked, common

DAY = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
LONG = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)


def hour(n):
    return Window(DAY + dt.timedelta(hours=n), DAY + dt.timedelta(hours=n + 1))


class Runs:
    """Results of runs, as files."""

    def __init__(self, root):
        self.uri, self.count = str(root), 0

    def common(self, window):
        """What all results of the last run have, which came after those before it."""
        at = max(window.end, hour(100).start) + dt.timedelta(seconds=self.count)
        return common(window, f"run-{self.count:03}", at)

    def add(self, window, *clusters, closed=False, back_to=None, left=(), until=None, asked=None):
        self.count += 1
        folder = RunFolder(self.uri, "web", window, f"run-{self.count:03}")
        of_run = self.common(window) | {"asked": asked}
        check = checked("files", not closed, ">= 1", "0")
        folder.write(
            "gate_source",
            GateResult(
                step="gate_source",
                checks=[check],
                status="failed" if closed else "succeeded",
                **of_run,
            ),
        )
        for cluster in clusters:
            start = window.start if back_to is None else hour(back_to).start
            end = window.end if until is None else hour(until).start
            found = Coverage(start=start, end=end, uncovered=list(left))
            folder.write(
                f"gate_delivery.{cluster}",
                DeliveryGateResult(cluster=cluster, coverage=found, **of_run),
            )

    def add_lost(self, window, step, lost):
        """A run that fails at ``step`` on the cluster `near`, since a topic was created again."""
        self.add(window)
        folder = RunFolder(self.uri, "web", window, f"run-{self.count:03}")
        of_run = self.common(window) | {"status": "failed", "error": "lost"}
        clusters = [
            ClusterPlan(cluster="near", recreated=[lost] if step == "plan" else []),
            ClusterPlan(cluster="far"),
        ]
        folder.write("plan", PlanResult(clusters=clusters, **of_run))
        if step == "ship":
            folder.write("ship.near", ShipResult(cluster="near", recreated=[lost], **of_run))
        elif step == "gate_delivery":
            folder.write(
                "gate_delivery.near", DeliveryGateResult(cluster="near", recreated=[lost], **of_run)
            )

    def gaps(self, last, held=None, **since):
        records = read_records(self.uri, "web", DAY, LONG)
        begins = {cluster: hour(since.get(cluster, 0)).start for cluster in ("near", "far")}
        found = find_gaps([hour(n) for n in range(last + 1)], records, begins, lambda cluster: held)
        return [(gap.cluster, int(gap.window[11:13]), gap.why) for gap in found]


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


class TestATopicThatWasCreatedAnew:
    LOST = RecreatedTopic(topic="logs.web", before="A", now="B", records=5, files=1)

    @pytest.mark.parametrize("step", ["plan", "ship", "gate_delivery"])
    def test_a_window_that_was_complete_is_a_gap_once_a_run_finds_its_records_gone(
        self, runs, step
    ):
        runs.add(hour(0), "near", "far")
        runs.add_lost(hour(0), step, self.LOST)
        assert runs.gaps(0) == [("near", 0, str(self.LOST))]
        assert fresh_until(runs.uri, "web", ("near", "far"), LONG) == {"far": hour(0).end}
        runs.add(hour(1), "near", "far", back_to=0)
        assert runs.gaps(1) == [], "a run that looked back has found, or sent, all of it"
        runs.add_lost(hour(0), step, self.LOST)
        runs.add(hour(0), "near", "far")
        assert runs.gaps(1) == []


class TestAcceptedAsTheyAre:
    EMPTY = Uncovered(window=str(hour(0)), why="it had no file")
    LEFT = Uncovered(window=str(hour(0)), why="young", files=[LeftFile(path="a.log")])

    def accept(self, runs, window):
        accept(runs.uri, "web", window, why="the host\nwas down", who="olga")

    @pytest.fixture(autouse=True)
    def in_order(self, monkeypatch, runs):
        def now():
            runs.count += 1
            return hour(100).start + dt.timedelta(seconds=runs.count)

        monkeypatch.setattr("shipper.runtime.now", now)

    def test_they_are_complete_until_a_run_finds_a_file_of_them(self, runs):
        runs.add(hour(0), "near", left=[self.EMPTY])
        assert [cluster for cluster, *_ in runs.gaps(0)] == ["near", "far"]
        self.accept(runs, hour(0))
        assert runs.gaps(0) == []
        runs.add(hour(1), "near", "far", back_to=0, left=[self.EMPTY])
        assert runs.gaps(1) == [], "that the folder is empty was known"
        runs.add(hour(2), "near", "far", back_to=0, left=[self.LEFT])
        assert runs.gaps(2) == [("near", 0, "young"), ("far", 0, "young")]

    def test_what_a_worker_wrote_whose_clock_is_ahead_comes_before(self, runs, monkeypatch):
        runs.add(hour(0), "near", "far", left=[self.LEFT])
        monkeypatch.setattr("shipper.runtime.now", lambda: hour(99).start)
        self.accept(runs, hour(0))
        assert runs.gaps(0) == []

    def test_a_window_that_nobody_ran_and_one_whose_gate_is_closed_may_be_accepted(self, runs):
        runs.add(hour(0), closed=True)
        self.accept(runs, Window(hour(0).start, hour(1).end))
        assert runs.gaps(1) == []
        (found,) = read_records(runs.uri, "web", DAY, LONG)[-1:]
        state = window_state(hour(0), [found])
        assert state.why.startswith("accepted by olga at 2026-11-05 04:00:0")
        assert state.why.endswith("UTC: the host was down")


def test_a_run_says_nothing_of_windows_that_were_not_over(runs, tmp_path):
    """Whatever files of them the ledger has: more may have come."""
    runs.add(Window(hour(0).start, hour(3).end), "near", "far", until=2)
    held = Inventory(windows={str(hour(2)): Tally(files=1, complete=1)})
    early = "it was not over when its last run looked"
    assert runs.gaps(3, held) == [(name, n, early) for n in (2, 3) for name in ("near", "far")]
    assert fresh_until(runs.uri, "web", ("near",), LONG) == {"near": hour(1).end}
    runs.add(hour(2), "near", "far")
    runs.add(hour(3))
    assert runs.gaps(3, held) == [(name, 3, early) for name in ("near", "far")]
    runs.add(hour(4), "near", "far", back_to=2)
    assert runs.gaps(3, held) == []


def record(run_id, step, second, **learned):
    """One about the first hour."""
    at = hour(1).end + dt.timedelta(seconds=second)
    of_run = {"run_id": run_id, "window_start": hour(0).start, "window_end": hour(0).end}
    return WindowRecord(**{**of_run, "step": step, "at": at, "finished": at} | learned)


class TestAVerdict:
    """A delivery gate that closes, and a ship that fails as later ones would, count whatever the
    ledger holds."""

    LATE = LeftFile(path="late.log", size_bytes=1, modified_ms=1)
    PASSED = record("first", "gate_delivery", 0, passed=True, start=hour(0).start)
    PLANNED = record(
        "again", "plan", 5, start=hour(0).start,
        uncovered=[Uncovered(window=str(hour(0)), why="left", files=[LATE])],
    )  # fmt: skip
    CLOSED = record("again", "gate_delivery", 7, distrusted=True, error="closed", final=True)

    def gaps(self, *records):
        held = Inventory(files={FileId("late.log", 1, 1): Tally(files=1, complete=1)})
        since = {"near": hour(0).start}
        return [gap.why for gap in find_gaps([hour(0)], records, since, lambda cluster: held)]

    def test_a_window_whose_gate_closed_is_a_gap_though_an_earlier_run_passed(self):
        assert self.gaps(self.PASSED, self.PLANNED) == []
        closed = [self.PASSED, self.PLANNED, self.CLOSED]
        assert self.gaps(*closed) == ["its delivery gate is closed"]
        opened = record("third", "gate_delivery", 9, passed=True, start=hour(0).start)
        assert self.gaps(*closed, opened) == []

    def test_the_verdict_that_was_given_last_counts_whoever_looked_first(self):
        looked_before = {"passed": True, "start": hour(0).start, "at": hour(2).start}
        gate = record("again", "gate_delivery", 9, **looked_before)
        assert self.gaps(self.PASSED, gate, self.PLANNED, self.CLOSED) == []
        gate = record("other", "gate_delivery", 6, **looked_before)
        assert len(self.gaps(self.PASSED, gate, self.PLANNED, self.CLOSED)) == 1

    def test_what_a_person_has_accepted_is_taken_back(self):
        accepted = record("olga", "accepted", 3, start=hour(0).start, accepted="by olga")
        failed = record("again", "ship", 6, error="too much in quarantine", fails_again=True)
        assert self.gaps(self.PASSED, accepted, self.PLANNED) == []
        assert self.gaps(self.PASSED, accepted, self.PLANNED, failed) == ["left"]
        later = record("olga", "accepted", 8, start=hour(0).start, accepted="by olga")
        assert self.gaps(self.PASSED, accepted, self.PLANNED, failed, self.CLOSED, later) == []

    def test_a_ship_that_fails_with_nothing_left_to_send_changes_nothing(self):
        planned = record("again", "plan", 5, start=hour(0).start)
        failed = record("again", "ship", 6, error="no topic", fails_again=True)
        assert self.gaps(self.PASSED, planned, failed) == []
        superseded = record("again", "ship", 6, error="superseded", final=True)
        assert self.gaps(self.PASSED, self.PLANNED, superseded) == []


class TestARunOfNamedFiles:
    """It says nothing of the window's other files."""

    def test_it_takes_back_only_its_own_notes(self):
        """Not those of a run that looked after its plan, and passed before it."""

        def left(path):
            return [Uncovered(window=str(hour(0)), why="left", files=[LeftFile(path=path)])]

        named, young = {"asked": False, "uncovered": left("named.log")}, left("young.log")
        records = [
            record("named", "plan", 0, **named, start=hour(0).start),
            record("hourly", "gate_delivery", 1, passed=True, uncovered=young, start=hour(0).start),
            record("again", "plan", 2, **named, start=hour(0).start),
            record("named", "gate_delivery", 3, passed=True),
        ]
        paths = [path for one in window_state(hour(0), records).left for path in one.paths]
        assert paths == ["young.log", "named.log"]
        passed = record("again", "gate_delivery", 4, passed=True)
        (only,) = window_state(hour(0), [*records, passed]).left
        assert only.paths == ["young.log"]

    def test_it_takes_back_no_doubt_about_the_window(self):
        records = [
            record("hourly", "gate_delivery", 1, passed=True, start=hour(0).start),
            record("hourly", "report", 2, doubt="few records."),
            record("named", "gate_delivery", 3, passed=True),
            record("named", "report", 4, doubt="odd records."),
        ]
        state = window_state(hour(0), records)
        assert (state.state, state.why) == ("doubt", "few records. odd records.")
        again = record("hourly", "gate_delivery", 5, passed=True, start=hour(0).start)
        assert window_state(hour(0), [*records[:1], *records[2:3], again]).state == "shipped"
        assert window_state(hour(0), [*records, again]).why == "few records."


def test_windows_in_a_row_are_shown_as_one():
    three = [Gap(cluster="far", window=str(hour(n)), why="no run") for n in (3, 1, 2)]
    other = Gap(cluster="far", window=str(hour(5)), why="no run")
    assert [(gap.window[11:13], gap.windows) for gap in merged([*three, other])] == [
        ("01", 3),
        ("05", 1),
    ]


def pipeline(**schedule):
    return pipeline_of(schedule={"cron": "@hourly", **schedule}, clusters=["near", "far"])


class TestBeginnings:
    def test_a_pipeline_begins_with_its_first_scheduled_window_and_a_new_cluster_with_its_own(
        self, tmp_path
    ):
        def first(n, *clusters):
            found = beginnings(str(tmp_path), "web", clusters, hour(n), None, began=hour(n).end)
            return {cluster: at.hour for cluster, at in found.items()}

        assert first(5, "near") == {"near": 5}
        assert first(6, "near") == {"near": 5}
        assert first(7, "near", "far") == {"near": 5, "far": 7}
        assert first(8, "far") == {"far": 7}
        known = read_schedule(str(tmp_path), "web").first_window
        assert {name: at.hour for name, at in known.items()} == {"near": 5, "far": 7}

    def test_runs_that_begin_at_once_lose_nothing_of_each_other(self, tmp_path, monkeypatch):
        """Each has read what is known before the other one writes. Nothing is written over, so a
        process that is killed leaves one or the other."""
        beginnings(str(tmp_path), "web", ["near"], hour(5), None, began=hour(5).end)

        def write_after_the_other(url, text):
            monkeypatch.undo()
            beginnings(str(tmp_path), "web", ["far"], hour(6), None, began=hour(6).end)
            assert not (tmp_path / "web" / url.rpartition("/")[2]).exists()
            write_whole(url, text)

        monkeypatch.setattr(incomplete, "write_whole", write_after_the_other)
        beginnings(str(tmp_path), "web", ["other"], hour(7), None, began=hour(7).end)
        known = read_schedule(str(tmp_path), "web")
        assert {name: at.hour for name, at in known.first_window.items()} == {
            "near": 5,
            "far": 6,
            "other": 7,
        }
        assert known.last_run.window == hour(7)

    def test_what_earlier_releases_wrote_is_known(self, tmp_path):
        kept = KnownSchedule(first_window={"near": hour(2).start}).model_dump_json()
        write_whole(f"{tmp_path}/web/schedule.json", kept)
        found = beginnings(str(tmp_path), "web", ["near"], hour(5), None, began=hour(5).end)
        assert found == {"near": hour(2).start}
        assert [path.name for path in (tmp_path / "web").iterdir()] == ["schedule"]

    def test_the_first_run_of_all_begins_at_the_schedules_start(self, tmp_path):
        found = beginnings(str(tmp_path), "web", ["near"], hour(5), hour(2).start, began=None)
        assert found == {"near": hour(2).start}
        assert read_schedule(str(tmp_path), "web").first_window == {}


def test_a_runs_report_looks_at_the_windows_before_it_as_far_as_results_are_kept(runs, tmp_path):
    assert gaps_before(runs.uri, pipeline(), hour(3).start) is None, "nobody knows since when"
    beginnings(runs.uri, "web", ["near", "far"], hour(0), None, began=hour(0).end)
    runs.add(hour(1), "near", "far")
    runs.add(hour(3), "near", "far")
    found = gaps_before(runs.uri, pipeline(), hour(3).start)
    assert found is not None
    assert [(gap.cluster, gap.window[11:13]) for gap in found] == [("near", "02"), ("far", "02")]


def test_a_report_tells_of_a_pause_longer_than_it_looks_back(runs):
    """The records of before the pause are there, and about none of these windows."""
    first, last = hour(-400), hour(100)
    beginnings(runs.uri, "web", ["near", "far"], first, None, began=first.end)
    before = RunFolder(runs.uri, "web", first, "before")
    before.note_begin(first, first.end, ())
    runs.add(last, "near", "far", back_to=90)
    found = gaps_before(runs.uri, pipeline(), last.start)
    assert found is not None
    assert {gap.window for gap in found} == {str(hour(n)) for n in range(-68, 90)}


@pytest.mark.parametrize("spoil", ["gap", "left out"])
def test_what_is_missing_makes_a_good_run_a_warning_on_page_and_notice(spoil):
    from shipper.report.page import render

    report = shipped()
    report.plan.left_out = []
    report.gate_source.checks = [check for check in report.gate_source.checks if check.passed]
    assert run_view(report).event == "success"
    if spoil == "gap":
        report.gaps = [Gap(cluster="frankfurt", window=str(hour(1)), why="no run")]
        says, place = "frankfurt: 1 earlier window is not complete", 'id="incomplete"'
    else:
        report.plan.left_out = [
            LeftOut(path="s3a://logs/young.log", reason="modified 4 s ago", warns=True)
        ]
        says, place = "1 entry is left out: s3a://logs/young.log", 'id="left-out"'
    told, page = run_view(report), render(report)
    assert told.event == "warning"
    assert says in (told.why or "")
    assert "but not everything is delivered yet" in told.headline
    assert says in page
    assert place in page


def _daily():
    """Return when the last daily window ended, and its cron: half a day ago, so that no test meets
    a window that has just ended."""
    end = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0) - dt.timedelta(
        hours=12
    )
    return end, f"0 {end.hour} * * *"


def gaps_of(config, schedule, more=""):
    """Write a pipeline whose cluster cannot be asked; return `shipper gaps` for it."""
    pipeline = f"pipeline: web\nschedule: {schedule}\nsource: {{path: logs/, settle: 0s}}\n{more}"
    near = "bootstrap: b:1\nproperties: {sasl.username: u, sasl.password: '${NOT_THERE_AT_ALL}'}\n"
    files = {
        "pipelines/web": f"{pipeline}topic: t\nclusters: [near]\n",
        "clusters/near": f"cluster: near\n{near}",
    }
    words = ["gaps", "web", "--config", str(write_config(config, files))]
    return lambda *more: CliRunner().invoke(app, [*words, *more], catch_exceptions=False)


def test_the_figure_of_windows_counts_none_that_began_before_the_time_that_is_asked_about(tmp_path):
    end, daily = _daily()
    asked = gaps_of(tmp_path / "config", f"{{cron: '{daily}', start: 2026-01-01}}")
    found = asked("--since", f"{end - dt.timedelta(hours=30):%Y-%m-%dT%H:%M}", "--json")
    document = json.loads(found.stdout)
    assert (found.exit_code, document["windows"]) == (1, 1)
    assert sum(gap["windows"] for gap in document["gaps"]) == 1
    found = asked("--since", f"{end - dt.timedelta(hours=20):%Y-%m-%dT%H:%M}", "--json")
    assert (found.exit_code, json.loads(found.stdout)["windows"]) == (0, 0)


def test_an_alert_says_each_overdue_window_once(tmp_path):
    end, daily = _daily()
    days = [Window(end - dt.timedelta(days=n), end - dt.timedelta(days=n - 1)) for n in (3, 2, 1)]
    runs = Runs(tmp_path / "runs")
    asked = gaps_of(tmp_path / "config", f"{{cron: '{daily}', deliver_within: 1d}}")
    beginnings(runs.uri, "web", ("near",), days[0], None, began=days[0].start)
    for day in days:
        runs.add(day)  # and failed

    def gaps(*options):
        done = asked(*options)
        return done.exit_code, done.stdout

    code, said = gaps("--alert", "--json")
    assert (code, [(gap["window"], gap["windows"]) for gap in json.loads(said)["gaps"]]) == (
        1,
        [(str(Window(days[0].start, days[1].end)), 2)],
    )
    assert gaps("--alert") == (0, "")
    code, said = gaps("--json")
    assert (code, json.loads(said)["gaps"][0]["windows"]) == (1, 3), "asked without it, it says all"
    figures = tmp_path / "shipper.prom"
    assert gaps("--alert", "--metrics-file", str(figures)) == (0, "")
    assert figures.read_text().splitlines()[1:] == [
        'shipper_gaps{cluster="near",pipeline="web"} 3'
    ], "told or not"
    with pytest.raises(UsageError):
        asked("--window", str(days[0]), "--metrics-file", str(figures))
    earlier = Window(days[0].start - dt.timedelta(days=1), days[0].start)
    runs.add(earlier)
    code, said = gaps("--alert", "--json", "--since", "5d")
    assert (code, [gap["window"] for gap in json.loads(said)["gaps"]]) == (1, [str(earlier)]), (
        "nobody was told of that one"
    )


def test_an_alert_that_was_given_is_not_given_again_for_a_ledger_that_cannot_be_read(tmp_path):
    end, daily = _daily()
    gaps = gaps_of(tmp_path / "config", f"'{daily}'")
    two_days = Window(end - dt.timedelta(days=2), end)
    beginnings(str(tmp_path / "runs"), "web", ("near",), two_days, None, began=two_days.start)

    first, second = gaps("--alert"), gaps("--alert")
    assert (first.exit_code, bool(first.stdout), "NOT_THERE_AT_ALL" in first.stderr) == (
        1,
        True,
        True,
    ), first.output
    assert (second.exit_code, second.output) == (0, "")


@pytest.mark.parametrize("before", [0, 1, 2, 5, 30])
def test_a_cluster_is_as_fresh_as_its_latest_window_that_is_there(runs, before):
    """However many later ones failed there, and whatever a backfill did afterwards."""
    runs.add(hour(0), "near", "far")
    for n in range(1, before + 1):
        runs.add(hour(n), "near")
    runs.add(Window(hour(-9).start, hour(-8).end), "near", "far")
    runs.add(Window(hour(40).start, hour(44).end), "near", "far")
    now = hour(41).start
    assert fresh_until(runs.uri, "web", ("near", "far", "new"), now) == {
        "near": hour(before).end,
        "far": hour(0).end,
    }


def test_an_alert_says_once_that_the_schedule_stands_still(tmp_path):
    """Long before a window is overdue."""
    now = dt.datetime.now(dt.UTC)
    third = now.replace(minute=0, second=0, microsecond=0) - dt.timedelta(hours=3)
    last = Window(third - dt.timedelta(hours=1), third)
    runs = Runs(tmp_path / "runs")
    gaps = gaps_of(tmp_path / "config", "{cron: '@hourly', deliver_within: 5d}")
    beginnings(runs.uri, "web", ("near",), last, None, began=third)
    runs.add(last, "near")

    def alert():
        done = gaps("--alert")
        return done.exit_code, done.stdout

    by_hand = Window(third + dt.timedelta(hours=2), third + dt.timedelta(hours=3))
    runs.add(by_hand, "near")
    assert alert() == (0, ""), "the tick has a run, a manual one"
    name = RunFolder.name_of(by_hand)
    for record in (tmp_path / "runs" / "web" / "windows").glob(f"*/{name}~*"):
        record.unlink()
    assert json.loads(gaps("--json").stdout)["stands_still_since"] == last.end.isoformat()
    code, said = alert()
    assert (code, bool(said)) == (1, True)
    assert alert() == (0, "")
    beginnings(runs.uri, "web", ("near",), last, None, began=now)  # it makes up for an outage
    assert json.loads(gaps("--json").stdout)["stands_still_since"] is None
