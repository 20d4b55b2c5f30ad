"""What a fault test works with: the cluster behind proxies, ships in processes of their own, and
the final count."""

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shipper_tools.dev.console_consumer import read_topic
from shipper_tools.dev.ports import LOOPBACK
from shipper_tools.faultproxy.proxy import FaultProxy

from shipper.kafka.client import ClusterClient
from shipper.ledger.fold import Chunks
from shipper.ledger.log import LedgerLog, ask_state
from shipper.ledger.rights import transactional_id
from tests.chaos.kafka_cluster import KafkaCluster
from tests.chaos.numbered import Numbered, identity_of
from tests.waiting import slowness

END_TXN = 26
_ROOT = Path(__file__).resolve().parents[2]
_SHIP = "import sys; from tests.chaos.ship_numbered import main; sys.exit(main())"
_unique = itertools.count(1)


@dataclass
class Site:
    """The cluster, and the proxy before each of its brokers."""

    kafka: KafkaCluster
    links: Mapping[int, FaultProxy]

    def everywhere(self, do: Callable[[FaultProxy], object]):
        for link in self.links.values():
            do(link)

    def heal(self):
        """As if nothing had happened: links and brokers as they were at the start."""
        for link in self.links.values():
            link.release()
            link.resume()
            link.shape(rtt_ms=0, jitter_ms=0, bytes_per_second=0, request_delay_ms=0)
        self.kafka.heal()


@contextlib.contextmanager
def site(directory: Path) -> Iterator[Site]:
    """Starts it all; stops it all, whatever happens."""
    links = {}

    def front(broker, port):
        links[broker] = FaultProxy(f"{LOOPBACK}:{port}").start()
        return links[broker].port

    try:
        with KafkaCluster(directory, front) as kafka:
            yield Site(kafka, links)
    finally:
        for link in links.values():
            link.stop()


class Ship:
    """A numbered ship under way: driver, workers, and what they have said so far."""

    def __init__(self, numbered: Numbered, log: Path):
        self.numbered = numbered
        self.log = log
        self.events: list[dict[str, Any]] = []
        self._news = threading.Condition()
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _SHIP, numbered.to_json()],
                stdout=subprocess.PIPE, stderr=errors, cwd=_ROOT, start_new_session=True, text=True,
            )  # fmt: skip
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                with self._news:
                    self.events.append(json.loads(line))
                    self._news.notify_all()

    def wait_for(self, event: str, timeout: float = 90) -> bool:
        """False if the driver ended without saying so."""
        deadline = time.monotonic() + timeout * slowness()
        with self._news:
            while not any(seen["event"] == event for seen in self.events):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    return False
                self._news.wait(0.1)
        return True

    def worker(self, task: int) -> int:
        """The process number of the task's latest attempt."""
        return [
            event["pid"]
            for event in self.events
            if event["event"] == "task" and event["task"] == task
        ][-1]

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self, victim: str):
        if victim == "all":
            self.signal_all(signal.SIGKILL)
        else:
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(self.process.pid if victim == "driver" else self.worker(0), signal.SIGKILL)

    def signal_all(self, number: int):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def wait(self, timeout: float = 180) -> dict[str, Any]:
        """How it ended; ``{}`` if the driver was killed. Fails the test if it does not end by its
        deadline."""
        try:
            self.process.wait(timeout * slowness())
        except subprocess.TimeoutExpired:
            self.signal_all(signal.SIGKILL)
            raise AssertionError(
                f"the ship did not end within {timeout:.0f} s; {self.last_words()}"
            ) from None
        deadline = time.monotonic() + 5 * slowness()
        while (
            not (ends := [event for event in self.events if event["event"] == "ended"])
            and time.monotonic() < deadline
        ):
            if self.process.returncode < 0:
                break
            time.sleep(0.02)
        return ends[-1] if ends else {}

    def succeeds(self, timeout: float = 180) -> dict[str, Any]:
        end = self.wait(timeout)
        assert self.process.returncode == 0, f"{end}; {self.last_words()}"
        return end

    def orphans(self) -> list[int]:
        """Processes of the ship that are still there."""
        return [pid for pid in _processes() if _group(pid) == self.process.pid]

    def wait_for_orphans(self, timeout: float):
        """Workers whose driver is dead go on until they are done or fenced; after ``timeout`` they
        are killed."""
        deadline = time.monotonic() + timeout * slowness()
        while self.orphans() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.signal_all(signal.SIGKILL)

    def last_words(self) -> str:
        return (
            f"events {self.events[-5:]}, log {self.log}:\n"
            + self.log.read_text(errors="replace")[-6000:]
        )


def _processes():
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def _group(pid):
    """None for a process that is gone, or only waits to be reaped."""
    with contextlib.suppress(OSError):
        state, _, group, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state == "Z" else int(group)
    return None


@dataclass(frozen=True)
class Count:
    """What an independent reader found in the topics, against what should be there and what the
    ledger says is there."""

    expected: int
    lost: int
    doubled: int
    foreign: int
    """Records that nobody asked to ship."""
    ledger_faults: tuple[str, ...]
    """Where the ledger and the topics differ."""
    examples: tuple[object, ...] = ()

    @property
    def exact(self) -> bool:
        return not (self.lost or self.doubled or self.foreign or self.ledger_faults)

    def __str__(self):
        faults = "".join(f"\n  {fault}" for fault in (*self.ledger_faults[:10], *self.examples))
        return f"{self.lost} lost / {self.doubled} doubled of {self.expected:,} records" + faults


@dataclass
class Pipe:
    """One pipeline with topics and a ledger of its own on the cluster."""

    site: Site
    folder: Path
    topics: int = 1
    partitions: int = 3
    missing: int = 0
    """Topics on top of these that are not created."""
    name: str = field(default_factory=lambda: f"c{next(_unique)}x{os.getpid()}")
    ships: list[Ship] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of Numbered, for every ship."""

    def __post_init__(self):
        self.topic_names = tuple(
            f"{self.name}.t{index}" for index in range(self.topics + self.missing)
        )
        for topic in self.topic_names[: self.topics]:
            self.site.kafka.create_topic(topic, self.partitions)

    @property
    def topic(self) -> str:
        return self.topic_names[0]

    def numbered(self, **changes: Any) -> Numbered:
        spec = Numbered(
            self.name,
            self.site.kafka.bootstrap,
            self.topic_names,
            str(self.folder / "runs"),
            **self.settings,
        )
        return dataclasses.replace(spec, **changes)

    def ship(self, **changes: Any) -> Ship:
        """Starts one, under a run id of its own unless ``changes`` say otherwise."""
        number = len(self.ships)
        changes.setdefault("run_id", f"run-{number}")
        self.ships.append(Ship(self.numbered(**changes), self.folder / f"ship-{number}.log"))
        return self.ships[-1]

    def rerun(self, tries: int = 3, **changes: Any) -> dict[str, Any]:
        """Ships again until it succeeds, as a scheduler would."""
        for _ in range(tries - 1):
            ship = self.ship(**changes)
            end = ship.wait(300)
            if ship.process.returncode == 0:
                return end
        return self.ship(**changes).succeeds(300)

    def stop(self):
        for ship in self.ships:
            ship.signal_all(signal.SIGKILL)
            ship.process.wait()

    def lane_id(self, task: int = 0, lane: int = 0) -> str:
        return transactional_id(self.name, "three", task, lane)

    # What is there

    def chunks(self, wait_seconds: float | None = None) -> Chunks:
        cluster = self.numbered().cluster
        ledger = LedgerLog(ClusterClient(cluster), cluster, self.name)
        if not ledger.exists():
            return Chunks(self.name)
        return ledger.look(ask_state(), wait_seconds).chunks

    def uncommitted_end(self) -> int:
        """Offsets taken in the first topic, over its partitions: by records of open transactions,
        too."""
        client = ClusterClient(self.numbered().cluster)
        return sum(
            client.end_offset(self.topic, partition)
            for partition in self.site.kafka.partitions(self.topic)
        )

    def in_ledger(self) -> int:
        return sum(state.records for state in self.chunks().splits.values())

    def wait_until_shipped(self, records: int, ship: Ship, timeout: float = 90):
        """Until the ledger holds so many. Fails the test if the ship ends before."""
        deadline = time.monotonic() + timeout * slowness()
        while self.in_ledger() < records:
            assert ship.running, f"it ended before it could be disturbed: {ship.last_words()}"
            assert time.monotonic() < deadline, ship.last_words()
            time.sleep(0.05)

    def read(self, topic: str) -> Counter[tuple[str, int, int]]:
        """Every committed record, by Java's consumer."""
        return Counter(identity_of(value) for value in read_topic(self.site.kafka.bootstrap, topic))

    def count(
        self,
        topics: tuple[str, ...] | None = None,
        copies: Mapping[str, int] | None = None,
        **changes: Any,
    ) -> Count:
        """``topics``: those to look at, all if None. ``copies``: path of a file → how often each of
        its records should be there, if not once. ``changes``: of what should be there."""
        numbered = self.numbered(**changes)
        chunks = self.chunks(wait_seconds=60)
        found = Counter()
        faults = []
        examples = []
        for index, topic in enumerate(self.topic_names):
            if topics is not None and topic not in topics:
                continue
            there = self.read(topic)
            expected = _expected(numbered, index)
            wanted = {record: (copies or {}).get(record[0], 1) for record in expected}
            foreign = there.keys() - expected
            lost = [record for record, times in wanted.items() if there[record] < times]
            doubled = [record for record, times in there.items() if times > wanted.get(record, 1)]
            found += Counter(
                expected=len(expected), lost=len(lost), doubled=len(doubled), foreign=len(foreign)
            )
            examples += [("lost", *record) for record in sorted(lost)[:3]]
            examples += [("doubled", *record) for record in sorted(doubled)[:3]]
            faults += _ledger_faults(chunks, numbered, index, there.keys())
        names = ("expected", "lost", "doubled", "foreign")
        return Count(*(found[name] for name in names), tuple(faults), tuple(examples))

    def assert_exact(self, **changes: Any):
        count = self.count(**changes)
        assert count.exact, f"{count}\nlogs: {self.folder}"


def _expected(numbered, topic):
    ordinals = [
        ordinal for ordinal in range(numbered.records) if numbered.topic_of(ordinal) == topic
    ]
    return {(path, start, ordinal) for path, start in numbered.split_ids() for ordinal in ordinals}


def _ledger_faults(chunks, numbered, topic, there):
    """Whether the ledger's intervals for the topic hold exactly the records that the reader found,
    each once."""
    name = numbered.topics[topic]
    said = Counter()
    for split, state in chunks.splits.items():
        for (first, of), chunk in state.chunks.items():
            ordinals = (
                [n for n in range(first, chunk.last) if numbered.topic_of(n) == topic]
                if of == name
                else []
            )
            if of == name and len(ordinals) != chunk.records:
                yield (
                    f"ledger: {split} [{first}, {chunk.last}) says {chunk.records} records of "
                    f"{name}, not {len(ordinals)}"
                )
            said.update((split.file.path, split.start, ordinal) for ordinal in ordinals)
    twice = sum(times > 1 for times in said.values())
    if twice:
        yield f"ledger: {twice} records of {name} are in two chunks"
    if missing := there - said.keys():
        yield (
            f"ledger: {len(missing)} records that are in {name} are not in the ledger, such as "
            f"{min(missing)}"
        )
    if wrong := said.keys() - there:
        yield (
            f"ledger: {len(wrong)} records that are not in {name} are in the ledger, such as "
            f"{min(wrong)}"
        )
    if not all(state.complete for state in chunks.splits.values()):
        yield "ledger: a split is not complete"
