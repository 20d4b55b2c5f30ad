"""Making the policy for the decision about each file, from the pipeline and the run's request."""

from __future__ import annotations

from collections.abc import Collection

from shipper.config.formats import UTF8
from shipper.driver.context import RunContext
from shipper.driver.decide import Policy
from shipper.driver.dispositions import crosses_in_blocks
from shipper.types import FileId


def policy_of(
    context: RunContext,
    digest: str,
    *,
    reship_below: int | None,
    reshipped: Collection[FileId],
    late: Collection[FileId],
) -> Policy:
    """Return the policy on the context's cluster. ``digest``: of the transform; the rest as
    :class:`Policy` has it."""
    pipeline = context.pipeline
    source = pipeline.source
    return Policy(
        digest,
        None if crosses_in_blocks(pipeline) else context.engine.version,
        source.on_replaced,
        source.on_renamed,
        source.encoding == UTF8 and source.format in ("text", "jsonl", "csv"),
        reship_below,
        frozenset(reshipped),
        frozenset(late),
    )
