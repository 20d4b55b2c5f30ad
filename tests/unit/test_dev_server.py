"""Waiting for a dev server: as long as it makes progress, and no longer."""

import os
import sys

import pytest
from shipper_tools.dev import server
from shipper_tools.dev.airflow import Airflow, AirflowSilent
from shipper_tools.dev.errors import ServerDied
from shipper_tools.dev.server import Server
from shipper_tools.dev.state import ServerState, save

from shipper.processes import ProcessId


class _Clock:
    """In the place of ``time`` in the module: it goes on while somebody sleeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def time(self):
        return 0.0

    def sleep(self, seconds):
        self.now += seconds


class _Slow(Server):
    """A server that is up after 100 s, and writes a line of another kind each second."""

    title = "Slow"
    silent_seconds = 10.0
    poll_seconds = 1.0
    looks = 0

    @property
    def addresses(self):
        return {}

    def _launch(self):
        self._folders()
        self._spawn("slow", [sys.executable, "-c", "import time; time.sleep(60)"])

    def _line(self):
        return "x" * self.looks

    def _answers(self):
        self.looks += 1
        with (self.directory / "logs" / "more.log").open("a") as log:
            log.write(f"{self._line()}\n")
        return self.looks > 100


class _Stuck(_Slow):
    def _line(self):
        return f"{self.looks} seconds later, still the same"


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    monkeypatch.setattr(server, "time", _Clock())


def test_a_server_that_makes_progress_is_waited_for_and_people_are_told(tmp_path):
    said = []
    with _Slow(tmp_path, say=said.append) as slow:
        assert slow.running
    assert len(said) == 3


def test_a_server_that_only_repeats_itself_is_given_up(tmp_path, monkeypatch):
    """On a machine with three processes for each core, in three times the time."""
    load = 3.0 * (os.cpu_count() or 1)
    monkeypatch.setattr(server.os, "getloadavg", lambda: (load, 0.0, 0.0))
    stuck = _Stuck(tmp_path)
    with pytest.raises(
        ServerDied, match=rf"load {load:.0f} on \d+ core(?s:.*)still the same"
    ) as failed:
        stuck.start()
    assert failed.value.code == "SHIP-953"
    assert not stuck.running
    assert 30 < stuck.looks < 50


def test_an_airflow_that_is_too_busy_for_a_request_is_asked_again(tmp_path, monkeypatch):
    airflow, asked = Airflow(tmp_path, {}), []

    def request(method, path, body):
        asked.append(method)
        if len(asked) < 4:
            raise AirflowSilent(f"Airflow does not answer {method} {path}: timed out")
        return {"total_entries": 0}

    monkeypatch.setattr(airflow, "_request", request)
    airflow._folders()
    airflow._spawn("standalone", [sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert airflow.call("GET", "dagRuns") == {"total_entries": 0}
        assert asked == ["GET"] * 4
        asked.clear()
        with pytest.raises(AirflowSilent):
            airflow.call("POST", "dagRuns", {})
        assert asked == ["POST"], "what changes something is not sent again"
    finally:
        airflow.stop()


def test_a_server_that_has_not_answered_yet_is_starting(tmp_path, shipper):
    me = (ProcessId.of(os.getpid()),)
    save(tmp_path, ServerState("airflow", {}, tmp_path, me, ready=False))
    save(tmp_path, ServerState("kafka", {}, tmp_path, me))
    rows = shipper("dev", "status", SHIPPER_DEV_HOME=str(tmp_path)).stdout.splitlines()
    states = {name: state for name, state, *_ in map(str.split, rows[1:])}
    assert (states["airflow"], states["kafka"], states["s3"]) == ("starting", "running", "down")


def test_a_topic_with_a_name_that_kafka_refuses_is_a_mistake_of_the_command(shipper):
    done = shipper("dev", "topic", "logs.web", "a b")
    assert (done.returncode, done.stderr.rstrip()[-10:]) == (2, "[SHIP-101]")
