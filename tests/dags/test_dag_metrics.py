"""Metrics of a run as Airflow sends them: received over OpenTelemetry by the names that
docs/reference/metrics.md promises."""

from __future__ import annotations

import atexit
import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from dag_world import DAGS, Config, FakeSpark
from otlp import Received, receiver

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

SIX = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)


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
    assert otlp.of(
        "airflow.shipper.gate_checks_failed", gate="delivery", severity="block", **near
    ) == [0]
    assert otlp.of("airflow.shipper.gate_checks_passed", gate="source", pipeline="web") == [1]
    (lag,) = otlp.of("airflow.shipper.lag_seconds", **near)
    now = (dt.datetime.now(dt.UTC) - SIX).total_seconds()
    assert now - 120 < lag <= now


def test_failed_attempts_and_closed_gates_count_too(
    otlp: Received, config: Config, spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "shipper_airflow.dags.build.RETRIES", {"retries": 2, "retry_delay": dt.timedelta(0)}
    )
    spark.script(ship_near=["fail", "ok"], gate_delivery_near=["fail"], report=["gather"])
    assert run(config).state == "failed"
    flush()
    near = {"pipeline": "web", "cluster": "near"}
    assert otlp.of("airflow.shipper.records_delivered", **near) == [14]
    assert otlp.of("airflow.shipper.gates_closed", **near) == [1]
    assert otlp.of("airflow.shipper.lag_seconds", **near) == []
    assert otlp.of("airflow.shipper.fresh_until", **near) == []
    assert otlp.of("airflow.shipper.fresh_until", pipeline="web", cluster="far") == [
        SIX.timestamp()
    ]


def test_a_backend_that_is_away_harms_no_run(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.observability import stats

    def away(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(stats, "incr", away)
    assert run(config).state == "success"
