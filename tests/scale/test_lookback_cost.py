"""What looking back costs: `shipper plan` of an hour, with and without the 24 hours before it, in
which 100,000 files are shipped. `make scale` prints the table; some minutes."""

import datetime as dt
import json
import os
import statistics
import subprocess
import time
from dataclasses import replace

import pytest

from shipper.ledger.codec import encode_chunk
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, ChunkKey, ChunkValue
from shipper.ledger.snapshot import LedgerFolder
from shipper.report.incomplete import beginnings
from shipper.report.plan_result import PlanResult
from shipper.types import FileId, SplitId
from shipper.windows.window import Window
from tests.integration.conftest import kafka  # noqa: F401
from tests.integration.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(3600)]

HOURS, FILES, OWN = 24, 100_000, 100
DAY = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
WINDOW = "2026-11-02T00:00/2026-11-02T01:00"
MODIFIED = 1_793_600_000
VALUE = ChunkValue(
    last=1,
    end=True,
    records=1,
    bytes=6,
    checksum=7,
    digest="",
    generation=2,
    run_id="20261121T122545-25a08f",
    window="",
    partition=0,
    splits=1,
)


def write_hour(world, hour, count):
    folder = world.logs / f"{DAY + dt.timedelta(hours=hour):%Y-%m-%d/%H}"
    folder.mkdir(parents=True)
    for n in range(count):
        path = folder / f"host-{n:05}.log"
        path.write_bytes(b"a line\n")
        os.utime(path, (MODIFIED, MODIFIED))
        yield FileId(f"file:{path}", 7, MODIFIED * 1000)


def test_looking_back_at_100_000_shipped_files(tmp_path, kafka, capsys):  # noqa: F811
    world = World(tmp_path, kafka.bootstrap)
    world.write_pipeline(
        schedule="0 * * * *", source={"path": "logs/{window_start:%Y-%m-%d/%H}/", "settle": "0s"}
    )
    digest = world.pipeline.transform_digest()
    log = LedgerLog(
        world.client,
        world.cluster,
        world.name,
        LedgerFolder(str(world.root / "runs"), world.name, "local"),
    )
    log.create()
    for hour in range(HOURS):
        value = replace(
            VALUE, digest=digest, window=f"{DAY + dt.timedelta(hours=hour):%Y-%m-%dT%H:00:00Z/}"
        )
        records = (
            encode_chunk(world.name, ChunkKey(SplitId(file, 0), 0, world.topic()), value)
            for file in write_hour(world, hour, FILES // HOURS)
        )
        log._append(CHUNKS, records)
    log.keep_snapshot(longer_than=0)
    list(write_hour(world, HOURS, OWN))
    beginnings(
        str(world.root / "runs"),
        world.name,
        ["local"],
        Window(DAY, DAY + dt.timedelta(hours=1)),
        None,
        began=DAY,
    )

    def plan(*options):
        began = time.perf_counter()
        done = world.shipper("plan", world.name, "--window", WINDOW, "--json", *options)
        assert done.returncode == 0, done.stderr
        return (
            time.perf_counter() - began,
            PlanResult.model_validate(json.loads(done.stdout)),
            len(done.stdout),
        )

    without = [plan() for _ in range(3)]
    looking = [plan("--scheduled") for _ in range(3)]
    found = looking[0][1]
    assert (found.looked_back.windows, found.looked_back.files) == (HOURS, FILES // HOURS * HOURS)
    assert (len(found.files), found.clusters[0].left_files) == (OWN, OWN)
    assert looking[0][2] < 2 * without[0][2], "complete files are counted, not named"
    ledger = subprocess.run(
        ["du", "-sm", str(world.root / "runs")], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    with capsys.disabled():
        for what, runs in (
            ("plan, own window alone", without),
            (f"and {FILES:,} shipped files in {HOURS} folders", looking),
        ):
            print(
                f"\n{what:50} {statistics.median(run[0] for run in runs):8.2f} s   plan.json "
                f"{runs[0][2]:,} bytes",
                end="",
            )
        print(f"\nledger's snapshot {ledger} MB")
