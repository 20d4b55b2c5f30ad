"""Records of the ledger of the pipeline `web`, of which a test says what matters to it."""

from typing import Any

from shipper.ledger.codec import EncodedRecord, encode_generation
from shipper.ledger.records import ChunkValue, Generation, GenerationKey


def chunk_value(**fields: Any) -> ChunkValue:
    """Return the only chunk of a split of ten records, but for ``fields``."""
    value = {"last": 10, "end": True, "records": 10, "bytes": 100, "checksum": 1}
    value |= {"digest": "d", "generation": 1, "run_id": "r", "window": "w"}
    return ChunkValue(**value | fields)


def announced(run_id: str) -> EncodedRecord:
    """Return the record by which a run of one lane to the cluster `c` announces itself."""
    return encode_generation("web", GenerationKey("c", run_id), Generation(run_id, 1, 1))
