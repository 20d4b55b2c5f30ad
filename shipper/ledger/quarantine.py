"""What the headers of a record in a quarantine topic say: written and read by these names here alone. Pure.

The read-back has names of its own (:mod:`shipper.verify.readback`), since it judges what this writes; docs/consumer-contract.md has them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shipper.types import Header, ReadHeader


@dataclass(frozen=True)
class QuarantineHeaders:
    """Which record of which file it is, and why it is there."""

    pipeline: str
    file: str
    split: int
    """Byte at which its split starts."""
    record: int
    """Its number in the split, from 1."""
    reason: str
    run: str
    topic: str | None = None
    """Where it would have gone; None: nobody knows."""

    def encode(self) -> list[Header]:
        """As they are written: name → UTF-8; what is None is left out."""
        fields = {
            "shipper-reason": self.reason,
            "shipper-pipeline": self.pipeline,
            "shipper-file": self.file,
            "shipper-split": str(self.split),
            "shipper-record": str(self.record),
            "shipper-topic": self.topic,
            "shipper-run": self.run,
        }
        return [(name, value.encode()) for name, value in fields.items() if value is not None]


def decode_headers(headers: Iterable[ReadHeader]) -> QuarantineHeaders | None:
    """None for a record that somebody else wrote there, with some of these headers or with numbers that are none."""
    found = {name: (value or b"").decode(errors="replace") for name, value in headers}
    try:
        return QuarantineHeaders(
            found["shipper-pipeline"],
            found["shipper-file"],
            int(found["shipper-split"]),
            int(found["shipper-record"]),
            found.get("shipper-reason", ""),
            found.get("shipper-run", ""),
            found.get("shipper-topic"),
        )
    except (KeyError, ValueError):
        return None
