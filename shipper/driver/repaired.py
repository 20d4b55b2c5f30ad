"""Step `repaired`: whether repaired records would go to quarantine again, and what of them leaves.
Asks no cluster, and sends nothing."""

from __future__ import annotations

import datetime as dt

from shipper.config.pipeline import Pipeline
from shipper.driver.context import RunContext
from shipper.driver.dispositions import reasons
from shipper.report.repaired import TO_JUDGE, RepairedResult
from shipper.runner import REPAIRED


def judges_lines(pipeline: Pipeline) -> bool:
    """True if the quarantine holds lines, which can be parsed and checked again."""
    return (
        pipeline.records.value == "value"
        and pipeline.records.avro is None
        and bool(reasons(pipeline))
    )


def repaired(context: RunContext, started_at: dt.datetime) -> RepairedResult:
    """Judge repaired records. Raises ConfigError for SQL that a run would refuse."""
    asked = RepairedResult.model_validate_json(context.folder.read_text(TO_JUDGE) or "")
    context.start_spark_for_sql()
    with context.phases("judging"):
        context.engine.judge_repaired(asked.records)
    return RepairedResult(**context.common(REPAIRED, started_at), records=asked.records)
