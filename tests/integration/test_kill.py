"""Kill, pause and race: after each, the topic holds the input exactly, as an independent reader
sees it.

``SHIPPER_KILLS`` sets the number of kills (default 1), ``SHIPPER_SEED`` repeats a run.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from shipper.report.results import GateResult
from tests.waiting import wait_until

from .world import World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SHIPPING = "shipping"


class Ship:
    """A ship step in a process group of its own, as an Airflow task runs it."""

    def __init__(self, world, run_id, *steps):
        self.process = world.steps(run_id, *(steps or ("ship:local",)))
        self.lines = []
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()

    def wait_for(self, text):
        """False if the process ended without saying it."""
        with self._news:
            while not any(text in line for line in self.lines):
                if self.process.poll() is not None:
                    return False
                self._news.wait(0.2)
        return True

    @property
    def running(self):
        return self.process.poll() is None

    def signal_all(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def members(self):
        """The Python driver, the JVM below it, and Spark's Python workers, whose daemon has a
        process group of its own."""
        found = {"driver": [self.process.pid], "jvm": [], "worker": []}
        with contextlib.suppress(psutil.NoSuchProcess):
            for each in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    found["jvm" if "java" in each.name() else "worker"].append(each.pid)
        return found

    def kill(self, kind, rng):
        """SIGKILL to one process of a kind, or to the whole group at once; whether there was one to
        hit."""
        if not (self.running and (victims := self.members()[kind if kind != "all" else "driver"])):
            return False
        if kind == "all":
            self.signal_all(signal.SIGKILL)
            return True
        try:
            os.kill(rng.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def wait(self):
        code = self.process.wait(300)
        self.signal_all(signal.SIGKILL)  # whatever a kill has left of the group
        return code


def numbered_lines(world, files, lines, first=0):
    """Writes files from number ``first`` on, and returns what is in them."""
    line = b"%d %d a log line of about the usual length, with a number of its own\n"
    contents = {
        file: b"".join(line % (file, n) for n in range(lines))
        for file in range(first, first + files)
    }
    for number, content in contents.items():
        world.write_log(f"{number}.log", content)
    return lines_of(*contents.values())


def small_steps(world, **changes):
    """Many splits and many transactions, so that a kill finds something half done."""
    delivery = {
        "chunk_size": "100kB",
        "lanes": 2,
        "lease": "2s",
        "lease_wait": "60s",
        "metadata_wait": "30s",
        "transaction_timeout": "20s",
    }
    world.write_pipeline(
        source={
            "path": "logs",
            "settle": "0s",
            "split_size": "256KiB",
            **changes.pop("source", {}),
        },
        delivery=delivery | changes.pop("delivery", {}),
        runner={"driver_memory": "1g", **changes.pop("runner", {})},
        **changes,
    )


def prepare(world, run_id):
    world.steps_done(run_id, "plan", "gate_source")


class Kills:
    """Ships that are killed, one after the other. When everything is there and kills are left,
    there are more files to ship."""

    FILES, LINES = 8, 8_000

    def __init__(self, world, rng):
        self.world = world
        self.rng = rng
        self.fired = []
        self.counts = [0]
        """Records in the ledger after each kill."""
        self.expected = Counter()
        self.plans = 0
        self.ship = None

    def fire(self, kills):
        for _ in range(5 * kills):  # some come too early for their victim, some too late
            if len(self.fired) == kills:
                break
            if self.world.ledger_count() == self.expected.total():
                self._end()
                self._plan_more()
            self.ship = self.ship or Ship(self.world, f"killed-{self.plans}")
            if self.ship.wait_for(SHIPPING):
                self._kill(kills - len(self.fired))
            if self.ship is not None and not self.ship.running:
                self._end()
        self._end()

    def _plan_more(self):
        self.expected += numbered_lines(
            self.world, self.FILES, self.LINES, first=self.FILES * self.plans
        )
        self.plans += 1
        prepare(self.world, f"killed-{self.plans}")

    def _kill(self, left):
        ship, there = self.ship, self.world.ledger_count()
        assert ship is not None
        if left > 1 and self.rng.random() < 0.3:  # any moment from Spark's start on
            time.sleep(self.rng.uniform(0.0, 8.0))
        else:  # a moment at which records flow, early enough to leave some for the kills to come
            enough = there + self.rng.uniform(0.1, 1.0) * (self.expected.total() - there) / left
            wait_until(lambda: self.world.ledger_count() >= enough or not ship.running)
        members = ship.members()
        kinds = ("driver", "jvm", "worker", "worker", "all")
        kind = self.rng.choice([one for one in kinds if members.get(one, True)])
        if ship.kill(kind, self.rng):
            self.fired.append(kind)
            self.counts.append(self.world.ledger_count())
            if kind != "worker":  # Spark repeats the task of a lost worker, and the ship goes on
                self._end()

    def _end(self):
        if self.ship is not None:
            self.ship.wait()
            self.ship = None


def test_no_record_is_lost_or_doubled_by_kill_9_at_random_moments(tmp_path, kafka):
    seed = int(os.environ.get("SHIPPER_SEED", random.randrange(10**6)))
    wanted = int(os.environ.get("SHIPPER_KILLS", "1"))
    world = World(tmp_path, kafka.bootstrap)
    # So slow that a ship takes some ten seconds: without a limit, most kills would come when
    # everything is there.
    small_steps(world, delivery={"rate_limit": "40kB/s"})
    kills = Kills(world, random.Random(seed))
    try:
        kills.fire(wanted)
    finally:
        if kills.ship is not None:
            kills.ship.signal_all(signal.SIGKILL)
        print(f"seed {seed}: killed {kills.fired}; in the ledger after each: {kills.counts}")
    # What is half there is finished in other pieces, by another number of tasks and lanes.
    small_steps(world, runner={"cores": 4}, delivery={"chunk_size": "1111kB", "lanes": 3})
    account = world.run()
    assert account["delivered"] + account["before"] == kills.expected.total()
    assert account["before"] >= kills.counts[-1]
    assert world.read() == kills.expected, f"seed {seed}"
    assert world.ledger_count() == kills.expected.total()
    assert len(kills.fired) == wanted
    assert len(set(kills.counts)) > min(2, wanted // 2), (
        f"no kill found the ship half done (seed {seed}): {kills.counts}"
    )


@pytest.mark.long
def test_a_source_gate_whose_java_is_killed_has_judged_nothing_and_is_tried_again(tmp_path, kafka):
    world = World(tmp_path, kafka.bootstrap)
    numbered_lines(world, files=1, lines=20_000)
    slow = {
        "check": "condition",
        "name": "slow",
        "sql": "sha2(repeat(value, 20000), 512) != ''",
        "on": "full",
    }
    small_steps(world, gates={"source": [slow]})
    world.steps_done("r1", "plan")
    gate = Ship(world, "r1", "gate_source")
    while gate.running and not any(_reads_lines(pid) for pid in gate.members()["jvm"]):
        time.sleep(0.2)
    assert gate.kill("jvm", random.Random(0))
    assert gate.wait() == 1
    (found,) = (tmp_path / "runs").rglob("gate_source.json")
    result = GateResult.model_validate_json(found.read_text())
    assert (result.status, result.final, result.checks) == ("failed", False, [])


def _reads_lines(pid):
    with contextlib.suppress(OSError):
        return any(
            (thread / "comm").read_text().startswith("Executor task")
            for thread in Path(f"/proc/{pid}/task").iterdir()
        )
    return False
