"""What end-to-end measurements read, and the configuration that ships it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from shipper.config import load_pipeline
from shipper_tools.bench.plan import Shipment, merged
from shipper_tools.bench.records import write_log_files
from shipper_tools.bench.results import Case


class Files:
    """Log files by their number of lines, and windows that hold them: each measurement is an hour of its own, with files of its own (hard
    links), as an hourly run would have."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config"
        self.pipelines: list[str] = []
        self.size_bytes: dict[int, int] = {}
        """Number of lines → bytes of the files without line ends."""
        self._folder = folder
        self._windows = 0

    def folder(self, lines: int) -> Path:
        """With ``lines`` lines in eight files."""
        path = self._folder / f"lines-{lines}"
        if lines not in self.size_bytes:
            self.size_bytes[lines] = write_log_files(path, lines)
        return path

    def window(self, lines: int) -> str:
        """A new one, START/END, that holds them."""
        self._windows += 1
        day, hour = divmod(self._windows, 24)
        window = self._folder / "windows" / f"202601{day + 1:02d}{hour:02d}"
        window.mkdir(parents=True)
        for path in sorted(self.folder(lines).iterdir()):
            os.link(path, window / path.name)
        start = f"2026-01-{day + 1:02d}T{hour:02d}:00"
        return f"{start}/{start[:-2]}59"

    def write_pipeline(self, bootstrap: str, case: Case, shipment: Shipment, topic: str, jars: list[str]) -> str:
        """Write a pipeline with a cluster of its own, and return its name. ``jars``: for Spark."""
        name = f"p{len(self.pipelines)}"
        self._write("clusters", name, {"cluster": name, "bootstrap": bootstrap, "ledger": {"replication_factor": 1}})
        given = {
            "pipeline": name,
            "source": {"path": str(self._folder / "windows" / "{window_start:%Y%m%d%H}"), "settle": "0s"},
            "topic": topic,
            "clusters": [name],
            "delivery": {"compression": case.compression},
            "runner": {"conf": {"spark.jars": ",".join(jars)} if jars else {}},
            "runs_uri": str(self._folder / "runs"),
        }
        self._write("pipelines", name, merged(given, shipment.pipeline))
        load_pipeline(self.config, name)  # a wrong --set shows now
        self.pipelines.append(name)
        return name

    def _write(self, kind: str, name: str, document: dict[str, Any]) -> None:
        path = self.config / kind / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1))  # JSON is YAML
