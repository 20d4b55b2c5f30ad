"""Dispositions of a line: shipped, dropped by a rule, or sent to quarantine for a reason; and
whether any SQL decides this. Pure; Spark decides it of each line (spark_jobs.frame), and the tasks
and the account count by the same names."""

from __future__ import annotations

from collections.abc import Iterable

from shipper.config.content_checks import ContentCheck, RecordCheck, RowsCheck, SourceCheck
from shipper.config.pipeline import Pipeline
from shipper.config.record_mapping import UNENCODABLE, UNPARSEABLE


def rules(pipeline: Pipeline) -> tuple[str, ...]:
    return tuple(pipeline.records.drop)


def reasons(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the reasons for which Spark sends a record to quarantine, in the order in which Spark
    checks them."""
    unparseable = (UNPARSEABLE,) if pipeline.records.parse is not None else ()
    unencodable = (UNENCODABLE,) if pipeline.records.avro is not None else ()
    return (*unparseable, *unencodable, *quarantine_checks(pipeline))


def quarantine_checks(pipeline: Pipeline) -> dict[str, list[str]]:
    """Return title → conditions of the checks with severity `quarantine`, each true for a record
    that is right."""
    found: dict[str, list[str]] = {}
    for check in pipeline.gates.source:
        if isinstance(check, RecordCheck) and check.severity == "quarantine":
            found.setdefault(check.title, []).append(check.condition())
    return found


def names(pipeline: Pipeline) -> list[str]:
    """Return the names of ``rules``, and then of ``reasons``, as ``ShipResult.observed`` has
    them."""
    return [f"filtered: {rule}" for rule in rules(pipeline)] + [
        f"quarantined: {reason}" for reason in reasons(pipeline)
    ]


def is_counted(pipeline: Pipeline) -> bool:
    """Return True if there is anything to observe."""
    return bool(names(pipeline)) or (
        pipeline.quarantine is not None and any(route.columns for route in pipeline.routes)
    )


def fixed_topics(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the pipeline's topics if all of them are known before reading; else nothing."""
    return () if any(route.columns for route in pipeline.routes) else tuple(pipeline.fixed_topics())


def crosses_in_blocks(pipeline: Pipeline) -> bool:
    """Return whether no expression looks at a record: they leave as they were read, to one
    topic."""
    mapping = pipeline.records
    looked_at = mapping.key is not None or mapping.timestamp is not None or bool(mapping.headers)
    return (
        mapping.ships_lines
        and not looked_at
        and not names(pipeline)
        and len(fixed_topics(pipeline)) == 1
        and not (pipeline.source.format == "csv" and pipeline.quarantine is not None)
    )


def asks_spark(pipeline: Pipeline, checks: Iterable[SourceCheck]) -> bool:
    """Return whether a check of the source gate looks into lines by SQL, or into all files. The
    rows of a sample are counted without Spark, unless SQL says which of them are dropped."""
    return any(
        isinstance(check, ContentCheck)
        and not (
            isinstance(check, RowsCheck) and check.on == "sample" and not pipeline.records.drop
        )
        for check in checks
    )


def has_sql(pipeline: Pipeline) -> bool:
    """Return whether SQL looks at records, in a ship or in the source gate."""
    return not crosses_in_blocks(pipeline) or asks_spark(pipeline, pipeline.gates.source)
