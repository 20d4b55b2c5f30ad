"""What Spark decides about each line: shipped, dropped by which rule, or rejected for which reason; and its own count of these.

A line that is dropped is not filtered out: a chunk is an interval of ordinals, so every line must be counted where the chunks are cut.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from shipper.config.content_checks import RecordCheck
from shipper.config.pipeline import Pipeline
from shipper.config.records import UNPARSEABLE, UNROUTABLE
from shipper.config.rules import sql_column
from shipper.worker.marks import MARK
from spark_jobs.parsing import is_parsed

#: A name that no column of a pipeline can have.
DISPOSITION = "disposition!"


def rules(pipeline: Pipeline) -> tuple[str, ...]:
    return tuple(pipeline.records.drop)


def reasons(pipeline: Pipeline) -> tuple[str, ...]:
    """Why Spark sends a record to quarantine, in the order in which it asks."""
    unparseable = (UNPARSEABLE,) if pipeline.records.parse is not None else ()
    return (*unparseable, *quarantine_checks(pipeline))


def quarantine_checks(pipeline: Pipeline) -> dict[str, list[str]]:
    """Title → conditions of the checks with severity `quarantine`, each true of a record that is right."""
    found: dict[str, list[str]] = {}
    for check in pipeline.gates.source:
        if isinstance(check, RecordCheck) and check.severity == "quarantine":
            found.setdefault(check.title, []).append(check.condition())
    return found


def disposition(pipeline: Pipeline) -> Column | None:
    """A byte: null, ship it; else an index into ``rules`` and ``reasons`` behind them. The first that holds counts. None: every
    line is shipped."""
    conditions = [F.expr(condition) for condition in pipeline.records.drop.values()]
    if pipeline.records.parse is not None:
        conditions.append(~is_parsed(pipeline.records.parse))
    for right in quarantine_checks(pipeline).values():
        all_right = F.expr(" AND ".join(f"({condition})" for condition in right))
        conditions.append(~F.coalesce(all_right, F.lit(False)))
    if not conditions:
        return None
    chosen = F.lit(None).cast("tinyint")
    for index in reversed(range(len(conditions))):
        chosen = F.when(conditions[index], F.lit(index).cast("tinyint")).otherwise(chosen)
    return chosen


def is_dropped(pipeline: Pipeline) -> Column:
    return F.col(sql_column(DISPOSITION)) < len(pipeline.records.drop)


def counts(pipeline: Pipeline, topic: Column | None) -> list[Column]:
    """Aggregates for `observe`, named as in ``observed``. ``topic``: the column with its name, where that is not known before reading."""
    column = F.col(sql_column(DISPOSITION))
    found = [F.count_if(column == index).alias(name) for index, name in enumerate(_names(pipeline))]
    if topic is not None and pipeline.quarantine is not None:
        unmarked = F.col(sql_column(MARK)).isNull()
        free = column.isNull() & unmarked if _names(pipeline) else unmarked
        found.append(F.count_if(free & topic.isNull()).alias(f"quarantined: {UNROUTABLE}"))
    return found


def counts_dispositions(pipeline: Pipeline) -> bool:
    """Whether there is anything to observe."""
    return bool(_names(pipeline)) or (pipeline.quarantine is not None and any(route.columns for route in pipeline.routes))


def _names(pipeline: Pipeline) -> list[str]:
    return [f"filtered: {rule}" for rule in rules(pipeline)] + [f"quarantined: {reason}" for reason in reasons(pipeline)]
