"""Result of a benchmark as one JSON document: every measurement, a summary of each contender, and
the machine."""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from shipper.config.units import write_size
from shipper.whole_files import write_whole


class _ResultModel(BaseModel):
    """Part of a result. An earlier version may have written fields that are gone since."""


class Case(_ResultModel):
    """Conditions that are the same for every contender; those of earlier versions too."""

    model_config = ConfigDict(extra="allow", frozen=True)

    rtt_ms: float = 0.0
    """Round trip to the broker; at 0 there is no proxy in between."""
    request_delay_ms: float = 0.0
    """Time that the broker takes for each request of a connection, one request after the other."""
    ack_ms: float = 0.0
    """Time after which the broker acknowledges what is stored (Produce, EndTxn); it answers
    everything else at once."""
    record_bytes: int | None = None
    """Size of random records; None: log lines."""
    compression: str = "none"
    partitions: int = 1
    lines: int | None = None
    """Lines in the files; None: records are not read from files."""

    @property
    def title(self) -> str:
        """``140 ms · 1 partition · 1 kB random``"""
        parts = [f"{self.lines / 1e6:g}M lines"] if self.lines else []
        parts += [f"{self.rtt_ms:g} ms"]
        parts += [f"{self.request_delay_ms:g} ms per request"] if self.request_delay_ms else []
        parts += [f"acks after {self.ack_ms:g} ms"] if self.ack_ms else []
        parts += [f"{self.partitions} partition{'s' * (self.partitions > 1)}"]
        parts += [
            "log lines" if self.record_bytes is None else f"{write_size(self.record_bytes)} random"
        ]
        parts += [self.compression] if self.compression != "none" else []
        parts += [f"{name} {value}" for name, value in (self.model_extra or {}).items()]
        return " · ".join(parts)


class Contender(_ResultModel):
    """Sender of records, with its settings."""

    model_config = ConfigDict(frozen=True)

    name: str
    ours: bool = False
    settings: str = ""
    """For people."""


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
    """From the first record handed over to the last one acknowledged or committed; from files: of
    the process."""
    shipping_seconds: float | None = None
    """From files, ours: from the first byte read to the last commit, without starts, plan and
    gates. Of a bare producer beside it the same as ``seconds``. None: not known."""
    opening_seconds: float | None = None
    """Time before that: connections, lanes."""
    cpu_seconds: dict[str, float] = Field(default_factory=dict)
    """By kind of process: client (its start included), broker, proxy."""
    peak_bytes: int | None = None
    """Cold: most memory of all processes of a contender at once (PSS)."""
    error: str | None = None

    @property
    def line(self) -> str:
        """Progress for people."""
        what = f"round {self.round}  {self.case.title}  {self.contender.name}"
        if self.error:
            return f"{what}: FAILED: {self.error}"
        cpu = ", ".join(
            f"{kind} {seconds:.1f}" for kind, seconds in self.cpu_seconds.items() if seconds
        )
        return (
            f"{what}: {self.records / self.seconds:,.0f} rec/s ({self.seconds:.1f} s; CPU s: {cpu})"
        )


class Spread(_ResultModel):
    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median=statistics.median(values), lowest=min(values), highest=max(values))


class Summary(_ResultModel):
    """Rounds of one contender in one case."""

    case: Case
    contender: Contender
    rounds: int
    records_per_second: Spread
    megabytes_per_second: float
    """Median, of uncompressed values."""
    shipping_megabytes_per_second: float | None = None
    """The same while records were read and sent; None: not known."""
    cpu_seconds_per_million: dict[str, float]
    """Median, by kind of process."""
    times_best_peer: float | None = None
    """Ours only: rate divided by that of the fastest peer of the same case."""
    peak_bytes: int | None = None

    @property
    def client_cpu_per_million(self) -> float:
        """CPU seconds of the sending side: neither broker nor proxy."""
        return sum(
            seconds
            for kind, seconds in self.cpu_seconds_per_million.items()
            if kind not in ("broker", "proxy")
        )


class Machine(_ResultModel):
    """Machine of a benchmark, without names and paths."""

    cpu: str
    cores: int
    memory_gb: float
    system: str
    load_before: float
    """Load average of one minute at the begin: more than a fraction of the cores means that the
    machine was busy."""
    versions: dict[str, str]


class BenchResult(_ResultModel):
    name: str
    question: str
    date: dt.datetime
    took_seconds: float
    arguments: list[str]
    machine: Machine
    notes: list[str] = Field(default_factory=list)
    summaries: list[Summary] = Field(default_factory=list)
    measurements: list[Measurement] = Field(default_factory=list)

    def write(self, folder: Path) -> Path:
        """Write ``DATE-NAME.json`` to ``folder``, over that of the same day and name."""
        path = folder / f"{self.date:%Y-%m-%d}-{self.name}.json"
        write_whole(str(path), self.model_dump_json(indent=1, exclude_none=True) + "\n")
        return path


def summarise(measurements: Iterable[Measurement]) -> list[Summary]:
    """Return summaries by case and contender, in the order of their first appearance, without
    warm-ups and failures."""
    groups: dict[tuple[Case, Contender], list[Measurement]] = {}
    for measurement in measurements:
        if measurement.round and measurement.error is None and measurement.seconds:
            groups.setdefault((measurement.case, measurement.contender), []).append(measurement)
    summaries = [_summary(case, contender, rounds) for (case, contender), rounds in groups.items()]
    for summary in summaries:
        peers = [
            s.records_per_second.median
            for s in summaries
            if s.case == summary.case and not s.contender.ours
        ]
        if summary.contender.ours and peers:
            summary.times_best_peer = round(summary.records_per_second.median / max(peers), 2)
    return summaries


def _summary(case: Case, contender: Contender, rounds: Sequence[Measurement]) -> Summary:
    kinds = dict.fromkeys(kind for m in rounds for kind in m.cpu_seconds)
    cpu = {
        kind: statistics.median(m.cpu_seconds.get(kind, 0.0) / m.records * 1e6 for m in rounds)
        for kind in kinds
    }
    shipping = [m.bytes / m.shipping_seconds / 1e6 for m in rounds if m.shipping_seconds]
    return Summary(
        case=case,
        contender=contender,
        rounds=len(rounds),
        records_per_second=Spread.of([m.records / m.seconds for m in rounds]),
        megabytes_per_second=statistics.median(m.bytes / m.seconds / 1e6 for m in rounds),
        shipping_megabytes_per_second=statistics.median(shipping) if shipping else None,
        cpu_seconds_per_million={kind: round(seconds, 3) for kind, seconds in cpu.items()},
        peak_bytes=max((m.peak_bytes for m in rounds if m.peak_bytes), default=None),
    )
