"""What a step counted, as metrics of Airflow: to wherever its own go (StatsD, Datadog, OpenTelemetry), and nowhere by default.

The names are an interface, listed in docs/operations.md. Counters count what the step did now; gauges hold the last run's value.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from shipper.report.results import DeliveryGateResult, GateResult, RunReport, ShipResult, StepResult


class Metric(NamedTuple):
    kind: str
    """``counter`` or ``gauge``."""
    name: str
    value: float
    tags: dict[str, str]


def emit(result: StepResult) -> None:
    """Sends the metrics of a step that has left a result, whether it succeeded or failed."""
    from airflow.sdk.observability import stats

    for metric in metrics_of(result, dt.datetime.now(dt.UTC)):
        if metric.kind == "counter":
            stats.incr(metric.name, int(metric.value), tags=metric.tags)
        else:
            stats.gauge(metric.name, metric.value, tags=metric.tags)


def metrics_of(result: StepResult, now: dt.datetime) -> Iterator[Metric]:
    if isinstance(result, RunReport):
        yield from _of_report(result)
    if isinstance(result, ShipResult):
        yield from _of_ship(result)
    if isinstance(result, GateResult):
        yield from _of_gate(result)
    if isinstance(result, DeliveryGateResult) and result.status == "succeeded":
        tags = {"pipeline": result.pipeline, "cluster": result.cluster}
        yield Metric("gauge", "shipper.lag_seconds", (now - result.window_end).total_seconds(), tags)


def _of_report(result: RunReport) -> Iterator[Metric]:
    """Also where it is 0, so that an alert can end."""
    if result.gaps is not None and result.plan is not None:
        for cluster in result.plan.clusters:
            missing = sum(gap.cluster == cluster.cluster for gap in result.gaps)
            yield Metric("gauge", "shipper.gaps", missing, {"pipeline": result.pipeline, "cluster": cluster.cluster})


def _of_ship(result: ShipResult) -> Iterator[Metric]:
    tags = {"pipeline": result.pipeline, "cluster": result.cluster}
    counters = {
        "records_read": result.read,
        "records_delivered": result.delivered,
        "records_filtered": sum(result.filtered.values()),
        "records_quarantined": sum(result.quarantined.values()),
        "records_late": result.late_records,
        "records_parked": sum(topic.parked for topic in result.topics),
        "bytes_delivered": sum(topic.delivered_bytes for topic in result.topics),
        "bytes_on_the_wire": result.wire_bytes,
        "lanes_reopened": result.lane_reopened,
        "task_retries": result.task_retries,
    }
    for name, value in counters.items():
        yield Metric("counter", f"shipper.{name}", value, tags)
    if result.delivered:
        yield Metric("gauge", "shipper.ship_seconds", result.ship_seconds, tags)


def _of_gate(result: GateResult) -> Iterator[Metric]:
    """One counter of each kind for each severity that the gate has, also when it is 0."""
    where = "source" if result.cluster is None else "delivery"
    tags = {"pipeline": result.pipeline, "gate": where} | ({"cluster": result.cluster} if result.cluster else {})
    passed = Counter(check.severity for check in result.checks if check.passed)
    failed = Counter(check.severity for check in result.checks if not check.passed)
    for severity in sorted({check.severity for check in result.checks}):
        yield Metric("counter", "shipper.gate_checks_passed", passed[severity], {**tags, "severity": severity})
        yield Metric("counter", "shipper.gate_checks_failed", failed[severity], {**tags, "severity": severity})
    yield Metric("counter", "shipper.gates_closed", int(result.status == "failed"), tags)
