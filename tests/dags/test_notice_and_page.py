"""A notice and the page that it links to are of one window: whatever a run has come to, they say
the same."""

import datetime as dt
import json
import random
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from dag_world import told

from shipper.config.load import load_pipeline
from shipper.report.incomplete import beginnings, gaps_before
from shipper.report.run_folder import RunFolder
from shipper.report.run_view import cause_of, steps
from shipper.shipments import app
from shipper.shipments.app import respond
from shipper.shipments.feed import index_path, look
from shipper.windows.window import Window
from tests.samples.shipments import Everything, Page, run_report

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

HOUR, MINUTE = dt.timedelta(hours=1), dt.timedelta(minutes=1)
START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
CLUSTERS = ("near", "far")
LATE = '{cron: "0 * * * *", start: 2026-11-01, deliver_within: 45m}'


class Story:
    """Runs of one hour after the other, with the notices that they lead to and the page."""

    def __init__(self, config, notices, patch):
        self.config, self.notices, self.patch = config, notices, patch
        self.runs = str(config.folder.parent / "runs")
        entry = {
            "on": ["late", "failure"],
            "notifier": "file_notifier.FileNotifier",
            "with": {"path": str(notices)},
        }
        config.pipeline("web", LATE, f"notify: {json.dumps([entry])}\n")
        self.pipeline = load_pipeline(config.folder, "web")
        beginnings(self.runs, "web", CLUSTERS, Window(START, START + HOUR), None, began=START)

    def notice(self, act, *about):
        """Return the notices that are sent meanwhile."""
        before = len(told(self.notices))
        act(*about)
        return told(self.notices)[before:]

    def at(self, now):
        self.patch.setattr("shipper_airflow.dags.notice._now", lambda: now)
        self.patch.setattr(app, "_now", lambda: int(now.timestamp()))

    def page(self, notice):
        """Follow the link of a notice."""
        lines = dict(line.partition(": ")[::2] for line in notice["text"].splitlines()[1:])
        query = {name: one[0] for name, one in parse_qs(urlsplit(lines["Window"]).query).items()}
        look(self.config.folder)
        answer = respond(index_path(self.config.folder), "shipments", query, Everything())
        return Page(answer.body.decode().partition("<dialog")[2])

    def deadline(self, window, began):
        from shipper_airflow.dags.notice import run_is_late

        run = {
            "dag_id": "web",
            "dag_run_id": "scheduled",
            "data_interval_start": window.start.isoformat(),
            "data_interval_end": window.end.isoformat(),
            "start_date": began.isoformat(),
            "state": "running",
            "conf": {},
        }
        context = {"dag_run": run, "deadline": {}}
        run_is_late(config_dir=str(self.config.folder), pipeline="web", context=context)

    def end(self, report):
        from shipper_airflow.dags.notice import RunEnded

        xcom = {
            "window_start": report.window_start.isoformat(),
            "window_end": report.window_end.isoformat(),
            "run_id": report.run_id,
            "request": {"scheduled": True},
        }
        task = SimpleNamespace(
            xcom_pull=lambda task_ids, key="": xcom if task_ids == "resolve_window" else None,
            get_task_states=lambda **_: {},
            dag_id="web",
            task_id="report",
        )
        failed = report.status == "failed"
        RunEnded(self.pipeline, self.config.folder, failed=failed)({"ti": task, "run_id": "web"})


def test_a_notice_and_its_page_say_the_same(config, tmp_path, monkeypatch):
    there = {"shipped", "late"}
    story, seen = Story(config, tmp_path / "notices", monkeypatch), set[str]()
    for number in range(40):
        chance = random.Random(number)
        window = Window(START + number * HOUR, START + (number + 1) * HOUR)
        failed = tuple(name for name in CLUSTERS if chance.random() < 0.2)
        closed, took = chance.random() < 0.1, chance.choice([0.2, 1.5])
        report = run_report(number, f"run-{number:02}", failed=failed, closed=closed, after=took)
        began = report.started_at
        for gate in report.delivery_gates:
            gate.coverage.committed = {str(window): report.finished_at}
        folder = RunFolder(story.runs, "web", window, report.run_id)
        folder.note_begin(window, began, ())
        left = [("plan", report.plan), ("gate_source", report.gate_source)]
        left += [(f"ship.{one.cluster}", one) for one in report.ships]
        left += [(f"gate_delivery.{one.cluster}", one) for one in report.delivery_gates]
        done = chance.randint(0, len(left))
        for name, result in left[:done]:
            folder.write(name, result)

        # Its deadline passes while it is at work, or Airflow is away.
        story.at(max(window.end + 45 * MINUTE, began + MINUTE))
        noticed = chance.random() < 0.3
        for notice in story.notice(story.deadline, window, began) if noticed else ():
            page, text = story.page(notice), notice["text"]
            seen.add(page.states[0])
            whole = {one.cluster for one in report.delivery_gates} & {
                name.partition(".")[2] for name, _ in left[:done] if "gate_delivery" in name
            }
            of_clusters = dict(zip(CLUSTERS, page.states[1:], strict=False))
            assert {name for name, state in of_clusters.items() if state in there} == whole
            said = text.partition("; ")[2].partition("\n")[0]
            for name in CLUSTERS:
                told_whole = f"{name} has everything" in said or "near and far have" in said
                assert told_whole is (name in whole)
            assert page.states[0] in (there if len(whole) == 2 else {"overdue"})
            if " failed and is" in said:
                assert said.partition("; ")[0].partition(" [")[0] in page.text

        # It ends.
        for name, result in left[done:]:
            folder.write(name, result)
        report.gaps = gaps_before(story.runs, story.pipeline, window.start)
        if cause := cause_of(steps(report)):
            report.status, report.error = "failed", cause
        folder.write("report", report)
        story.at(report.finished_at + MINUTE)
        for notice in story.notice(story.end, report):
            page, headline = story.page(notice), notice["text"].splitlines()[0].split(": ", 1)[1]
            seen.add(page.states[0])
            match notice["event"]:
                case "failure":
                    assert page.states[0] in ("failed", "blocked")
                    assert headline in page.text
                case "late" if headline.startswith("Late: delivered"):
                    assert page.states[0] in ("late", "doubt")
                case "late":  # of windows before
                    assert page.states[0] in ("failed", "blocked", "missing", "doubt")
    assert seen >= {"failed", "blocked", "late", "overdue"}
