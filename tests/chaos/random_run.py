"""Ship after ship while random faults come and go: ``python -m tests.chaos.random_run --seconds 600
--seed 1``.

The seed decides which faults come, in which order and for how long; what they hit depends on the
machine as well, so that a seed repeats a run in its course, not to the millisecond.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from shipper_tools.dev.errors import DevServerError, ServerDied

from tests.chaos.kafka_cluster import BROKERS
from tests.chaos.numbered import path_of
from tests.chaos.world import END_TXN, Pipe, Site, site
from tests.waiting import slowness

_FILES_PER_SHIP = 6
_MOST_PARTITIONS = 9
#: Longer than any that is met in practice; a ship that takes longer has missed its deadline,
#: whatever the fault was.
_SHIP_ENDS_WITHIN_SECONDS = 300.0

#: Ends a fault.
Undo = Callable[[], object]


def nothing():
    """What is over when it has happened needs no end."""


@dataclass
class Run:
    """The state of a random run."""

    site: Site
    pipe: Pipe
    rng: random.Random
    fired: Counter[str] = field(default_factory=Counter)
    active: list[tuple[float, Undo]] = field(default_factory=list)
    """(when it ends, how)."""
    down: set[int] = field(default_factory=set)
    """Brokers that are killed or paused."""
    again: int = 0
    """Ships that failed or were killed, and were run again."""
    copies: dict[str, int] = field(default_factory=dict)
    """Path of a file that was shipped anew → how often each of its records is there."""

    # The course

    def go_on(self, seconds):
        """Ships and disturbs for so long; returns the number of files shipped, or begun."""
        deadline = time.monotonic() + seconds
        files = 0
        while time.monotonic() < deadline:
            window = (files, files + _FILES_PER_SHIP)
            files = window[1]
            self._finish(deadline, files=window)
            if self.rng.random() < 0.2:
                self._finish(deadline, files=window, reship=True, run_id=f"reship-{files}")
                self.copies.update((path_of(number), 2) for number in range(*window))
        return files

    def _finish(self, deadline, **asked):
        """Ship until it succeeds, as a scheduler would."""
        while not self._ship(deadline, asked):
            self.again += 1

    def _ship(self, deadline, asked):
        """One ship, disturbed until the deadline; whether it succeeded."""
        ship = self.pipe.ship(**asked)
        ends = time.monotonic() + _SHIP_ENDS_WITHIN_SECONDS * slowness()
        if self.rng.random() < 0.7:
            ship.wait_for("shipping", timeout=30)
        next_fault = time.monotonic() + self.rng.uniform(0, 2)
        while ship.running and time.monotonic() < ends:
            self._end_faults(time.monotonic())
            if time.monotonic() >= deadline:
                self._end_faults(float("inf"))
            elif time.monotonic() >= next_fault:
                self._disturb(ship)
                next_fault = time.monotonic() + self.rng.uniform(0.3, 4)
            time.sleep(0.05)
        ship.wait(max(1.0, ends - time.monotonic()))
        return ship.process.returncode == 0

    def _disturb(self, ship):
        name = self.rng.choice(sorted(FAULTS))
        seconds = self.rng.uniform(1, 8)
        try:
            undo = FAULTS[name](self, ship)
        except (ServerDied, DevServerError, KafkaException, KeyError, StopIteration):
            # nothing to hit right now: a partition without a leader, a broker that is down already
            return
        if undo is not None:
            self.fired[name] += 1
            if undo is not nothing:
                self.active.append((time.monotonic() + seconds, undo))

    def _end_faults(self, now):
        for ends, undo in [entry for entry in self.active if entry[0] <= now]:
            self.active.remove((ends, undo))
            undo()

    # Faults: each returns how it ends, or None if it found nothing to hit

    def broker(self, broker, begin):
        """One broker at a time most often; two leave too few replicas in sync."""
        if broker in self.down or len(self.down) >= (2 if self.rng.random() < 0.2 else 1):
            return None
        self.down.add(broker)
        begin(broker)

        def end():
            self.site.kafka.restart(broker, wait=False)
            self.down.discard(broker)

        return end

    def leader(self):
        topic = self.rng.choice(self.pipe.topic_names)
        return self.site.kafka.leader_of(topic, self.rng.randrange(3))

    def coordinator(self):
        return self.site.kafka.coordinator_of(self.lane_id())

    def lane_id(self):
        return self.pipe.lane_id(self.rng.randrange(2), self.rng.randrange(2))

    def any_link(self, do, *arguments, **options):
        getattr(self.site.links[self.rng.choice(BROKERS)], do)(*arguments, **options)

    def shape_all(self, **shape):
        self.site.everywhere(lambda link: link.shape(**shape))  # type: ignore[arg-type]
        return lambda: self.site.everywhere(lambda link: link.shape(**dict.fromkeys(shape, 0.0)))  # type: ignore[arg-type]

    def hold(self, do):
        link = self.site.links[self.coordinator()]
        getattr(link, do)(END_TXN)
        # Released before librdkafka gives it up: what becomes of an EndTxn that comes later is a
        # test of its own.
        time.sleep(self.rng.uniform(0.2, 3))
        link.release()
        return nothing

    def stall(self):
        link = self.site.links[self.rng.choice(BROKERS)]
        link.stall()
        return link.resume

    def add_partition(self):
        topic = self.rng.choice(self.pipe.topic_names)
        count = len(self.site.kafka.partitions(topic))
        if count >= _MOST_PARTITIONS:
            return None
        self.site.kafka.add_partitions(topic, count + 1)
        return nothing

    def move_leader(self):
        self.site.kafka.move_leader(self.rng.choice(self.pipe.topic_names), self.rng.randrange(3))
        return nothing

    def hijack(self):
        thief = Producer(
            {"bootstrap.servers": self.site.kafka.bootstrap, "transactional.id": self.lane_id()}
        )
        thief.init_transactions(5)
        thief.begin_transaction()
        thief.produce(self.pipe.topic, b"stolen: never to be committed")
        thief.poll(0.2)
        return nothing

    def kill(self, ship, victim):
        if not ship.running:
            return None
        ship.kill(victim)
        return nothing

    def second_driver(self, ship):
        self.pipe.ship(files=ship.numbered.files)
        return nothing

    def pause_ship(self, ship):
        """Longer than its lease, while another one takes over."""
        ship.signal_all(signal.SIGSTOP)
        self.pipe.ship(files=ship.numbered.files)
        return lambda: ship.signal_all(signal.SIGCONT)


FAULTS = {
    "leader killed": lambda run, ship: run.broker(run.leader(), run.site.kafka.kill),
    "coordinator killed": lambda run, ship: run.broker(run.coordinator(), run.site.kafka.kill),
    "leader paused": lambda run, ship: run.broker(run.leader(), run.site.kafka.pause),
    "coordinator paused": lambda run, ship: run.broker(run.coordinator(), run.site.kafka.pause),
    "leader moved": lambda run, ship: run.move_leader(),
    "partition added": lambda run, ship: run.add_partition(),
    "connections cut": lambda run, ship: run.any_link("cut") or nothing,
    "connections reset": lambda run, ship: run.any_link("reset") or nothing,
    "link stalled": lambda run, ship: run.stall(),
    "200 ms jitter": lambda run, ship: run.shape_all(jitter_ms=200.0),
    "1 Mbit/s": lambda run, ship: run.shape_all(bytes_per_second=125_000.0),
    "commit held back": lambda run, ship: run.hold("hold_request"),
    "commit's answer held back": lambda run, ship: run.hold("hold_response"),
    "transactional.id hijacked": lambda run, ship: run.hijack(),
    "worker killed": lambda run, ship: run.kill(ship, "worker"),
    "driver killed": lambda run, ship: run.kill(ship, "driver"),
    "ship killed": lambda run, ship: run.kill(ship, "all"),
    "ship paused and taken over": lambda run, ship: run.pause_ship(ship),
    "second driver": lambda run, ship: run.second_driver(ship),
}


def run(seconds, seed, folder):
    """Whether nothing was lost or doubled. Prints what happened."""
    print(f"seed {seed}, {seconds:.0f} s, logs in {folder}", flush=True)
    with site(folder / "cluster") as found:
        settings = {
            "records_per_second": 1500.0,
            "properties": {"socket.timeout.ms": 5000},
            "delivery": {"metadata_wait": "90s"},
        }
        pipe = Pipe(found, folder, topics=2, settings=settings)
        try:
            course = Run(found, pipe, random.Random(seed))
            files = course.go_on(seconds)
            for _, undo in course.active:
                undo()
            found.heal()
            for ship in pipe.ships:
                ship.wait_for_orphans(60)
            pipe.rerun(files=(0, files))
            count = pipe.count(files=(0, files), copies=course.copies)
        finally:
            pipe.stop()
    fired = ", ".join(f"{name} {times}" for name, times in course.fired.most_common())
    print(
        f"{len(pipe.ships)} ships, {course.again} of them failed or were killed and were run "
        f"again; {len(course.copies)} files were shipped anew"
    )
    print(f"{course.fired.total()} faults fired: {fired}")
    print(count)
    if not count.exact:
        print(f"repeat it with: make chaos SEED={seed} SECONDS={seconds:.0f}")
    return count.exact


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(143)
    )  # so that servers are stopped
    try:
        return 0 if run(arguments.seconds, arguments.seed, folder) else 1
    except BaseException:
        print(
            f"repeat it with: make chaos SEED={arguments.seed} SECONDS={arguments.seconds:.0f}; "
            f"logs in {folder}",
            flush=True,
        )
        raise


if __name__ == "__main__":
    sys.exit(main())
