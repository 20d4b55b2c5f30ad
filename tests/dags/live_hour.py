"""An hour of a real Airflow, by a seed: ``python -m tests.dags.live_hour --seed 1 --minutes 60``.

Three pipelines ship windows of two minutes with real Spark to a real broker while files are written
into the windows' folders. Meanwhile the broker stops, processes are killed, Airflow is down, tasks
and runs are cleared, a pipeline's file is broken, another one is deleted. Nobody repairs anything
by hand. The script compares what shipper says with what it knows itself: by the files that it
wrote, by a consumer that reads the topics all the time, and by the states of Airflow's runs:

- each line is in its topic once;
- a window that `shipper gaps` holds for complete has all its lines in the topic, and one that is
  complete is no gap;
- a run fails only if the configuration was broken meanwhile;
- a notice names its window, has a cause, and is told once; what fails or is late is told.

The seed decides the course, not the milliseconds. Exit code 1 if there is a fault.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition
from shipper_tools.dev.airflow import Airflow, AirflowError
from shipper_tools.dev.console_consumer import read_topic
from shipper_tools.dev.errors import DevServerError
from shipper_tools.dev.java import SHORT_LIVED
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.postgres import PostgresServer, why_no_postgres

from tests.dags.dag_world import told
from tests.dags.drills import part, spark_sides, wait_for
from tests.dags.live_record import (
    SETTLE,
    Answer,
    Episode,
    LogFile,
    Notice,
    Record,
    Run,
    Window,
    seconds,
    utc,
)
from tests.integration.world import World
from tests.waiting import wait_until

PIPELINES, DELETED = ("alpha", "beta", "gamma"), "gamma"
"""The file of one is deleted after two thirds of the time."""
NOTICE = ("pipeline", "window", "headline", "cause")
"""What the script knows of a notice."""
ENDS_WITHIN = 900
"""Seconds after the last action in which everything is whole again."""


class LiveHour(Record):
    """The servers, the writer, those who look on, and what is done to them."""

    def __init__(self, seed, minutes, every, folder, kafka, database):
        """``every``: minutes of a window."""
        step = every * 60
        super().__init__(PIPELINES, (int(time.time()) // step + 1) * step, step, minutes)
        self.seed, self.folder, self.kafka = seed, folder, kafka
        self.random = random.Random(seed)
        self.world = World(folder / "world", kafka.bootstrap, name=PIPELINES[0])
        self.world.client.create_topics(dict.fromkeys(PIPELINES[1:], 3), replication_factor=1)
        self.config = self.world.root / "config"
        self._over = threading.Event()
        self._threads = []
        for name in PIPELINES:
            self.pipeline_file(name).write_text(self.configuration(name))
        environment = {
            "SHIPPER_CONFIG": str(self.config),
            "PYTHONPATH": os.pathsep.join(
                [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
            ),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "30",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
        }
        self.airflow = Airflow(folder / "airflow", environment, database=database)

    def pipeline_file(self, name):
        return self.config / "pipelines" / f"{name}.yaml"

    def configuration(self, name):
        fields = {each: f"{{{{ notice.{each} }}}}" for each in NOTICE}
        notifier = {"path": str(self.folder / "notices"), "fields": fields}
        spec = {
            "pipeline": name,
            "schedule": {
                "cron": f"*/{self.step // 60} * * * *",
                "start": utc(self.first).isoformat(),
                "deliver_within": f"{self.within}s",
            },
            "source": {
                "path": f"logs/{name}/{{window_start:%Y%m%d-%H%M}}/",
                "settle": f"{SETTLE}s",
                "lookback": f"{self.lookback}s",
                "when_empty": "succeed",
            },
            "topic": name,
            "clusters": ["local"],
            "delivery": {
                "lease": "20s",
                "lease_wait": "120s",
                "metadata_wait": "20s",
                "transaction_timeout": "20s",
                "rate_limit": "60kB/s",
            },
            "runner": {"driver_memory": "1g", "python": sys.executable},
            "notify": [
                {
                    "on": ["failure", "late"],
                    "notifier": "file_notifier.FileNotifier",
                    "with": notifier,
                }
            ],
        }
        return json.dumps(spec, indent=1)

    # What goes on all the time.

    def in_background(self, work, every_seconds):
        def go_on():
            while not self._over.wait(every_seconds):
                try:
                    work()
                except Exception:
                    self.fault(f"the script itself: {traceback.format_exc()}")

        self._threads.append(threading.Thread(target=go_on, name=work.__name__))
        self._threads[-1].start()

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def write(self):
        """Write the files whose time has come. Each window's times come from the seed."""
        now = time.time()
        for window in self.windows(min(now + self.step, self.until))[-4:]:
            for name in self.names:
                rng = random.Random(f"{self.seed} {name} {window.start - self.first}")
                for number in range(rng.choice([0, 1, 1, 2, 3])):
                    at = window.start + rng.uniform(1, self.step - 3)
                    self._write(
                        name,
                        window,
                        f"{number}.log",
                        rng.randrange(1, 600),
                        at <= now < window.end,
                        late=False,
                    )
                if rng.random() < 0.2:
                    at = window.end + rng.uniform(5, self.step * 1.5)
                    self._write(
                        name, window, "late.log", rng.randrange(1, 300), at <= now, late=True
                    )

    def _write(self, name, window, file, count, wanted, *, late):
        key = (name, window.start, file)
        if not wanted or key in self.files:
            return
        noise = random.Random(str(key))
        lines = [
            f"{name} {window.start} {file} {n} {noise.randbytes(40).hex()}\n" for n in range(count)
        ]
        folder = self.world.logs / name / f"{utc(window.start):%Y%m%d-%H%M}"
        folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "partial").write_text("".join(lines))
        self.files[key] = LogFile(name, window, file, count, time.time(), late)
        (self.folder / "partial").rename(folder / file)
        if late:
            self.say(f"late file {name}/{window}/{file}, {count} lines")

    @contextlib.contextmanager
    def consumer(self):
        """Yield a function that takes what is new in the topics."""
        reader = Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap,
                "group.id": "live-hour",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 1000,
                "log_level": 0,
            }
        )
        reader.assign(
            [TopicPartition(name, partition, 0) for name in PIPELINES for partition in range(3)]
        )

        def read():
            for message in reader.consume(1000, 0.5):
                if message.error():
                    if (
                        message.error().code() != KafkaError._PARTITION_EOF
                        and not message.error().retriable()
                    ):
                        self.say(f"consumer: {message.error()}")
                    continue
                name, start, file, number = message.value().decode().split(" ")[:4]
                found = self.files[name, int(start), file]
                found.read[int(number)] += 1
                if len(found.read) == found.count:
                    found.done = min(found.done, time.time())
                if found.read[int(number)] > 1:
                    self.fault(
                        f"line {number} of {name}/{found.window}/{file} is there "
                        f"{found.read[int(number)]} times"
                    )

        yield read
        reader.close()

    def hear(self):
        for notice in told(self.folder / "notices")[len(self.notices) :]:
            words = (notice[each] for each in ("event", *NOTICE))
            self.notices.append(Notice(time.time(), *words))
            self.say(f"notice: {self.notices[-1]}")

    def ask(self):
        """Look at Airflow's runs, then compare each pipeline's gaps."""
        with contextlib.suppress(DevServerError):  # while it is down, or on its way
            self._look_at_runs()
        for name in self.names:
            begun = time.time()
            done = subprocess.run(
                self.world.command("gaps", name, "--json"), capture_output=True, text=True
            )
            ended = time.time()
            broken = [each for each in self.during(begun - 1, ended) if each.pipeline == name]
            if not done.stdout or done.returncode not in (0, 1):
                if not broken:
                    self.fault(f"`gaps {name}` ended with {done.returncode}: {done.stderr[-500:]}")
                continue
            document = json.loads(done.stdout)
            gaps = frozenset(
                each for gap in document["gaps"] for each in self._of_gap(gap["window"])
            )
            before, after = self.windows(begun - SETTLE), self.windows(ended - SETTLE)
            if not len(before) <= document["windows"] <= len(after) or not gaps <= {*after}:
                self.fault(
                    f"`gaps {name}` at {utc(begun):%H:%M:%S} speaks of other windows than "
                    f"{len(before)} ones: {document}"
                )
            if done.returncode != bool(gaps):
                self.fault(
                    f"`gaps {name}` ended with {done.returncode} and lists {len(gaps)} windows"
                )
            self.answers.append(Answer(name, begun, ended, frozenset(before), gaps))

    def _of_gap(self, windows):
        start, end = (int(seconds(edge)) for edge in windows.split("/"))
        return [Window(at, at + self.step) for at in range(start, end, self.step)]

    def _look_at_runs(self):
        for run in self.airflow.call("GET", "dags/~/dagRuns?limit=100&order_by=-run_after")[
            "dag_runs"
        ]:
            name, run_id, state, asked = (
                run["dag_id"],
                run["dag_run_id"],
                run["state"],
                run["conf"] or {},
            )
            self.active[name, run_id] = state
            queued, began, ended = (
                seconds(run[at]) for at in ("queued_at", "start_date", "end_date")
            )
            if state in ("success", "failed") and (name, run_id, ended) not in self.runs:
                edges = (
                    seconds(asked.get(f"window_{edge}") or run[f"data_interval_{edge}"])
                    for edge in ("start", "end")
                )
                window = Window(*map(int, edges))
                found = Run(
                    name,
                    run_id,
                    run["run_type"],
                    window,
                    state,
                    queued or began,
                    began or ended,
                    ended,
                )
                if state == "failed":
                    found.evidence = self._evidence(found)
                    self.say(f"run {name} {run_id} failed{found.evidence}")
                self.runs[name, run_id, ended] = found

    def _evidence(self, run):
        """Return the last lines of each task that failed."""
        path, said = f"dags/{run.pipeline}/dagRuns/{run.run_id}/taskInstances", []
        for task in self.airflow.call("GET", path)["task_instances"]:
            for attempt in range(1, task["try_number"] + 1) if task["state"] == "failed" else ():
                with contextlib.suppress(DevServerError):
                    log = self.airflow.call("GET", f"{path}/{task['task_id']}/logs/{attempt}")[
                        "content"
                    ]
                    events = [
                        each["event"]
                        for each in log
                        if not each["event"].startswith(("::", "/", "Task exited"))
                    ]
                    said += [
                        f"\n    {task['task_id']}, attempt {attempt}: {line}"
                        for line in events[-3:]
                    ]
        return "".join(said)

    # What the script does.

    @contextlib.contextmanager
    def episode(self, kind, pipeline="", more=""):
        self.episodes.append(Episode(kind, pipeline, time.time()))
        self.say(" ".join(filter(None, [kind, pipeline, more])))
        try:
            yield
        finally:
            self.episodes[-1].end = time.time()
            self.say(f"{kind}: over")

    def broker_stops(self):
        with self.episode("broker-outage", more="by SIGSTOP"):
            os.kill(self.kafka.pid, signal.SIGSTOP)
            time.sleep(self.random.uniform(20, 90))
            os.kill(self.kafka.pid, signal.SIGCONT)

    def broker_dies(self):
        with self.episode("broker-outage", more="by SIGKILL"):
            os.kill(self.kafka.pid, signal.SIGKILL)
            time.sleep(self.random.uniform(20, 120))
            self.kafka.start()

    def kill_scheduler(self):
        with self.episode("kill-scheduler"):
            part(self.airflow, "scheduler").kill()
            time.sleep(self.random.uniform(1, 20))
            self.airflow.start_part("scheduler")

    def kill_dag_processor(self):
        with self.episode("kill-dag-processor"):
            part(self.airflow, "dag-processor").kill()
            time.sleep(self.random.uniform(1, 20))
            self.airflow.start_part("dag-processor")

    def kill_task(self):
        self._kill("task")

    def kill_spark(self):
        self._kill(self.random.choice(["driver", "jvm"]))

    def _kill(self, what):
        side = self.random.choice(wait_for(self.airflow, lambda: spark_sides(self.config)))
        time.sleep(self.random.uniform(0, 5))
        with (
            self.episode(f"kill-{what}"),
            contextlib.suppress(Exception),
        ):  # a process that has ended meanwhile
            self.say(
                f"{what} of {side.cmdline()[-1]} "
                f"{side.cmdline()[side.cmdline().index('--pipeline') + 1]}"
            )
            java = [each for each in side.children(recursive=True) if "java" in each.name()]
            victim = (
                side.parent() if what == "task" else (java or [side])[0] if what == "jvm" else side
            )
            victim.kill()

    def airflow_is_down(self):
        with self.episode("airflow-outage"):
            self.airflow.stop()
            time.sleep(self.random.uniform(10, 120))
            self.airflow.launch()
            self.airflow.wait_ready()

    def a_run(self):
        """Return a run that succeeded lately."""
        found = [
            each
            for each in [*self.runs.values()]
            if each.state == "success" and each.pipeline in self.names
        ]
        return self.random.choice(sorted(found, key=lambda each: each.end)[-8:]) if found else None

    def clear_task(self):
        if run := self.a_run():
            task = self.random.choice(
                ["plan", "gate_source", "to_local.ship", "to_local.gate_delivery", "report"]
            )
            asked = {
                "dry_run": False,
                "only_failed": False,
                "reset_dag_runs": True,
                "dag_run_id": run.run_id,
                "task_ids": [task],
            }
            with self.episode("clear-task", run.pipeline, f"{run.run_id} {task}"):
                self.airflow.call(
                    "POST",
                    f"dags/{run.pipeline}/clearTaskInstances",
                    {**asked, "include_downstream": True},
                )

    def clear_run(self):
        if run := self.a_run():
            with self.episode("clear-run", run.pipeline, run.run_id):
                self.airflow.call(
                    "POST", f"dags/{run.pipeline}/dagRuns/{run.run_id}/clear", {"dry_run": False}
                )

    def clear_what_failed(self):
        """As the notice of a broken file asks for: a look back may not reach what had failed by
        then."""
        for run in [*self.runs.values()]:
            if run.state == "failed" and run.pipeline in self.names:
                with self.episode("clear-failed", run.pipeline, run.run_id):
                    self.airflow.call(
                        "POST",
                        f"dags/{run.pipeline}/dagRuns/{run.run_id}/clear",
                        {"dry_run": False},
                    )

    def backfill(self):
        name, windows = self.random.choice(self.names), self.windows(time.time() - SETTLE)[-4:-1]
        if windows:
            span = {
                "from_date": utc(windows[0].start).isoformat(),
                "to_date": utc(windows[-1].start).isoformat(),
            }
            with self.episode("backfill", name, f"{windows[0]} to {windows[-1]}"):
                asked = {
                    "dag_id": name,
                    "reprocess_behavior": "completed",
                    "max_active_runs": 1,
                    **span,
                }
                try:
                    self.airflow.call("POST", "backfills", asked)
                except AirflowError as refused:
                    # On a busy machine the one before may still run, and Airflow takes one a DAG.
                    if "already a running backfill" not in str(refused):
                        raise

    def wide_run(self):
        name, windows = self.random.choice(self.names), self.windows(time.time() - SETTLE)[-5:]
        if windows:
            wide = Window(windows[0].start, windows[-1].end)
            self.wide.add((name, wide))
            conf = {
                "window_start": utc(wide.start).isoformat(),
                "window_end": utc(wide.end).isoformat(),
            }
            with self.episode("wide-run", name, str(wide)):
                self.airflow.call(
                    "POST", f"dags/{name}/dagRuns", {"logical_date": None, "conf": conf}
                )

    def break_file(self):
        name = self.random.choice(self.names)
        with self.episode("broken-file", name):
            self.pipeline_file(name).write_text(self.configuration(name)[:150])
            time.sleep(self.random.uniform(20, 70))
            self.pipeline_file(name).write_text(self.configuration(name))

    def delete_file(self):
        self.say(f"delete {DELETED}")
        self.episodes.append(Episode("delete", DELETED, time.time()))
        self.pipeline_file(DELETED).unlink()

    def live(self, only):
        """Do something after each pause, all kinds in turn and in an order of the seed's, until the
        time is over."""
        wait_for(self.airflow, lambda: self.runs, within_seconds=self.step + 300)
        delete_at = self.first + (self.until - self.first) * 2 / 3
        for kind in itertools.chain.from_iterable(
            self.random.sample(only, len(only)) for _ in itertools.count()
        ):
            if time.time() >= delete_at and DELETED in self.names:
                self.delete_file()
            if time.time() >= self.until:
                break
            try:
                getattr(self, kind)()
            except Exception:
                self.fault(f"{kind} could not be done: {traceback.format_exc()}")
            time.sleep(self.random.uniform(5, 30))


KINDS = (
    "broker_stops",
    "broker_dies",
    "kill_scheduler",
    "kill_dag_processor",
    "kill_task",
    "kill_spark",
    "airflow_is_down",
    "clear_task",
    "clear_run",
    "backfill",
    "wide_run",
    "break_file",
)


def run_hour(asked, folder):
    """Live through the time. Return what is wrong."""
    with contextlib.ExitStack() as stack:
        kafka = stack.enter_context(
            KafkaServer(folder / "kafka", java_options=SHORT_LIVED, die_with_parent=True)
        )
        database = None
        if why_no_postgres() is None:
            database = stack.enter_context(
                PostgresServer(folder / "postgres", die_with_parent=True)
            ).url
        hour = LiveHour(asked.seed, asked.minutes, asked.every, folder, kafka, database)
        read = stack.enter_context(hour.consumer())
        stack.callback(hour.end)
        hour.in_background(hour.write, 1)
        hour.in_background(read, 0.1)
        stack.enter_context(hour.airflow)
        hour.in_background(hour.hear, 1)
        hour.in_background(hour.ask, 20)
        hour.live(asked.only.split(","))
        hour.clear_what_failed()
        hour.say("nothing more is done")
        try:
            wait_until(hour.whole, ENDS_WITHIN, every_seconds=0.5)
        except AssertionError:
            hour.fault(
                f"something is missing {ENDS_WITHIN} s after the last action: "
                f"{hour.answers[-len(PIPELINES) :]}"
            )
        hour.end()
        hour.judge()
        for name in PIPELINES:
            hour.judge_lines(name, read_topic(kafka.bootstrap, name))
        ends = Counter(f"{run.kind} {run.state}" for run in hour.runs.values())
        print(
            f"{len(hour.answers)} answers of gaps, {len(hour.notices)} notices, runs: {dict(ends)}"
        )
        print(f"done: {dict(Counter(each.kind for each in hour.episodes))}")
    return hour.faults


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument(
        "--every",
        type=int,
        default=2,
        help="minutes of a window; more on a machine that has other things to do",
    )
    parser.add_argument("--only", default=",".join(KINDS), help="what is done, with commas between")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="live-hour-"))
    print(f"seed {asked.seed}, {asked.minutes:g} minutes, in {folder}", flush=True)
    signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(143)
    )  # so that servers are stopped
    faults = run_hour(asked, folder)
    command = (
        f"python -m tests.dags.live_hour --seed {asked.seed} --minutes {asked.minutes:g} --every "
        f"{asked.every}"
    )
    print(
        "\n".join(
            [
                f"{len(faults)} faults; repeat it with: {command}",
                *(fault.partition("\n")[0] for fault in faults),
            ]
        )
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
