"""Files that several tests read."""

import gzip
from pathlib import Path

FORMATS = Path(__file__).parent / "formats"


def packed_log() -> bytes:
    """Return the log that each file of ``FORMATS`` packs, as Python unpacks one of them."""
    return gzip.decompress((FORMATS / "gzip.log.gz").read_bytes())
