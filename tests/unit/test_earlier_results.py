"""Results that another version of shipper left, of the releases that tests/data keeps and of one to
come: who shows them passes over what this version does not know, and who builds on them refuses."""

import datetime as dt
import json
import tarfile
from pathlib import Path

import pytest

from shipper.errors import StepResultError
from shipper.report.closed_gates import ClosedGate, ClosedGatesFolder
from shipper.report.page import render
from shipper.report.plan_result import PlanResult
from shipper.report.results import DeliveryGateResult, GateResult, RunReport, ShipResult
from shipper.report.run_folder import RunFolder
from shipper.report.run_view import run_view
from shipper.windows.window import Window
from tests import data
from tests.samples.results import common

RELEASES = sorted((Path(data.__file__).parent / "releases").iterdir())
KINDS = {
    "plan": PlanResult,
    "gate_source": GateResult,
    "ship.near": ShipResult,
    "gate_delivery.near": DeliveryGateResult,
    "report": RunReport,
}
START = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
WINDOW = Window(START, START + dt.timedelta(hours=1))
SHIP = ShipResult(cluster="near", **common(WINDOW, at=START))


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_the_report_of_a_run_of_an_earlier_release_is_shown(release, tmp_path):
    with tarfile.open(release / "left.tar.xz") as archive:
        members = [each for each in archive if each.name.removeprefix("./").startswith("runs/")]
        archive.extractall(tmp_path, members, filter="data")
    reports = sorted(tmp_path.glob("runs/*/*/*/report.json"))
    assert len(reports) == 2
    for path in reports:
        pipeline, window, run_id = path.parts[-4:-1]
        found = RunFolder.window_of(window)
        assert found
        folder = RunFolder(str(tmp_path / "runs"), pipeline, found, run_id)
        for name, kind in KINDS.items():
            assert isinstance(folder.find(name, kind), kind)
        report = folder.find("report", RunReport)
        assert report
        assert run_view(report).headline == "Shipped 400 records to near"
        assert "Shipped 400 records to near" in render(report)
        [gate] = report.delivery_gates
        assert gate.account[0].receipts == 401


def test_a_step_refuses_fields_of_another_version_that_a_page_passes_over(tmp_path):
    folder = RunFolder(str(tmp_path), "web", WINDOW, "r")
    folder.make()
    fields = {**json.loads(SHIP.model_dump_json()), "to_come": 1}
    folder.write_text("ship.near.json", json.dumps(fields))
    assert folder.find("ship.near", ShipResult) == SHIP
    with pytest.raises(StepResultError, match=r"to_come: .* another version .* Run the step again"):
        folder.need("ship.near", ShipResult)


def test_a_gate_that_another_version_closed_is_still_closed(tmp_path):
    closed = ClosedGatesFolder(str(tmp_path), "web", "near")
    closed.add(WINDOW, ClosedGate(at=START, ship=SHIP, files=[]))
    [path] = tmp_path.rglob("*.near.json")
    kept = json.loads(path.read_text())
    kept["gates"][0]["ship"]["to_come"] = 1
    path.write_text(json.dumps(kept))
    [gate] = closed.find(WINDOW)
    assert gate.ship == SHIP
