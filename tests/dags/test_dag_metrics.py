"""Metrics of a run: computed from results, and received over OpenTelemetry by the names that docs/operations.md promises."""

from __future__ import annotations

import atexit
import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dag_world import DAGS, Config, FakeSpark
from otlp import Received, receiver

from shipper.report.plan_result import ClusterPlan, PlanResult
from shipper.report.results import CheckResult, Gap, GateResult, RunReport, ShipResult, TopicAccount

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

SIX = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
COMMON: dict[str, Any] = {
    "pipeline": "web",
    "window_start": SIX - dt.timedelta(hours=1),
    "window_end": SIX,
    "run_id": "r1",
    "started_at": SIX,
    "finished_at": SIX,
}


def metrics(result: Any) -> dict[str, float]:
    """Name, with the tags that tell two of a name apart → value."""
    from shipper_factory.step import metrics_of

    found = metrics_of(result, SIX + dt.timedelta(minutes=12))
    return {f"{m.name}{''.join(f' {m.tags[t]}' for t in ('gate', 'severity') if t in m.tags)}": m.value for m in found}


def test_a_ship_counts_records_by_their_fate_and_bytes() -> None:
    topics = [
        TopicAccount(topic="logs.web", delivered=90, delivered_bytes=9000, before=5, parked=2),
        TopicAccount(topic="quarantine.web", quarantine=True, delivered=3, delivered_bytes=30),
    ]
    result = ShipResult(
        **COMMON, cluster="near", read=106, topics=topics, filtered={"a": 4, "b": 2}, quarantined={"too_large": 3},
        late_records=40, wire_bytes=1200, ship_seconds=7.5, lane_reopened=1, task_retries=2,
    )  # fmt: skip
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


def test_a_report_says_how_many_windows_are_missing_also_when_none_is() -> None:
    plan = PlanResult(**COMMON, clusters=[ClusterPlan(cluster="near"), ClusterPlan(cluster="far")])
    gaps = [Gap(cluster="far", window=f"2026-11-01T0{n}:00:00Z/2026-11-01T0{n + 1}:00:00Z", why="no run") for n in (1, 2)]
    from shipper_factory.step import metrics_of

    found = {(m.name, m.kind, m.tags["cluster"]): m.value for m in metrics_of(RunReport(**COMMON, plan=plan, gaps=gaps), SIX)}
    assert found == {("shipper.gaps", "gauge", "near"): 0, ("shipper.gaps", "gauge", "far"): 2}
    assert metrics(RunReport(**COMMON, plan=plan)) == {}, "nobody looked"


def test_a_report_says_how_fresh_each_cluster_is_also_one_that_got_nothing() -> None:
    from shipper_factory.step import metrics_of

    report = RunReport(**COMMON, first_cause="far is away", fresh_until={"near": SIX, "far": SIX - dt.timedelta(hours=3)})
    found = {(m.name, m.tags["cluster"]): m.value for m in metrics_of(report, SIX + dt.timedelta(minutes=12))}
    assert found == {
        ("shipper.fresh_until", "near"): SIX.timestamp(),
        ("shipper.freshness_seconds", "near"): 720,
        ("shipper.fresh_until", "far"): SIX.timestamp() - 10_800,
        ("shipper.freshness_seconds", "far"): 11_520,
    }


def test_a_gate_counts_its_checks_by_severity_and_whether_it_closed() -> None:
    checks = [
        CheckResult(check="files", severity="block", passed=True, expected="1", observed="1"),
        CheckResult(check="rows", severity="block", passed=False, expected="1", observed="0"),
        CheckResult(check="size", severity="warn", passed=False, expected="1", observed="0"),
    ]
    assert metrics(GateResult(**COMMON, step="gate_source", status="failed", error="closed", checks=checks)) == {
        "shipper.gate_checks_passed source block": 1,
        "shipper.gate_checks_failed source block": 1,
        "shipper.gate_checks_passed source warn": 0,
        "shipper.gate_checks_failed source warn": 1,
        "shipper.gates_closed source": 1,
    }


@pytest.fixture
def otlp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    """Airflow's own export, set up as a task's process does it."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    with receiver() as received:
        monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "600000")
        stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
        yield received
        from airflow.sdk._shared.observability.metrics.otel_logger import flush_otel_metrics
        from opentelemetry.metrics import get_meter_provider

        atexit.unregister(flush_otel_metrics)  # by then there is nobody any more to send to
        get_meter_provider().shutdown()  # type: ignore[attr-defined]
        monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "False")
        stats.initialize(factory=get_stats_factory(), export_legacy_names=False)


def run(config: Config) -> Any:
    from airflow.dag_processing.dagbag import BundleDagBag

    config.pipeline("web")
    bag = BundleDagBag(dag_folder=DAGS, bundle_path=DAGS, bundle_name="dags-folder")
    return bag.dags["web"].test(logical_date=SIX, run_conf={})


def flush() -> None:
    from opentelemetry.metrics import get_meter_provider

    assert get_meter_provider().force_flush()  # type: ignore[attr-defined]


def test_metrics_of_a_run_arrive_by_opentelemetry(otlp: Received, config: Config) -> None:
    assert run(config).state == "success"
    flush()
    near = {"pipeline": "web", "cluster": "near"}
    assert otlp.of("airflow.shipper.records_delivered", **near) == [7]
    assert otlp.of("airflow.shipper.records_delivered", pipeline="web", cluster="far") == [7]
    assert otlp.of("airflow.shipper.gate_checks_failed", gate="delivery", severity="block", **near) == [0]
    assert otlp.of("airflow.shipper.gate_checks_passed", gate="source", pipeline="web") == [1]
    (lag,) = otlp.of("airflow.shipper.lag_seconds", **near)
    now = (dt.datetime.now(dt.UTC) - SIX).total_seconds()
    assert now - 120 < lag <= now


def test_failed_attempts_and_closed_gates_count_too(
    otlp: Received, config: Config, spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shipper_factory.build._RETRY_DELAY", dt.timedelta(0))
    spark.script(ship_near=["fail", "ok"], gate_delivery_near=["fail"], report=["gather"])
    assert run(config).state == "failed"
    flush()
    near = {"pipeline": "web", "cluster": "near"}
    assert otlp.of("airflow.shipper.records_delivered", **near) == [14]
    assert otlp.of("airflow.shipper.gates_closed", **near) == [1]
    assert otlp.of("airflow.shipper.lag_seconds", **near) == []
    assert otlp.of("airflow.shipper.fresh_until", **near) == []
    assert otlp.of("airflow.shipper.fresh_until", pipeline="web", cluster="far") == [SIX.timestamp()]


def test_a_backend_that_is_away_harms_no_run(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.observability import stats

    def away(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(stats, "incr", away)
    assert run(config).state == "success"


def test_every_metric_is_in_the_docs() -> None:
    source = (DAGS / "shipper_factory" / "step.py").read_text()
    counted = re.findall(r'"shipper\.([a-z_]+)"', source) + re.findall(r'^        "([a-z_]+)": ', source, re.MULTILINE)
    docs = (Path(DAGS).parent / "docs" / "operations.md").read_text()
    assert len(counted) == 18
    assert [name for name in counted if f"`shipper.{name}`" not in docs] == []
