"""Being stopped: the stack unwinds, an orphan notices, and what the caller ignores stays
ignored."""

import os
import signal
import subprocess
import sys

import pytest

from shipper.processes import ProcessId
from shipper.runner import exit_code
from shipper.stopping import PARENT, Stopped

WAITS = """
import sys, time
from shipper.stopping import Stopped, raise_when_stopped
raise_when_stopped({limit})
try:
    print("ready", flush=True)
    time.sleep(60)
except Stopped as stopped:
    print(stopped.message, flush=True)
    {then}
    raise
"""


@pytest.fixture(autouse=True)
def signals_heard():
    """A shell starts what it runs in the background with SIGINT ignored, `nohup` with SIGHUP, and
    processes pass that on."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def waits(limit=None, then="pass", **environment):
    program = [sys.executable, "-c", WAITS.format(limit=limit, then=then)]
    child = subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_each_signal_unwinds_the_stack_and_is_named(signum):
    child = waits()
    child.send_signal(signum)
    said, _ = child.communicate()
    # nobody here knows better
    what = "What was sent until then, if anything, is in the ledger and is not sent again"
    rest = "Run the same command again for the rest. [SHIP-002]"
    assert said == f"stopped by {signum.name}. {what}. {rest}\n"
    assert exit_code(child.returncode) == 128 + signum


def test_what_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        child = waits()
    finally:
        signal.signal(signal.SIGHUP, before)
    child.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.3)
    child.send_signal(signal.SIGTERM)
    assert exit_code(child.wait()) == 143


def test_a_second_term_does_not_tear_the_unwinding_down():
    child = waits(then="time.sleep(0.3); print('released', flush=True)")
    child.send_signal(signal.SIGTERM)
    child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    said, _ = child.communicate()
    assert said == "released\n"


def test_unwinding_that_hangs_ends_with_the_time_given():
    child = waits(limit=0.2, then="time.sleep(600)")
    child.send_signal(signal.SIGTERM)
    assert exit_code(child.wait()) == 143


def test_an_orphan_stops():
    parent = subprocess.Popen(["sleep", "600"])
    me = ProcessId.of(parent.pid)
    child = waits(**{PARENT: f"{me.pid} {me.started}"})
    parent.kill()
    parent.wait()
    said, _ = child.communicate()
    assert said.startswith("stopped, because the process that had started it ended. ")


def test_a_parent_that_cannot_be_seen_from_here_is_not_waited_for():
    child = waits(**{PARENT: f"{os.getpid()} not-this-one"})
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    child.kill()
    child.wait()


def test_a_command_that_ships_nothing_says_nothing_of_records():
    stopped = Stopped(signal.SIGTERM)
    assert "sent" in stopped.message
    assert "sent" not in stopped.message_of_command
    stopped.there = "Nothing was sent"
    assert stopped.message_of_command == stopped.message
