"""Request for one run: what it is asked for, beyond its pipeline and window.

``shipper run`` makes its options of the fields that have a title, and Airflow's form its params
(:mod:`shipper.cli.run_options`, ``shipper_airflow/dags/form.py``). The process that runs the steps
gets the request as a file, and each result of the run holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, Field, field_validator

from shipper.config.pipeline import Pipeline
from shipper.config.replay_request import Replay
from shipper.config.rules import Model, suggestion
from shipper.config.units import RATE_PATTERN, parse_rate
from shipper.stopping import SAME_COMMAND

#: Name by which a run opens a delivery gate of its window that closed in an earlier run, among the
#: checks that it may skip.
CLOSED_GATE = "closed_delivery_gate"
#: Below `runs_uri`. No pipeline can have this name; and what lies here is no run of a window to
#: anybody who looks for what was shipped.
DRY_RUNS = "_dry_runs"


class Form(dict[str, Any]):
    """Needs of Airflow's form for a field, besides its type, title and description."""


_RARE = Form(section="Rarely needed")


class RunRequest(Model):
    """Options of a run. Fields with a title are those that people set."""

    plan_only: bool = Field(
        default=False,
        title="Dry run",
        description="Plan, and report what would be shipped to which cluster. Nothing is sent, and "
        "the window does not count as shipped.",
    )
    clusters: Annotated[tuple[str, ...], Form(minItems=1)] = Field(
        default=(),
        title="Clusters",
        description="Ship only to these clusters of the pipeline. The others get nothing from this "
        "run, and their missing records stay missing.",
    )
    rate_limit: Annotated[str | None, Form(pattern=RATE_PATTERN)] = Field(
        default=None,
        title="Rate limit of this run",
        description="Limit in bytes per second on the wire to each cluster in this run, such as "
        "5MB/s. The pipeline's and the cluster's limits hold, too.",
    )
    skip_checks: Annotated[tuple[str, ...], _RARE] = Field(
        default=(),
        title="Checks to skip",
        description="Skip these checks of the source gate in this run, with a reason. "
        f"`{CLOSED_GATE}` opens a delivery gate of the window that closed in an earlier run. Other "
        "checks of the delivery gate are never skipped.",
        validation_alias=AliasChoices("skip_checks", "skipped_checks"),
    )
    skip_reason: Annotated[str | None, _RARE] = Field(
        default=None,
        title="Reason for skipping checks",
        description="Reason for skipping checks, for the report.",
    )
    reship: Annotated[bool, _RARE] = Field(
        default=False,
        title="Send everything again",
        description="Send EVERY file of the window again, whole, even if it is delivered already: "
        "consumers will see duplicates, and this cannot be undone. Needs a reason. To finish a "
        "window, or after an error, leave it off: then only what is missing is sent. One DAG run "
        "does this once, whatever is cleared or retried.",
    )
    reship_reason: Annotated[str | None, _RARE] = Field(
        default=None,
        title="Reason for the re-ship",
        description="Reason for sending everything again. The ledger and the report keep it; from "
        "Airflow, with the name of the user who triggers the run.",
    )
    new_ledger: Annotated[bool, _RARE] = Field(
        default=False,
        title="Give up a lost ledger",
        description="Only after a run has reported that the ledger is gone or was recreated: "
        "continue with a new ledger, in which every file of every window counts as not shipped. "
        "Records that the topics hold already are then sent a second time.",
    )

    other_clusters: tuple[str, ...] = ()
    """Clusters of the pipeline that get nothing from the run."""
    scheduled: bool = Field(
        default=False,
        description="Act as a scheduled run: also ship late files of earlier windows "
        "(`source.lookback`).",
    )
    reship_id: str | None = None
    """Id of the reship: a run with the same id continues it. By default the run's id."""
    runs_uri: str | None = None
    """Place of the results instead of the pipeline's `runs_uri`: the run is a trial, of which
    nothing is remembered."""
    source_only: bool = False
    """Plan without asking a cluster: all files count as not shipped."""
    files: tuple[str, ...] = ()
    """Paths and URIs of files instead of the window's."""
    replay: Replay | None = None
    lines: int | None = None
    """Number of lines that a preview shows."""
    log_url: str | None = None
    """Address of the run's log, for the report."""
    brief: bool = False
    """True if the process that started this one writes the closing lines."""

    @field_validator("skip_reason")
    @classmethod
    def _one_line(cls, reason: str | None) -> str | None:
        return reason and " ".join(reason.split())

    def is_for(self, cluster: str) -> bool:
        """True if the run is to ship to the cluster, of those that the pipeline has."""
        return not self.clusters or cluster in self.clusters

    def how_to_finish(self, pipeline: str) -> str:
        """Return the advice on what sends the rest of the run."""
        return self.replay.how_to_finish(pipeline) if self.replay else SAME_COMMAND

    def results_uri(self, of_pipeline: str) -> str:
        """Return where the run's results go. ``of_pipeline``: its `runs_uri`, resolved."""
        own = f"{of_pipeline.rstrip('/')}/{DRY_RUNS}" if self.plan_only else of_pipeline
        return self.runs_uri or own


#: Fields that people set, in the order of Airflow's form.
FORM = tuple(name for name, field in RunRequest.model_fields.items() if field.title)
#: Field → the words that it may hold.
CHOICES: Mapping[str, Callable[[Pipeline], Sequence[str]]] = {
    "clusters": lambda pipeline: pipeline.clusters,
    "skip_checks": lambda pipeline: skippable(pipeline),
}


def skippable(pipeline: Pipeline) -> list[str]:
    """Return the names of the source gate's checks that a run may skip, and that of a delivery gate
    that closed in an earlier run. A check that sends records to quarantine cannot be skipped: it
    decides which records a file becomes, and so must be the same in every run."""
    checks = [check.title for check in pipeline.gates.source if check.severity != "quarantine"]
    return list(dict.fromkeys([*checks, CLOSED_GATE]))


def contradiction(
    request: RunRequest, pipeline: Pipeline, called: Callable[[str], str] = str
) -> str | None:
    """Return what makes no sense in the request, in one sentence with the remedy; None if the run
    is possible. ``called``: the name of a field where the request was made."""

    def of(name: str) -> str:
        return f"`{called(name)}`"

    for name, what in (
        ("clusters", "has no cluster"),
        ("skip_checks", "has no check that can be skipped by the name"),
    ):
        known = list(CHOICES[name](pipeline))
        if unknown := [word for word in getattr(request, name) if word not in known]:
            hint = suggestion(unknown[0], known) if known else "; there is none"
            return f"pipeline {pipeline.name} {what} {unknown[0]!r}{hint}"
    if request.rate_limit is not None:
        limit = of("rate_limit")
        try:
            if parse_rate(request.rate_limit) < 1:
                return f"{limit} of 0 bytes per second never ends. Leave it out for no limit"
        except ValueError as error:
            return f"{limit} {request.rate_limit!r}: {error}"
    return _not_together(request, of)


def _not_together(request: RunRequest, of: Callable[[str], str]) -> str | None:
    reship_reason, skip_reason = (
        (reason or "").strip() for reason in (request.reship_reason, request.skip_reason)
    )
    if reship_reason and not request.reship:
        return (
            f"{of('reship_reason')} is set and {of('reship')} is off. Set {of('reship')}, or leave "
            "the reason out"
        )
    if request.reship and not request.plan_only and not reship_reason:
        return (
            f"{of('reship')} sends every file of the window again, and consumers see duplicates. "
            f"Give the reason in {of('reship_reason')}. If only missing records are to be sent, "
            f"leave {of('reship')} off"
        )
    if request.skip_checks and not skip_reason:
        return (
            f"skipping the checks {', '.join(request.skip_checks)} needs a reason. Give it in "
            f"{of('skip_reason')}"
        )
    if skip_reason and not request.skip_checks:
        return (
            f"{of('skip_reason')} is set and no check is skipped. Name checks in "
            f"{of('skip_checks')}, or leave the reason out"
        )
    sends = [name for name in ("rate_limit", "skip_checks") if getattr(request, name)]
    if request.plan_only and sends:
        return (
            f"{of('plan_only')} sends nothing and runs no gate, so {of(sends[0])} has no effect. "
            "Leave one of them out"
        )
    return None


def apply_request(whole: Pipeline, request: RunRequest) -> tuple[Pipeline, RunRequest]:
    """Return the pipeline as this run ships it, and the request with the clusters that are left
    out; ``whole`` is the pipeline of its file. What a file becomes is the same: the transform's
    digest does not change."""
    delivery, gates = whole.delivery, whole.gates
    others = tuple(name for name in whole.clusters if not request.is_for(name))
    targets = {name: whole.targets[name] for name in whole.clusters if name not in others}
    if request.rate_limit is not None:
        most = parse_rate(request.rate_limit)
        capped: dict[str, Any] = {"rate_limit": min(most, delivery.rate_limit or most)}
        delivery = delivery.model_copy(update=capped)
        targets = {
            name: target.model_copy(
                update={"rate_limit": target.rate_limit and min(most, target.rate_limit)}
            )
            for name, target in targets.items()
        }
    if request.skip_checks:
        left = tuple(
            check
            for check in gates.source
            if check.severity == "quarantine" or check.title not in request.skip_checks
        )
        gates = gates.model_copy(update={"source": left})
    pipeline = whole.model_copy(update={"delivery": delivery, "gates": gates, "targets": targets})
    clusters = request.clusters if others else ()
    return pipeline, request.model_copy(update={"clusters": clusters, "other_clusters": others})
