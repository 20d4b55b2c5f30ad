"""Contradictions between a topic's settings and the records that a pipeline sends to the topic,
which are found before anything is sent."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator

from shipper.config.pipeline import Pipeline
from shipper.config.rules import pattern_of_source
from shipper.finding import Finding, fail, warn
from shipper.kafka.limits import TopicLimit
from shipper.windows.window import Window

#: Margin: the times in a window's lines may be local ones, and a file holds some lines of the next
#: window.
_SLACK = dt.timedelta(days=1)
_UNITS = (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")


def contradictions(
    pipeline: Pipeline, topic: str, limit: TopicLimit, window: Window | None, now: dt.datetime
) -> Iterator[Finding]:
    """Yield contradictions. It is a fault if no record of the window could be delivered, or none
    would stay. ``window``: the one that is to be shipped; None if the run names files."""
    quarantine = pipeline.quarantine is not None and topic == pipeline.quarantine.topic
    if limit.needs_key and (quarantine or pipeline.records.key is None):
        key = "records in quarantine have no key" if quarantine else "set `records.key`"
        yield fail(
            f"topic {topic} is compacted and takes no record without a key",
            f"{key}, or set cleanup.policy=delete",
            subject=topic,
        )
    elif limit.needs_key:
        yield warn(
            f"topic {topic} is compacted: it keeps only the newest record of a key, and a gate "
            "that reads back later misses the others",
            "set cleanup.policy=delete if every record counts",
            subject=topic,
        )
    if (
        quarantine
        or pipeline.records.timestamp is None
        or window is None
        or not math.isfinite(limit.max_age_ms)
    ):
        return
    age = dt.timedelta(milliseconds=min(limit.max_age_ms, 1e14))
    kept = (
        f"topic {topic} rejects or deletes records whose time is older than {_in_words(age)} "
        "(retention.ms, message.timestamp.before.max.ms)"
    )
    remedy = (
        "raise these settings, or remove `records.timestamp`: then a record's time is the time "
        "of sending"
    )
    if pattern_of_source(pipeline.source.path) is not None and now - window.end - _SLACK > age:
        ended = f"{kept}, and window {window} ended {_in_words(now - window.end)} ago"
        yield fail(ended, remedy, subject=topic)
    elif now - window.start > age:
        outside = "go to quarantine" if pipeline.quarantine else "fail the run"
        yield warn(
            f"{kept}, and window {window} began {_in_words(now - window.start)} ago: by "
            f"`records.timestamp`, older records {outside}",
            remedy,
            subject=topic,
        )


def _in_words(span: dt.timedelta) -> str:
    """Write a time span with the largest unit that leaves a number of at least two."""
    seconds = span.total_seconds()
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= 2 * size or size == 1)
    return f"{seconds / size:,.0f} {unit}"
