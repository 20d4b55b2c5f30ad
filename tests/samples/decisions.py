"""Decisions about files, as a plan or a ship makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shipper.driver.decide import Decisions, LookedInto, Policy, SourceFile, decide
from shipper.ledger.fold import Chunks
from shipper.types import FileId


def decided(
    files: Iterable[FileId],
    chunks: Chunks,
    looked: Mapping[FileId, LookedInto] | None = None,
    *,
    splits: int = 1,
    etags: Mapping[FileId, str] | None = None,
    **policy: Any,
) -> Decisions:
    """Decide, and raise for what stops a run. A file that the ledger does not know has been looked
    into, and begins like no other one."""
    files = list(files)
    known = {} if looked is None else looked
    looked = {file: LookedInto(f"9:{'0' * 16}") for file in files if file.size_bytes} | dict(known)
    rules = Policy(**{"digest": "d", **policy})
    found = decide(
        [SourceFile(file, splits, (etags or {}).get(file, "")) for file in files],
        chunks, looked, rules,
    )  # fmt: skip
    found.check(chunks, rules.spark)
    return found
