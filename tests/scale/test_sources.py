"""What large and many sources cost: 10,000 files of 10 kB, here and in HDFS; one file of 5 GB; 24
hourly folders. `make scale` prints a line for each. Limits: a plan within 10 s (of CPU, on a
machine that is busy with something else), no process of more than 1 GB. Needs 15 GB of disk;
SHIPPER_SCALE_GB=1 makes the one file smaller."""

import itertools
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from shipper.report.plan_result import PlanResult
from shipper.report.results import RunReport
from tests.integration.conftest import hdfs, kafka  # noqa: F401
from tests.integration.hdfs_world import runner
from tests.integration.world import WINDOW, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(7200)]

SMALL, SMALL_BYTES = 10_000, 10_000
GIGABYTES = float(os.environ.get("SHIPPER_SCALE_GB", "5"))
HOURS, FILES_PER_HOUR = 24, 40
PLAN_SECONDS, PROCESS_BYTES = 10, 10**9


class Numbered:
    """Lines that begin with a number, each of another; what came of them is counted line by
    line."""

    def __init__(self):
        self._numbers = itertools.count()
        self.count = 0

    def lines(self, size):
        """Of ``size`` bytes or a line more."""
        found = bytearray()
        while len(found) < size:
            n = next(self._numbers)
            found += (
                b'%010d 10.%d.%d.7 - - "GET /%x/%d HTTP/1.1" 200 %d "-" "Mozilla/5.0 (X11; Linux '
                b'x86_64)" %s\n'
            ) % (
                *(n, n % 251, n % 241, n * 2654435761 % 2**32, n % 977, n * 40503 % 65536),
                b"x" * (n % 300),
            )
            self.count += 1
        return bytes(found)

    def check(self, world):
        """Every line is in the topic once: read by a consumer that shares nothing with what
        ships."""
        seen = bytearray(self.count)
        settings = {
            "bootstrap.servers": world.bootstrap,
            "group.id": "check",
            "isolation.level": "read_committed",
        }
        consumer = Consumer(
            {
                **settings,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "fetch.max.bytes": 16_000_000,
            }
        )
        parts = [TopicPartition(world.topic(), number, 0) for number in range(world.topics[""])]
        consumer.assign(parts)
        ended = 0
        while ended < len(parts):
            for message in consumer.consume(10_000, timeout=1.0):
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended += 1
                else:
                    n = int(message.value()[:10])
                    assert seen[n] == 0, f"line {n} is there twice"
                    seen[n] = 1
        consumer.close()
        assert sum(seen) == self.count, f"{self.count - sum(seen)} lines are missing"


class Memory:
    """The most that each kind of process below one has had at once (its own and shared: RSS)."""

    def __init__(self, pid):
        self._root, self._over = psutil.Process(pid), threading.Event()
        self.peak = {"jvm": 0, "python": 0}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        while not self._over.wait(0.2):
            try:
                members = [self._root, *self._root.children(recursive=True)]
            except psutil.Error:
                continue
            for process in members:
                try:
                    kind = "jvm" if "java" in process.name() else "python"
                    self.peak[kind] = max(self.peak[kind], process.memory_info().rss)
                except psutil.Error:
                    continue

    def end(self):
        self._over.set()
        self._thread.join()
        return self.peak


@dataclass(frozen=True)
class Done:
    """A command that succeeded."""

    seconds: float
    cpu_seconds: float
    """With all that it started, and waited for."""
    peak: dict[str, int]
    """The most memory by kind of process."""
    out: str

    @property
    def took(self):
        return f"{self.seconds:.1f} s, {self.cpu_seconds:.1f} CPU s"


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def command(world, what):
    """In processes of its own, as a user runs it."""
    began, before = time.perf_counter(), cpu_seconds()
    environment = {**os.environ, "GX_ANALYTICS_ENABLED": "false"}
    arguments = [sys.executable, "-m", "shipper", what, world.name, "--window", WINDOW, "--json"]
    process = subprocess.Popen(
        [*arguments, "--config", str(world.root / "config")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    memory = Memory(process.pid)
    out, err = process.communicate()
    assert process.returncode == 0, err[-4000:]
    return Done(time.perf_counter() - began, cpu_seconds() - before, memory.end(), out)


@contextmanager
def big_world(bootstrap):
    with tempfile.TemporaryDirectory(prefix="scale-", dir=os.environ.get("TMPDIR")) as folder:
        yield World(Path(folder), bootstrap, topics={"": 4})


def measure(world, lines, capsys, what):
    """Plans and runs, prints the figures, and counts what arrived."""
    load = os.getloadavg()[0]
    planned, ran = command(world, "plan"), command(world, "run")
    plan, report = (
        PlanResult.model_validate_json(planned.out),
        RunReport.model_validate_json(ran.out),
    )
    (ship,) = report.ships
    ship_seconds = (ship.finished_at - ship.started_at).total_seconds()
    peak = {kind: max(planned.peak[kind], ran.peak[kind]) / 1e6 for kind in ran.peak}
    with capsys.disabled():
        print(
            f"\n{what}: {lines.count:,} lines, {plan.total_bytes / 1e6:,.0f} MB, "
            f"{len(plan.files):,} files, {plan.total_splits:,} splits; plan {planned.took} "
            f"(listing {plan.phases.get('listing', 0):.2f} s, looking into files "
            f"{plan.phases.get('looking into files', 0):.2f} s); run {ran.took}, its ship "
            f"{ship_seconds:.1f} s ({lines.count / ship_seconds / 1000:,.0f}k lines/s); JVM "
            f"{peak['jvm']:,.0f} MB, largest Python {peak['python']:,.0f} MB; load before "
            f"{load:.1f}"
        )
    assert report.status == "succeeded"
    busy = load > (os.cpu_count() or 1)
    assert (planned.cpu_seconds if busy else planned.seconds) < PLAN_SECONDS
    assert max(peak.values()) < PROCESS_BYTES / 1e6
    lines.check(world)
    return plan, report


def small_files(folder, lines):
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(SMALL):
        path = folder / f"pod-{n:05}.log"
        path.write_bytes(lines.lines(SMALL_BYTES))
        os.utime(path, (time.time() - 3600,) * 2)


def test_ten_thousand_small_files_are_a_few_tasks(kafka, capsys):  # noqa: F811
    with big_world(kafka.bootstrap) as world:
        lines = Numbered()
        small_files(world.logs, lines)
        plan, _ = measure(world, lines, capsys, "10,000 small files")
        assert len(plan.files) == SMALL


def test_ten_thousand_small_files_in_hdfs_under_a_glob(kafka, hdfs, capsys):  # noqa: F811
    with big_world(kafka.bootstrap) as world:
        lines = Numbered()
        small_files(world.logs, lines)
        folder = f"/scale/{world.name}"
        with (
            ThreadPoolExecutor(64) as pool
        ):  # one after the other they wait for the NameNode's disk, three times for each file
            list(
                pool.map(
                    lambda path: hdfs.put(path, f"{folder}/{path.name}"),
                    sorted(world.logs.iterdir()),
                )
            )
        shutil.rmtree(world.logs)
        world.write_pipeline(
            source={"path": f"{hdfs.uri(folder)}/*.log", "settle": "0s"}, runner=runner()
        )
        writer = hdfs.create(f"{folder}/open.log")
        times = [command(world, "plan").seconds for _ in range(3)]
        plan, _ = measure(
            world,
            lines,
            capsys,
            f"10,000 small files in HDFS (plans: median {statistics.median(times):.1f} s)",
        )
        assert len(plan.files) == SMALL
        assert [found.reason for found in plan.left_out] == ["open for writing, says HDFS"]
        writer.close()
        hdfs.delete(folder)


def test_one_large_file_needs_no_more_memory(kafka, capsys):  # noqa: F811
    size = int(GIGABYTES * 1e9)
    if shutil.disk_usage(tempfile.gettempdir()).free < 3 * size:
        pytest.skip(f"needs {3 * size / 1e9:.0f} GB of disk")
    with big_world(kafka.bootstrap) as world:
        world.write_pipeline(runner={"driver_memory": "512m"})
        lines = Numbered()
        with (world.logs / "one.log").open("wb") as file:
            for _ in range(size // 10_000_000):
                file.write(lines.lines(10_000_000))
        os.utime(world.logs / "one.log", (time.time() - 3600,) * 2)
        measure(world, lines, capsys, "one large file")


def test_a_day_of_hourly_folders(kafka, capsys):  # noqa: F811
    with big_world(kafka.bootstrap) as world:
        lines = Numbered()
        world.write_pipeline(source={"path": "logs/{window_start:%Y-%m-%d/%H}/", "settle": "0s"})
        for hour in range(HOURS):
            folder = world.logs / f"2026-11-01/{hour:02}"
            folder.mkdir(parents=True)
            for n in range(FILES_PER_HOUR):
                path = folder / f"host-{n:03}.log"
                path.write_bytes(lines.lines(1_000_000))
                os.utime(path, (time.time() - 3600,) * 2)
        plan, _ = measure(world, lines, capsys, "24 hourly folders")
        assert len(plan.files) == HOURS * FILES_PER_HOUR
