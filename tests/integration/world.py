"""What an integration test works with: a config folder, log files and a real broker, through the
commands that users have."""

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from shipper_tools.dev.console_consumer import read_topic

from shipper.config.cluster import Cluster
from shipper.config.load import load_pipeline
from shipper.config.pipeline import Pipeline
from shipper.kafka.client import ClusterClient
from shipper.ledger.log import LedgerLog, ask_state
from shipper.report.plan_result import PlanResult
from shipper.report.results import RunReport
from tests import warm
from tests.waiting import wait_until

WINDOW = "2026-11-01T00:00/2026-11-02T00:00"
_unique = itertools.count(1)


def account_of(report: RunReport, cluster: str = "local") -> dict[str, Any]:
    """What report.json says of one cluster, where tests look for it."""
    ship = next(ship for ship in report.ships if ship.cluster == cluster)
    gates = [gate for gate in report.delivery_gates if gate.cluster == cluster]
    ledger = {topic.topic: topic.ledger for gate in gates for topic in gate.topics}
    topics = {
        topic.topic: {
            "delivered": topic.delivered,
            "before": topic.before,
            "bytes": topic.delivered_bytes,
            "ledger": ledger.get(topic.topic),
        }
        for topic in ship.topics
    }
    return {
        **ship.model_dump(mode="json"),
        "delivered": ship.delivered,
        "before": ship.before,
        "topics": topics,
    }


@dataclass
class World:
    """One pipeline with topics of its own on the shared broker."""

    root: Path
    bootstrap: str
    name: str = field(default_factory=lambda: f"p{next(_unique)}x{os.getpid()}")
    topics: dict[str, int] = field(default_factory=lambda: {"": 3})
    """Suffix → partitions; the topics' names begin with the pipeline's."""

    def __post_init__(self):
        self.logs = self.root / "logs"
        self.logs.mkdir(parents=True)
        (self.root / "config" / "pipelines").mkdir(parents=True)
        (self.root / "config" / "clusters").mkdir()
        self.write_cluster()
        self.write_pipeline()
        self.client.create_topics(
            {self.topic(suffix): count for suffix, count in self.topics.items()},
            replication_factor=1,
        )

    @property
    def cluster(self) -> Cluster:
        return Cluster.model_validate(
            {"cluster": "local", "bootstrap": self.bootstrap, "ledger": {"replication_factor": 1}}
        )

    @property
    def pipeline(self) -> Pipeline:
        return load_pipeline(self.root / "config", self.name)

    @property
    def client(self) -> ClusterClient:
        # Patient: what else runs on the machine may stop the broker's disk for longer than 15 s.
        return ClusterClient(self.cluster, 60)

    def topic(self, suffix: str = "") -> str:
        return f"{self.name}{suffix}"

    def write_cluster(self, bootstrap: str | None = None):
        text = (
            f"cluster: local\nbootstrap: {bootstrap or self.bootstrap}\nledger: "
            "{replication_factor: 1}\n"
        )
        (self.root / "config" / "clusters" / "local.yaml").write_text(text)

    def write_pipeline(self, **changes):
        """The shortest pipeline that a test can use; JSON is YAML. ``changes`` replace whole
        top-level keys; None removes one."""
        spec = {
            "pipeline": self.name,
            "source": {"path": "logs", "settle": "0s"},
            "topic": self.topic(),
            "clusters": ["local"],
            "delivery": {
                "lease": "2s",
                "lease_wait": "30s",
                "metadata_wait": "20s",
                "transaction_timeout": "20s",
            },
            "runner": {"driver_memory": "1g"},
        }
        spec.update(changes)
        spec = {key: value for key, value in spec.items() if value is not None}
        (self.root / "config" / "pipelines" / f"{self.name}.yaml").write_text(
            json.dumps(spec, indent=1)
        )

    def write_log(self, name: str, content: bytes) -> Path:
        path = self.logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        an_hour_ago = time.time() - 3600
        os.utime(path, (an_hour_ago, an_hour_ago))
        return path

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "shipper", *arguments, "--config", str(self.root / "config")]

    def shipper(
        self, *arguments: str, prefix: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """In warm processes, unless the test is marked `cold` or wants something done before the
        command starts."""
        if prefix:
            return subprocess.run(
                [*prefix, *self.command(*arguments)], capture_output=True, text=True
            )
        return warm.run(["shipper", *arguments, "--config", str(self.root / "config")])

    def run(self, *arguments: str, window: str = WINDOW) -> dict[str, Any]:
        """``shipper run --json``; fails the test if the run failed."""
        return account_of(self.report(*arguments, window=window))

    def report(self, *arguments: str, window: str = WINDOW, code: int = 0) -> RunReport:
        """``shipper run --json``; fails the test if the run ended with another exit code."""
        done = self.shipper("run", self.name, "--window", window, "--json", *arguments)
        assert done.returncode == code, done.stderr[-6000:]
        assert "Traceback" not in done.stderr, done.stderr[-4000:]
        return RunReport.model_validate_json(done.stdout)

    def plan(self, *arguments: str, window: str = WINDOW, prefix: Sequence[str] = ()) -> PlanResult:
        """``shipper plan --json``, whatever it found."""
        asked = ("plan", self.name, "--window", window, "--json", *arguments)
        return PlanResult.model_validate_json(self.shipper(*asked, prefix=prefix).stdout)

    def fails(
        self,
        *arguments: str,
        code: int,
        says: str,
        window: str = WINDOW,
        prefix: Sequence[str] = (),
    ) -> str:
        """A run that must fail with exit code ``code`` and a message that matches ``says``; returns
        standard error."""
        done = self.shipper("run", self.name, "--window", window, *arguments, prefix=prefix)
        flat = " ".join(done.stderr.split())
        assert re.search(says, flat), done.stderr[-4000:]
        assert done.returncode == code, done.stderr[-4000:]
        assert "Traceback" not in done.stderr, done.stderr[-4000:]
        return done.stderr

    def steps(self, run_id: str, *steps: str) -> subprocess.Popen[str]:
        """Some steps in a process of their own, as an Airflow task runs them; to be watched, killed
        or stopped."""
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        command = [sys.executable, "-m", *self._steps(run_id, *steps)]
        return subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def steps_done(self, run_id: str, *steps: str):
        """The same to their end; fails the test if they failed."""
        done = warm.run(self._steps(run_id, *steps))
        assert done.returncode == 0, done.stderr[-4000:]

    def steps_fail(self, run_id: str, *steps: str) -> str:
        """The same, if they must fail; returns what they said."""
        done = warm.run(self._steps(run_id, *steps))
        assert done.returncode == 1, done.stderr[-4000:]
        return done.stderr

    def _steps(self, run_id, *steps):
        return [
            *("spark_jobs", "--config", str(self.root / "config"), "--pipeline", self.name),
            *("--window", WINDOW, "--run-id", run_id, *steps),
        ]

    def read(self, suffix: str = "") -> Counter[bytes]:
        """Every committed value of the topic, by Java's console consumer."""
        return Counter(read_topic(self.bootstrap, self.topic(suffix)))

    def ledger_count(self) -> int:
        """Records that the ledger says are there, over all topics and splits; 0 before there is a
        ledger."""
        ledger = LedgerLog(self.client, self.cluster, self.name)
        if not ledger.exists():
            return 0
        return sum(state.records for state in ledger.look(ask_state(), 60).chunks.splits.values())

    def set_topic(self, name: str, value: str, suffix: str = ""):
        """Change a setting of a topic."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(
            ResourceType.TOPIC, self.topic(suffix), incremental_configs=[entry]
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # its answers die with it
        admin.incremental_alter_configs([resource])[resource].result(30)

    def delete_topic(self, topic: str):
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # its answers die with it
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in self.client.topics())

    def nothing_was_sent(self) -> bool:
        return all(
            self.client.end_offset(self.topic(suffix), partition) == 0
            for suffix, count in self.topics.items()
            for partition in range(count)
        )


def lines_of(*contents: bytes) -> Counter[bytes]:
    """The lines of files as shipper promises to ship them: cut at ``\\n`` alone, nothing else
    touched."""
    found = Counter()
    for content in contents:
        parts = content.split(b"\n")
        found.update(parts if parts[-1] else parts[:-1])
    return found
