"""Figures of a run as metrics: names, tags and values. Airflow's tasks send them
(``shipper_airflow/dags/step.py``); without Airflow a :class:`MetricsFile` has them for Prometheus.

The names are an interface, listed in docs/reference/metrics.md: counters count what the step did
now, gauges hold the last run's value.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from shipper.errors import UsageError, why_system
from shipper.processes import exclusive
from shipper.report.coverage import committed_at
from shipper.report.results import DeliveryGateResult, Gap, GateResult, RunReport, ShipResult
from shipper.report.run_folder import StepResult
from shipper.whole_files import write_whole


class Metric(NamedTuple):
    kind: str
    """``counter`` or ``gauge``."""
    name: str
    value: float
    tags: dict[str, str]

    @property
    def series(self) -> str:
        """Name and labels as Prometheus has them; ``examples/monitoring/statsd-mapping.yml`` makes
        the same of StatsD's."""
        labels = ",".join(f'{key}="{value}"' for key, value in sorted(self.tags.items()))
        return (
            f"{self.name.replace('.', '_')}{'_total' if self.kind == 'counter' else ''}{{{labels}}}"
        )


def metrics_of(result: StepResult, now: dt.datetime) -> Iterator[Metric]:
    """Yield the metrics of one step, whether it succeeded or failed."""
    if isinstance(result, RunReport):
        clusters = [cluster.cluster for cluster in result.plan.clusters] if result.plan else []
        yield from metrics_of_pipeline(
            result.pipeline, clusters, result.gaps, result.fresh_until, now
        )
    if isinstance(result, ShipResult):
        yield from _of_ship(result)
    if isinstance(result, GateResult):
        yield from _of_gate(result)
    if isinstance(result, DeliveryGateResult) and result.status == "succeeded":
        tags = {"pipeline": result.pipeline, "cluster": result.cluster}
        delivered = committed_at(result.coverage, result.window) or now
        yield Metric(
            "gauge", "shipper.lag_seconds", (delivered - result.window_end).total_seconds(), tags
        )


def metrics_of_run(report: RunReport, now: dt.datetime) -> Iterator[Metric]:
    """Yield the metrics of all steps that the report has."""
    steps = [report.gate_source, *report.ships, *report.delivery_gates, report]
    return (metric for step in steps if step for metric in metrics_of(step, now))


def metrics_of_pipeline(
    pipeline: str,
    clusters: Collection[str],
    gaps: Collection[Gap] | None,
    fresh_until: Mapping[str, dt.datetime],
    now: dt.datetime,
) -> Iterator[Metric]:
    """Yield the state of a pipeline. It is written also where nothing is missing, so that an alert
    can end, and for clusters that got nothing, so that their age grows. Between two runs the time
    in the metric is enough: an alert subtracts it from its own clock. ``gaps``: None if unknown."""
    for name, until in fresh_until.items():
        tags = {"pipeline": pipeline, "cluster": name}
        yield Metric("gauge", "shipper.fresh_until", until.timestamp(), tags)
        yield Metric("gauge", "shipper.freshness_seconds", (now - until).total_seconds(), tags)
    for cluster in clusters if gaps is not None else ():
        missing = sum(gap.windows for gap in gaps or () if gap.cluster == cluster)
        yield Metric("gauge", "shipper.gaps", missing, {"pipeline": pipeline, "cluster": cluster})


def _of_ship(result: ShipResult) -> Iterator[Metric]:
    tags = {"pipeline": result.pipeline, "cluster": result.cluster}
    counters = {
        "records_read": result.read,
        "records_delivered": result.delivered,
        "records_filtered": sum(result.filtered.values()),
        "records_quarantined": sum(result.quarantined.values()),
        "records_late": result.late_records,
        "records_parked": sum(topic.parked for topic in result.topics),
        "bytes_delivered": result.bytes,
        "bytes_on_the_wire": result.wire_bytes,
        "lanes_reopened": result.lane_reopened,
        "task_retries": result.task_retries,
    }
    for name, value in counters.items():
        if result.are_receipts_lost and name != "task_retries":
            continue  # unknown, and 0 would be untrue
        yield Metric("counter", f"shipper.{name}", value, tags)
    if result.delivered:
        yield Metric("gauge", "shipper.ship_seconds", result.ship_seconds, tags)


def _of_gate(result: GateResult) -> Iterator[Metric]:
    """Yield one counter of each kind for each severity that the gate has, also when it is 0."""
    where = "source" if result.cluster is None else "delivery"
    tags = {"pipeline": result.pipeline, "gate": where} | (
        {"cluster": result.cluster} if result.cluster else {}
    )
    passed = Counter(check.severity for check in result.checks if check.passed)
    failed = Counter(check.severity for check in result.checks if not check.passed)
    for severity in sorted({check.severity for check in result.checks}):
        yield Metric(
            "counter",
            "shipper.gate_checks_passed",
            passed[severity],
            {**tags, "severity": severity},
        )
        yield Metric(
            "counter",
            "shipper.gate_checks_failed",
            failed[severity],
            {**tags, "severity": severity},
        )
    yield Metric("counter", "shipper.gates_closed", int(result.status == "failed"), tags)


_SAMPLE = re.compile(r"(shipper_\w+\{[^{}]*\}) (-?\d[\d.e+-]*)", re.ASCII)


class MetricsFile:
    """A file for the textfile collector of Prometheus' node_exporter. Each write adds to the
    counters of the file and replaces its gauges, so that runs one after the other add up, as a
    counter must; runs of several pipelines may share a file."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises UsageError if it cannot be written, or belongs to another program:
        before anything is shipped."""
        self._path = path.resolve()
        if path.suffix != ".prom":
            raise UsageError(
                f"--metrics-file {path}: the name must end in .prom, because node_exporter "
                "reads no other file.",
                code="SHIP-118",
            )
        with self._held():
            pass

    def add(self, metrics: Iterable[Metric]) -> None:
        """Add metrics. Raises UsageError."""
        with self._held() as values:
            for metric in metrics:
                values[metric.series] = metric.value + (
                    values.get(metric.series, 0.0) if metric.kind == "counter" else 0.0
                )
            lines, last = [], ""
            for series, value in sorted(values.items()):
                name = series.partition("{")[0]
                if name != last:
                    lines.append(
                        f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
                    )
                lines.append(f"{series} {value:.15g}")
                last = name
            write_whole(str(self._path), "\n".join(lines) + "\n")

    @contextmanager
    def _held(self) -> Iterator[dict[str, float]]:
        """Hold the file and yield series → value, as the file has them. Another run that writes it
        waits."""
        try:
            with exclusive(self._path.with_name(f".{self._path.name}.lock")):
                yield self._read()
        except OSError as error:
            raise UsageError(
                f"--metrics-file {self._path} cannot be written: {why_system(error)}. Name a "
                "file in a folder that this user may write to.",
                code="SHIP-118",
            ) from error

    def _read(self) -> dict[str, float]:
        values = {}
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            if line.startswith("# TYPE shipper_"):
                continue
            if not (sample := _SAMPLE.fullmatch(line)):
                raise UsageError(
                    f"--metrics-file {self._path} has content that shipper did not write, and "
                    "was not changed. Name another file, or delete this one.",
                    code="SHIP-118",
                )
            values[sample[1]] = float(sample[2])
        return values
