"""The tutorials docs/start/first-pipeline.md and docs/start/first-dag.md, as they stand there:
their files and their commands, one after the other, on free ports."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shipper_tools.dev import servers
from shipper_tools.dev.ports import free_port

from tests.waiting import wait_until

pytestmark = [pytest.mark.scheduler, pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

START = Path(__file__).resolve().parents[2] / "docs" / "start"


class Reader:
    """Somebody who does what the pages say."""

    def __init__(self, folder):
        self.folder = folder
        self.kafka, self.airflow = free_port(), free_port()
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "AIRFLOW_HOME": str(folder / ".dev" / "airflow"),
        }

    def blocks(self, page):
        """Yield the name of a file, or "" for commands, and the text of each block of the page."""
        text = (START / page).read_text(encoding="utf-8")
        text = text.replace("127.0.0.1:9092", f"127.0.0.1:{self.kafka}")
        for server, port in (("kafka", self.kafka), ("airflow", self.airflow)):
            text = text.replace(f"dev up {server}", f"dev up {server} --port {port}")
        for file, kind, block in re.findall(
            r"(?:`([\w/.]+\.yaml)`:\n\n)?```(sh|yaml)\n(.*?)```", text, re.S
        ):
            yield (file if kind == "yaml" else ""), block

    def do(self, commands):
        done = subprocess.run(
            ["bash", "-ec", commands],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def write(self, file, text):
        (self.folder / file).write_text(text)

    def airflow_says(self, command):
        """Return the JSON that a command of Airflow's prints behind its log."""
        said = self.do(f"airflow {command} --output json 2>/dev/null")
        found = json.loads(said.strip().splitlines()[-1])
        return found

    def runs(self, dag):
        return [run["state"] for run in self.airflow_says(f"dags list-runs {dag}")]

    def knows(self, dag):
        return dag in [each["dag_id"] for each in self.airflow_says("dags list")]

    def servers_said(self):
        """Return the bytes in the servers' logs."""
        return sum(log.stat().st_size for log in (self.folder / ".dev").rglob("*.log"))

    def lines(self):
        return int(self.do("shipper dev read logs.mine | wc -l"))


@pytest.fixture
def reader(tmp_path):
    yield Reader(tmp_path)
    for server in servers.remembered(tmp_path / ".dev"):
        server.stop(grace_seconds=10)


def test_whoever_reads_only_the_start_has_dags_that_ran_green(reader):
    for number, (file, text) in enumerate(reader.blocks("first-pipeline.md")):
        if "s3a" in text or "dev up\n" in text:
            break
        if file:
            reader.write(file, text)
        else:
            reader.do(text.removeprefix("mkdir tutorial && cd tutorial\n") if not number else text)
    assert reader.lines() == 1000
    for file, text in reader.blocks("first-dag.md"):
        if file:
            reader.write(file, text)
        elif "dev down" in text:
            assert reader.lines() == 1700
            reader.do(text)
        elif unpaused := re.search(r"airflow dags unpause (\w+)", text):
            dag = unpaused[1]
            wait_until(lambda dag=dag: reader.knows(dag), progress=reader.servers_said)
            reader.do(text)
            wait_until(lambda dag=dag: "success" in reader.runs(dag), progress=reader.servers_said)
            assert "failed" not in reader.runs(dag)
            assert reader.lines() == {"mine": 1500, "hourly": 1700}[dag]
        else:
            reader.do(text)
