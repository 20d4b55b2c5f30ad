"""Faults for which the plan or the ship refuses a cluster before anything is sent; `shipper doctor`
looks for the same. Each check takes facts and asks no server."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.config.rules import original, pattern_of_source
from shipper.errors import ClusterError, ClusterRefuses, TopicMissing
from shipper.finding import Finding, fail, warn
from shipper.kafka.admin import TopicFacts
from shipper.kafka.limits import TopicLimit
from shipper.windows.window import Window

REFUSED = "SHIP-410"
"""Code of a pipeline that contradicts the settings of the cluster or of a topic."""

#: Margin: the times in a window's lines may be local ones, and a file holds some lines of the next
#: window.
_SLACK = dt.timedelta(days=1)
_UNITS = (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")


def refusal(
    cluster: Cluster, pipeline: Pipeline, findings: Iterable[Finding]
) -> ClusterError | None:
    """Return the error for the faults among ``findings``, of the first one's code; None if there is
    no fault."""
    faults = [each for each in findings if each.severity == "fail"]
    if not faults:
        return None
    code = faults[0].code
    remedies = dict.fromkeys(each.remedy for each in faults)
    words = "; ".join([each.text for each in faults] + list(remedies))
    return (TopicMissing if code == TopicMissing.code else ClusterRefuses)(
        f"cluster {cluster.name}: pipeline {pipeline.name}: {words}. Nothing was sent.", code=code
    )


def absent_topics(pipeline: Pipeline, known: Container[str]) -> list[str]:
    """Return the topics that the pipeline needs and the cluster does not have."""
    return [topic for topic in pipeline.needed_topics() if topic not in known]


def missing(pipeline: Pipeline, topics: Sequence[str]) -> Iterator[Finding]:
    """Yield a fault for each of ``topics``, which do not exist."""
    file = original(pipeline.name)
    # A replay's own topics are the pipeline's behind a prefix: its file is right.
    or_else = f", or correct `routes` or `quarantine` in pipelines/{file}.yaml"
    for topic in topics:
        yield fail(
            f"topic {topic} does not exist",
            f"create it (kafka-topics --create --topic {topics[0]} --partitions …)"
            f"{or_else if pipeline.name == file else ''}",
            code=TopicMissing.code,
            subject=topic,
        )


def lacking_partitions(pipeline: Pipeline, known: Mapping[str, TopicFacts]) -> Iterator[Finding]:
    """Yield a fault for each topic that does not have all of `delivery.partitions`."""
    listed = pipeline.delivery.partitions
    if not isinstance(listed, tuple):
        return
    for topic, facts in known.items():
        if lacking := [str(number) for number in listed if number >= facts.partitions]:
            yield fail(
                f"topic {topic} has {facts.partitions} partitions (numbered from 0), and no "
                f"{', '.join(lacking)} of `delivery.partitions`",
                "correct the list in the pipeline's file, or add the partitions. The list holds "
                "for every topic of the pipeline, and for its quarantine",
                code="SHIP-405",
                subject=topic,
            )


def no_transactions(pipeline: Pipeline, cluster: Cluster) -> Iterator[Finding]:
    """Yield a fault if the cluster's file rules out what the pipeline promises."""
    if pipeline.delivery.guarantee == "exactly_once" and not cluster.idempotence:
        yield fail(
            f"`idempotence: false` in clusters/{cluster.name}.yaml rules out transactions, and "
            "the pipeline is to ship exactly once",
            "set `delivery.guarantee: at_least_once`",
            code=REFUSED,
        )


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
            code=REFUSED,
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
        yield fail(ended, remedy, code=REFUSED, subject=topic)
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
