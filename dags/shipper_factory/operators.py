"""What runs in a task. A DAG file only constructs these, so what costs time to import is imported in ``execute``."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator, BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from shipper.config.pipeline import Pipeline
from shipper.errors import WindowError
from shipper.runner import PLAN, REPORT, Job, new_run_id
from shipper_factory.graph import RESOLVE_WINDOW, opens_at, resolve_window

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shipper.report.run_folder import RunFolder, StepResult
    from shipper_factory.step import Child, Failure

#: What a run may be asked for, in the form or as JSON.
PARAMS = ("window_start", "window_end", "reship", "reship_reason", "new_ledger")
_WAIT_AT_MOST = 7 * 86400.0
_LEVEL = re.compile(r"\b(DEBUG|WARN(?:ING)?|ERROR|FATAL|CRITICAL|FAILED)\b")
_LEVELS = {"DEBUG": logging.DEBUG, "WARN": logging.WARNING, "WARNING": logging.WARNING}


class ResolveWindow(BaseSensorOperator):
    """Says which window the run ships and gives the run its id, for the tasks after it, by XCom.

    A run of a data interval waits, without holding a worker, until the window's files have settled. One that was asked for
    a window by its params does not: whoever asks by hand may want what is there now.
    """

    def __init__(self, *, settle_seconds: float, give_up_after_seconds: float | None = None, **kwargs: Any) -> None:
        super().__init__(
            mode="reschedule",
            poke_interval=min(60.0, max(5.0, settle_seconds / 4)),
            timeout=settle_seconds + (give_up_after_seconds or _WAIT_AT_MOST),
            **kwargs,
        )
        self.settle_seconds = settle_seconds

    def poke(self, context: Context) -> PokeReturnValue:
        params = context["params"]
        if fault := fault_of(context["dag_run"].conf or {}, params):
            raise AirflowFailException(fault)
        first, end = context.get("data_interval_start"), context.get("data_interval_end")
        try:
            window = resolve_window(params.get("window_start"), params.get("window_end"), (first, end) if first and end else None)
        except WindowError as error:
            raise AirflowFailException(str(error)) from error
        settled = opens_at(window, self.settle_seconds)
        if not params.get("window_start") and settled > dt.datetime.now(dt.UTC):
            self.log.info("window %s: its last files have settled at %s; waiting", window, settled.isoformat())
            return PokeReturnValue(is_done=False)
        run = {
            "window_start": window.start.isoformat(),
            "window_end": window.end.isoformat(),
            "run_id": new_run_id(),
            # A backfill, and a run by hand, ship what they were asked for.
            "scheduled": _is_scheduled(context),
            "began": dt.datetime.now(dt.UTC).isoformat(),
            **(reship_of(context["dag_run"], params["reship_reason"]) if params.get("reship") else {"reship": False}),
            **({"new_ledger": True} if params.get("new_ledger") else {}),
        }
        self.log.info("window %s, shipper run %s%s", window, run["run_id"], _of_reship(run))
        return PokeReturnValue(is_done=True, xcom_value=run)


class ShipperStep(BaseOperator):
    """Runs one step of the pipeline in a process of its own, by the same command line as ``shipper run``."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        config_dir: Path,
        step: str,
        asset: Asset | None = None,
        give_up_after_seconds: float | None = None,
        faults: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.config_dir = config_dir
        self.step = step
        self.asset = asset
        """Updated when the step succeeds; must be one of the task's outlets."""
        self.give_up_after_seconds = give_up_after_seconds
        """Counted from when the run's window was resolved, or a task of it was cleared."""
        self.faults = tuple(faults)
        """Of the configuration as it is now; ``pipeline`` is then what it was before."""
        self._child: Child | None = None

    def execute(self, context: Context) -> None:
        from shipper_factory.step import Child, failure_of, gave_up, given, result_of

        _refuse_broken(self.faults)
        job = self._job(context)
        folder = _folder(job)
        self.log.info("%s of window %s/%s; results in %s", self.step, job.window_start, job.window_end, folder.uri)
        started = dt.datetime.now(dt.UTC)
        self._child = Child(job, given(job.config_dir, job.pipeline.name))
        exit_code = self._child.run(self._pass_on, self._seconds_left(context))
        result = result_of(folder, self.step, started)
        if result is not None:
            self._count(result)
        failure = failure_of(self.step, exit_code, result, folder)
        if self._child.gave_up and self.give_up_after_seconds:
            failure = gave_up(self.step, self.give_up_after_seconds)
        if failure is None and self.step == REPORT:
            failure = self._of_the_run(context, result, folder)
        if failure is not None:
            self._fail(failure)
        if self.asset is not None and result is not None:
            context["outlet_events"][self.asset].extra = _summary(result)

    def _seconds_left(self, context: Context) -> float | None:
        if self.give_up_after_seconds is None:
            return None
        began = dt.datetime.fromisoformat(self._run(context)["began"])
        cleared = context["dag_run"].start_date  # later than that, if a task of the run was cleared
        seconds = (dt.datetime.now(dt.UTC) - max(began, cleared or began)).total_seconds()
        return self.give_up_after_seconds - seconds

    def _of_the_run(self, context: Context, report: StepResult | None, folder: RunFolder) -> Failure | None:
        """The report is written. It fails only when the run did and no other task shows it: one cause is one red task."""
        from shipper_factory.step import Failure, failed_tasks

        cause = getattr(report, "first_cause", None)
        failed = failed_tasks(context)
        if failed:
            self.log.error("The run failed in %s. %s\nThe report is in %s", ", ".join(failed), cause or "", folder.uri)
            return None
        return Failure(cause, final=True) if cause else None

    def _fail(self, failure: Failure) -> None:
        """The whole of it, line by line, in the log; its first sentence, with the words that matter, in what Airflow shows of it."""
        from shipper.report.message import one_sentence

        short = one_sentence(failure.message)
        if short != failure.message:
            for line in failure.message.splitlines():
                self.log.error("%s", line)
        raise (AirflowFailException if failure.final else AirflowException)(short)

    def _count(self, result: StepResult) -> None:
        from shipper_factory.step import emit

        try:
            emit(result)
        except Exception:  # what was shipped is shipped, whatever becomes of its figures
            self.log.exception("the metrics of %s could not be sent", self.step)

    def on_kill(self) -> None:
        """Called by the signal handler of the task's process."""
        if self._child is not None:
            self._child.ask_to_stop()

    def _run(self, context: Context) -> dict[str, Any]:
        run: dict[str, Any] | None = context["ti"].xcom_pull(task_ids=RESOLVE_WINDOW)
        if run is None:
            raise AirflowFailException(f"this run has no window, so {self.step} has nothing to do; see {RESOLVE_WINDOW}")
        return run

    def _job(self, context: Context) -> Job:
        run = self._run(context)
        return Job(
            pipeline=self.pipeline,
            config_dir=self.config_dir,
            window_start=dt.datetime.fromisoformat(run["window_start"]),
            window_end=dt.datetime.fromisoformat(run["window_end"]),
            run_id=run["run_id"],
            steps=(self.step,),
            reship=run["reship"],
            scheduled=run.get("scheduled", False) and self.step == PLAN,
            reship_id=run.get("reship_id"),
            reship_reason=run.get("reship_reason"),
            new_ledger=run.get("new_ledger", False),
        )

    def _pass_on(self, line: str) -> None:
        """A line of the child's log at the level that its first words name."""
        level = _LEVEL.search(line[:60])
        self.log.log(_LEVELS.get(level[1], logging.ERROR) if level else logging.INFO, "%s", line)


class BrokenConfig(BaseOperator):
    """Stands for a pipeline whose configuration cannot be read: fails and says why."""

    def __init__(self, *, faults: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.faults = tuple(faults)

    def execute(self, context: Context) -> None:
        _refuse_broken(self.faults)


def _refuse_broken(faults: Sequence[str]) -> None:
    if faults:
        raise AirflowFailException("the configuration is broken, so nothing is shipped:\n" + "\n".join(faults))


def fault_of(conf: Mapping[str, Any], params: Mapping[str, Any]) -> str | None:
    """What is wrong with what a run was asked for: a word that nobody knows would otherwise change nothing, unseen."""
    from shipper.config.rules import suggestion

    unknown = [f"{name!r}{suggestion(name, PARAMS)}" for name in conf if name not in PARAMS]
    if unknown:
        return f"this run was asked for with what shipper does not know: {'; '.join(unknown)}. Nothing was sent; trigger it again"
    if params.get("reship") and not str(params.get("reship_reason") or "").strip():
        return (
            "`reship` sends every file of the window once more, and readers see those records twice: say why in `reship_reason`. "
            "Nothing was sent; trigger it again, without `reship` if only what is missing is to be sent"
        )
    return None


def reship_of(dag_run: Any, reason: str) -> dict[str, Any]:
    """A reship of this DAG run. Its id is the same however often the run or a task of it is cleared, so it is done once."""
    asked = json.dumps([dag_run.dag_id, dag_run.run_id, dag_run.conf or {}], sort_keys=True, default=str)
    who = getattr(dag_run, "triggering_user_name", None)
    by = f"{who}, DAG run {dag_run.run_id}" if who else f"DAG run {dag_run.run_id}"
    return {
        "reship": True,
        "reship_id": f"reship-{hashlib.sha256(asked.encode()).hexdigest()[:12]}",
        "reship_reason": f"{' '.join(reason.split())} ({by})",
    }


def _of_reship(run: Mapping[str, Any]) -> str:
    return f", reship: {run['reship_reason']}" if run["reship"] else ""


def _is_scheduled(context: Context) -> bool:
    kind = getattr(context.get("dag_run"), "run_type", None)
    return getattr(kind, "value", kind) == "scheduled"


def _folder(job: Job) -> RunFolder:
    from shipper.config import resolve_uri
    from shipper.report.run_folder import RunFolder

    uri = resolve_uri(job.config_dir, job.pipeline.runs_uri)
    return RunFolder(uri, job.pipeline.name, job.window_start, job.window_end, job.run_id)


def _summary(result: StepResult) -> dict[str, Any]:
    """What a consumer of the asset's event needs to read the window, and no more."""
    from shipper.report.results import DeliveryGateResult

    summary: dict[str, Any] = {
        "window_start": result.window_start.isoformat(),
        "window_end": result.window_end.isoformat(),
        "run_id": result.run_id,
    }
    if isinstance(result, DeliveryGateResult):
        summary["records"] = {topic.topic: topic.ledger for topic in result.topics}
    return summary
