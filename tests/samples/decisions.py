"""Decisions about files, as a plan or a ship makes them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from shipper.driver.decide import Decisions, Original, Policy, SourceFile, decide
from shipper.ledger.fold import Chunks
from shipper.report.plan_result import Beginning
from shipper.types import FileId


class LookedInto(NamedTuple):
    """What the source says of a file that the ledger does not know."""

    head: str
    originals: tuple[Original, ...] = ()
    beginnings: tuple[Beginning, ...] = ()


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
    nothing, files = LookedInto(f"9:{'0' * 16}"), list(files)
    known = {file: (looked or {}).get(file, nothing) for file in files if file.size_bytes}
    rules = Policy(**{"digest": "d", **policy})
    found = decide(
        [
            SourceFile(file, splits, (etags or {}).get(file, ""), about.head, about.beginnings)
            for file in files
            for about in [known.get(file, nothing)]
        ],
        chunks,
        {file: about.originals for file, about in known.items()},
        rules,
    )
    found.check(chunks, rules.spark)
    return found
