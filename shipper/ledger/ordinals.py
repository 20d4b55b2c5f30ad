"""Sets of ordinals as text that a person can read: ``5,9-11`` are 5, 9, 10 and 11. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Most runs in one record of the ledger, which as text are some 300 kB; who has more writes more records.
MOST_RUNS = 20_000
_RUN = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?", re.ASCII)


def encode_ordinals(intervals: Iterable[tuple[int, int]]) -> str:
    """``intervals``: half-open [first, last), in order."""
    return ",".join(str(first) if last == first + 1 else f"{first}-{last - 1}" for first, last in intervals)


def decode_ordinals(text: str) -> list[tuple[int, int]]:
    """Half-open [first, last). Raises ValueError."""
    found = []
    for part in text.split(",") if text else ():
        run = _RUN.fullmatch(part)
        if run is None:
            raise ValueError("ordinals are written 5,9-11")
        first, last = run.groups()
        found.append((int(first), int(last or first) + 1))
    return found
