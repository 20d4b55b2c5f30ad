"""The cost of `shipper plan` for many files, on several source trees by turns: ``python bench/plan_cost.py BEFORE AFTER --rounds 5``.

A tree is a checkout of shipper. Each tree plans the same folders against ledgers of its own, which its own codec wrote, in fresh processes.
Prints the median of seconds and of CPU seconds, and the ratio of each tree to the first one.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import datetime as dt
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from shipper_tools.dev.kafka import SHORT_LIVED, KafkaServer

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
MODIFIED = 1_793_600_000
WINDOW = "2026-11-02T00:00/2026-11-02T01:00"
#: Case → suffix of the shipped files' names as they lie there now (None: the folder has none of them), and whether new files lie there.
CASES: dict[str, tuple[str | None, bool]] = {
    "shipped files alone": ("", False),
    "new files alone": (None, True),
    "new files beside shipped ones": ("", True),
    "renamed files": (".1", False),
}


def content(kind: str, number: int) -> bytes:
    return b"".join(b"%s %06d line %d of a log file\n" % (kind.encode(), number, line) for line in range(5))


def write_files(root: Path, shipped: int, new: int) -> None:
    """Write each file once; a case's folder has hard links."""
    for kind, count in (("old", shipped), ("new", new)):
        (root / kind).mkdir()
        for number in range(count):
            path = root / kind / f"{number:06}.log"
            path.write_bytes(content(kind, number))
            os.utime(path, (MODIFIED, MODIFIED))
    for number, (suffix, has_new) in enumerate(CASES.values()):
        folder = root / f"case{number}"
        folder.mkdir()
        for path in (root / "old").iterdir() if suffix is not None else ():
            # As many files are renamed as are new elsewhere; those that keep their names are gone.
            if not suffix or int(path.stem) < new:
                os.link(path, folder / f"old-{path.name}{suffix}")
        for path in (root / "new").iterdir() if has_new else ():
            os.link(path, folder / f"new-{path.name}")


def prepare(root: Path, config: Path, shipped: int) -> None:
    """Write the ledgers with the code of the tree that this process runs."""
    from shipper.config import load_cluster, load_pipeline
    from shipper.kafka.client import ClusterClient
    from shipper.ledger.codec import encode_chunk
    from shipper.ledger.log import LedgerLog
    from shipper.ledger.records import CHUNKS, ChunkKey, ChunkValue, spark_hash
    from shipper.ledger.snapshot import LedgerFolder
    from shipper.types import FileId, SplitId

    try:
        from shipper.ledger.heads import head_of
    except ImportError:  # a tree that does not recognise renamed files
        head_of = None  # type: ignore[assignment]

    cluster = load_cluster(config, "local")
    client = ClusterClient(cluster)
    for number, (suffix, _) in enumerate(CASES.values()):
        pipeline = load_pipeline(config, f"case{number}")
        (topic,) = pipeline.needed_topics()
        client.create_topics({topic: 1}, replication_factor=1)
        if suffix is None:
            continue
        log = LedgerLog(client, cluster, pipeline.name, LedgerFolder(str(config.parent / "runs"), pipeline.name, "local"))
        log.create()
        digest, known = pipeline.transform_digest(), {each.name for each in dataclasses.fields(ChunkValue)}

        def records(
            number: int = number, digest: str = digest, known: set[str] = known, name: str = pipeline.name, topic: str = topic
        ):  # type: ignore[no-untyped-def]
            for one in range(shipped):
                held = content("old", one)
                lines = held.splitlines()
                values: dict[str, Any] = {
                    "last": len(lines), "end": True, "records": len(lines), "bytes": sum(map(len, lines)),
                    "checksum": sum(map(spark_hash, lines)) % 2**64,
                    "digest": digest, "generation": 2, "run_id": "20261102T010000-25a08f", "window": "2026-11-02T00:00:00Z/2026-11-02T01:00:00Z",
                    "partition": 0, "splits": 1, "read": len(held), "head": head_of(held) if head_of else None,
                }  # fmt: skip
                # An older tree's ledger has fewer fields.
                value = ChunkValue(**{name: each for name, each in values.items() if name in known})
                file = FileId(f"file:{root}/case{number}/old-{one:06}.log", len(held), MODIFIED * 1000)
                yield encode_chunk(name, ChunkKey(SplitId(file, 0), 0, topic), value)

        log._append(CHUNKS, records())
        log.keep_snapshot(longer_than=0)


def write_config(root: Path, folder: Path, bootstrap: str, tree: int, most: int) -> Path:
    config = folder / "config"
    (config / "pipelines").mkdir(parents=True)
    (config / "clusters").mkdir()
    ledger = {"topic": f"_ledger{tree}.{{pipeline}}", "replication_factor": 1}
    (config / "clusters" / "local.yaml").write_text(json.dumps({"cluster": "local", "bootstrap": bootstrap, "ledger": ledger}))
    for number in range(len(CASES)):
        spec = {
            "pipeline": f"case{number}",
            "source": {"path": f"{root}/case{number}", "settle": "0s"},
            "topic": f"topic{tree}.{number}",
            "clusters": ["local"],
            "limits": {"max_files": most},
        }
        (config / "pipelines" / f"case{number}.yaml").write_text(json.dumps(spec))
    return config


def environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'tools'}"}


def plan(tree: Path, config: Path, case: int) -> tuple[float, float, str]:
    """Return seconds, CPU seconds, and what the plan says."""
    command = [sys.executable, "-m", "shipper", "plan", f"case{case}", "--window", WINDOW, "--json", "--config", str(config)]
    servers = psutil.Process().children()
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=tree, env=environment(tree), capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    for orphan in psutil.Process().children():
        if orphan not in servers:  # the JVM, which outlives the command by a moment
            os.waitpid(orphan.pid, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr)
    said = json.loads(done.stdout)
    left = sum(file["left"] for file in said["files"])
    work = {name: took for name, took in said["phases"].items() if not name.startswith("starting")}
    phases = ", ".join(f"{name} {took:.1f}" for name, took in work.items() if took >= 0.05)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, f"{len(said['files']):,} files, {left:,} to send; {phases}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", type=Path, nargs="+", help="the first one is what the others are compared with")
    parser.add_argument("--shipped", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prepare", nargs=2, type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.prepare:
        return prepare(*asked.prepare, asked.shipped)
    trees = [tree.absolute() for tree in asked.trees]
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%MZ}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="plan-cost-") as name:
        folder, configs = Path(name), []
        root = folder / "logs"
        root.mkdir()
        write_files(root, asked.shipped, asked.new)
        with KafkaServer(folder / "kafka", java_options=SHORT_LIVED, die_with_parent=True) as kafka:
            for number, tree in enumerate(trees):
                most = asked.shipped + asked.new
                configs.append(write_config(root, folder / f"tree{number}", kafka.bootstrap, number, most))
                command = [
                    sys.executable,
                    __file__,
                    str(tree),
                    "--shipped",
                    str(asked.shipped),
                    "--prepare",
                    str(root),
                    str(configs[-1]),
                ]
                subprocess.run(command, cwd=tree, env=environment(tree), check=True)
            taken: dict[tuple[int, int], list[tuple[float, float, str]]] = {}
            for turn in range(asked.rounds):
                for case in range(len(CASES)):
                    for place in range(len(trees)):
                        tree_number = (turn + place) % len(trees)
                        one = plan(trees[tree_number], configs[tree_number], case)
                        taken.setdefault((case, tree_number), []).append(one)
                        print(f"{trees[tree_number].name:12} case {case}: {one[0]:.2f} s, {one[1]:.2f} CPU s", flush=True)
    for case, what in enumerate(CASES):
        print(f"\n{what} (shipped: {asked.shipped:,}, new or renamed: {asked.new:,})")
        first = None
        for number, tree in enumerate(trees):
            runs = taken[case, number]
            figures = [statistics.median(run[kind] for run in runs) for kind in (0, 1)]  # type: ignore[type-var, misc]
            first = first or figures
            spread = f"{min(run[0] for run in runs):.2f}–{max(run[0] for run in runs):.2f}"
            ratios = " and ".join(f"{a / b:.2f}" for a, b in zip(figures, first, strict=True))  # type: ignore[operator]
            print(f"  {tree.name:12} {figures[0]:6.2f} s ({spread}), {figures[1]:6.2f} CPU s, ratios {ratios}; {runs[-1][2]}")


if __name__ == "__main__":
    main()
