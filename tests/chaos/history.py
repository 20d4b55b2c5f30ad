"""A history of runs against one ledger, with random faults of source, broker and process, compared with a model at the end:
``python -m tests.chaos.history --runs 500 --seed 1``.

Windows are short, the broker is real, and Spark is not there. Runs are killed and stopped at points of the protocol, overlap, are taken over
and wake up again; files are new, late, replaced, damaged and gone; records are shipped anew and leave quarantine; the ledger is archived. At
the end all is healed, one run ships what is left, and an independent consumer counts every record.

The seed decides the course, not the milliseconds: each turn has random numbers of its own, and what is hit depends on the machine as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from shipper_tools.dev.errors import DevServerError
from shipper_tools.dev.kafka import SHORT_LIVED, KafkaServer
from shipper_tools.dev.ports import free_port
from shipper_tools.dev.process import send
from shipper_tools.faultproxy.proxy import FaultProxy

from tests.chaos.history_model import (
    QUARANTINE,
    RECORDS_PER_SPLIT,
    SPLIT_BYTES,
    Difference,
    FileVersion,
    Model,
    Place,
    Record,
    Tracked,
    record_of,
)
from tests.chaos.history_run import DRIVER_POINTS, WORKER_POINTS, Piece, RunSpec, Strike, lane_id, said_of

END_TXN = 26
_ROOT = Path(__file__).resolve().parents[2]
_SERVE = "from tests.chaos.history_run import serve; serve()"
_PIPELINE = "history"
_TOPICS = ("history.first", "history.second", "history.quarantine")
_MOST_PARTITIONS = 6
#: From its start, or from when it was woken. A run that takes longer has missed its deadline, whatever the fault was.
_RUN_ENDS_WITHIN_SECONDS = 120.0
_TRANSACTION_TIMES_OUT_SECONDS = 11.5
_MOST_AT_ONCE = 3
_EXAMPLES = 8

#: Ends a fault.
Undo = Callable[[], object]


class Broker:
    """One broker behind a proxy, which can be killed and paused."""

    def __init__(self, directory: Path) -> None:
        port = free_port()
        properties = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
        self._server = KafkaServer(
            directory, properties=properties, far_port=port, heap_mb=384, java_options=SHORT_LIVED, die_with_parent=True
        )
        self.link = FaultProxy(self._server.far_listener, port)

    @property
    def bootstrap(self) -> str:
        """Through the proxy."""
        return self._server.far_bootstrap

    @property
    def direct(self) -> str:
        return self._server.bootstrap

    def __enter__(self) -> Broker:
        self.link.start()
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._signal(signal.SIGCONT)
        self._server.stop()
        self.link.stop()

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

    def heal(self) -> None:
        self.resume()
        self.start()
        self.link.release()
        self.link.resume()
        self.link.shape(rtt_ms=0, jitter_ms=0, bytes_per_second=0, request_delay_ms=0)

    def create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.direct})
        for made in admin.create_topics([NewTopic(topic, 2, 1) for topic in _TOPICS]).values():
            made.result(60)

    def add_partition(self, topic: str) -> bool:
        admin = AdminClient({"bootstrap.servers": self.direct})
        count = len(admin.list_topics(topic, timeout=5).topics[topic].partitions)
        if count >= _MOST_PARTITIONS:
            return False
        admin.create_partitions([NewPartitions(topic, count + 1)])[topic].result(10)
        return True

    def count(self) -> Counter[Place]:
        """Every committed record, by a consumer that shares no code with shipper. Raise ValueError for one that nobody asked for."""
        found: Counter[Place] = Counter()
        settings = {"bootstrap.servers": self.direct, "group.id": "judge", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        ends_of = Consumer({**settings, "isolation.level": "read_uncommitted"})
        judge = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
        try:
            left: dict[tuple[str, int], int] = {}
            for topic in _TOPICS:
                for number in ends_of.list_topics(topic, timeout=30).topics[topic].partitions:
                    left[topic, number] = ends_of.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
            judge.assign([TopicPartition(*place, 0) for place in left])
            deadline = time.monotonic() + 120
            while left:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"a transaction is open in {sorted(left)}, so the topics cannot be read to their ends")
                for message in judge.consume(10_000, 0.2):
                    topic, place = message.topic(), (message.topic(), message.partition())
                    error = message.error()
                    if error is None:
                        found[Place(_TOPICS.index(topic), record_of(message.value()))] += 1
                    elif error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    elif message.offset() >= left.get(place, 0):
                        left.pop(place, None)
        finally:
            ends_of.close()
            judge.close()
        return found


class RunServer:
    """The process that runs are forked from."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(_ROOT), str(_ROOT / "tools")])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": path}, start_new_session=True,
        )  # fmt: skip

    def start(self, spec: RunSpec, events: Path, log: Path) -> int:
        """Return the number of the run's process group."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((spec, str(events), str(log)), self._process.stdin)
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def stop(self) -> None:
        """What it has forked ends with it."""
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
        self.deadline = self.began + _RUN_ENDS_WITHIN_SECONDS
        self.noted = False
        """True if the model knows how it ended."""
        self.disturbed: list[str] = []

    @property
    def events(self) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in self._events.read_text().splitlines(keepends=True) if line.endswith("\n")]
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
        return driver is None or (self.event("ended") is None and Path(f"/proc/{driver['pid']}").exists())

    @property
    def end(self) -> dict[str, Any]:
        """What its driver said at its end; empty if it was killed."""
        return self.event("ended") or {}

    @property
    def succeeded(self) -> bool:
        return bool(self.end) and self.end["error"] is None

    @property
    def stopped_by(self) -> Strike | None:
        """The strike that has stopped it."""
        for event in self.events:
            if event["event"] == "strike" and event["number"] == signal.SIGSTOP:
                return Strike(event["point"], event["victim"], number=signal.SIGSTOP)
        return None

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, number)

    def signal_driver(self, number: int) -> None:
        if (driver := self.event("driver")) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(driver["pid"], number)


@dataclass
class Request:
    """What somebody wants of shipper, in as many runs as it takes."""

    kind: str
    windows: tuple[int, int]
    run_id: str
    late: tuple[str, ...] = ()
    """Paths of files of other windows."""
    reship: str | None = None
    replayed: tuple[Record, ...] = ()

    @property
    def must_be_done(self) -> bool:
        return self.reship is not None or self.kind == "replay"


@dataclass
class Sleeper:
    """A run that was stopped, and will be woken."""

    run: HistoryRun
    wakes: int
    """At which turn."""


@dataclass
class History:
    """The state of a history."""

    broker: Broker
    server: RunServer
    folder: Path
    seed: int
    short_reads: bool = False
    model: Model = field(default_factory=Model)
    hour: int = 0
    turn: int = 0
    launched: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    active: list[HistoryRun] = field(default_factory=list)
    """Runs that have processes and are awake."""
    sleepers: list[Sleeper] = field(default_factory=list)
    debts: deque[Request] = field(default_factory=deque)
    """What must be asked for again."""
    undos: list[tuple[float, Undo]] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    """Paths of files that are out of reach."""
    faults: list[str] = field(default_factory=list)
    """What is wrong with shipper, beside the count of records."""
    rng: random.Random = field(default_factory=random.Random)
    began: float = field(default_factory=time.monotonic)
    _files: int = 0

    # The course

    def go_on(self, runs: int) -> None:
        while self.launched < runs:
            self.turn += 1
            self.rng = random.Random(f"{self.seed}/{self.turn}")
            self._wake(self.turn)
            self._change_source()
            request = self._next_request()
            spec = self._spec(request)
            if spec is not None:
                self._take_turn(request, spec)
            if self.turn % 25 == 0:
                self._say()

    def _say(self) -> None:
        seconds = time.monotonic() - self.began
        print(
            f"{seconds:4.0f} s: {self.launched} runs, {self.ends['succeeded']} succeeded, {self.ends['failed']} failed, "
            f"{self.ends['killed']} killed; {self.fired.total()} faults; {len(self.debts)} to be asked for again",
            flush=True,
        )

    def _chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # The source

    def _new_file(self, window: int) -> None:
        self._files += 1
        splits = self.rng.choice((1, 1, 2, 3))
        self.model.write(FileVersion(f"history:///{window:04}/{self._files}.log", window, 1_000 * self._files, (0,) * splits))

    def _change_source(self) -> None:
        if self.turn == 1 or self._chance(0.6):
            self.hour += 1
            for _ in range(self.rng.choice((1, 1, 2, 3))):
                self._new_file(self.hour)
        if self._chance(0.1):
            self.fired["late file"] += 1
            self._new_file(max(1, self.hour - self.rng.randrange(1, 6)))
        if self._chance(0.12) and (free := self._free_files()):
            self._replace(self.rng.choice(free).file)
        self._write_source()

    def _replace(self, file: FileVersion) -> None:
        """Also a file that nobody has asked for yet."""
        self._files += 1
        number = len(self.model.versions[file.path])
        how = self.rng.choice(("grown", "replaced", "replaced by a shorter one"))
        if how == "grown":
            born = file.born + (number,) * self.rng.choice((1, 2))
        elif how == "replaced":
            born = (number,) * len(file.born)
        else:
            born = (number,) * max(1, len(file.born) - 1)
        self.fired[f"file {how}"] += 1
        self.model.write(replace(file, modified_ms=1_000 * self._files, born=born))

    def _write_source(self) -> None:
        there = {each.file.path: each.file.state for each in self.model.now() if each.file.path not in self.hidden}
        part = self.folder / "source.json.part"
        part.write_text(json.dumps(there))
        part.rename(self.folder / "source.json")

    def _busy_paths(self) -> set[str]:
        """Files of runs that are not over, and of requests that must be done. They do not change: a plan of before would tell its run to ship what
        is not there any more, and the model could not say of which version a success speaks."""
        runs = [*self.active, *(sleeper.run for sleeper in self.sleepers)]
        paths = {file.path for run in runs for file in run.spec.files}
        for debt in self.debts:
            if debt.must_be_done:
                paths |= {record.path for record in debt.replayed}
                paths |= {each.file.path for each in self._listed(debt)}
        return paths | self.hidden

    def _free_files(self) -> list[Tracked]:
        busy = self._busy_paths()
        return [each for each in self.model.now() if each.file.path not in busy]

    def _listed(self, request: Request) -> list[Tracked]:
        if request.kind != "ship":
            return []
        found = self.model.of_windows(range(*request.windows))
        found += [each for each in self.model.now() if each.file.path in request.late and each not in found]
        return sorted((each for each in found if each.file.path not in self.hidden), key=lambda each: each.file.path)

    # Requests

    def _next_request(self) -> Request:
        if self.debts and self._chance(0.3 + 0.1 * len(self.debts)):
            return self.debts[0]
        run_id = f"turn-{self.turn}"
        kind = self.rng.choices(("new", "old", "wide", "reship", "replay", "archive", "snapshot"), (58, 8, 8, 9, 8, 5, 4))[0]
        first = max(1, self.hour - self.rng.randrange(12))
        if kind == "replay" and (records := self._quarantined()):
            return Request("replay", (first, first + 1), run_id, replayed=records)
        if kind == "reship":
            request = Request("ship", (first, first + self.rng.choice((1, 1, 2))), run_id, reship=f"reship-{self.turn}")
            busy = self._busy_paths() - self.hidden
            if not any(each.file.path in busy for each in self._listed(request)):
                return request
        if kind == "archive" and self.hour > 3:
            return Request("archive", (0, self.rng.randrange(1, self.hour - 1)), run_id)
        if kind == "snapshot" and self.launched:
            return Request("snapshot", (0, 1), run_id)
        if kind == "old":
            return Request("ship", (first, first + 1), run_id)
        if kind == "wide":
            return Request("ship", (first, first + self.rng.randrange(2, 6)), run_id)
        late = tuple(each.file.path for each in self.model.of_windows(range(self.hour - 6, self.hour)) if not each.latest.asked)
        return Request("ship", (self.hour, self.hour + 1), run_id, late=late)

    def _quarantined(self) -> tuple[Record, ...]:
        """Some records that may leave quarantine now."""
        free = [each for each in self._free_files() if each.settled]
        found = [
            record
            for each in self.rng.sample(free, min(len(free), 8))
            for record in each.file.records()
            if not record.has_topic and record not in each.latest.replayed
        ]
        return tuple(self.rng.sample(found, min(len(found), self.rng.randrange(1, 20))))

    def _spec(self, request: Request) -> RunSpec | None:
        """None if there is nothing to ship."""
        files = tuple(each.file for each in self._listed(request))
        if request.kind == "ship" and not files:
            if request in self.debts:
                self.debts.remove(request)
            return None
        rng, chunk_bytes = self.rng, self.rng.choice((4_000, 12_000, 12_000, 40_000))
        return RunSpec(
            request.kind, request.run_id, _PIPELINE, self.broker.bootstrap, _TOPICS, str(self.folder), request.windows, files,
            request.reship, request.replayed, archive_before=request.windows[1], tasks=rng.choice((1, 2, 2, 3)),
            lanes=rng.choice((1, 2, 2)), chunk_bytes=chunk_bytes, batch_bytes=min(chunk_bytes, rng.choice((2_000, 4_000, 8_000))),
        )  # fmt: skip

    # A turn

    def _take_turn(self, request: Request, spec: RunSpec) -> None:
        known = request in self.debts
        if known and self._chance(0.5):
            spec = replace(spec, run_id=f"{spec.run_id}-{self.turn}")  # another run; else another attempt of the same
        spec, during = self._disturbed(spec)
        run = self._launch(spec)
        if self._chance(0.06):
            self._second_driver(spec)
        self._accompany(run, during)
        if run.succeeded:
            if known:
                self.debts.remove(request)
        elif not known and (request.must_be_done or (spec.kind == "ship" and self._chance(0.6))):
            self.debts.append(request)
        elif known:
            self.debts.rotate(-1)

    def _launch(self, spec: RunSpec) -> HistoryRun:
        self.launched += 1
        run = HistoryRun(spec, self.launched, self.server, self.folder)
        self.model.launched(run.name, spec.files, spec.reship)
        self.active.append(run)
        return run

    def _second_driver(self, spec: RunSpec) -> None:
        """For the same, or for the window before."""
        self.fired["second driver"] += 1
        if self._chance(0.5) or spec.kind != "ship":
            self._launch(replace(spec, run_id=f"{spec.run_id}-second", strikes=()))
            return
        request = Request("ship", (max(1, self.hour - 1), self.hour + 1), f"{spec.run_id}-second")
        if (other := self._spec(request)) is not None:
            self._launch(other)

    def _disturbed(self, spec: RunSpec) -> tuple[RunSpec, list[str]]:
        """With faults that are part of the run; and the names of those that come while it runs."""
        rng = self.rng
        if self._chance(0.3):
            return spec, []
        if self._chance(0.4):
            points = [*WORKER_POINTS, *(DRIVER_POINTS if spec.kind == "ship" else ["before the control partition is written"])]
            victim = rng.choice(("worker", "driver", "all", "all"))
            number = signal.SIGSTOP if self._chance(0.35) else signal.SIGKILL
            spec = replace(spec, strikes=(Strike(rng.choice(points), victim, rng.choice((1, 1, 2, 3, 5)), number),))
        if spec.kind == "ship" and self._chance(0.2):
            spec = self._source_fault(spec)
        during = []
        if self._chance(0.45):
            during = [rng.choices([*DURING], [weight for weight, _ in DURING.values()])[0]]
            spec = replace(spec, records_per_second=rng.choice((800.0, 1_500.0, 3_000.0)))
            if self._chance(0.4):
                spec = replace(spec, pauses=((rng.choice(("commit", "flush", "begin")), rng.uniform(0.02, 0.2)),))
        return spec, during

    def _source_fault(self, spec: RunSpec) -> RunSpec:
        rng = self.rng
        file = rng.choice(spec.files)
        piece = Piece(file.path, SPLIT_BYTES * rng.randrange(len(file.born)), rng.randrange(RECORDS_PER_SPLIT))
        match rng.choice(("broken", "no end", "vanished", "short") if self.short_reads else ("broken", "no end", "vanished")):
            case "broken":
                self.fired["piece breaks in the middle"] += 1
                return replace(spec, broken=(piece,))
            case "no end":
                self.fired["stream without an end"] += 1
                return replace(spec, cut_off=(rng.choice((1, 1, 2, 4)), rng.randrange(1, 20)))
            case "vanished":
                self.fired["file vanishes after the plan"] += 1
                self.hidden.add(file.path)
                self._write_source()
                return spec
            case _:
                self.fired["split read short"] += 1
                return replace(spec, short=(piece,))

    def _accompany(self, run: HistoryRun, during: list[str]) -> None:
        """Until its driver is gone, or sleeps."""
        strikes_at = time.monotonic() + self.rng.uniform(0.05, 0.7) if during else float("inf")
        while True:
            self._look_after_runs()
            if not run.driven:
                break
            if time.monotonic() >= strikes_at:
                strikes_at = float("inf")
                self._disturb(run, during[0])
            if any(sleeper.run is run for sleeper in self.sleepers):
                break
            time.sleep(0.01)
        if self.hidden and not any(file.path in self.hidden for other in self.active if other.driven for file in other.spec.files):
            for path in sorted(self.hidden):
                if self._chance(0.2) and path not in self._busy_paths() - self.hidden:
                    self.model.remove(path)
            self.hidden.clear()
            self._write_source()
        while sum(other.alive for other in self.active) >= _MOST_AT_ONCE:
            self._look_after_runs()
            time.sleep(0.02)

    def _disturb(self, run: HistoryRun, name: str) -> None:
        seconds = self.rng.uniform(0.2, 2.5)
        try:
            undo = DURING[name][1](self, run)
        except (DevServerError, KafkaException):
            return  # nothing to hit right now
        if undo is None:
            return
        self.fired[name] += 1
        run.disturbed.append(name)
        self.undos.append((time.monotonic() + seconds, undo))

    def _look_after_runs(self) -> None:
        now = time.monotonic()
        for ends, undo in [entry for entry in self.undos if entry[0] <= now]:
            self.undos.remove((ends, undo))
            undo()
        for run in list(self.active):
            if (strike := run.stopped_by) is not None and "stopped" not in run.disturbed:
                run.disturbed.append("stopped")
                if strike.victim == "worker":
                    self.undos.append((now + self.rng.uniform(0.2, 2.0), lambda run=run: run.signal(signal.SIGCONT)))
                else:
                    self._put_to_sleep(run)
                    continue
            if not run.noted and not run.driven:
                self._note_end(run)
            if not run.alive:
                self.active.remove(run)
            elif now > run.deadline:
                self.faults.append(f"run {run.name} missed its deadline ({'; '.join(run.disturbed) or 'undisturbed'}): {run.log}")
                run.signal(signal.SIGKILL)
                run.deadline = float("inf")

    def _note_end(self, run: HistoryRun) -> None:
        run.noted = True
        end = "succeeded" if run.succeeded else "failed" if run.end else "killed"
        self.ends[end] += 1
        for event in run.events:
            if event["event"] == "strike":
                what = "stopped" if event["number"] == signal.SIGSTOP else "killed"
                self.fired[f"{event['victim']} {what}"] += 1
        self.model.ended(run.name, succeeded=run.succeeded and run.spec.kind == "ship", reship=run.spec.reship)
        if run.succeeded and run.spec.kind == "replay":
            self.model.replayed(run.spec.replayed)

    def _put_to_sleep(self, run: HistoryRun) -> None:
        self.active.remove(run)
        self.sleepers.append(Sleeper(run, self.turn + self.rng.choice((1, 1, 2, 3, 6, 12))))

    def _wake(self, turn: int) -> None:
        for sleeper in [each for each in self.sleepers if each.wakes <= turn]:
            self.sleepers.remove(sleeper)
            sleeper.run.deadline = time.monotonic() + _RUN_ENDS_WITHIN_SECONDS
            sleeper.run.signal(signal.SIGCONT)
            self.active.append(sleeper.run)

    # The end

    def settle(self) -> None:
        """Heal everything, let all runs end, and ship what is left."""
        self.turn += 1
        self.rng = random.Random(f"{self.seed}/end")
        for _, undo in self.undos:
            undo()
        self.undos.clear()
        self.broker.heal()
        self._wake(sys.maxsize)
        while self.active:
            self._look_after_runs()
            time.sleep(0.02)
        self.hidden.clear()
        self._write_source()
        for debt in [each for each in self.debts if each.must_be_done]:
            self._finish(debt)
        everything = Request("ship", (0, self.hour + 1), "last")
        self._finish(everything)
        if again := self._finish(replace(everything, run_id="nothing-left")).get("delivered"):
            self.faults.append(f"a run after the last one delivered {again} records")

    def _finish(self, request: Request) -> dict[str, Any]:
        """Ask until it succeeds."""
        spec = self._spec(request)
        if spec is None:
            return {}
        for attempt in range(3):
            run = self._launch(replace(spec, run_id=f"{spec.run_id}-finished-{attempt}", tasks=2, lanes=2, chunk_bytes=40_000))
            while run.alive:
                self._look_after_runs()
                time.sleep(0.02)
            self._look_after_runs()
            if run.succeeded:
                return run.end
        self.faults.append(f"run {run.name} did not succeed although nothing was wrong any more: {run.end.get('error')}; {run.log}")
        return {}

    def judge(self) -> list[Difference]:
        return self.model.differences(self.broker.count())

    def explain(self, differences: Sequence[Difference]) -> Iterator[str]:
        """The first records that are wrong, and what the ledger says of them."""
        some = self._spec(Request("snapshot", (0, 1), "explain"))
        assert some is not None
        some = replace(some, bootstrap=self.broker.direct)
        explained = set()
        for place, expected, found in differences[:_EXAMPLES]:
            topic, record = place
            yield f"{_TOPICS[topic]} has {found} of {record}, and should have {expected.least} to {expected.most}"
            if (record.path, record.start) not in explained:
                explained.add((record.path, record.start))
                versions = self.model.versions.get(record.path, [])
                yield from (f"  model: {each.number}: {each.file.state}, {each.deliveries}, {each.reships}" for each in versions)
                yield from (f"  ledger: {said}" for said in said_of(some, record, [each.file for each in versions]))


# Faults that come while a run is under way: each returns how it ends, or None if it found nothing to hit


def _nothing() -> None:
    """What is over when it has happened needs no end."""


def _after(do: Callable[[], object], undo: Undo) -> Undo:
    do()
    return undo


def _restarted(history: History, run: HistoryRun) -> Undo:
    history.broker.stop()
    history.broker.start()
    return _nothing


def _killed(run: HistoryRun, victim: str) -> Undo | None:
    if not run.driven:
        return None
    if victim == "driver":
        run.signal_driver(signal.SIGKILL)
    else:
        run.signal(signal.SIGKILL)
    return _nothing


def _put_to_sleep(history: History, run: HistoryRun) -> Undo | None:
    if not run.driven or run not in history.active:
        return None
    run.signal(signal.SIGSTOP)
    history._put_to_sleep(run)
    return _nothing


def _slept_through_a_transaction(history: History, run: HistoryRun) -> Undo | None:
    """The broker aborts what was open; nobody takes over meanwhile."""
    if not run.driven:
        return None
    run.signal(signal.SIGSTOP)
    time.sleep(_TRANSACTION_TIMES_OUT_SECONDS)
    run.signal(signal.SIGCONT)
    return _nothing


def _hijacked(history: History, run: HistoryRun) -> Undo:
    lane = lane_id(run.spec, history.rng.randrange(2), history.rng.randrange(2))
    thief = Producer({"bootstrap.servers": history.broker.direct, "transactional.id": lane})
    thief.init_transactions(5)
    thief.begin_transaction()
    thief.produce(_TOPICS[0], b"stolen: never to be committed")
    thief.poll(0.2)
    return _nothing


def _replaced_meanwhile(history: History, run: HistoryRun) -> Undo | None:
    others = {file.path for other in [*history.active, *(s.run for s in history.sleepers)] if other is not run for file in other.spec.files}
    if not run.spec.files or run.spec.reship or not run.driven:
        return None
    file = history.rng.choice(run.spec.files)
    owed = {record.path for debt in history.debts for record in debt.replayed}
    owed |= {each.file.path for debt in history.debts if debt.must_be_done for each in history._listed(debt)}
    if file.path in others | owed | history.hidden or history.model.versions[file.path][-1].file != file:
        return None
    history._replace(file)
    history._write_source()
    return _nothing


#: Name → (weight, what begins it).
DURING: dict[str, tuple[float, Callable[[History, HistoryRun], Undo | None]]] = {
    "broker killed": (2, lambda history, run: _after(history.broker.kill, history.broker.start)),
    "broker restarted": (2, _restarted),
    "broker paused": (5, lambda history, run: _after(history.broker.pause, history.broker.resume)),
    "connections cut": (8, lambda history, run: history.broker.link.cut() and _nothing),
    "connections reset": (8, lambda history, run: history.broker.link.reset() and _nothing),
    "link stalled": (5, lambda history, run: _after(history.broker.link.stall, history.broker.link.resume)),
    "commit held back": (
        9, lambda history, run: _after(lambda: history.broker.link.hold_request(END_TXN), history.broker.link.release)
    ),
    "commit's answer held back": (
        9, lambda history, run: _after(lambda: history.broker.link.hold_response(END_TXN), history.broker.link.release)
    ),
    "partition added": (
        3, lambda history, run: _nothing if history.broker.add_partition(history.rng.choice(_TOPICS)) else None
    ),
    "transactional.id hijacked": (4, _hijacked),
    "driver killed": (8, lambda history, run: _killed(run, "driver")),
    "run killed": (8, lambda history, run: _killed(run, "all")),
    "run stopped and taken over": (10, _put_to_sleep),
    "transaction timed out": (0.7, _slept_through_a_transaction),
    "file replaced during the run": (6, _replaced_meanwhile),
}  # fmt: skip


def run_history(runs: int, seed: int, folder: Path, *, short_reads: bool = False) -> bool:
    """Return True if nothing was lost or doubled. Print what happened."""
    print(f"seed {seed}, {runs} runs, logs in {folder}", flush=True)
    server = RunServer()
    try:
        with Broker(folder / "broker") as broker:
            broker.create_topics()
            history = History(broker, server, folder, seed, short_reads)
            history.go_on(runs)
            seconds = time.monotonic() - history.began
            history.settle()
            differences = history.judge()
            explained = list(history.explain(differences)) if differences else []
    finally:
        server.stop()
    expected = history.model.bounds()
    lost = sum(found < bounds.least for _, bounds, found in differences)
    doubled = sum(found > bounds.most for _, bounds, found in differences)
    ends = ", ".join(f"{count} {name}" for name, count in history.ends.most_common())
    print(f"{history.launched} runs ({ends}), {seconds:.0f} s, {seconds / max(1, history.launched):.2f} s a run")
    fired = ", ".join(f"{name} {times}" for name, times in history.fired.most_common())
    print(f"{history.fired.total()} faults fired: {fired}")
    certain = sum(bounds.least == bounds.most for bounds in expected.values())
    print(f"{lost} lost / {doubled} doubled of {len(expected):,} records in topics ({certain:,} with one count that is right)")
    print("\n".join([*history.faults, *explained]), end="\n" if history.faults or explained else "", flush=True)
    exact = not differences and not history.faults
    if not exact:
        print(f"repeat it with: make history SEED={seed} RUNS={runs}")
    return exact


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--short-reads", action="store_true", help="the reader ends splits early, too")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="history-"))
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # so that servers are stopped
    try:
        return 0 if run_history(arguments.runs, arguments.seed, folder, short_reads=arguments.short_reads) else 1
    except BaseException:
        print(f"repeat it with: make history SEED={arguments.seed} RUNS={arguments.runs}; logs in {folder}", flush=True)
        raise


if __name__ == "__main__":
    sys.exit(main())
