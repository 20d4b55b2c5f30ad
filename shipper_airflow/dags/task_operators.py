"""Operators of the DAGs' tasks. A DAG file only constructs these, so what costs time to import is
imported in ``execute``."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from airflow.sdk import Asset, BaseOperator, RetryDecision, RetryPolicy
from airflow.sdk.exceptions import (
    AirflowRescheduleException,
    AirflowSkipException,
    TaskAwaitingInput,
)

from shipper import runtime
from shipper.config.pipeline import Pipeline
from shipper.error_codes import GATE_CLOSED, with_code
from shipper.errors import ConfigError, UsageError, WindowError
from shipper.request import FORM, RunRequest, contradiction
from shipper.runner import GATE_DELIVERY, GATE_SOURCE, PLAN, REPORT, Job, new_run_id, why_skipped
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window, parse_moment, partition_key
from shipper_airflow.dags.faults import StepFailed
from shipper_airflow.dags.links import ReportLink, WindowLink, report_url, run_page, window_url
from shipper_airflow.run_window import opens_at, window_of_run

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shipper.report.results import DeliveryGateResult, RunReport, ShipResult
    from shipper.report.run_folder import RunFolder, StepResult
    from shipper_airflow.dags.step import Child

log = logging.getLogger(__name__)
RESOLVE_WINDOW = "resolve_window"
RUN = "run"
"""Task of a DAG that does a run in one task; and the key of the XCom by which that task's callbacks
know which run it was."""
T = TypeVar("T")
FAILURE = "failure"
"""Key of the XCom with a failed task's words: ``at``, when it failed, and ``says``, why."""
DECISION, ASKED = "decision", "asked"
"""Keys of the XComs of a gate that asks: the options that a person's answer adds to the run, and
the checks that were asked about."""
#: Options of a run, in the form or as JSON.
PARAMS = ("window_start", "window_end", *FORM)
#: Shorter waits happen in the task. Airflow fails a task that it queues again before it heard that
#: the process of the last time ended.
_WAIT_HERE_SECONDS = 60.0
#: Tries of a cluster, a minute and a half apart in all, while the next run waits: a broker that is
#: started again is back by then.
_TRIES_BEFORE_WAY = 3
_LEVEL = re.compile(r"\b(DEBUG|WARN(?:ING)?|ERROR|FATAL|CRITICAL|FAILED)\b")
_LEVELS = {"DEBUG": logging.DEBUG, "WARN": logging.WARNING, "WARNING": logging.WARNING}


def leaves_word(execute: Callable[..., T]) -> Callable[..., T]:
    """Keep why and when a task failed as an XCom, for the run's notice: Airflow tells no other task
    of the run. A later attempt starts without it."""

    @functools.wraps(execute)
    def run(self: Any, context: Context, **more: Any) -> T:
        try:
            return execute(self, context, **more)
        except (AirflowSkipException, AirflowRescheduleException, TaskAwaitingInput):
            raise
        except BaseException as error:
            says = (
                str(error) if isinstance(error, StepFailed) else f"{type(error).__name__}: {error}"
            )
            try:
                context["ti"].xcom_push(
                    key=FAILURE, value={"at": runtime.now().isoformat(), "says": says}
                )
            except Exception:
                log.exception("the run's notice will lack this message")
            raise

    return run


class _UnlessFinal(RetryPolicy):
    def evaluate(
        self,
        exception: BaseException,
        try_number: int,
        max_tries: int,
        context: Context | None = None,
    ) -> RetryDecision:
        # Neither error is of the world: our own code, or a caller's, is wrong.
        final = isinstance(exception, TypeError | AttributeError) or (
            isinstance(exception, StepFailed) and exception.final
        )
        return (
            RetryDecision.fail("its log says why no retry follows")
            if final
            else RetryDecision.default()
        )


class PipelineOperator(BaseOperator):
    """Works for one run of a pipeline."""

    operator_extra_links = (ReportLink(), WindowLink())

    def __init__(self, *, pipeline: Pipeline, config_dir: Path, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "retry_policy": kwargs.get("retry_policy") or _UnlessFinal()})
        self.pipeline = pipeline
        self.config_dir = config_dir
        self.report_url = self.window_url = ""
        """Addresses of this task's run, once it has begun."""
        self._child: Child | None = None
        self._ships: list[ShipResult] = []

    def resolve(self, context: Context, asks: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the run's facts for its tasks: its window, its id and its request. ``asks``: the
        options; None: those of the DAG run. Waits until the window has settled, unless the options
        name it. Raises StepFailed if there is no such window, AirflowRescheduleException."""
        params: Mapping[str, Any]
        if asks is None:
            params, conf = context["params"], context["dag_run"].conf or {}
        else:
            given = {name: value for name, value in asks.items() if value}
            if both := given.pop("window", None):
                given["window_start"], _, given["window_end"] = both.partition("/")
            params = conf = given
        asked = asked_for(params, self.pipeline)
        if fault := find_fault(conf, asked, self.pipeline):
            self._refuse(f"{fault}. Nothing was sent. Trigger the DAG again. [SHIP-101]")
        asked = asked.model_copy(update=_facts(context, asked))
        schedule, settle = self.pipeline.schedule, self.pipeline.source.settle_seconds
        try:
            window = window_of_run(schedule, settle, context["dag_run"], params)
        except WindowError as error:
            self._refuse(str(error))
        if not params.get("window_start"):
            self._wait_until_settled(window)
        run = {
            "window_start": window.start.isoformat(),
            "window_end": window.end.isoformat(),
            "run_id": new_run_id(),
            "began": runtime.now().isoformat(),
            "request": asked.model_dump(mode="json", exclude_defaults=True),
        }
        self._show(job_of(run, self.pipeline, self.config_dir, ()))
        self.log.info("window %s, shipper run %s%s", window, run["run_id"], _in_words(asked))
        return run

    def _show(self, job: Job) -> None:
        self.report_url, self.window_url = report_url(job, folder_of(job)), window_url(job)

    def _wait_until_settled(self, window: Window) -> None:
        """Wait until the window has settled. Raises AirflowRescheduleException if that takes longer
        than a task may hold a worker."""
        settled = opens_at(window, self.pipeline.source.settle_seconds)
        seconds = (settled - runtime.now()).total_seconds()
        if seconds <= 0:
            return
        self.log.info(
            "window %s: waiting until %s, when its last files have settled",
            window,
            f"{settled:%Y-%m-%d %H:%M:%S UTC}",
        )
        if seconds > _WAIT_HERE_SECONDS:
            raise AirflowRescheduleException(settled)  # type: ignore[no-untyped-call]  # Airflow's own, without types
        runtime.sleep(seconds)

    def _refuse(self, why: str) -> NoReturn:
        self.log.error("%s", why)
        raise StepFailed(why)

    def _run_child(self, job: Job, within_seconds: float | None = None) -> tuple[int, Child]:
        """Run the job's steps in a process of their own, and return its exit code."""
        from shipper_airflow.dags.step import Child, given

        self._child = Child(job, given(job.config_dir, job.pipeline.name))
        return self._child.run(self._pass_on, within_seconds), self._child

    def _pass_on(self, line: str) -> None:
        """Log a line of the child at the level that its first words name."""
        level = _LEVEL.search(line[:60])
        self.log.log(_LEVELS.get(level[1], logging.ERROR) if level else logging.INFO, "%s", line)

    def _fail(self, failure: StepFailed) -> NoReturn:
        """Fail with a short message last: a sentence if the step's own log has the message in full;
        otherwise the whole message."""
        from shipper.report.message import one_sentence

        lines = [one_sentence(failure.message)] if failure.said else failure.message.splitlines()
        for line in lines:
            self.log.error("%s", line)
        raise StepFailed(one_sentence(failure.message), final=failure.final)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the task's lineage. OpenLineage's provider calls this, if it has a transport."""
        from shipper_airflow.lineage import lineage

        return lineage(self.pipeline, self.config_dir, self._ships)

    def _announce(self, context: Context, asset: Asset, receipt: Mapping[str, Any]) -> None:
        """Update the asset, once for each window that the run has completed on the cluster. If
        there is none, nothing is updated: an event without a key starts DAGs that look at no window
        and is an error to those that do."""
        if keys := [window["key"] for window in receipt["windows"]]:
            event = context["outlet_events"][asset]
            event.extra = dict(receipt)
            event.add_partitions(keys)
        else:
            self.outlets = [each for each in self.outlets if each != asset]
        self.log.info("%s: %s", asset.uri, ", ".join(keys) or "no window is complete with this run")

    def _count(self, results: Iterable[StepResult]) -> None:
        from shipper.report.results import ShipResult
        from shipper_airflow.dags.step import emit

        for result in results:
            if isinstance(result, ShipResult):
                self._ships.append(result)
            try:
                emit(result)
            except Exception:  # what was shipped is shipped, whatever becomes of its figures
                self.log.exception("the metrics of %s could not be sent", result.step)

    def on_kill(self) -> None:
        """Stop the child; called by the signal handler of the task's process."""
        if self._child is not None:
            self._child.ask_to_stop()


class ResolveWindow(PipelineOperator):
    """Operator that finds the run's window and gives the run its id, for the tasks after it, by
    XCom.

    A scheduled run begins when the window's files have settled. A manual run whose data interval
    has just ended waits once, until that moment, without holding a worker. A manual run with a
    named window does not wait, since its user may want the files that are there now.
    """

    template_fields = ("asks",)

    def __init__(self, *, asks: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Make the task. ``asks``: options instead of the DAG run's params. Templates are rendered
        in them; an option that is empty then is left out."""
        super().__init__(**kwargs)
        self.asks = asks

    @leaves_word
    def execute(self, context: Context) -> dict[str, Any]:
        return self.resolve(context, self.asks)


class ShipperStep(PipelineOperator):
    """Runs one step of the pipeline in a process of its own, by the same command line as ``shipper
    run``."""

    def __init__(
        self,
        *,
        step: str,
        resolved_by: str = RESOLVE_WINDOW,
        asset: Asset | None = None,
        give_up_after_seconds: float | None = None,
        faults: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.step = step
        self.resolved_by = resolved_by
        """The task that says which run it is."""
        self.asset = asset
        """Updated when the step succeeds; must be one of the task's outlets."""
        self.give_up_after_seconds = give_up_after_seconds
        """Counted from when the run's window was resolved, or a task of it was cleared."""
        self.faults = tuple(faults)
        """Faults of the present configuration; ``pipeline`` is then its last good version."""

    @leaves_word
    def execute(self, context: Context) -> dict[str, Any] | None:
        """Return the receipt of a cluster or, in the report, of the run."""
        from shipper_airflow.dags.step import failure_of, gave_up, result_of

        _refuse_broken(self.faults, self.log)
        self._skip_what_nobody_asked_for(self._run(context))
        job = self._job(context)
        folder = folder_of(job)
        self._show(job)
        self.log.info("%s of window %s%s", self.step, job.window, _attempt(context["ti"]))
        self.log.info(
            "Results: %s", self.window_url or folder.uri
        )  # a line of its own: Airflow's log makes a link of an address
        started = runtime.now()
        exit_code, child = self._run_child(job, self._seconds_left(context))
        result = result_of(folder, self.step, started)
        if result is not None:
            self._count([result])
        failure = failure_of(self.step, exit_code, result, folder, child.last_line)
        if child.gave_up and self.give_up_after_seconds:
            failure = gave_up(self.step, self.give_up_after_seconds)
        if failure is None and self.step == REPORT:
            failure = self._of_the_run(context, result, folder)
        if failure is not None:
            self._closed(context, job, result)
            self._give_way(context, job, failure)
            self._fail(failure)
        if result is None or self.step.partition(":")[0] not in (GATE_DELIVERY, REPORT):
            return None
        found = receipt(result, folder, self.report_url)
        if self.asset is not None:
            self._announce(context, self.asset, found)
        return found

    def _closed(self, context: Context, job: Job, result: StepResult | None) -> None:
        """Do what the pipeline wants of a step that failed, before it does."""

    def _give_way(self, context: Context, job: Job, failure: StepFailed) -> None:
        """Let this failure be the last if the next run of the schedule waits for this one: it looks
        back, and ships the rest to this cluster, while the other clusters need not wait for more
        retries."""
        pipeline, (_, _, cluster) = self.pipeline, self.step.partition(":")
        if not (cluster and pipeline.schedule and job.request.scheduled and pipeline.clusters[1:]):
            return
        following, source = Ticks(pipeline.schedule).window_of(job.window.end), pipeline.source
        looks_back = following.start - dt.timedelta(seconds=source.lookback_seconds)
        if (
            not failure.final
            and (context["ti"].try_number or 1) >= _TRIES_BEFORE_WAY
            and looks_back <= job.window.start
            and opens_at(following, source.settle_seconds) <= runtime.now()
        ):
            failure.final = True
            self.log.warning(
                "%s is not tried again in this run: the run of window %s is due. It looks back, "
                "and ships the rest to %s; the other clusters need not wait for that.",
                self.step,
                following,
                cluster,
            )

    def _skip_what_nobody_asked_for(self, run: Mapping[str, Any]) -> None:
        if why := why_skipped(self.step, request_of(run)):
            raise AirflowSkipException(why)

    def _seconds_left(self, context: Context) -> float | None:
        if self.give_up_after_seconds is None:
            return None
        began = dt.datetime.fromisoformat(self._run(context)["began"])
        cleared = context["dag_run"].start_date  # later than that, if a task of the run was cleared
        seconds = (runtime.now() - max(began, cleared or began)).total_seconds()
        return self.give_up_after_seconds - seconds

    def _of_the_run(
        self, context: Context, report: StepResult | None, folder: RunFolder
    ) -> StepFailed | None:
        """Judge the report step. The report is written. It fails only when the run did and no other
        task shows it: one cause is one red task."""
        from shipper_airflow.dags.step import failed_tasks

        cause = report.error if report else None
        failed = failed_tasks(context, self.resolved_by.removesuffix(RESOLVE_WINDOW))
        if failed:
            self.log.error(
                "The run failed in %s. %s\nThe report is in %s",
                ", ".join(failed),
                cause or "",
                folder.uri,
            )
            return None
        return StepFailed(cause) if cause else None

    def _run(self, context: Context) -> dict[str, Any]:
        run: dict[str, Any] | None = pull(context, self.resolved_by)
        if run is None:
            # The task that has failed says why, and one cause is one red task.
            raise AirflowSkipException(
                f"this run has no window, so {self.step} has nothing to do. See the task "
                f"{self.resolved_by}."
            )
        if "request" not in run:
            self._refuse(
                "this run was begun by another version of shipper, so what it was asked for is not "
                f"known. Nothing was sent. Clear {self.resolved_by} and all that follows it. "
                "[SHIP-101]"
            )
        if self.pipeline.gates.on_closed == "ask":
            gate = f"{self.resolved_by.removesuffix(RESOLVE_WINDOW)}{GATE_SOURCE}"
            request = {**run["request"], **(pull(context, gate, DECISION) or {})}
            run = {**run, "request": request}
        return run

    def _job(self, context: Context) -> Job:
        run = self._run(context)
        return job_of(run, self.pipeline, self.config_dir, (self.step,))


class AskingGate(ShipperStep):
    """A source gate that asks a person if it is closed (`gates.on_closed: ask`), by Airflow's own
    operator for that. The task waits in the state *awaiting input*, without holding a worker, and
    goes on with the answer: the gate is judged again, without what the person has it skip."""

    def _closed(self, context: Context, job: Job, result: StepResult | None) -> None:
        from airflow.providers.standard.operators.hitl import HITLOperator
        from airflow.sdk import Param

        from shipper.gate_question import LEAVE, SHIP_ANYWAY, SKIP_FAILED, failed_checks, question
        from shipper.report.plan_result import PlanResult
        from shipper.report.results import GateResult
        from shipper_airflow.dags.notice import tell_of_question

        if not isinstance(result, GateResult) or job.request.skip_checks:
            return
        if not (failed := failed_checks(result, self.pipeline)):
            return
        within = dt.timedelta(seconds=self.pipeline.gates.answer_within_seconds)
        asks = HITLOperator(
            task_id=self.task_id,
            subject=f"{self.pipeline.name} {job.window}: the source gate is closed by "
            f"{', '.join(failed)}",
            body=question(result, folder_of(job).need(PLAN, PlanResult)),
            options=[SHIP_ANYWAY, SKIP_FAILED, LEAVE],
            defaults=LEAVE,
            params={"reason": Param("", type="string", title="Reason", minLength=1)},
            response_timeout=within,
        )
        context["ti"].xcom_push(key=ASKED, value=failed)
        tell_of_question(self.pipeline, job, asks.subject, within, context)
        asks.execute(context)

    @leaves_word
    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> None:
        """Go on with the answer. Raises StepFailed if it is to leave the window, or if there is
        none."""
        from shipper.gate_question import LEAVE, skips_for

        failed: list[str] = context["ti"].xcom_pull(task_ids=self.task_id, key=ASKED) or []
        answer = next(iter(event.get("chosen_options") or ()), LEAVE)
        by = (event.get("responded_by_user") or {}).get("name")
        skips = skips_for(answer, failed, self.pipeline)
        if not skips or not by:
            said = f"{by} leaves it" if by else "nobody has answered in time"
            cause = f"the source gate is closed by {', '.join(failed)}, and {said}. "
            self._refuse(with_code(f"{cause}Nothing was sent.", GATE_CLOSED[GATE_SOURCE]))
        reason = " ".join(str((event.get("params_input") or {}).get("reason") or "").split())
        why = f"{answer}: {reason or 'no reason given'} ({by}, {runtime.now():%Y-%m-%d %H:%M} UTC)"
        context["ti"].xcom_push(
            key=DECISION, value={"skip_checks": list(skips), "skip_reason": why}
        )
        self.execute(context)


class WholeRun(PipelineOperator):
    """Does all steps of a run in one task and one process. A retry ships the missing records."""

    def __init__(
        self,
        *,
        assets: Mapping[str, Asset],
        asks: Mapping[str, Any] | None = None,
        give_up_after_seconds: float | None = None,
        faults: Sequence[str] = (),
        outlets: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Make the task. ``assets``: of each cluster, updated when the run has succeeded; the
        others as in :class:`ResolveWindow` and :class:`ShipperStep`."""
        super().__init__(outlets=[*(outlets or ()), *assets.values()], **kwargs)
        self.assets, self.asks = dict(assets), asks
        self.give_up_after_seconds, self.faults = give_up_after_seconds, tuple(faults)

    @leaves_word
    def execute(self, context: Context) -> dict[str, Any]:
        """Return the receipt. Raises StepFailed with the run's first cause."""
        from shipper.runner import steps_of

        _refuse_broken(self.faults, self.log)
        run = self.resolve(context, self.asks)
        context["ti"].xcom_push(key=RUN, value=run)
        job = job_of(run, self.pipeline, self.config_dir, ())
        job.steps = tuple(steps_of(self.pipeline, job.request))
        found = receipt(self._done(job), folder_of(job), self.report_url)
        of_run = {name: value for name, value in found.items() if name != "clusters"}
        for cluster, asset in self.assets.items():
            delivered = found["clusters"].get(cluster, {"windows": []})
            self._announce(context, asset, {**of_run, "cluster": cluster, **delivered})
        return found

    def _done(self, job: Job) -> RunReport:
        """Run the job, and return its report. Raises StepFailed if the run failed."""
        from shipper.report.results import RunReport
        from shipper_airflow.dags.step import failure_of, gave_up, result_of

        folder, started = folder_of(job), runtime.now()
        exit_code, child = self._run_child(job, self.give_up_after_seconds)
        report = result_of(folder, REPORT, started)
        if child.gave_up and self.give_up_after_seconds:
            self._fail(gave_up("the run", self.give_up_after_seconds))
        if not isinstance(report, RunReport):
            self._fail(
                failure_of("the run", exit_code, None, folder, child.last_line)
                or StepFailed("the run left no report [SHIP-003]", final=False)
            )
        steps = (report.gate_source, *report.ships, *report.delivery_gates, report)
        self._count(step for step in steps if step)
        if report.error:
            failed = [step for step in steps[:-1] if step and step.status == "failed"]
            # What is final on one cluster is no reason not to try again for another one.
            final = exit_code == UsageError.exit_code or (
                bool(failed) and all(step.final for step in failed)
            )
            self._fail(StepFailed(report.error, final=final, said=True))
        return report


def pull(context: Context, task_id: str, key: str = "return_value") -> Any:
    """Return what another task of the run has left; in a mapped group, the one of this place."""
    ti = context["ti"]
    index = map_index_of(ti)
    of_place: dict[str, Any] = {} if index is None else {"map_indexes": index}
    return ti.xcom_pull(task_ids=task_id, key=key, **of_place)


def map_index_of(ti: Any) -> int | None:
    """Return the place of the task in a mapped group of tasks; None outside of one."""
    index: int | None = getattr(ti, "map_index", None)
    return index if index is not None and index >= 0 else None


def _attempt(ti: Any) -> str:
    """Return the attempt's number in words; empty for the first one."""
    number = getattr(ti, "try_number", 1) or 1
    return f", attempt {number}" if number > 1 else ""


class BrokenConfig(BaseOperator):
    """Stands for a pipeline whose configuration cannot be read: fails and says why."""

    def __init__(self, *, faults: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.faults = tuple(faults)

    def execute(self, context: Context) -> None:
        _refuse_broken(self.faults, self.log)


def _refuse_broken(faults: Sequence[str], log: Any) -> None:
    if faults:
        for line in ("this DAG ships nothing:", *faults):
            log.error("%s", line)
        cause = f"this DAG ships nothing: {faults[0]}"
        raise StepFailed(with_code(cause, ConfigError.code))


def job_of(
    run: Mapping[str, Any], pipeline: Pipeline, config_dir: Path, steps: tuple[str, ...]
) -> Job:
    """Make the job. ``run``: what the run's first task said of it."""
    return Job(pipeline, config_dir, window_in(run), run["run_id"], steps, request_of(run))


def window_in(run: Mapping[str, Any]) -> Window:
    """Return the window of a run, of what its first task said."""
    return Window(*(parse_moment(run[name]) for name in ("window_start", "window_end")))


def request_of(run: Mapping[str, Any]) -> RunRequest:
    """Return the request of a run, of what its first task said."""
    return RunRequest.model_validate(run.get("request", {}))


def asked_for(params: Mapping[str, Any], pipeline: Pipeline) -> RunRequest:
    """Return the options of a run, from the form or from JSON. A choice of all clusters is the same
    as no choice."""
    given = {name: params[name] for name in FORM if params.get(name)}
    if sorted(given.get("clusters", ())) == sorted(pipeline.clusters):
        del given["clusters"]
    return RunRequest(**given)


def find_fault(conf: Mapping[str, Any], asked: RunRequest, pipeline: Pipeline) -> str | None:
    """Return the faults in the options of a run: an unknown key would otherwise be ignored
    silently."""
    from shipper.config.rules import suggestion

    unknown = [f"{name!r}{suggestion(name, PARAMS)}" for name in conf if name not in PARAMS]
    if unknown:
        return f"this run's conf has unknown keys or values: {'; '.join(unknown)}"
    if "clusters" in conf and not conf["clusters"]:
        return (
            "`clusters` names no cluster, so nothing could be shipped. Name some, or leave it "
            "out for all"
        )
    return contradiction(asked, pipeline)


def _facts(context: Context, asked: RunRequest) -> dict[str, Any]:
    """Return what the DAG run adds to its request."""
    dag_run, skips = context["dag_run"], asked.skip_reason
    return {
        # A backfill, and a manual run, ship what they were asked for.
        "scheduled": _is_scheduled(context),
        "log_url": run_page(dag_run.dag_id, context["run_id"]),
        **(reship_of(dag_run, asked.reship_reason or "dry run") if asked.reship else {}),
        **({"skip_reason": _by(dag_run, skips)} if skips else {}),
    }


def reship_of(dag_run: Any, reason: str) -> dict[str, Any]:
    """Return the options of this DAG run's reship. Its id is the same however often the run or a
    task of it is cleared, so it is done once."""
    asked = json.dumps(
        [dag_run.dag_id, dag_run.run_id, dag_run.conf or {}], sort_keys=True, default=str
    )
    return {
        "reship": True,
        "reship_id": f"reship-{hashlib.sha256(asked.encode()).hexdigest()[:12]}",
        "reship_reason": _by(dag_run, reason),
    }


def _by(dag_run: Any, reason: str) -> str:
    """Return the reason, on one line, and who gave it."""
    who = getattr(dag_run, "triggering_user_name", None)
    return f"{' '.join(reason.split())} ({f'{who}, ' if who else ''}DAG run {dag_run.run_id})"


def _in_words(asked: RunRequest) -> str:
    """Return how this run differs from a scheduled run, for the log."""
    said = [
        "a dry run: nothing is sent" if asked.plan_only else "",
        f"to {', '.join(asked.clusters)} alone" if asked.clusters else "",
        f"at most {asked.rate_limit} to each cluster" if asked.rate_limit else "",
        f"without the checks {', '.join(asked.skip_checks)}: {asked.skip_reason}"
        if asked.skip_checks
        else "",
        f"reship: {asked.reship_reason}" if asked.reship else "",
        "the old ledger is given up" if asked.new_ledger else "",
    ]
    return "".join(f"; {text}" for text in said if text)


def _is_scheduled(context: Context) -> bool:
    kind = getattr(context.get("dag_run"), "run_type", None)
    return getattr(kind, "value", kind) == "scheduled"


def folder_of(job: Job) -> RunFolder:
    from shipper.report.run_folder import RunFolder

    return RunFolder.of(job)


def receipt(result: StepResult, folder: RunFolder, report_url: str) -> dict[str, Any]:
    """Return the facts that a consumer of the asset's event needs to read the window, and those
    that people ask about it: the windows that the run has completed, the committed records, the
    records that this run sent and between which offsets, its options, the passed checks, and the
    address of the report (it is made when every cluster is done). Of a run: its status, and those
    of each cluster."""
    from shipper.report.results import DeliveryGateResult, RunReport

    found: dict[str, Any] = {
        "window_start": result.window_start.isoformat(),
        "window_end": result.window_end.isoformat(),
        "run_id": result.run_id,
        "report": report_url or folder.path("report.html"),
        "results": folder.uri,
    }
    if isinstance(result, RunReport):
        delivered = {gate.cluster: _delivered(gate) for gate in result.delivery_gates}
        return found | {"status": result.status, "clusters": delivered}
    if isinstance(result, DeliveryGateResult):
        found |= {"cluster": result.cluster, **_delivered(result)}
    told = {*FORM, "other_clusters"}
    if asked := result.asked.model_dump(mode="json", exclude_defaults=True, include=told):
        found["asked"] = asked
    return found


def _delivered(gate: DeliveryGateResult) -> dict[str, Any]:
    return {
        "windows": [
            {"key": partition_key(window.start), **window.model_dump(mode="json")}
            for window in gate.complete
        ],
        "records": {topic.topic: topic.ledger for topic in gate.topics},
        "sent": {topic.topic: topic.delivered for topic in gate.topics},
        "before": {topic.topic: topic.before for topic in gate.topics},
        "offsets": gate.offsets,
        "checks": {check.check: "passed" if check.passed else "failed" for check in gate.checks},
    }
