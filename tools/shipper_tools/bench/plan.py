"""What to measure: the named scenarios, and the axes of each."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from shipper_tools.bench.results import Case, Contender, Summary, TargetVerdict

SPARK_SINK = Contender(name="Spark's Kafka sink", settings="at least once; acks=all, linger 100 ms, 1 MB batches")


@dataclass(frozen=True)
class Axes:
    """Every combination is measured. Lanes are ours alone; None lets shipper choose (end to end)."""

    rtt_ms: tuple[float, ...] = (0.0,)
    request_delay_ms: float = 0.0
    record_bytes: int | None = 1000
    compression: str = "none"
    partitions: tuple[int, ...] = (1,)
    lines: tuple[int | None, ...] = (None,)
    lanes: tuple[int | None, ...] = (None,)

    def cases(self) -> list[Case]:
        return [
            Case(
                rtt_ms=rtt, request_delay_ms=self.request_delay_ms, record_bytes=self.record_bytes, compression=self.compression,
                partitions=partitions, lines=lines,
            )
            for lines, rtt, partitions in itertools.product(self.lines, self.rtt_ms, self.partitions)
        ]  # fmt: skip


@dataclass(frozen=True)
class Shipment:
    """A way to ship: a contender of ours with its changes to the pipeline."""

    contender: Contender
    pipeline: Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """Something that must be reached."""

    question: str
    find: Callable[[Sequence[Summary]], float | None]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""

    def verdict(self, summaries: Sequence[Summary]) -> TargetVerdict:
        found = self.find(summaries)
        low, high = self.at_least, self.at_most
        reached = found is not None and (low is None or found >= low) and (high is None or found <= high)
        asked = f"≥ {low:,g}{self.unit}" if low is not None else f"≤ {high:,g}{self.unit}"
        return TargetVerdict(
            question=self.question, asked=asked, found=None if found is None else round(found, 3), reached=reached
        )


@dataclass(frozen=True)
class Scenario:
    name: str
    question: str
    kind: Literal["bare", "end-to-end", "cold"]
    axes: Axes
    rounds: int = 3
    seconds: float = 8.0
    """Bare: about how long one measurement sends."""
    lines: int = 6_000_000
    """End to end: lines in the files."""
    targets: tuple[Target, ...] = ()

    def told(self, axes: Axes, **changes: float | int | None) -> Scenario:
        """Return the scenario with other axes, and what else was given. Targets hold for the scenario as it is only."""
        given = {name: value for name, value in changes.items() if value is not None}
        targets = self.targets if axes == self.axes else ()
        return replace(self, axes=axes, targets=targets, **given)  # type: ignore[arg-type]


def _best(summaries: Sequence[Summary], rtt_ms: float, partitions: int) -> Summary | None:
    """Our fastest of a case."""
    ours = [s for s in summaries if s.contender.ours and (s.case.rtt_ms, s.case.partitions) == (rtt_ms, partitions)]
    return max(ours, key=lambda s: s.records_per_second.median, default=None)


def _rate(rtt_ms: float, partitions: int) -> Callable[[Sequence[Summary]], float | None]:
    def find(summaries: Sequence[Summary]) -> float | None:
        best = _best(summaries, rtt_ms, partitions)
        return best.records_per_second.median if best else None

    return find


def _times_peer(rtt_ms: float, partitions: int) -> Callable[[Sequence[Summary]], float | None]:
    def find(summaries: Sequence[Summary]) -> float | None:
        best = _best(summaries, rtt_ms, partitions)
        return best.times_best_peer if best else None

    return find


def _share_of_near(
    rtt_ms: float, partitions: int, what: Callable[[Summary], float]
) -> Callable[[Sequence[Summary]], float | None]:
    """How ``what`` compares with itself at 0 ms."""

    def find(summaries: Sequence[Summary]) -> float | None:
        far, near = _best(summaries, rtt_ms, partitions), _best(summaries, 0.0, partitions)
        return what(far) / what(near) if far and near else None

    return find


def _median(summary: Summary) -> float:
    return summary.records_per_second.median


def _cpu(summary: Summary) -> float:
    return summary.client_cpu_per_million


def _cold(rtt_ms: float, lines: int, what: Callable[[Summary, Summary], float]) -> Callable[[Sequence[Summary]], float | None]:
    """``what`` of ours and of Spark's sink."""

    def find(summaries: Sequence[Summary]) -> float | None:
        found = [each for each in summaries if (each.case.rtt_ms, each.case.lines) == (rtt_ms, lines)]
        ours, sinks = [each for each in found if each.contender.ours], [each for each in found if each.contender == SPARK_SINK]
        return what(ours[0], sinks[0]) if ours and sinks else None

    return find


def _times(ours: Summary, peer: Summary) -> float:
    return ours.records_per_second.median / peer.records_per_second.median


def _cpu_of_peer(ours: Summary, peer: Summary) -> float:
    return ours.client_cpu_per_million / peer.client_cpu_per_million


_LINES = Axes(rtt_ms=(0.0, 140.0), record_bytes=None, compression="zstd", partitions=(16,))
_DISTANCE = Scenario(
    name="distance",
    question="How many records a second reach one partition over 140 ms, exactly once, and how many with what is used instead?",
    kind="bare",
    axes=Axes(rtt_ms=(140.0,), lanes=(32, 48, 64)),
    targets=(
        Target("140 ms, one partition, 1 kB random, exactly once", _rate(140, 1), at_least=150_000, unit=" rec/s"),
        Target("the same, against the best peer", _times_peer(140, 1), at_least=4, unit=" ×"),
    ),
)

_END_TO_END = Scenario(
    name="end-to-end",
    question="From log files to the topic, exactly once: how fast against Spark's own Kafka sink, near and far?",
    kind="end-to-end",
    axes=replace(_LINES, partitions=(16, 1)),
    targets=tuple(
        target
        for partitions, where in ((16, "16 partitions"), (1, "1 partition"))
        for target in (
            Target(f"140 ms, {where}, against Spark's sink", _times_peer(140, partitions), at_least=1.5, unit=" ×"),
            Target(f"0 ms, {where}, against Spark's sink", _times_peer(0, partitions), at_least=1.2, unit=" ×"),
            Target(f"140 ms, {where}, rate against 0 ms", _share_of_near(140, partitions, _median), at_least=0.9, unit=" ×"),
            Target(
                f"140 ms, {where}, CPU per record against 0 ms", _share_of_near(140, partitions, _cpu), at_most=1.15, unit=" ×"
            ),
        )
    ),
)

_SLOW_BROKER = Scenario(
    name="slow-broker",
    question="One partition of a broker that takes 20 ms for each request of a connection: what do lanes bring over one producer?",
    kind="bare",
    axes=Axes(request_delay_ms=20.0, lanes=(1, 4, 8, 16)),
    targets=(
        Target("20 ms per request, one partition, against the best single producer", _times_peer(0, 1), at_least=2, unit=" ×"),
    ),
)

_COLD = Scenario(
    name="cold",
    question="As a user runs it: how long does a whole process take from files to the topic, start and all, beside Spark's own sink and Flink?",
    kind="cold",
    axes=replace(_LINES, lines=(300_000, 2_000_000, 24_000_000)),
    targets=(
        Target("2M lines, 0 ms, rate against Spark's sink", _cold(0, 2_000_000, _times), at_least=1.0, unit=" ×"),
        Target("2M lines, 0 ms, CPU against Spark's sink", _cold(0, 2_000_000, _cpu_of_peer), at_most=1.2, unit=" ×"),
        Target("24M lines, 0 ms, rate against Spark's sink", _cold(0, 24_000_000, _times), at_least=1.2, unit=" ×"),
        Target("24M lines, 140 ms, rate against Spark's sink", _cold(140, 24_000_000, _times), at_least=1.5, unit=" ×"),
    ),
)  # fmt: skip

SCENARIOS = {scenario.name: scenario for scenario in (_DISTANCE, _END_TO_END, _COLD, _SLOW_BROKER)}


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``changes`` on top of ``base``, mapping by mapping."""
    result = copy.deepcopy(dict(base))
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else copy.deepcopy(value)
    return result
