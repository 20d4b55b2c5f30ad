"""The process that an Airflow task runs: its log arrives, and nothing of it outlives the task."""

import datetime as dt
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from shipper.config.pipeline import Pipeline
from shipper.runner import Job
from shipper.windows.window import Window
from shipper_airflow.dags.step import Child
from tests.waiting import slowness, wait_until

NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)


def job(tmp_path, script):
    """A job whose Python is a shell script."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/bash\n{script}\n")
    python.chmod(0o755)
    pipeline = Pipeline.model_validate(
        {
            "pipeline": "web",
            "source": "logs/",
            "topic": "t",
            "clusters": ["near"],
            "runner": {"python": str(python)},
        }
    )
    return Job(pipeline, tmp_path, Window(NOON, NOON + dt.timedelta(hours=1)), "r1", ("plan",))


def alive(pid):
    """Zombies, whose parent is this container's init, are dead."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def wait_until_dead(pid):
    wait_until(lambda: not alive(pid), 20)


def test_every_line_of_both_streams_arrives_and_the_exit_code(tmp_path):
    lines = []
    code = Child(job(tmp_path, "echo out; echo err >&2; printf 'no newline'; exit 3")).run(
        lines.append
    )
    assert (code, lines) == (3, ["out", "err", "no newline"])


def test_bytes_that_are_no_utf8_do_no_harm(tmp_path):
    lines = []
    assert Child(job(tmp_path, r"printf 'a\xffb\n'")).run(lines.append) == 0
    assert lines == ["a�b"]


def test_stdin_is_not_the_tasks_own(tmp_path):
    lines = []
    Child(job(tmp_path, "cat; echo done")).run(lines.append)
    assert lines == ["done"]


def test_a_child_that_is_stopped_leaves_no_temporary_file(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    child = Child(job(tmp_path, "touch $TMPDIR/spilled; echo begun; sleep 600"))
    assert child.run(lambda _: child.ask_to_stop()) == -signal.SIGTERM
    assert list(folder.iterdir()) == []


class TimeIsUpError(Exception):
    pass


def test_whatever_interrupts_the_task_ends_the_whole_process_group(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "shipper_airflow.dags.step.GRACE_SECONDS", 1.0
    )  # of what is left when the process has ended
    pids = []

    def interrupt(line):
        pids.append(int(line))
        raise TimeIsUpError

    with pytest.raises(TimeIsUpError):
        Child(job(tmp_path, "sleep 600 & echo $!; wait")).run(interrupt)
    wait_until_dead(pids[0])


def test_a_request_to_stop_from_a_signal_handler_ends_the_group(tmp_path):
    pids = []
    child = Child(job(tmp_path, "sleep 600 & echo $!; wait"))
    before = signal.signal(signal.SIGUSR1, lambda *_: child.ask_to_stop())
    try:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        started = time.monotonic()
        code = child.run(lambda line: pids.append(int(line)))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert code == -signal.SIGTERM
    assert time.monotonic() - started < 60 * slowness()
    wait_until_dead(pids[0])


def test_a_child_that_ignores_term_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("shipper_airflow.dags.step.GRACE_SECONDS", 0.5)
    child = Child(job(tmp_path, "trap '' TERM; echo ready; while :; do sleep 0.1; done"))
    assert child.run(lambda line: child.ask_to_stop()) == -signal.SIGKILL


def test_what_a_dead_process_leaves_behind_does_not_outlive_it(tmp_path):
    pids = []
    child = Child(job(tmp_path, "sleep 600 & echo $!; kill -9 $$"))
    assert child.run(lambda line: pids.append(int(line))) == -signal.SIGKILL
    wait_until_dead(pids[0])
