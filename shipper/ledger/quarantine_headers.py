"""Headers of a record in a quarantine topic: written and read by these names, here alone. Pure.

The read-back has names of its own (:mod:`shipper.verify.readback`), since it judges what this
writes; docs/reference/consumer-contract.md has them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shipper.types import Header, ReadHeader

#: Begins the name of each header that the record would have had.
_OWN = "shipper-header-"


@dataclass(frozen=True)
class QuarantineHeaders:
    """Origin of a quarantined record, and the reason of its rejection."""

    pipeline: str
    file: str
    split: int
    """Byte at which its split starts."""
    record: int
    """Number of the record in the split, from 1."""
    reason: str
    run: str
    topic: str | None = None
    """Topic to which the record would have gone; None: not known."""
    cut: bool = True
    """True if the record had more than is kept of it here, or if that was not noted."""
    key: bytes | None = None
    """The key that the record would have had."""
    timestamp_ms: int | None = None
    """The record's own time; None: it has none but that of the producer."""
    own: tuple[Header, ...] = ()
    """Headers that the record would have had."""

    def encode(self) -> list[Header]:
        """Encode the headers: name → UTF-8, but bytes as they are; headers that are None are left
        out."""
        fields: dict[str, str | None] = {
            "shipper-reason": self.reason,
            "shipper-pipeline": self.pipeline,
            "shipper-file": self.file,
            "shipper-split": str(self.split),
            "shipper-record": str(self.record),
            "shipper-topic": self.topic,
            "shipper-run": self.run,
            "shipper-cut": "true" if self.cut else "false",
            "shipper-timestamp": None if self.timestamp_ms is None else str(self.timestamp_ms),
        }
        kept = [] if self.key is None else [("shipper-key", self.key)]
        kept += [(_OWN + name, value) for name, value in self.own]
        return [
            (name, value.encode()) for name, value in fields.items() if value is not None
        ] + kept


def decode_headers(headers: Iterable[ReadHeader]) -> QuarantineHeaders | None:
    """Decode the headers; None for a record that another program wrote with some of these headers,
    or with numbers that are not valid."""
    given = [(name, value or b"") for name, value in headers]
    found = {name: value.decode(errors="replace") for name, value in given}
    timestamp = found.get("shipper-timestamp")
    try:
        return QuarantineHeaders(
            found["shipper-pipeline"],
            found["shipper-file"],
            int(found["shipper-split"]),
            int(found["shipper-record"]),
            found.get("shipper-reason", ""),
            found.get("shipper-run", ""),
            found.get("shipper-topic"),
            found.get("shipper-cut") != "false",
            dict(given).get("shipper-key"),
            None if timestamp is None else int(timestamp),
            tuple(
                (name.removeprefix(_OWN), value) for name, value in given if name.startswith(_OWN)
            ),
        )
    except (KeyError, ValueError):
        return None
