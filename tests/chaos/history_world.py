"""What a history works with: one broker or three behind proxies, the server that forks runs, and
runs under way."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from shipper_tools.dev.java import SHORT_LIVED
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.ports import free_port
from shipper_tools.dev.process import send
from shipper_tools.faultproxy.proxy import FaultProxy

from tests.chaos.history_model import Place, record_of
from tests.chaos.history_run import RunSpec
from tests.chaos.kafka_cluster import BROKERS
from tests.chaos.world import site

TOPICS = ("history.first", "history.second", "history.quarantine")
#: From its start, or from when it was woken. A run that takes longer has missed its deadline,
#: whatever the fault was.
RUN_ENDS_WITHIN_SECONDS = 120.0
_ROOT = Path(__file__).resolve().parents[2]
_SERVE = "from tests.chaos.history_processes import serve; serve()"
_MOST_PARTITIONS = 6


class Brokers:
    """The Kafka that runs ship to, and the faults that it can have."""

    longest_pause_seconds = 2.5
    bootstrap: str
    """Through proxies."""
    direct: str
    """Bootstrap servers of a client that goes past the proxies."""
    links: Sequence[FaultProxy]
    replicas: int

    def each(self, do: Callable[[FaultProxy], object]) -> None:
        for link in self.links:
            do(link)

    def cut(self) -> int:
        """Close all connections; return how many there were."""
        return sum(link.cut() for link in self.links)

    def reset(self) -> int:
        return sum(link.reset() for link in self.links)

    def kill(self) -> None:
        """Kill one broker with -9."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop one broker in an orderly way."""
        raise NotImplementedError

    def start(self) -> None:
        """Start each broker that was killed or stopped."""
        raise NotImplementedError

    def pause(self) -> None:
        """Stop one broker with SIGSTOP: its connections stay open and say nothing."""
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    def heal(self) -> None:
        """End all faults."""
        self.resume()
        self.start()
        for link in self.links:
            link.release()
            link.resume()

    def create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.direct})
        for made in admin.create_topics(
            [NewTopic(topic, 2, self.replicas) for topic in TOPICS]
        ).values():
            made.result(60)

    def add_partition(self, topic: str) -> bool:
        admin = AdminClient({"bootstrap.servers": self.direct})
        count = len(admin.list_topics(topic, timeout=5).topics[topic].partitions)
        if count >= _MOST_PARTITIONS:
            return False
        admin.create_partitions([NewPartitions(topic, count + 1)])[topic].result(10)
        return True

    def count(self) -> Counter[Place]:
        """Count every committed record, with a consumer that shares no code with shipper. Raise
        ValueError for a record that is no line."""
        found: Counter[Place] = Counter()
        settings = {
            "bootstrap.servers": self.direct,
            "group.id": "judge",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        ends_of = Consumer({**settings, "isolation.level": "read_uncommitted"})
        judge = Consumer(
            {**settings, "isolation.level": "read_committed", "enable.partition.eof": True}
        )
        try:
            left: dict[tuple[str, int], int] = {}
            for topic in TOPICS:
                for number in ends_of.list_topics(topic, timeout=30).topics[topic].partitions:
                    left[topic, number] = ends_of.get_watermark_offsets(
                        TopicPartition(topic, number), timeout=30
                    )[1]
            judge.assign([TopicPartition(*place, 0) for place in left])
            deadline = time.monotonic() + 120
            while left:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"a transaction is open in {sorted(left)}, so the topics cannot be read to "
                        "their ends"
                    )
                for message in judge.consume(10_000, 0.2):
                    topic, partition, error = (
                        message.topic() or "",
                        message.partition() or 0,
                        message.error(),
                    )
                    if error is None:
                        found[Place(TOPICS.index(topic), record_of(message.value() or b""))] += 1
                    elif error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    elif (message.offset() or 0) >= left.get((topic, partition), 0):
                        left.pop((topic, partition), None)
        finally:
            ends_of.close()
            judge.close()
        return found


class OneBroker(Brokers):
    replicas = 1

    def __init__(self, directory: Path) -> None:
        port = free_port()
        properties = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
        self._server = KafkaServer(
            directory,
            properties=properties,
            far_port=port,
            heap_mb=384,
            java_options=SHORT_LIVED,
            die_with_parent=True,
        )
        self._link = FaultProxy(self._server.far_listener, port)

    def __enter__(self) -> OneBroker:
        self._link.start()
        self._server.start()
        self.bootstrap, self.direct = self._server.far_bootstrap, self._server.bootstrap
        self.links = [self._link]
        return self

    def __exit__(self, *_: object) -> None:
        self._signal(signal.SIGCONT)
        self._server.stop()
        self._link.stop()

    def _signal(self, number: signal.Signals) -> None:
        for process in self._server.processes:
            send(process, number)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._server.stop()  # it is dead: this clears up

    def stop(self) -> None:
        self._server.stop()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def start(self) -> None:
        self._server.start()


class ThreeBrokers(Brokers):
    """Three brokers. If one is away for four seconds, others lead; a broker that was paused does
    not know this when it wakes up."""

    longest_pause_seconds = 8.0
    replicas = 3

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._away = BROKERS[0]
        """The broker that was hit last; it takes turns."""

    def __enter__(self) -> ThreeBrokers:
        self._stack = contextlib.ExitStack()
        self._site = self._stack.enter_context(site(self._directory))
        self.bootstrap, self.direct = self._site.kafka.bootstrap, self._site.kafka.direct_bootstrap
        self.links = [*self._site.links.values()]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _next(self) -> int:
        self._away = BROKERS[self._away % len(BROKERS)]
        return self._away

    def kill(self) -> None:
        self._site.kafka.kill(self._next())

    def stop(self) -> None:
        self.kill()

    def start(self) -> None:
        for broker in BROKERS:
            self._site.kafka.restart(broker, wait=False)

    def pause(self) -> None:
        self._site.kafka.pause(self._next())

    def resume(self) -> None:
        for broker in BROKERS:
            self._site.kafka.resume(broker)

    def heal(self) -> None:
        self._site.heal()


class RunServer:
    """The process that runs are forked from."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(_ROOT), str(_ROOT / "tools")])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )

    def start(self, spec: RunSpec, events: Path, log: Path) -> int:
        """Start a run; return the number of its process group."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((spec, str(events), str(log)), self._process.stdin)
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def stop(self) -> None:
        """End the process, and with it all that it has forked."""
        self._process.kill()
        self._process.wait()


class HistoryRun:
    """One run under way, and what it has said so far."""

    def __init__(self, spec: RunSpec, number: int, server: RunServer, folder: Path) -> None:
        self.spec, self.number = spec, number
        self.name = f"{number:04}"
        self.log = folder / f"run-{self.name}.log"
        self._events = folder / f"run-{self.name}.events"
        self.group = server.start(spec, self._events, self.log)
        self.began = time.monotonic()
        self.deadline = self.began + RUN_ENDS_WITHIN_SECONDS
        self.noted = False
        """True if the model knows how it ended."""
        self.heard = 0
        """Number of the run's events that were noted."""
        self.stops_seen = 0
        """Number of the noted strikes that stopped the run."""
        self.disturbed: list[str] = []

    @property
    def events(self) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            return [
                json.loads(line)
                for line in self._events.read_text().splitlines(keepends=True)
                if line.endswith("\n")
            ]
        return []

    def event(self, name: str) -> dict[str, Any] | None:
        return next((event for event in self.events if event["event"] == name), None)

    @property
    def alive(self) -> bool:
        """True if any of its processes is there."""
        try:
            os.killpg(self.group, 0)
        except ProcessLookupError:
            # The leader makes its group a moment after it was forked.
            return time.monotonic() - self.began < 0.1 and Path(f"/proc/{self.group}").exists()
        return True

    @property
    def driven(self) -> bool:
        """True if its driver is there, and has more to do."""
        if not self.alive:
            return False
        driver = self.event("driver")
        return driver is None or (
            self.event("ended") is None and Path(f"/proc/{driver['pid']}").exists()
        )

    @property
    def end(self) -> dict[str, Any]:
        """Last event of the run's driver; empty if the driver was killed."""
        return self.event("ended") or {}

    @property
    def succeeded(self) -> bool:
        return bool(self.end) and self.end["error"] is None

    @property
    def stopped(self) -> list[str]:
        """The victims of strikes that have stopped processes until now."""
        return [
            event["victim"]
            for event in self.events
            if event["event"] == "strike" and event["number"] == signal.SIGSTOP
        ]

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, number)

    def signal_driver(self, number: int) -> None:
        if (driver := self.event("driver")) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(driver["pid"], number)
