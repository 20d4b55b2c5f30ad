"""Options of one run alone, beyond its window (:class:`shipper.runner.JobOptions`): whether they
make sense, and the pipeline of such a run. For ``shipper run``, for Airflow's form and for the
process that runs the steps alike."""

from __future__ import annotations

from collections.abc import Sequence

from shipper.config import resolve_uri
from shipper.config.pipeline import Pipeline
from shipper.config.rules import suggestion
from shipper.config.units import parse_rate, plural, write_size
from shipper.report.plan_result import PlanResult
from shipper.report.results import GateResult
from shipper.report.run_folder import Asked
from shipper.runner import CLOSED_GATE, PLAN, REPORT, Job, JobOptions, step_names

#: Below `runs_uri`. No pipeline can have this name; and what lies here is no run of a window to
#: anybody who looks for what was shipped.
DRY_RUNS = "_dry_runs"


def skippable(pipeline: Pipeline) -> list[str]:
    """Return the names of the source gate's checks that a run may skip, and that of a delivery gate
    that closed in an earlier run. A check that sends records to quarantine cannot be skipped: it
    decides which records a file becomes, and so must be the same in every run."""
    checks = [check.title for check in pipeline.gates.source if check.severity != "quarantine"]
    return list(dict.fromkeys([*checks, CLOSED_GATE]))


SHIP_ANYWAY, SKIP_FAILED, LEAVE = "Ship all the same", "Skip the failed checks", "Leave it"
"""Answers to a closed source gate (`gates.on_closed: ask`)."""


def failed_checks(gate: GateResult, pipeline: Pipeline) -> list[str]:
    """Return the checks that close the gate; empty if one of them cannot be skipped."""
    failed = [
        check.check for check in gate.checks if check.severity == "block" and not check.passed
    ]
    return failed if set(failed) <= set(skippable(pipeline)) else []


def skips_for(answer: str, failed: Sequence[str], pipeline: Pipeline) -> tuple[str, ...]:
    """Return the checks that the run skips by the answer; none for :data:`LEAVE`."""
    if answer == SHIP_ANYWAY:
        return tuple(name for name in skippable(pipeline) if name != CLOSED_GATE)
    return tuple(failed) if answer == SKIP_FAILED else ()


def question(gate: GateResult, planned: PlanResult) -> str:
    """Return the facts that a person decides by: what failed, and how much is concerned."""
    left = [file for file in planned.files if file.left]
    size = sum(file.size_bytes for file in left)
    found = [
        f"- {check.check}: expected {check.expected}, observed {check.observed}"
        for check in gate.checks
        if not check.passed
    ]
    rows = f"{plural(len(left), 'file')} of {write_size(size)} would be shipped ({gate.scope})."
    return "\n".join([*found, "", rows])


def contradiction(asked: JobOptions, pipeline: Pipeline) -> str | None:
    """Return what makes no sense in the options, in one sentence with the remedy; None if the run
    is possible."""
    for names, there, what in (
        (asked.to_clusters, list(pipeline.clusters), "has no cluster"),
        (
            asked.skip_checks,
            skippable(pipeline),
            "has no check that can be skipped by the name",
        ),
    ):
        if unknown := [name for name in names if name not in there]:
            return (
                f"pipeline {pipeline.name} {what} "
                f"{unknown[0]!r}{suggestion(unknown[0], there) if there else '; there is none'}"
            )
    if asked.rate_limit is not None:
        try:
            if parse_rate(asked.rate_limit) < 1:
                return "`rate_limit` of 0 bytes per second never ends. Leave it out for no limit"
        except ValueError as error:
            return f"`rate_limit` {asked.rate_limit!r}: {error}"
    return _not_together(asked)


def _not_together(asked: JobOptions) -> str | None:
    if _says(asked.reship_reason) and not asked.reship:
        return "`reship_reason` is set and `reship` is off. Set `reship`, or leave the reason out"
    if asked.reship and not asked.plan_only and not _says(asked.reship_reason):
        return (
            "`reship` sends every file of the window again, and consumers see duplicates. Give "
            "the reason in `reship_reason`. If only missing records are to be sent, leave "
            "`reship` off"
        )
    if asked.skip_checks and not _says(asked.skip_reason):
        return (
            f"skipping the checks {', '.join(asked.skip_checks)} needs a reason. Give it "
            "in `skip_reason`"
        )
    if _says(asked.skip_reason) and not asked.skip_checks:
        return (
            "`skip_reason` is set and no check is skipped. Name checks in `skip_checks`, or "
            "leave the reason out"
        )
    sends = [name for name in ("rate_limit", "skip_checks") if getattr(asked, name)]
    if asked.plan_only and sends:
        return (
            f"`plan_only` sends nothing and runs no gate, so `{sends[0]}` has no effect. Leave "
            "one of them out"
        )
    return None


def _says(reason: str | None) -> bool:
    return bool((reason or "").strip())


def apply_options(pipeline: Pipeline, asked: JobOptions) -> Pipeline:
    """Return the pipeline as this run ships it. What a file becomes is the same: the transform's
    digest does not change."""
    delivery, gates = pipeline.delivery, pipeline.gates
    targets = {
        name: pipeline.targets[name]
        for name in pipeline.clusters
        if not asked.to_clusters or name in asked.to_clusters
    }
    if asked.rate_limit is not None:
        most = parse_rate(asked.rate_limit)
        delivery = delivery.model_copy(
            update={"rate_limit": min(most, delivery.rate_limit or most)}
        )
        capped = {
            name: min(most, target.rate_limit)
            for name, target in targets.items()
            if target.rate_limit
        }
        targets |= {
            name: targets[name].model_copy(update={"rate_limit": limit})
            for name, limit in capped.items()
        }
    if asked.skip_checks:
        left = tuple(
            check
            for check in gates.source
            if check.severity == "quarantine" or check.title not in asked.skip_checks
        )
        gates = gates.model_copy(update={"source": left})
    return pipeline.model_copy(update={"delivery": delivery, "gates": gates, "targets": targets})


def for_results(pipeline: Pipeline, asked: JobOptions) -> Asked | None:
    """Return what each result of the run says of its options; ``pipeline`` is the whole one. None:
    nothing special."""
    others = [
        name for name in pipeline.clusters if asked.to_clusters and name not in asked.to_clusters
    ]
    found = Asked(
        clusters=list(asked.to_clusters) if others else [],
        other_clusters=others,
        rate_limit=asked.rate_limit or "",
        skipped_checks=list(asked.skip_checks),
        skip_reason=" ".join((asked.skip_reason or "").split()),
        plan_only=asked.plan_only,
    )
    return found if found != Asked() else None


def steps_of(pipeline: Pipeline, asked: JobOptions) -> list[str]:
    """Return the steps of a run with these options, in order."""
    return (
        [PLAN, REPORT] if asked.plan_only else step_names(apply_options(pipeline, asked).clusters)
    )


def dry_runs_uri(job: Job) -> str:
    """Return where the results of a dry run go."""
    return f"{resolve_uri(job.config_dir, job.pipeline.runs_uri).rstrip('/')}/{DRY_RUNS}"


def why_skipped(step: str, clusters: Sequence[str], *, plan_only: bool) -> str | None:
    """Return why a run with these options skips the step; None: it does not."""
    name, _, cluster = step.partition(":")
    if name in (PLAN, REPORT):
        return None
    if plan_only:
        return "a dry run was asked for (`plan_only`): the run plans and reports, and sends nothing"
    if cluster and clusters and cluster not in clusters:
        return (
            f"this run ships only to {', '.join(clusters)} (`clusters`): {cluster} gets nothing "
            "from it"
        )
    return None
