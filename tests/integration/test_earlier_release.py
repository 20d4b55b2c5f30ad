"""What an earlier release left behind is read by this one: its ledger, results and index, on a
broker with the data of then (tests/data/keep_release.py)."""

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from shipper_tools.dev.console_consumer import read_topic
from shipper_tools.dev.kafka import KafkaServer

from shipper.report.results import RunReport
from shipper.shipments.app import respond
from shipper.shipments.feed import look
from tests.data import keep_release as kept
from tests.samples.shipments import Everything, Page

from .world import account_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.cold]

RELEASES = sorted((Path(kept.__file__).parent / "releases").iterdir())


@pytest.fixture(params=RELEASES, ids=[path.name for path in RELEASES])
def bootstrap(request):
    shutil.rmtree(kept.ROOT, ignore_errors=True)
    kept.ROOT.mkdir()
    try:
        with tarfile.open(request.param / "left.tar.xz") as archive:
            archive.extractall(kept.ROOT, filter="data")
        kept.write_logs()
        with KafkaServer(kept.ROOT / "kafka", die_with_parent=True) as kafka:
            kept.write_config(kafka.bootstrap)
            yield kafka.bootstrap
    finally:
        shutil.rmtree(kept.ROOT)


def run(window):
    done = kept.shipper("run", "kept", "--window", window, "--json")
    assert done.returncode == 0, done.stderr
    account = account_of(RunReport.model_validate_json(done.stdout), "near")
    return {name: account[name] for name in ("before", "delivered")}


@pytest.mark.long
def test_its_ledger_is_continued_and_its_results_are_shown(bootstrap):
    index = kept.ROOT / "runs" / "shipments.sqlite"
    look(kept.ROOT / "config")
    shown = respond(index, "shipments", {}, Everything(), config_dir=kept.ROOT / "config")
    assert Page(shown.body).rows == ["kept"]
    there = kept.LINES + 1
    assert run(kept.WINDOWS[0]) == {"before": there, "delivered": 0}
    more = kept.ROOT / "logs" / "07" / "b.log"
    more.write_text('{"n": 1, "level": "late"}\n')
    os.utime(more, (kept.MODIFIED, kept.MODIFIED))
    assert run(kept.WINDOWS[1]) == {"before": there, "delivered": 1}
    listed = kept.shipper("list", "--json")
    assert listed.returncode == 0, listed.stderr
    [pipeline] = json.loads(listed.stdout)["pipelines"]
    assert pipeline["clusters"] == {"near": "2026-11-01T08:00:00+00:00"}
    arrived = [value for topic in kept.TOPICS for value in read_topic(bootstrap, topic)]
    assert len(arrived) == 2 * there + 1
    verified = kept.shipper("ledger", "verify", "kept")
    assert verified.returncode == 0, verified.stderr
