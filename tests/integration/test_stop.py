"""A run that is stopped stops: nothing ships on, the lease is free, and its last lines say what is
in the ledger."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shipper.ledger.log import CONTROL_NOW, LedgerLog
from shipper.report.results import RunReport, ShipResult
from shipper.runner import oom_kills
from tests.waiting import slowness, wait_until

from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

OOM_KILLS = oom_kills()
_ENDS_WITHIN_SECONDS = 60
"""Seconds on an idle machine; a hang would be minutes."""


class SlowRun:
    """`shipper run` in the middle of a ship that would take minutes."""

    def __init__(self, world, command=()):
        self.world = world
        # A shell starts what it runs in the background with SIGINT ignored, and processes pass that
        # on.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.temporary = world.root / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self._log = (world.root / "run.log").open("w+")
        self.process = subprocess.Popen(
            command or world.command("run", world.name, "--window", WINDOW),
            stdout=self._log,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(self.temporary)},
        )
        signal.signal(signal.SIGINT, before)
        there = world.ledger_count()
        wait_until(lambda: world.ledger_count() > there or self.process.poll() is not None)
        assert self.process.poll() is None, self.said()
        self.session = self.driver()

    def said(self):
        return Path(self._log.name).read_text()

    def driver(self):
        """The Spark side's Python: the one child of the command; it has a session of its own."""
        children = (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        )
        [driver] = [int(pid) for pid in children if os.getsid(int(pid)) == int(pid)]
        return driver

    def alive(self):
        """What still runs in the driver's session: itself, the JVM, Spark's Python."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if (
                    os.getsid(int(entry.name)) == self.session
                    and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
                ):
                    found.append(
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:80]
                    )
        return found


@pytest.fixture
def world(tmp_path, kafka):
    world = World(tmp_path, kafka.bootstrap)
    slow(world)
    for number in range(4):
        noise = random.Random(
            number
        )  # what compresses well would be gone before anybody could stop it
        lines = (
            b"%d %d %s\n" % (number, n, noise.randbytes(32).hex().encode()) for n in range(60_000)
        )
        world.write_log(f"{number}.log", b"".join(lines))
    return world


def slow(world, **delivery):
    settings = {
        "chunk_size": "200kB",
        "lanes": 2,
        "lease": "60s",
        "lease_wait": "5s",
        "metadata_wait": "20s",
        "transaction_timeout": "20s",
    }
    world.write_pipeline(
        source={"path": "logs", "settle": "0s", "split_size": "1MiB"},
        delivery={**settings, "rate_limit": "100kB/s", **delivery},
    )


def lease_is_free(world):
    """Whether nobody claims it: a lease that is held by the dead would be there until it lapses."""
    return not LedgerLog(world.client, world.cluster, world.name).look(CONTROL_NOW).claims()


def stop(world, signum):
    run = SlowRun(world)
    run.process.send_signal(signum)
    code = run.process.wait(_ENDS_WITHIN_SECONDS * slowness())
    said = run.said()
    assert code == 128 + signum, said
    assert run.alive() == []
    assert list(run.temporary.iterdir()) == []
    assert lease_is_free(world), said
    there = world.ledger_count()
    assert 0 < there < 240_000
    counted = re.search(
        rf"stopped by {signum.name}\. The ledger of local has (at least )?([\d,]+) records of this "
        r"window \(\d of 4 files complete\)\. .*SHIP-002",
        "\n".join(said.splitlines()[-4:]),
    )
    assert counted, said
    number = int(counted[2].replace(",", ""))
    assert number <= there if counted[1] else number == there, said
    [left] = (world.root / "runs").rglob("ship.local.json")
    result = ShipResult.model_validate_json(left.read_text())
    assert (result.status, result.are_receipts_lost, result.ledger_records) == (
        "failed",
        True,
        number,
    )
    assert "Traceback" not in said, said
    assert "\tat " not in said, said
    time.sleep(2)
    assert world.ledger_count() == there


def everything_goes_on(world):
    """At once, without waiting for anybody's lease, and each record once."""
    slow(world, rate_limit="100MB/s")
    world.run()
    assert world.read() == lines_of(*(file.read_bytes() for file in world.logs.iterdir()))


@pytest.mark.long
def test_term_stops_a_run_and_an_orphan_stops_by_itself(world):
    stop(world, signal.SIGTERM)
    run = SlowRun(world)
    run.process.kill()
    run.process.wait()
    wait_until(lambda: run.alive() == [], _ENDS_WITHIN_SECONDS)
    assert lease_is_free(world), run.said()
    everything_goes_on(world)


#: What an Airflow task does with some steps of a run.
_TASK = """
import sys
from pathlib import Path
from shipper.config.load import load_pipeline
from shipper.runner import Job
from shipper.windows.window import parse_window
from shipper_airflow.dags.step import Child
_, config, name, window, *steps = sys.argv
window, pipeline = parse_window(window), load_pipeline(Path(config), name)
sys.exit(Child(Job(pipeline, Path(config), window, "run-1", tuple(steps))).run(lambda line: print(line, flush=True)))
"""  # noqa: E501


def task(world, *steps):
    return [sys.executable, "-c", _TASK, str(world.root / "config"), world.name, WINDOW, *steps]


@pytest.mark.long
def test_a_spark_side_whose_airflow_task_was_killed_ends_and_the_next_attempt_says_what_it_found(
    world,
):
    run = SlowRun(world, task(world, "plan", "gate_source", "ship:local"))
    run.process.kill()
    run.process.wait()
    wait_until(lambda: run.alive() == [], 30)
    assert lease_is_free(world), run.said()
    there = world.ledger_count()
    assert 0 < there < 240_000
    slow(world, rate_limit="100MB/s")
    done = subprocess.run(
        task(world, "ship:local", "gate_delivery:local"), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert (
        f"{there:,} records of those already committed came from an earlier attempt" in done.stdout
    )
    assert f"{240_000 - there:,} records of " in done.stdout
    assert world.read() == lines_of(*(file.read_bytes() for file in world.logs.iterdir()))


@pytest.mark.long
@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGINT])
def test_a_closed_terminal_and_ctrl_c_stop_a_run(world, signum):
    if signal.getsignal(signum) is signal.SIG_IGN:
        pytest.skip("these tests run under nohup, and so does what they start")
    stop(world, signum)
    everything_goes_on(world)


@pytest.mark.long
def test_a_killed_driver_leaves_no_java(world):
    run = SlowRun(world)
    os.kill(run.driver(), signal.SIGKILL)
    run.process.wait(_ENDS_WITHIN_SECONDS * slowness())
    wait_until(lambda: run.alive() == [], _ENDS_WITHIN_SECONDS)
    assert run.process.returncode == 1
    assert list(run.temporary.iterdir()) == []
    assert "the run was killed (SIGKILL)" in run.said()
    assert oom_kills() != OOM_KILLS or "not by the kernel's out-of-memory killer" in run.said()
    [report] = [
        RunReport.model_validate_json(path.read_text())
        for path in world.root.glob("runs/**/report.json")
        if path.parent.name != "attempts"
    ]
    assert (report.status, report.plan is not None, report.ships) == ("failed", True, [])
    assert str(report.error).startswith("step ship:")
    assert "Traceback" not in run.said()
    slow(
        world, lease_wait="120s", rate_limit="100MB/s"
    )  # its lease has to lapse: nobody was left to release it
    world.run()
    assert world.read() == lines_of(*(file.read_bytes() for file in world.logs.iterdir()))
