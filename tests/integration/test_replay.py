"""`shipper replay`: what was shipped is shipped again by intent, exactly once per replay."""

import datetime as dt
import json
import re
import signal
import subprocess
import time
from collections import Counter

import pytest
from shipper_tools.dev.console_consumer import read_records as records_in
from shipper_tools.dev.console_consumer import read_topic

from shipper.report.past_runs import window_names
from shipper.report.replays import find_replay
from shipper.report.results import RunReport
from shipper.report.window_records import read_records
from shipper.report.window_state import SHIPPED, window_state

from .world import World, account_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
_START = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)


def line(second):
    return f"{_START + dt.timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ} line {second}".encode()


@pytest.fixture
def world(tmp_path, kafka):
    found = World(tmp_path, kafka.bootstrap, topics={"": 2})
    found.write_pipeline(**_spec())
    found.write_log("a.log", b"".join(line(n) + b"\n" for n in range(0, 3_600, 2)) + b"no time\n")
    found.write_log("b.log", b"".join(line(n) + b"\n" for n in range(1, 3_600, 2)))
    return found


def _spec(**records):
    return {
        "records": {
            "timestamp": "try_to_timestamp(split_part(value, ' ', 1))",
            "headers": {"file": "file_name"},
            **records,
        },
        "gates": {"source": [{"check": "files", "min": 2, "max": 2}, {"check": "rows", "min": 1}]},
    }


def again(world, *arguments, code=0):
    done = world.shipper("replay", world.name, "--json", *arguments)
    assert done.returncode == code, done.stderr[-4000:]
    if code:
        return {}, " ".join(done.stderr.split())
    report = RunReport.model_validate_json(done.stdout)
    return account_of(report), report.asked.replay.id


def test_a_range_of_event_time_to_other_topics_once_with_where_it_came_from(world):
    world.run()
    before = world.read()
    other = f"again.{world.name}"
    world.client.create_topics({other: 2}, replication_factor=1)
    arguments = [
        "--from",
        "2026-11-01T06:10",
        "--to",
        "2026-11-01T06:20",
        "--topic-prefix",
        "again.",
        "--reason",
        "lost",
    ]
    account, id = again(world, *arguments, "--rate", "5MB/s")
    assert (account["delivered"], account["filtered"]) == (600, {"outside_replay": 3_001})
    records = records_in(world.bootstrap, other)
    assert Counter(record.value for record in records) == Counter(
        line(n) for n in range(600, 1_200)
    )
    assert {record.headers[0] for record in records} == {("file", b"a.log"), ("file", b"b.log")}
    assert {dict(record.headers)["shipper-replay"].decode() for record in records} == {id}
    assert {dict(record.headers)["shipper-replay-reason"] for record in records} == {b"lost"}
    assert {
        dict(record.headers)["shipper-replay-file"].rpartition(b"/")[2] for record in records
    } == {b"a.log", b"b.log"}

    account, same = again(world, "--id", id, "--rate", "9MB/s")
    assert (same, account["delivered"], account["before"]) == (id, 0, 600)
    kept = find_replay(str(world.root / "runs"), world.name, id)
    assert kept.rate_limit == 9_000_000, (
        "the rate may change from one try to the next: it decides nothing of what is sent"
    )
    assert len(read_topic(world.bootstrap, other)) == 600
    assert "SHIP-112" in again(world, "--id", id, "--reason", "x", code=2)[1]
    shown = world.shipper("ledger", "show", f"{world.name}.replay.{id}", "--json")
    [window] = json.loads(shown.stdout)["local"]["windows"].values()
    assert (window["records"], window["complete"]) == (600, 2)
    assert world.read() == before, "the pipeline's own topics are as they were"


@pytest.mark.long
def test_files_to_the_same_topics_only_when_somebody_says_yes(world):
    world.run()
    path = str(world.logs / "b.log")
    assert (
        "will see these records once more"
        in again(world, "--files", path, "--reason", "r", code=2)[1]
    )
    assert world.read().total() == 3_601
    account, id = again(world, "--files", path, "--reason", "r", "--yes")
    assert account["delivered"] == 1_800
    uri, key = str(world.root / "runs"), f"{world.name}.replay.{id}"
    [window] = window_names(uri, key)
    state = window_state(window, read_records(uri, key, window.start))
    assert state.state == SHIPPED
    found = world.read()
    assert [found[line(n)] for n in range(4)] == [1, 2, 1, 2]
    second, other = again(world, "--files", path, "--reason", "once more", "--yes")
    assert (second["delivered"], other != id) == (1_800, True)
    assert "SHIP-302" in again(world, "--files", path + ".not", "--reason", "r", "--yes", code=1)[1]


@pytest.mark.cold
@pytest.mark.long
def test_one_that_was_killed_is_finished_and_nothing_is_there_twice(world):
    world.write_pipeline(
        **_spec(),
        delivery={
            "chunk_size": "2kB",
            "lanes": 1,
            "lease": "1s",
            "lease_wait": "30s",
            "transaction_timeout": "20s",
        },
    )
    other = f"killed.{world.name}"
    world.client.create_topics({other: 1}, replication_factor=1)
    arguments = [
        "replay",
        world.name,
        "--window",
        "2026-11-01/2026-11-02",
        "--topic-prefix",
        "killed.",
        "--reason",
        "r",
        "--id",
        "k1",
        "--rate",
        "2kB/s",
    ]
    child = subprocess.Popen(
        world.command(*arguments),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while world.client.end_offset(other, 0) < 200:
            assert child.poll() is None, "it ended before it could be killed"
            time.sleep(0.1)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    account, _ = again(world, "--id", "k1", "--rate", "9MB/s")
    assert account["ship_seconds"] < 12, "at 2 kB/s it takes most of a minute"
    assert account["before"] > 0
    assert account["delivered"] > 0
    found = Counter(read_topic(world.bootstrap, other))
    assert found == Counter([*(line(n) for n in range(3_600)), b"no time"])


@pytest.mark.cold
@pytest.mark.long
def test_one_that_is_stopped_says_how_to_finish_it_and_never_the_same_command(world):
    """The same command is another replay: readers would see the records twice."""
    world.write_pipeline(**_spec())
    arguments = ["--window", "2026-11-01/2026-11-02", "--topic-prefix", "again."]
    child = subprocess.Popen(
        world.command("replay", world.name, *arguments, "--reason", "r"),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    said = ""
    for line in child.stderr:
        said += line
        if line.startswith("plan: listing"):
            child.send_signal(signal.SIGTERM)
    assert child.wait() == 128 + signal.SIGTERM, said
    [id] = re.findall("^replay (.*)$", said.splitlines()[1])
    [stopped] = [line for line in said.splitlines() if "SHIP-002" in line]
    assert f"shipper replay {world.name} --id {id}" in stopped
    assert "same command" not in stopped
