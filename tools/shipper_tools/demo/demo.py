"""The whole of shipper in a few minutes, on this machine alone: real S3, real Kafka, real Airflow,
real Spark.

::

    an hour of logs in S3 ─▶ Airflow's scheduler runs the pipeline's DAG ─▶ what is where, counted three times
                       the same window again                            ─▶ 0 sent

Everything lies below ``.dev/demo`` and is made anew each time. All servers are on loopback, on free
ports, and are stopped at the end, whatever the end is.
"""  # noqa: E501

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Column, Table

from shipper.config.load import load_cluster
from shipper.errors import ShipperError
from shipper.kafka.client import ClusterClient
from shipper.processes import exclusive
from shipper.report.late import newest
from shipper.report.results import RunReport
from shipper.stopping import Stopped
from shipper.windows.window import Window
from shipper_tools.demo.config import (
    BUCKET,
    CLUSTER,
    PIPELINE,
    SECRET_VARIABLE,
    TOPICS,
    write_config,
)
from shipper_tools.demo.watch import find_dag, follow, scheduled_run
from shipper_tools.dev.airflow import Airflow
from shipper_tools.dev.console_consumer import read_topic
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.s3 import SECRET_KEY, S3Server
from shipper_tools.dev.state import dev_home
from shipper_tools.samples.logs import write_logs

_SEED = 20261101


def run_demo(keep: bool, lines: int, console: Console) -> int:
    """Returns the exit code. With ``keep``, S3, Kafka and Airflow stay up until Ctrl-C."""
    dev = dev_home()
    with exclusive(
        dev / "demo.lock", lambda: console.print("waiting for another demo in this folder to end")
    ):
        shutil.rmtree(dev / "demo", ignore_errors=True)
        try:
            _Demo(dev / "demo", console).run(lines, keep)
        except Stopped as stopped:
            console.print("[yellow]stopped; S3, Kafka and Airflow are down[/]")
            return 128 + stopped.signum
        except ShipperError as error:
            console.print(error.message, style="red", markup=False, soft_wrap=True)
            console.print(
                f"[red]The demo failed.[/] What it left is in {dev / 'demo'}.", soft_wrap=True
            )
            return error.exit_code
    return 0


class _TopicCounts(NamedTuple):
    """Of one topic after a run, each from another source."""

    sent: int
    """By the run's report: the receipts of the Spark tasks."""
    ledger: int
    """By the delivery gate, which reads the ledger anew."""
    topic: int
    """By Java's console consumer, read_committed."""


class _Demo:
    def __init__(self, folder: Path, console: Console) -> None:
        now = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
        self._window = Window(now - dt.timedelta(hours=1), now)
        self._folder = folder
        self._console = console
        self._started = time.monotonic()
        self._kafka = KafkaServer(folder / "kafka", die_with_parent=True, say=self._say)
        self._s3 = S3Server(folder / "s3", die_with_parent=True, say=self._say)
        environment = {"SHIPPER_CONFIG": str(folder / "config"), SECRET_VARIABLE: SECRET_KEY}
        self._airflow = Airflow(folder / "airflow", environment, say=self._say)

    def run(self, lines: int, keep: bool) -> None:
        with self._kafka, self._s3:
            try:
                self._prepare(lines)
                self._say("the scheduler finds a window that is due, and runs the DAG")
                run_id = self._airflow.wait(
                    "start a scheduled run", lambda: scheduled_run(self._airflow, PIPELINE)
                )
                self._follow(run_id, expected=lines)
                self._say("the same window once more, triggered with window_start and window_end")
                self._follow(self._trigger_again(), expected=0)
                self._console.print(
                    f"[bold green]✓[/] done in {time.monotonic() - self._started:.0f} s"
                )
                if keep:
                    self._stay()
            finally:
                self._airflow.stop()

    def _say(self, text: str) -> None:
        self._console.print(
            f"[dim]{time.monotonic() - self._started:5.0f} s[/]  {text}", soft_wrap=True
        )

    def _prepare(self, lines: int) -> None:
        """Airflow takes the longest to start, so the rest is done meanwhile."""
        bootstrap, endpoint = self._kafka.bootstrap, self._s3.endpoint
        self._say(f"Kafka is up at {bootstrap}, S3 at {endpoint}")
        config = self._folder / "config"
        text = write_config(
            config, bootstrap=bootstrap, endpoint=endpoint, start=self._window.start
        )
        self._airflow.launch()
        self._say(
            f"Airflow is starting; meanwhile, {lines:,} log lines for the window {self._window}"
        )
        files = write_logs(self._folder / "logs", hour=self._window.start, lines=lines, seed=_SEED)
        self._upload(files)
        size = sum(file.stat().st_size for file in files)
        self._say(f"{len(files)} files, {size / 1e6:.0f} MB, in s3a://{BUCKET}/")
        ClusterClient(load_cluster(config, CLUSTER)).create_topics(TOPICS)
        self._say(f"the pipeline, {config / 'pipelines' / PIPELINE}.yaml:")
        show_yaml(self._console, text.partition("\n")[2])
        with self._console.status("waiting for Airflow"):
            self._airflow.wait_ready()
            self._airflow.wait("make the DAG", lambda: find_dag(self._airflow, PIPELINE))
        self._say(f"Airflow is up at {self._airflow.url} and has made a DAG of it")
        self._airflow.call("PATCH", f"dags/{PIPELINE}", {"is_paused": False})

    def _upload(self, files: list[Path]) -> None:
        """The folders below the bucket are those of the files."""
        logs, client = self._folder / "logs", self._s3.client
        client.make_bucket(BUCKET)
        for file in files:
            client.put(BUCKET, file.relative_to(logs).as_posix(), file.read_bytes())

    def _trigger_again(self) -> str:
        window = {
            "window_start": self._window.start.isoformat(),
            "window_end": self._window.end.isoformat(),
        }
        body = {"dag_run_id": "again", "logical_date": None, "conf": window}
        return str(self._airflow.call("POST", f"dags/{PIPELINE}/dagRuns", body)["dag_run_id"])

    def _follow(self, run_id: str, expected: int) -> None:
        """Raises ShipperError if the run did not send ``expected`` records, or the counts
        disagree."""
        follow(self._airflow, PIPELINE, run_id, self._console)
        last = newest(str(self._folder / "runs"), PIPELINE, self._window)
        assert last is not None, "a run that succeeded has a folder"
        report = last.need("report", RunReport)
        with self._console.status("counting what is in the topics, with Java's console consumer"):
            counts = self._count(report)
        self._console.print(_table(counts))
        sent, there = sum(c.sent for c in counts.values()), sum(c.topic for c in counts.values())
        if sent != expected or any(count.ledger != count.topic for count in counts.values()):
            raise ShipperError(
                f"The counts do not agree: {expected:,} should have been sent. Report: "
                f"{report.page}"
            )
        self._say(f"[bold]{sent:,} sent[/]; {there:,} are there. Report: {report.page}")

    def _count(self, report: RunReport) -> dict[str, _TopicCounts]:
        sent = {topic.topic: topic.delivered for ship in report.ships for topic in ship.topics}
        ledger = {
            topic.topic: topic.ledger or 0
            for gate in report.delivery_gates
            for topic in gate.topics
        }
        with ThreadPoolExecutor(3) as pool:
            there = pool.map(lambda topic: len(read_topic(self._kafka.bootstrap, topic)), TOPICS)
            return {
                topic: _TopicCounts(sent.get(topic, 0), ledger.get(topic, 0), count)
                for topic, count in zip(TOPICS, there, strict=True)
            }

    def _stay(self) -> None:
        console = self._console
        console.print(
            f"Airflow: [link]{self._airflow.url}[/] (no login)   Kafka: {self._kafka.bootstrap}   "
            f"S3: {self._s3.endpoint}",
            soft_wrap=True,
        )
        console.print("Ctrl-C stops all.")
        with contextlib.suppress(Stopped):
            while True:
                time.sleep(3600)


def show_yaml(console: Console, text: str) -> None:
    """Print a file in colours, line by line as it is, so that it can be copied."""
    coloured = Syntax("", "yaml", background_color="default").highlight(text)
    console.print(coloured, soft_wrap=True)


def _table(counts: dict[str, _TopicCounts]) -> Table:
    names = ("sent by this run", "in the ledger", "in the topic")
    table = Table("topic", *(Column(name, justify="right") for name in names))
    for topic, count in counts.items():
        table.add_row(topic, *(f"{number:,}" for number in count))
    table.add_section()
    sums = map(sum, zip(*counts.values(), strict=True))
    table.add_row("all", *(f"{total:,}" for total in sums), style="bold")
    return table
