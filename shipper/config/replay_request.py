"""Replay of a window: its records are shipped again on purpose, as a run of a pipeline that is
derived from the one in the file. Pure.

The derived pipeline has a name of its own, `PIPELINE.replay.ID`, and so its own place in the
ledger, which is empty at first; each try of the replay finds there the records of the earlier
tries. All else (plan, gates, exactly once, receipts) is as in any run.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from pydantic import Field

from shipper.config.checks import DeliveryCheck, ReadBackCheck
from shipper.config.content_checks import ContentCheck, RowsCheck
from shipper.config.pipeline import Pipeline
from shipper.config.record_mapping import Route
from shipper.config.rules import REPLAY_INFIX, Model, check_topic, original, sql_literal
from shipper.errors import UsageError

#: Rule that drops lines whose event time is outside the replay. It comes first: such a line counts
#: for no other rule.
OUTSIDE = "outside_replay"
ID_HEADER, REASON_HEADER, FILE_HEADER = (
    "shipper-replay",
    "shipper-replay-reason",
    "shipper-replay-file",
)


class Replay(Model):
    """Request for a replay. The same id with the same words again finishes it."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    reason: str = Field(min_length=1)
    start: dt.datetime | None = None
    """Event times from here on, by `records.timestamp`; with ``end``."""
    end: dt.datetime | None = None
    topic_prefix: str = ""
    """Prefix of each topic; empty: the same topics once more."""
    rate_limit: int | None = None
    """Bytes per second, to each cluster; what the pipeline allows still holds."""
    clusters: tuple[str, ...] = ()
    """Clusters of the pipeline; empty: all."""
    window_start: dt.datetime
    """Begin of the window in which files are looked for, and under which the results are filed;
    with ``window_end``."""
    window_end: dt.datetime
    files: tuple[str, ...] = ()
    """Paths and URIs of files, instead of the window's."""

    def name(self, pipeline: str) -> str:
        """Return the name of the derived pipeline."""
        return f"{pipeline}{REPLAY_INFIX}{self.id}"

    def how_to_finish(self, pipeline: str) -> str:
        """Return the command that sends the rest, which the first one does not: it is a replay of
        its own."""
        return f"`shipper replay {original(pipeline)} --id {self.id}` sends what is missing"


def replayed(pipeline: Pipeline, replay: Replay) -> Pipeline:
    """Derive the pipeline of a replay. Raises UsageError if this pipeline cannot be replayed."""
    delivery = pipeline.delivery
    limits = [limit for limit in (delivery.rate_limit, replay.rate_limit) if limit]
    checks = tuple(check for check in pipeline.gates.source if isinstance(check, ContentCheck))
    changes: dict[str, Any] = {
        "name": replay.name(pipeline.name),
        "formerly": tuple(replay.name(name) for name in pipeline.formerly),
        "schedule": None,  # it is no run of the schedule, and makes no window complete
        "records": pipeline.records.model_copy(
            update={
                "drop": {**_outside(pipeline, replay), **pipeline.records.drop},
                "headers": {**pipeline.records.headers, **_provenance(replay)},
            }
        ),
        "targets": {
            name: target.model_copy(
                update={
                    "routes": _prefixed(pipeline.on(name), target.routes, replay.topic_prefix),
                    "rate_limit": min(
                        [limit for limit in (target.rate_limit, replay.rate_limit) if limit],
                        default=None,
                    ),
                }
            )
            for name, target in pipeline.targets.items()
            if not replay.clusters or name in replay.clusters
        },
        "routes": _prefixed(pipeline, pipeline.routes, replay.topic_prefix),
        "delivery": delivery.model_copy(update={"rate_limit": min(limits, default=None)}),
        # Checks of a listing describe a whole window; a replay's files may be few, or old.
        "gates": pipeline.gates.model_copy(
            update={
                "source": checks or (RowsCheck(check="rows"),),
                "delivery": _delivery_checks(pipeline, replay),
            }
        ),
    }
    if pipeline.quarantine is not None:
        topic = replay.topic_prefix + pipeline.quarantine.topic
        changes["quarantine"] = pipeline.quarantine.model_copy(update={"topic": topic})
    return pipeline.model_copy(update=changes)


def _delivery_checks(pipeline: Pipeline, replay: Replay) -> tuple[DeliveryCheck, ...]:
    """Return the delivery checks: runs of the pipeline itself may ship to its topics meanwhile."""
    shared = {"shared": True} if not replay.topic_prefix else {}
    return tuple(
        check.model_copy(update=shared) if isinstance(check, ReadBackCheck) else check
        for check in pipeline.gates.delivery
    )


def _outside(pipeline: Pipeline, replay: Replay) -> dict[str, str]:
    if replay.start is None or replay.end is None:
        return {}
    if pipeline.records.timestamp is None:
        raise UsageError(
            f"pipeline {pipeline.name} has no `records.timestamp`, so the times of its lines "
            "are unknown. Nothing was sent. Name a --window or --files instead of --from and "
            "--to.",
            code="SHIP-117",
        )
    at = f"cast(({pipeline.records.timestamp}) as timestamp)"
    start, end = (
        f"TIMESTAMP'{moment.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S.%f}Z'"
        for moment in (replay.start, replay.end)
    )
    return {OUTSIDE: f"NOT coalesce({at} >= {start} AND {at} < {end}, false)"}


def _provenance(replay: Replay) -> dict[str, str]:
    """Return the headers of the replay's records: which replay, and so when it was asked for; why;
    and where it came from. The same in each try."""
    return {
        ID_HEADER: sql_literal(replay.id),
        REASON_HEADER: sql_literal(replay.reason),
        FILE_HEADER: "file_path",
    }


def _prefixed(pipeline: Pipeline, routes: tuple[Route, ...], prefix: str) -> tuple[Route, ...]:
    if not prefix:
        return routes
    found = tuple(
        route.model_copy(
            update={
                "topic": prefix + route.topic,
                "topics": tuple(prefix + topic for topic in route.topics),
                "matching": None
                if route.matching is None
                else f"{re.escape(prefix)}(?:{route.matching})",
            }
        )
        for route in routes
    )
    for topic in (
        topic
        for route in found
        for topic in (route.topics or (route.topic,))
        if not route.columns or route.topics
    ):
        try:
            check_topic(topic)
        except ValueError as error:
            raise UsageError(
                f"--topic-prefix {prefix}: {topic}: {error}", code="SHIP-116"
            ) from error
        if pipeline.may_ship_to(topic):
            raise UsageError(
                f"--topic-prefix {prefix}: {topic} is a topic of the pipeline itself. Nothing "
                "was sent. Choose another prefix.",
                code="SHIP-116",
            )
    return found
