"""What a check of the source gate needs of its pipeline: columns that exist, topics that a route leads to, a time in the path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from shipper.config.base import THE_KEY
from shipper.config.check_base import Check, RecordCheck
from shipper.config.checks import FilesPerCheck, RouteRateCheck, SourceCheck
from shipper.config.delivery_checks import DeliveryCheck, QuarantineRateCheck
from shipper.config.path_time import pattern_of_source
from shipper.config.rules import TOPIC_COLUMN, suggestion

Fault = tuple[tuple[str | int, ...], str]


def faults_of_check(
    check: Check, *, columns: Sequence[str] | None, source_path: str | None, topics: Sequence[str] | None
) -> Iterator[Fault]:
    """(place below the check, why). ``topics`` are those of the routes, with their ``{column}``; None is for what is not known since
    it is faulty itself."""
    column = getattr(check, "column", None)
    if columns is not None and column is not None and column not in columns:
        yield ("column",), f"no column {column!r}{suggestion(column, columns)}"
    if isinstance(check, FilesPerCheck) and check.time is None and source_path is not None:
        yield from _time_faults(check, source_path)
    if isinstance(check, RouteRateCheck) and topics is not None:
        yield from _topic_faults(check, topics)


def faults_without_quarantine(source: Sequence[SourceCheck], delivery: Sequence[DeliveryCheck]) -> Iterator[Fault]:
    """(place below `gates`, why) of the checks that mean nothing in a pipeline without `quarantine`."""
    for index, check in enumerate(source):
        if isinstance(check, RecordCheck) and check.severity == "quarantine":
            why = "`quarantine` needs a topic to go to: add `quarantine: {topic: …}` to the pipeline"
            yield ("source", index, check.check, "severity"), why
    for index, last in enumerate(delivery):
        if isinstance(last, QuarantineRateCheck):
            why = "it needs `quarantine`: without it no record goes there, and the first bad one fails the run"
            yield ("delivery", index, last.check, "check"), why


def _time_faults(check: FilesPerCheck, source_path: str) -> Iterator[Fault]:
    pattern = pattern_of_source(source_path)
    if pattern is None:
        yield (), "`time` is needed: `source.path` does not say where a file's path has its time; write it as in /%Y/%m/%d/%H/"
        return
    try:
        check.path_time(pattern)
    except ValueError as error:
        yield (), f"`time` is taken from `source.path` ({pattern!r}): {error}"


def _topic_faults(check: RouteRateCheck, topics: Sequence[str]) -> Iterator[Fault]:
    patterns = [".*".join(re.escape(part) for part in TOPIC_COLUMN.split(topic)[::2]) for topic in topics]
    for topic in check.topics:
        if not any(re.fullmatch(pattern, topic) for pattern in patterns):
            yield ("topics", topic, THE_KEY), f"no route leads to topic {topic!r}{suggestion(topic, topics)}"
    if not check.topics and all(TOPIC_COLUMN.search(topic) for topic in topics):
        yield (), "there is no topic to look at: every route's topic depends on the record; name some under `topics`"
