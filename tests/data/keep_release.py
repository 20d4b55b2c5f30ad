"""``python -m tests.data.keep_release tests/data/releases/VERSION``: keeps what this version of
shipper leaves behind, for the test of later ones: the broker's data (the ledger, the topics),
results and the index. Run it with each release; never over a folder that is there."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from shipper_tools.dev.kafka import KafkaServer

from shipper.config.cluster import Cluster
from shipper.kafka.client import ClusterClient

#: Where all of it lies, then and in the test: the ledger knows files by where they lie.
ROOT = Path("/tmp/shipper-kept")
#: Of all files. It is part of what a file is known by.
MODIFIED = 1_793_000_000
WINDOWS = ("2026-11-01T06:00Z/2026-11-01T07:00Z", "2026-11-01T07:00Z/2026-11-01T08:00Z")
PIPELINE = """\
pipeline: kept
schedule: {cron: "0 * * * *", start: 2026-11-01}
source: {format: jsonl, path: "/tmp/shipper-kept/logs/{window_start:%H}/", settle: 0s}
records:
  parse: {json: "n INT, level STRING"}
  key: level
routes:
  - {topic: kept.errors, when: level = 'error'}
  - {topic: kept.rest}
quarantine: {topic: kept.quarantine}
clusters: [near]
runs_uri: /tmp/shipper-kept/runs
runner: {driver_memory: 1g}
"""
TOPICS = ("kept.errors", "kept.rest", "kept.quarantine")
LINES = 400


def lines(hour: int) -> list[str]:
    """What the file of an hour has: every tenth line is an error's, the last one is no JSON."""
    level = ("error", *("info",) * 9)
    made = [json.dumps({"n": n, "level": level[n % 10], "hour": hour}) for n in range(LINES)]
    return [*made, "no JSON"]


def write_config(bootstrap: str):
    for name, text in (
        ("pipelines/kept.yaml", PIPELINE),
        (
            "clusters/near.yaml",
            f"cluster: near\nbootstrap: {bootstrap}\nledger: {{replication_factor: 1}}\n",
        ),
    ):
        file = ROOT / "config" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def write_logs():
    for hour in (6, 7):
        file = ROOT / "logs" / f"{hour:02}" / "a.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines(hour)))
        os.utime(file, (MODIFIED, MODIFIED))


def shipper(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shipper", *words, "--config", "config"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def main():
    [folder] = map(Path, sys.argv[1:])
    folder.mkdir(parents=True)
    ROOT.mkdir()
    try:
        write_logs()
        with KafkaServer(ROOT / "kafka", die_with_parent=True) as kafka:
            write_config(kafka.bootstrap)
            client = ClusterClient(Cluster(cluster="near", bootstrap=kafka.bootstrap))
            client.create_topics(dict.fromkeys(TOPICS, 1))
            for window in WINDOWS:
                done = shipper("run", "kept", "--window", window)
                assert done.returncode == 0, done.stderr
        with tarfile.open(folder / "left.tar.xz", "w:xz") as archive:
            for name in ("kafka", "runs"):
                archive.add(ROOT / name, name, filter=_of_nobody)
    finally:
        shutil.rmtree(ROOT)


def _of_nobody(member):
    if member.name.startswith("kafka/logs/") or member.name.endswith(".html"):  # nobody reads them
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
