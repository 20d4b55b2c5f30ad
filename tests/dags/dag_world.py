"""What DAG tests work with: a config folder to write into, and a Spark side that does as it is
told."""

import json
import sys
from pathlib import Path

DAGS = Path(__file__).resolve().parents[2] / "dags"
WARM = Path(__file__).resolve().parents[1] / "warm" / "python.py"

PIPELINE = """\
pipeline: {name}
owner: edge-team
schedule: {schedule}
source: {{path: "logs/{{window_start:%Y/%m/%d/%H}}/", settle: {settle}}}
topic: logs.web
clusters: [near, far]
runner: {{python: {python}}}
"""
CLUSTER = "cluster: {name}\nbootstrap: 127.0.0.1:1\n"
HOURLY = '{cron: "0 * * * *", start: 2026-11-01}'


def bag_of(folder: Path = DAGS):
    """What Airflow makes of a DAG folder. (Tests configure Airflow before they import it.)"""
    from airflow.dag_processing.dagbag import BundleDagBag

    return BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder")


def told(notices: Path) -> list[dict[str, str]]:
    """What file_notifier.FileNotifier wrote. (That module imports Airflow, which tests configure
    before they import it.)"""
    return (
        [json.loads(line) for line in notices.read_text().splitlines()] if notices.exists() else []
    )


class FakeSpark:
    """The Spark side as a script; see fake_spark.py."""

    def __init__(self, folder: Path, socket: Path):
        """``socket``: where its warm process listens."""
        self.folder = folder
        self.python = folder / "python"
        words = f'"{sys.executable}" -I -S "{WARM}" "{socket}" "{sys.executable}"'
        self.python.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        self.python.chmod(0o755)

    def script(self, **steps: list[str]):
        """``ship_near=["fail"]``: what step ``ship:near`` does at its first call, the second, …;
        the last stays."""
        words = {
            step.replace("_near", ":near").replace("_far", ":far"): word
            for step, word in steps.items()
        }
        (self.folder / "script.json").write_text(json.dumps(words))

    @property
    def calls(self) -> list[dict[str, str]]:
        lines = self.folder / "calls"
        return (
            [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
        )

    @property
    def steps(self) -> list[str]:
        return [call["step"] for call in self.calls]

    def environment(self, step: str) -> dict[str, str]:
        """Of the process that ran the step last."""
        return dict(json.loads((self.folder / f"environment.{step}").read_text()))

    def hanging(self) -> int | None:
        """The process that was told to hang, if it does."""
        pid = self.folder / "hanging"
        return int(pid.read_text()) if pid.exists() else None


class Config:
    """A config folder that tests write pipelines into."""

    def __init__(self, folder: Path, python: Path):
        self.folder = folder
        self.python = python
        for name in ("near", "far"):
            self.write(f"clusters/{name}.yaml", CLUSTER.format(name=name))

    def write(self, path: str, text: str):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def pipeline(self, name: str, schedule: str = HOURLY, more: str = "", settle: str = "10m"):
        text = PIPELINE.format(name=name, schedule=schedule, settle=settle, python=self.python)
        self.write(f"pipelines/{name}.yaml", text + more)
