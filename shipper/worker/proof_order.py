"""What the tasks of a proof are told, and what they answer. Loads no Arrow: the driver's steps import it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from shipper.ledger.intervals import Interval


@dataclass(frozen=True)
class Part:
    """Ordinals of one split whose records are summed up."""

    intervals: tuple[Interval, ...]
    topic: str
    kind: Literal["shipped", "dropped", "quarantined"]


@dataclass(frozen=True)
class SplitToProve:
    """One split of the file that is read."""

    parts: tuple[Part, ...]
    bom: bool
    """As OrderedSplit has it."""
    counts_bytes: bool
    skipped_bytes: int


@dataclass(frozen=True)
class ProofOrder:
    """What the tasks of a proof are told."""

    splits: Mapping[int, SplitToProve]
    """Spark's hash of the split → split."""
    topics: tuple[str, ...]
    rules: int
    """Number of rules in `records.drop`; a disposition below it is a dropped line."""
    keep_bytes: int
    """Of each quarantined value."""


@dataclass
class SplitSums:
    """What was found in one split."""

    lines: int = 0
    ended: bool = False
    read: int | None = None
    """As ChunkValue has it, once the split has ended."""
    counts: list[int] = field(default_factory=list)
    """Records of each part."""
    checksums: list[int] = field(default_factory=list)
    """Sum of the hashes of each part's values, modulo 2^64."""
