"""What a benchmark leaves: every measurement, what they add up to, and on what machine. One JSON document."""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from shipper.config.units import write_size


class _ResultModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Case(_ResultModel):
    """What is asked of every contender alike."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rtt_ms: float = 0.0
    """Round trip to the broker; at 0 there is no proxy in between."""
    request_delay_ms: float = 0.0
    """The broker takes so long for each request of a connection, one after the other."""
    record_bytes: int | None = 1000
    """Random bytes of this size; None: log lines."""
    compression: str = "none"
    partitions: int = 1
    lines: int | None = None
    """In the files; None: as many as the scenario has."""

    @property
    def title(self) -> str:
        """``140 ms · 1 partition · 1 kB random``"""
        parts = [f"{self.lines / 1e6:g}M lines"] if self.lines else []
        parts += [f"{self.rtt_ms:g} ms"]
        parts += [f"{self.request_delay_ms:g} ms per request"] if self.request_delay_ms else []
        parts += [f"{self.partitions} partition{'s' * (self.partitions > 1)}"]
        parts += ["log lines" if self.record_bytes is None else f"{write_size(self.record_bytes)} random"]
        parts += [self.compression] if self.compression != "none" else []
        return " · ".join(parts)


class Contender(_ResultModel):
    """Who sends, and with which settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    ours: bool = False
    lanes: int | None = None
    settings: str = ""
    """The rest of what it was told, for people."""


class Measurement(_ResultModel):
    """One run of one contender. A failed one has an error and no rate."""

    case: Case
    contender: Contender
    round: int
    """0 is the warm-up, which counts nowhere."""
    records: int = 0
    """Records that arrived."""
    bytes: int = 0
    """Of values, uncompressed."""
    seconds: float = 0.0
    """From the first record handed over to the last one acknowledged or committed; end to end: the whole ship step."""
    opening_seconds: float | None = None
    """Before that: connections, lanes."""
    task_seconds: float | None = None
    """End to end: from the first record that a Spark task got to the last commit."""
    cpu_seconds: dict[str, float] = Field(default_factory=dict)
    """By kind of process: client (its start included), or driver, jvm and worker; broker; proxy."""
    worker_peak_bytes: int | None = None
    """Most resident memory of a Python worker until then."""
    peak_bytes: int | None = None
    """Cold: most memory of all processes of a contender at once (PSS)."""
    note: str = ""
    error: str | None = None


class Spread(_ResultModel):
    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median=statistics.median(values), lowest=min(values), highest=max(values))


class Summary(_ResultModel):
    """The rounds of one contender in one case."""

    case: Case
    contender: Contender
    rounds: int
    records_per_second: Spread
    megabytes_per_second: float
    """Median, of uncompressed values."""
    task_records_per_second: Spread | None = None
    cpu_seconds_per_million: dict[str, float]
    """Median, by kind of process."""
    times_best_peer: float | None = None
    """Ours only: by how much faster than the fastest peer of the same case."""
    worker_peak_bytes: int | None = None
    peak_bytes: int | None = None

    @property
    def client_cpu_per_million(self) -> float:
        """All that the sending side spends: neither broker nor proxy."""
        return sum(seconds for kind, seconds in self.cpu_seconds_per_million.items() if kind not in ("broker", "proxy"))


class TargetVerdict(_ResultModel):
    """One thing that was asked for, and what came out."""

    question: str
    asked: str
    found: float | None
    reached: bool


class Machine(_ResultModel):
    """What it ran on: no names, no paths."""

    cpu: str
    cores: int
    memory_gb: float
    system: str
    load_before: float
    """Load average of a minute when it began: more than a fraction of the cores means that it was not alone."""
    versions: dict[str, str]


class BenchResult(_ResultModel):
    name: str
    question: str
    date: dt.datetime
    took_seconds: float
    arguments: list[str]
    machine: Machine
    notes: list[str] = Field(default_factory=list)
    verdicts: list[TargetVerdict] = Field(default_factory=list)
    summaries: list[Summary] = Field(default_factory=list)
    measurements: list[Measurement] = Field(default_factory=list)

    def write(self, folder: Path, page: str) -> tuple[Path, Path]:
        """``DATE-NAME.json`` and ``.html`` in ``folder``, over those of the same day and name."""
        folder.mkdir(parents=True, exist_ok=True)
        base = folder / f"{self.date:%Y-%m-%d}-{self.name}"
        paths = base.with_name(base.name + ".json"), base.with_name(base.name + ".html")
        paths[0].write_text(self.model_dump_json(indent=1, exclude_none=True) + "\n", encoding="utf-8")
        paths[1].write_text(page, encoding="utf-8")
        return paths


def summarise(measurements: Iterable[Measurement]) -> list[Summary]:
    """By case and contender, in the order of their first appearance; without warm-ups and failures."""
    groups: dict[tuple[Case, Contender], list[Measurement]] = {}
    for measurement in measurements:
        if measurement.round and measurement.error is None and measurement.seconds:
            groups.setdefault((measurement.case, measurement.contender), []).append(measurement)
    summaries = [_summary(case, contender, rounds) for (case, contender), rounds in groups.items()]
    for summary in summaries:
        peers = [s.records_per_second.median for s in summaries if s.case == summary.case and not s.contender.ours]
        if summary.contender.ours and peers:
            summary.times_best_peer = round(summary.records_per_second.median / max(peers), 2)
    return summaries


def _summary(case: Case, contender: Contender, rounds: Sequence[Measurement]) -> Summary:
    kinds = dict.fromkeys(kind for m in rounds for kind in m.cpu_seconds)
    in_tasks = [m.records / m.task_seconds for m in rounds if m.task_seconds]
    peaks = [m.worker_peak_bytes for m in rounds if m.worker_peak_bytes]
    return Summary(
        case=case,
        contender=contender,
        rounds=len(rounds),
        records_per_second=Spread.of([m.records / m.seconds for m in rounds]),
        megabytes_per_second=statistics.median(m.bytes / m.seconds / 1e6 for m in rounds),
        task_records_per_second=Spread.of(in_tasks) if in_tasks else None,
        cpu_seconds_per_million={
            kind: round(statistics.median(_per_million(m.cpu_seconds, kind, m.records) for m in rounds), 3) for kind in kinds
        },
        worker_peak_bytes=max(peaks, default=None),
        peak_bytes=max((m.peak_bytes for m in rounds if m.peak_bytes), default=None),
    )


def _per_million(cpu_seconds: Mapping[str, float], kind: str, records: int) -> float:
    return cpu_seconds.get(kind, 0.0) / records * 1e6
