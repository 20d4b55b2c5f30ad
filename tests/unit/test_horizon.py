"""What goes when results are older than `keep`, and what never does."""

import datetime as dt
import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shipper.cli.main import app
from shipper.config.environment import EVERYTHING
from shipper.config.load import load_pipeline
from shipper.report import horizon, window_records
from shipper.report.incomplete import beginnings
from shipper.report.late import Told
from shipper.report.past_runs import find_retry_exclusions, run_ids, window_names
from shipper.report.results import Coverage, DeliveryGateResult, GateResult, LeftFile, Uncovered
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import read_records
from shipper.windows.window import Window
from tests.samples.results import common

PIPELINE = """\
pipeline: web
schedule: "@daily"
source: {path: "logs/{window_start:%Y/%m/%d}/", settle: 0s, lookback: 2d}
topic: t
clusters: [near, far]
"""
CLUSTER = (
    "cluster: {}\nbootstrap: b:1\nproperties: {{sasl.username: u, sasl.password: "
    "'${{NOT_THERE_AT_ALL}}'}}\n"
)
TODAY = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAYS = 90
KEEP = 40 * 86_400.0


def day(ago):
    return Window(TODAY - dt.timedelta(days=ago), TODAY - dt.timedelta(days=ago - 1))


class Past:
    """Runs of a pipeline on a daily schedule."""

    def __init__(self, root):
        self.config, self.runs = root / "config", str(root / "runs")
        for name, text in (
            ("pipelines/web", PIPELINE),
            *((f"clusters/{each}", CLUSTER.format(each)) for each in ("near", "far")),
        ):
            path = self.config / f"{name}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.pipeline = load_pipeline(self.config, "web", EVERYTHING)
        beginnings(self.runs, "web", ("near", "far"), day(DAYS), None, began=day(DAYS).start)

    def run(self, ago, *clusters, back=0, left=(), at=None):
        """``left``: days of whose windows a file was left behind."""
        window, at = day(ago), at or day(ago).end
        run_id = f"{at:%Y%m%dT%H%M%S}-{random.randbytes(3).hex()}"
        folder = RunFolder(self.runs, "web", window, run_id)
        of_run = common(window, run_id, at)
        folder.write("gate_source", GateResult(step="gate_source", **of_run))
        uncovered = [
            Uncovered(
                window=str(day(one)),
                why="open",
                files=[LeftFile(path=f"/logs/{one}", size_bytes=1, modified_ms=1)],
            )
            for one in left
        ]
        for cluster in clusters:
            coverage = Coverage(start=day(ago + back).start, end=window.end, uncovered=uncovered)
            folder.write(
                f"gate_delivery.{cluster}",
                DeliveryGateResult(cluster=cluster, coverage=coverage, **of_run),
            )

    def gaps(self):
        done = CliRunner().invoke(
            app, ["gaps", "web", "--json", "--config", str(self.config)], catch_exceptions=False
        )
        return [
            (gap["cluster"], gap["window"], gap["why"], gap["paths"])
            for gap in json.loads(done.stdout)["gaps"]
        ]

    def prune(self, now=TODAY):
        return horizon.prune(self.runs, self.pipeline, KEEP, now)


@pytest.fixture
def past(tmp_path, monkeypatch):
    monkeypatch.setattr(horizon, "_NEWEST_KEPT", 5)
    return Past(tmp_path)


def test_pruning_changes_no_gap(past, monkeypatch):
    """Days that were shipped, that failed on a cluster, that nobody ran, and of which runs left a
    file behind and a later one found it or not."""
    chance = random.Random(1)
    monkeypatch.setattr(horizon, "_MOST_AT_ONCE", 7)
    monkeypatch.setattr(horizon, "_MOST_DAYS", 11)
    for ago in range(DAYS, 0, -1):
        kind = chance.choice(
            ("all", "all", "all", "all", "one", "failed", "none", "left", "left behind")
        )
        if kind != "none":
            clusters = {"one": ("near",), "failed": ()}.get(kind, ("near", "far"))
            left = {"left": (ago,), "left behind": (ago + 1,)}.get(kind, ())
            past.run(ago, *clusters, back=chance.choice((0, 0, 1, 2)), left=left)
    before = past.gaps()
    for days in (10, 5, 0, 0, 0, 0, 0, 0):
        past.prune(TODAY - dt.timedelta(days=days))
        assert past.gaps() == before
    assert {window.end for window in window_names(past.runs, "web")} <= {
        day(n).end for n in range(1, 41)
    }
    packed = sorted(path.name for path in (Path(past.runs) / "web" / "windows").iterdir())
    assert sum(name.endswith(".json") for name in packed) >= 35
    assert past.prune(TODAY) == 0


def test_what_is_old_goes_and_what_was_told_of_it_stays(past):
    for ago in range(DAYS, 0, -1):
        past.run(ago, "near", *(["far"] if ago != 60 else []))
    told = Told(past.runs, "web")
    told.add("late", [day(60), day(2)], TODAY)
    root = Path(past.runs) / "web"
    no_results = [
        root / "ledger.near" / "archive" / "a",
        *(root / "schedule").iterdir(),
        Path(past.runs) / "web.replay.1" / "replay.json",
    ]
    for path in no_results:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert past.prune() > 40
    assert all(path.exists() for path in no_results)
    assert {window.end for window in window_names(past.runs, "web")} == {
        day(n).end for n in range(1, 41)
    }
    assert told.of("late") == {day(60), day(2)}
    assert [gap[:2] for gap in past.gaps()] == [("far", str(day(60)))]
    past.run(60, "far", at=TODAY)
    past.prune(TODAY + dt.timedelta(days=2))
    assert len(run_ids(past.runs, "web", day(60))) == 1, (
        "a run of today over an old window is not old"
    )
    assert past.gaps() == []


def test_what_a_look_back_goes_by_is_never_too_old(past):
    past.pipeline = past.pipeline.model_copy(
        update={
            "source": past.pipeline.source.model_copy(update={"lookback_seconds": 60 * 86_400.0})
        }
    )
    for ago in range(DAYS, 0, -1):
        past.run(ago, "near", "far")
    windows = [day(ago) for ago in range(60, 0, -1)]
    before = find_retry_exclusions(past.runs, "web", ("near", "far"), windows, TODAY)
    past.prune()
    assert {day(n) for n in range(1, 61)} <= {*window_names(past.runs, "web")}
    assert find_retry_exclusions(past.runs, "web", ("near", "far"), windows, TODAY) == before


@pytest.mark.parametrize("removed", ["all", "some"])
def test_two_runs_that_pack_the_same_day_at_once_lose_nothing(past, monkeypatch, removed):
    """The other one has packed the day, and removes its files."""
    past.run(60, "near", "far")
    before = read_records(past.runs, "web", day(60).start)
    files = {path: path.read_text() for path in Path(past.runs).glob("web/windows/*/*.json")}
    names, root = window_records.names_in, str(Path(past.runs) / "web" / "windows")

    def listed(fs, path):
        if path == root:
            return names(fs, path)
        monkeypatch.setattr(window_records, "names_in", names)
        past.prune()
        for file, text in list(files.items())[1:] if removed == "some" else ():
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        return names(fs, path)

    monkeypatch.setattr(window_records, "names_in", listed)
    past.prune()
    assert len(files) > 1
    assert not any(path.exists() for path in files)
    assert read_records(past.runs, "web", day(60).start) == before


def test_a_day_is_packed_only_once_all_of_it_can_be_read(past):
    past.run(60, "near")
    [record] = Path(past.runs).glob("web/windows/*/*gate_delivery*")
    text = record.read_text()
    record.write_text(text[:-9])
    past.prune()
    assert record.exists()
    fields = json.loads(text)
    fields[0]["uncovered"] = [{"window": str(day(60)), "why": "open", "of_a_later_version": 1}]
    record.write_text(json.dumps(fields))
    past.prune()
    assert not record.exists()
    read = read_records(past.runs, "web", day(60).start)
    assert [one.why for each in read for one in each.uncovered] == ["open"]
