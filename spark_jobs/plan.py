"""Step `plan`: the files of the window, and for each cluster what the ledger holds of them. It only reads."""

from __future__ import annotations

import datetime as dt

from shipper.config import resolve_uri
from shipper.config.models import Cluster
from shipper.delivery.ledger_log import LedgerLog
from shipper.delivery.preflight import Sample, missing_topics, missing_topics_message, preflight
from shipper.delivery.remaining import remaining
from shipper.errors import ShipperError, SourceError
from shipper.ledger.chunks import Chunks
from shipper.plan.files import ListedFile, select
from shipper.plan.window import source_paths
from shipper.producer.client import ClusterClient
from shipper.report.results import ClusterPlan, LeftOut, PlannedFile, PlanResult
from shipper.terms import FileId
from spark_jobs.context import RunContext, file_id, say
from spark_jobs.listing import list_files, take_sample


def plan(context: RunContext, started_at: dt.datetime) -> PlanResult:
    """Raises SourceError for a window without files (unless `when_empty: succeed`), beyond a limit, or if no cluster can be shipped to."""
    pipeline = context.pipeline
    pattern = resolve_uri(context.config_dir, pipeline.source.path)
    paths = source_paths(pattern, context.window)
    say(f"plan: listing {paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else ""))
    listed = list_files(context.spark, paths, recursive=pipeline.source.recursive)
    files, left_out = select(
        listed, include=pipeline.source.include, settle_seconds=pipeline.source.settle_seconds, now=dt.datetime.now(dt.UTC)
    )
    result = PlanResult(
        **context.common("plan"),
        started_at=started_at,
        finished_at=started_at,
        source=pattern,
        transform_digest=pipeline.transform_digest(),
        reship=context.reship,
        files=[_planned(context, file) for file in files],
        left_out=[LeftOut(path=file.id.path, reason=reason) for file, reason in left_out],
        topics=list(dict.fromkeys(route.topic for route in pipeline.routes)),
    )
    _check_limits(context, result, pattern)
    if context.source_only:
        result.finished_at = dt.datetime.now(dt.UTC)
        return result
    if files:
        sample = take_sample(context.spark, [file.id.path for file in files], pipeline.delivery.compression)
        result.sample_ratio, result.long_lines = sample.ratio, sample.long_lines
    wanted: set[FileId] = set()
    for name in pipeline.clusters:
        found, left = cluster_plan(context, result, context.clusters[name])
        result.clusters.append(found)
        wanted |= left
    for file in result.files:
        file.left = file_id(file) in wanted
    problems = [cluster.problem for cluster in result.clusters if cluster.problem]
    if problems and len(problems) == len(result.clusters):
        result.status, result.error = "failed", " ".join(problems)
    result.finished_at = dt.datetime.now(dt.UTC)
    return result


def _planned(context: RunContext, file: ListedFile) -> PlannedFile:
    starts = context.split_starts(file.id)
    return PlannedFile(
        path=file.id.path, uri=file.uri, size_bytes=file.id.size_bytes, modified_ms=file.id.modified_ms, splits=len(starts)
    )


def _check_limits(context: RunContext, result: PlanResult, pattern: str) -> None:
    pipeline = context.pipeline
    if not result.files and pipeline.source.when_empty == "fail":
        left_out = (
            f" ({len(result.left_out)} left out: {result.left_out[0].path}: {result.left_out[0].reason}, …)"
            if result.left_out
            else ""
        )
        raise SourceError(
            f"pipeline {pipeline.name}: no files for window {context.window} at {pattern}{left_out}. Nothing was sent. Check the path "
            "and `source.include`; if such a window is normal, set `source.when_empty: succeed`."
        )
    limits = pipeline.limits
    if len(result.files) > limits.max_files:
        raise SourceError(
            f"pipeline {pipeline.name}: {len(result.files)} files in window {context.window}, more than `limits.max_files` "
            f"({limits.max_files}). Nothing was sent. Use a shorter window, or raise the limit."
        )
    if limits.max_bytes is not None and result.total_bytes > limits.max_bytes:
        raise SourceError(
            f"pipeline {pipeline.name}: {result.total_bytes} bytes in window {context.window}, more than `limits.max_bytes` "
            f"({limits.max_bytes}). Nothing was sent. Use a shorter window, or raise the limit."
        )


def cluster_plan(context: RunContext, plan: PlanResult, cluster: Cluster) -> tuple[ClusterPlan, set[FileId]]:
    """One cluster's part, and the files that it lacks: all, if it cannot be asked. Never raises: the others must not suffer."""
    found = ClusterPlan(cluster=cluster.name)
    pipeline = context.pipeline
    sizes = {file_id(file): file.size_bytes for file in plan.files}
    try:
        client = ClusterClient(cluster)
        found.missing_topics = missing_topics(pipeline, client.topics())
        ledger = LedgerLog(client, cluster, pipeline.name, context.ledger_folder(cluster.name))
        chunks = Chunks(pipeline.name)
        if ledger.exists():
            chunks = ledger.state([file.path for file in plan.files], wait_seconds=None).chunks
        source = pipeline.source
        left = remaining(
            context.splits_of(plan), chunks, digest=plan.transform_digest, reship=context.reship, on_replaced=source.on_replaced
        )
    except ShipperError as error:
        found.problem = error.message
        return found, set(sizes)
    if found.missing_topics:
        found.problem = missing_topics_message(cluster.name, pipeline, found.missing_topics)
    found.complete_files, found.partial_files, found.left_files = len(left.complete), len(left.partial), len(left.left)
    found.left_bytes = sum(sizes[file] for file in left.left)
    found.records_there = left.records_there
    if left.left and not found.problem:
        _add_tuning(found, client, cluster, context, plan)
    return found, set(left.left)


def _add_tuning(found: ClusterPlan, client: ClusterClient, cluster: Cluster, context: RunContext, plan: PlanResult) -> None:
    try:
        ready = preflight(client, cluster, context.pipeline, Sample(plan.sample_ratio, plan.long_lines))
    except ShipperError as error:
        found.problem = error.message
        return
    tuning = ready.tuning
    found.rtt_ms, found.tuning = ready.rtt_seconds * 1000, tuning.why
    found.lanes, found.batch_bytes, found.chunk_bytes = tuning.lanes, tuning.batch_bytes, tuning.chunk_bytes
