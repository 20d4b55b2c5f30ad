"""A chunk as the ledger has it, of which a test says what matters to it."""

from __future__ import annotations

from typing import Any

from shipper.ledger.records import ChunkValue


def chunk_value(**fields: Any) -> ChunkValue:
    """Return the only chunk of a split of ten records, but for ``fields``."""
    value: dict[str, Any] = {"last": 10, "end": True, "records": 10, "bytes": 100, "checksum": 1}
    value |= {"digest": "d", "generation": 1, "run_id": "r", "window": "w"}
    return ChunkValue(**value | fields)
