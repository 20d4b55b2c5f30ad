"""Topics that were deleted, or deleted and created again, since the ledger's chunks were delivered,
and their effect on a plan and a ship."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from shipper import runtime
from shipper.config.cluster import Cluster
from shipper.config.rules import original
from shipper.driver.decide import Decisions
from shipper.errors import ClusterError, ClusterRefuses
from shipper.kafka.admin import ClusterAdmin
from shipper.ledger.fold import Chunks
from shipper.ledger.incarnations import (
    Incarnations,
    RecreatedTopic,
    compare,
    gone_ids,
    topics_with_ids,
)
from shipper.types import FileId

#: Brokers learn of a topic within fractions of a second of each other.
_SECOND_LOOK_SECONDS = 2.0


def judge(
    client: ClusterAdmin,
    chunks: Chunks,
    files: Collection[FileId],
    *,
    topics: Collection[str] = (),
    present: dict[str, str | None] | None = None,
) -> Incarnations:
    """Compare ``chunks`` with the topics.

    Args:
        files: those of which lost records matter. Give a set, or the keys of a dict. topics: asked
        for besides the topics that the chunks name. present: ids that were asked for before the
        chunks were read. They serve if they are the chunks' own; if not, the topics are asked
        again: an
            id that was read before a chunk was written does not say that the chunk is gone.

    Raises ClusterError.
    """
    wanted = topics_with_ids(chunks) | set(topics)
    if present is not None and wanted <= present.keys() and not gone_ids(chunks, present):
        return Incarnations(chunks, present)
    return compare(chunks, client.present_ids(wanted), files=files)


def look_again(found: Incarnations, cluster: Cluster) -> None:
    """Ask a second time, by another connection, before records are sent again because of ``found``.
    Raises ClusterError if the answers differ."""
    runtime.sleep(_SECOND_LOOK_SECONDS)
    topics = {loss.topic for loss in found.lost}
    now = ClusterAdmin(cluster).present_ids(topics)
    if differ := [topic for topic in sorted(topics) if now.get(topic) != found.present.get(topic)]:
        raise ClusterError(
            f"cluster {cluster.name}: brokers disagree on the ids of the topics "
            f"{', '.join(differ)}: the metadata of one broker lag behind. Nothing was sent. "
            "Run again when all brokers are well.",
            code="SHIP-406",
        )


def error(
    cluster: str, pipeline: str, lost: Sequence[RecreatedTopic], sent: str = "Nothing was sent."
) -> ClusterRefuses:
    """Return the error. ``sent``: a sentence on the records sent so far."""
    return ClusterRefuses(
        f"cluster {cluster}: {'; '.join(map(str, lost))}. {sent} To send exactly these records "
        f"again, set `delivery.on_recreated: resend` in pipelines/{original(pipeline)}.yaml and "
        "run again. Or re-ship whole files with `--reship`: consumers of the pipeline's "
        "other topics will see duplicates.",
        code="SHIP-404",
    )


def notes(lost: Sequence[RecreatedTopic]) -> list[str]:
    """Return the report's notes on topics whose records this run sends again."""
    return [f"{one}. They are sent again (`on_recreated: resend`)." for one in lost if one.resent]


def refuse_late(
    found: Decisions, lost: Mapping[FileId, str], policy: Literal["fail", "resend"]
) -> Decisions:
    """Leave late files alone, by name, whose records are lost, unless the pipeline says to send
    them again: they hold up no window. ``lost``: these files → a topic that took some."""
    if policy == "resend":
        return found
    why = (
        "topic {} was deleted, or deleted and created again, after records of the file were "
        "delivered to it: see `delivery.on_recreated`"
    )
    return Decisions(
        [
            one._replace(outcome="refuse", why=why.format(lost[one.file]))
            if one.outcome == "ship" and one.file in found.late and one.file in lost
            else one
            for one in found.each
        ],
        found.late,
    )
