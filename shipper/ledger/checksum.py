"""The hash that the ledger's checksums are sums of."""

from __future__ import annotations

import xxhash

_SEED = 42


def spark_hash(value: bytes | None) -> int:
    """Spark's xxhash64 of a binary column."""
    return _SEED if value is None else int(xxhash.xxh64_intdigest(value, _SEED))
