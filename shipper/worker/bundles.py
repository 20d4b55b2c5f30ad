"""Many lines in one Kafka record, joined in Arrow: Python sees bundles, never lines.

What a bundle of one line holds is that line as it is. So every value has a form: a null, which cannot be joined, and a value
with a ``\\n`` in it, which could not be taken apart again, each travel as a bundle of one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SEPARATOR = b"\n"


@dataclass(frozen=True)
class Bundles:
    """``values[i]`` holds ``lines[i]`` lines, joined by ``\\n``."""

    values: pa.Array
    lines: list[int]


def bundled(values: pa.ChunkedArray, max_bytes: int, *, all_lines: bool) -> Bundles:
    """Joins consecutive values into bundles of at most ``max_bytes``, separators included; a longer value is a bundle of its own.

    ``all_lines``: no value holds a ``\\n``, so that none has to be looked for (as it is for a line that nothing has changed).
    """
    array = values.combine_chunks()
    borders = _borders(_ends(array), max_bytes, _alone(array, all_lines))
    lists = pa.ListArray.from_arrays(pa.array(borders, pa.int32()), array)
    return Bundles(pc.binary_join(lists, _SEPARATOR), np.diff(borders).tolist())


def _ends(array: pa.Array) -> npt.NDArray[np.int64]:
    """Where each value would begin, and the last one end, if every one were followed by a separator."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    return offsets.astype(np.int64) - int(offsets[0]) + np.arange(len(array) + 1)


def _alone(array: pa.Array, all_lines: bool) -> npt.NDArray[np.int64]:
    """Numbers of the values that must not be joined."""
    if all_lines and not array.null_count:
        return np.empty(0, np.int64)
    breaks = pc.fill_null(pc.match_substring(array, _SEPARATOR.decode()), True)
    return np.flatnonzero(breaks.to_numpy(zero_copy_only=False))


def _borders(ends: npt.NDArray[np.int64], max_bytes: int, alone: npt.NDArray[np.int64]) -> list[int]:
    """Number of the first value of each bundle, and the number behind the last one. A step for each bundle, not for each value."""
    last = len(ends) - 1
    stops = np.unique(np.concatenate([alone, alone + 1, [last]]))
    borders = [0]
    while (start := borders[-1]) < last:
        # The last value is followed by no separator: one byte more fits.
        behind = int(np.searchsorted(ends, ends[start] + max_bytes + 1, side="right")) - 1
        stop = int(stops[np.searchsorted(stops, start, side="right")])
        borders.append(min(max(start + 1, behind), stop))
    return borders
