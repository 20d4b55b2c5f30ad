"""Metrics of a run, as they follow from its results; and the file that has them for Prometheus."""

import datetime as dt
import re
import threading
from pathlib import Path

import pytest

from shipper.errors import UsageError
from shipper.report.metrics import Metric, MetricsFile, metrics_of, metrics_of_run
from shipper.report.plan_result import ClusterPlan, PlanResult
from shipper.report.results import Gap, GateResult, RunReport, ShipResult, TopicAccount
from shipper.windows.window import Window
from tests.samples.results import checked, common

ROOT = Path(__file__).parents[2]
SIX = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
COMMON = common(Window(SIX - dt.timedelta(hours=1), SIX), "r1")


def metrics(result):
    """Name, with the tags that tell two of a name apart → value."""
    found = metrics_of(result, SIX + dt.timedelta(minutes=12))
    return {
        f"{m.name}{''.join(f' {m.tags[t]}' for t in ('gate', 'severity') if t in m.tags)}": m.value
        for m in found
    }


def test_a_ship_counts_records_by_their_fate_and_bytes():
    topics = [
        TopicAccount(topic="logs.web", delivered=90, delivered_bytes=9000, before=5, parked=2),
        TopicAccount(topic="quarantine.web", quarantine=True, delivered=3, delivered_bytes=30),
    ]
    result = ShipResult(
        **COMMON,
        cluster="near",
        read=106,
        topics=topics,
        filtered={"a": 4, "b": 2},
        quarantined={"too_large": 3},
        late_records=40,
        wire_bytes=1200,
        ship_seconds=7.5,
        lane_reopened=1,
        task_retries=2,
    )
    assert metrics(result) == {
        "shipper.records_read": 106,
        "shipper.records_delivered": 90,
        "shipper.records_filtered": 6,
        "shipper.records_quarantined": 3,
        "shipper.records_late": 40,
        "shipper.records_parked": 2,
        "shipper.bytes_delivered": 9030,
        "shipper.bytes_on_the_wire": 1200,
        "shipper.lanes_reopened": 1,
        "shipper.task_retries": 2,
        "shipper.ship_seconds": 7.5,
    }


def test_a_ship_whose_receipts_are_lost_counts_no_records():
    result = ShipResult(**COMMON, cluster="near", are_receipts_lost=True, task_retries=3)
    assert metrics(result) == {"shipper.task_retries": 3}


def test_a_report_says_how_many_windows_are_missing_also_when_none_is():
    plan = PlanResult(**COMMON, clusters=[ClusterPlan(cluster="near"), ClusterPlan(cluster="far")])
    gaps = [
        Gap(
            cluster="far", window=f"2026-11-01T0{n}:00:00Z/2026-11-01T0{n + 1}:00:00Z", why="no run"
        )
        for n in (1, 2)
    ]
    found = {
        (m.name, m.kind, m.tags["cluster"]): m.value
        for m in metrics_of(RunReport(**COMMON, plan=plan, gaps=gaps), SIX)
    }
    assert found == {("shipper.gaps", "gauge", "near"): 0, ("shipper.gaps", "gauge", "far"): 2}
    assert metrics(RunReport(**COMMON, plan=plan)) == {}, "nobody looked"


def test_a_report_says_how_fresh_each_cluster_is_also_one_that_got_nothing():
    report = RunReport(
        **COMMON,
        status="failed",
        error="far is away",
        fresh_until={"near": SIX, "far": SIX - dt.timedelta(hours=3)},
    )
    found = {
        (m.name, m.tags["cluster"]): m.value
        for m in metrics_of(report, SIX + dt.timedelta(minutes=12))
    }
    assert found == {
        ("shipper.fresh_until", "near"): SIX.timestamp(),
        ("shipper.freshness_seconds", "near"): 720,
        ("shipper.fresh_until", "far"): SIX.timestamp() - 10_800,
        ("shipper.freshness_seconds", "far"): 11_520,
    }


def test_a_gate_counts_its_checks_by_severity_and_whether_it_closed():
    checks = [
        checked("files", True, "1", "1"),
        checked("rows", False, "1", "0"),
        checked("size", False, "1", "0", "warn"),
    ]
    assert metrics(
        GateResult(**COMMON, step="gate_source", status="failed", error="closed", checks=checks)
    ) == {
        "shipper.gate_checks_passed source block": 1,
        "shipper.gate_checks_failed source block": 1,
        "shipper.gate_checks_passed source warn": 0,
        "shipper.gate_checks_failed source warn": 1,
        "shipper.gates_closed source": 1,
    }


def test_every_metric_is_in_the_docs():
    source = (ROOT / "shipper" / "report" / "metrics.py").read_text()
    counted = re.findall(r'"shipper\.([a-z_]+)"', source) + re.findall(
        r'^        "([a-z_]+)": ', source, re.MULTILINE
    )
    docs = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert len(counted) == 18
    assert [name for name in counted if f"`shipper.{name}`" not in docs] == []


def ship(delivered, cluster="near", pipeline="web"):
    common = {**COMMON, "pipeline": pipeline}
    topics = [TopicAccount(topic="logs", delivered=delivered)]
    plan = PlanResult(**common, clusters=[ClusterPlan(cluster=cluster)])
    return RunReport(
        **common, plan=plan, ships=[ShipResult(**common, cluster=cluster, topics=topics)], gaps=[]
    )


def test_counters_of_runs_add_up_in_a_file_and_gauges_are_replaced(tmp_path):
    path = tmp_path / "shipper.prom"
    gap = Gap(
        cluster="near", window="2026-11-01T01:00:00Z/2026-11-01T03:00:00Z", why="no run", windows=2
    )
    MetricsFile(path).add(metrics_of_run(ship(7).model_copy(update={"gaps": [gap]}), SIX))
    MetricsFile(path).add(metrics_of_run(ship(7, pipeline="audit"), SIX))
    assert 'shipper_gaps{cluster="near",pipeline="web"} 2' in path.read_text().splitlines()
    MetricsFile(path).add(metrics_of_run(ship(5), SIX))
    lines = path.read_text().splitlines()
    assert 'shipper_gaps{cluster="near",pipeline="web"} 0' in lines
    assert lines[lines.index("# TYPE shipper_records_delivered_total counter") :][1:3] == [
        'shipper_records_delivered_total{cluster="near",pipeline="audit"} 7',
        'shipper_records_delivered_total{cluster="near",pipeline="web"} 12',
    ]
    assert "# TYPE shipper_gaps gauge" in lines
    assert [file.name for file in tmp_path.glob("*.prom")] == ["shipper.prom"], (
        "node_exporter would read a part"
    )


def test_runs_that_write_one_file_at_once_lose_nothing(tmp_path):
    path = tmp_path / "shipper.prom"

    def run():
        for _ in range(20):
            MetricsFile(path).add(
                [
                    Metric(
                        "counter", "shipper.records_read", 1, {"pipeline": "web", "cluster": "near"}
                    )
                ]
            )

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text().splitlines()[1:] == [
        'shipper_records_read_total{cluster="near",pipeline="web"} 80'
    ]


@pytest.mark.parametrize(
    "foreign",
    [
        "export PATH=/bin\n",
        "node_load1 0.5\n",
        'shipper_gaps{cluster="c"} many\n',
        "\n",
        "shipper_gaps{} 1 1793512800\n",
    ],
)
def test_a_file_that_somebody_else_wrote_is_left_alone(tmp_path, foreign):
    path = tmp_path / "other.prom"
    path.write_text(foreign)
    with pytest.raises(UsageError):
        MetricsFile(path)
    assert path.read_text() == foreign
