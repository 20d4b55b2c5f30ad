"""A pipeline that is renamed and says what it was called goes on where it was: nothing is shipped
twice, and no window is left out."""

import json
import re
from collections import Counter

import pytest

from shipper.report.results import RunReport
from shipper.shipments.feed import look
from shipper.shipments.index import Index
from tests.integration.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FIVE, SIX, SEVEN, EIGHT = (
    f"2026-11-01T0{hour}:00/2026-11-01T0{hour + 1}:00" for hour in (5, 6, 7, 8)
)
SCHEDULED = {
    "schedule": "0 * * * *",
    "source": {"path": "logs/hour={window_start:%-H}/", "settle": "0s"},
}


@pytest.fixture
def world(tmp_path, kafka):
    made = World(tmp_path, kafka.bootstrap)
    made.write_pipeline(**SCHEDULED)
    return made


def rename(world, name, *formerly):
    folder = world.root / "config" / "pipelines"
    (old,) = folder.glob("*.yaml")
    spec = json.loads(old.read_text()) | {"pipeline": name}
    if formerly:
        spec["formerly"] = formerly[0] if len(formerly) == 1 else formerly
    old.unlink()
    (folder / f"{name}.yaml").write_text(json.dumps(spec))


def run(world, name, window, *more):
    done = world.shipper("run", name, "--window", window, "--json", *more)
    assert done.returncode == 0, done.stderr[-4000:]
    return RunReport.model_validate_json(done.stdout)


def gaps(world, name, until):
    found = json.loads(world.shipper("gaps", name, "--json").stdout)
    first = found["gaps"][0]["window"].partition("/")[0] if found["gaps"] else ""
    return [first] if first and first < until else [], found["since"]


@pytest.mark.long
def test_a_renamed_pipeline_keeps_its_ledger_its_history_and_its_windows(world):
    for hour in (5, 6, 7, 8):
        world.write_log(f"hour={hour}/a.log", f"{hour}\n".encode())
    run(world, world.name, FIVE, "--scheduled")
    new = f"{world.name}new"
    rename(world, new, world.name)
    again = run(world, new, FIVE)
    assert [(ship.delivered, ship.before) for ship in again.ships] == [(0, 1)]
    # The window between the two names is found by the next run of the schedule.
    assert gaps(world, new, "2026-11-02") == (
        ["2026-11-01T06:00:00Z"],
        {"local": "2026-11-01T05:00:00+00:00"},
    )
    report = run(world, new, SEVEN, "--scheduled")
    assert [(ship.delivered, ship.late_windows) for ship in report.ships] == [(2, 1)]
    assert report.pipeline == new
    assert [past.window_start.hour for past in report.history] == [5]
    assert gaps(world, new, "2026-11-01T08:00:00Z")[0] == []
    newest = f"{world.name}newest"
    rename(world, newest, new, world.name)
    report = run(world, newest, EIGHT, "--scheduled")
    assert [(ship.delivered, ship.late_windows) for ship in report.ships] == [(1, 0)]
    assert world.read() == Counter([b"5", b"6", b"7", b"8"])
    # One ledger, one folder of results, one row on the page.
    ledgers = {
        topic
        for topic in world.client.topics()
        if topic.startswith("_shipper.") and world.name in topic
    }
    assert ledgers == {f"_shipper.{world.name}"}
    assert {path.parent.name for path in (world.root / "runs").glob("*/*--*")} == {world.name}
    look(world.root / "config")
    for command in (["ledger", "verify", newest], ["list"]):
        done = world.shipper(*command)
        assert done.returncode == 0, done.stderr[-4000:]
    with Index(world.root / "runs" / "shipments.sqlite") as index:
        assert [(one.pipeline, one.key) for one in index.pipelines()] == [(newest, world.name)]
        assert index.db.execute(
            "SELECT key, count(DISTINCT run_id) FROM records WHERE step = 'report'"
        ).fetchall() == [(world.name, 4)]
    # A replay is one of the pipeline, whatever it is called.
    done = world.shipper("replay", newest, "--window", FIVE, "--reason", "again", "--yes")
    assert done.returncode == 0, done.stderr[-4000:]
    assert world.read() == Counter([b"5", b"5", b"6", b"7", b"8"])
    # … and also when it goes on under another name than it began.
    id = re.findall(r"^replay (\S+)$", done.stderr, re.MULTILINE)[0]
    latest = f"{world.name}latest"
    rename(world, latest, newest, new, world.name)
    done = world.shipper("replay", latest, "--id", id)
    assert done.returncode == 0, done.stderr[-4000:]
    shown = world.shipper("ledger", "show", f"{latest}.replay.{id}", "--json")
    [of_window] = json.loads(shown.stdout)["local"]["windows"].values()
    assert of_window["records"] == 1
    # A former name of which nothing is known is refused before anything is sent.
    rename(world, f"{world.name}very_last", f"{world.name}wrong")
    done = world.shipper("run", f"{world.name}very_last", "--window", FIVE)
    assert done.returncode == 1
    assert "`formerly` names" in " ".join(done.stderr.split())
    assert world.read() == Counter([b"5", b"5", b"6", b"7", b"8"])


@pytest.mark.long
def test_without_a_word_the_gaps_of_the_new_name_begin_where_the_old_one_ended(world):
    for hour in (5, 6, 7):
        world.write_log(f"hour={hour}/a.log", f"{hour}\n".encode())
    run(world, world.name, FIVE, "--scheduled")
    new = f"{world.name}new"
    rename(world, new)
    run(world, new, SEVEN, "--scheduled")
    found = json.loads(world.shipper("gaps", new, "--json").stdout)
    assert found["since"] == {"local": "2026-11-01T06:00:00+00:00"}
    assert found["perhaps_formerly"] == world.name
    assert found["gaps"][0]["window"].startswith("2026-11-01T06:00:00Z")
    assert world.read() == Counter([b"5", b"7"]), "it is told, and left to a person"
