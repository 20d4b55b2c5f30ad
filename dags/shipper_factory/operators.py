"""What runs in a task. A DAG file only constructs these, so what costs time to import is imported in ``execute``."""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator, BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from shipper.config.models import Pipeline
from shipper.runner import REPORT, Job, new_run_id
from shipper_factory.graph import RESOLVE_WINDOW

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shipper.report.results import RunFolder, StepResult
    from shipper_factory.child import Child
    from shipper_factory.outcome import Failure

_WAIT_AT_MOST = 7 * 86400.0
_LEVEL = re.compile(r"\b(DEBUG|WARN(?:ING)?|ERROR|FATAL|CRITICAL|FAILED)\b")
_LEVELS = {"DEBUG": logging.DEBUG, "WARN": logging.WARNING, "WARNING": logging.WARNING}


class ResolveWindow(BaseSensorOperator):
    """Says which window the run ships and gives the run its id, for the tasks after it, by XCom.

    A run of a data interval waits, without holding a worker, until the window's files have settled. One that was asked for
    a window by its params does not: whoever asks by hand may want what is there now.
    """

    def __init__(self, *, settle_seconds: float, **kwargs: Any) -> None:
        super().__init__(
            mode="reschedule", poke_interval=min(60.0, max(5.0, settle_seconds / 4)), timeout=_WAIT_AT_MOST, **kwargs
        )
        self.settle_seconds = settle_seconds

    def poke(self, context: Context) -> PokeReturnValue:
        from shipper.errors import WindowError
        from shipper_factory.window import opens_at, resolve_window

        params = context["params"]
        first, last = context.get("data_interval_start"), context.get("data_interval_end")
        try:
            window = resolve_window(
                params.get("window_start"), params.get("window_end"), (first, last) if first and last else None
            )
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
            "reship": bool(params.get("reship")),
        }
        self.log.info("window %s, shipper run %s%s", window, run["run_id"], ", reship" if run["reship"] else "")
        return PokeReturnValue(is_done=True, xcom_value=run)


class ShipperStep(BaseOperator):
    """Runs one step of the pipeline in a process of its own, by the same command line as ``shipper run``."""

    def __init__(self, *, pipeline: Pipeline, config_dir: Path, step: str, asset: Asset | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.config_dir = config_dir
        self.step = step
        self.asset = asset
        """Updated when the step succeeds; must be one of the task's outlets."""
        self._child: Child | None = None

    def execute(self, context: Context) -> None:
        from shipper_factory.child import Child
        from shipper_factory.outcome import failure_of, result_of

        job = self._job(context)
        folder = _folder(job)
        self.log.info("%s of window %s/%s; results in %s", self.step, job.window_start, job.window_end, folder.uri)
        started = dt.datetime.now(dt.UTC)
        self._child = Child(job)
        exit_code = self._child.run(self._pass_on)
        result = result_of(folder, self.step, started)
        if result is not None:
            self._count(result)
        failure = failure_of(self.step, exit_code, result, folder)
        if failure is None and self.step == REPORT:
            failure = _failed_before(context, folder)
        if failure is not None:
            raise (AirflowFailException if failure.final else AirflowException)(failure.message)
        if self.asset is not None and result is not None:
            context["outlet_events"][self.asset].extra = _summary(result)

    def _count(self, result: StepResult) -> None:
        from shipper_factory.metrics import emit

        try:
            emit(result)
        except Exception:  # what was shipped is shipped, whatever becomes of its figures
            self.log.exception("the metrics of %s could not be sent", self.step)

    def on_kill(self) -> None:
        """Called by the signal handler of the task's process."""
        if self._child is not None:
            self._child.ask_to_stop()

    def _job(self, context: Context) -> Job:
        run = context["ti"].xcom_pull(task_ids=RESOLVE_WINDOW)
        if run is None:
            raise AirflowFailException(f"this run has no window, so {self.step} has nothing to do; see {RESOLVE_WINDOW}")
        return Job(
            pipeline=self.pipeline,
            config_dir=self.config_dir,
            window_start=dt.datetime.fromisoformat(run["window_start"]),
            window_end=dt.datetime.fromisoformat(run["window_end"]),
            run_id=run["run_id"],
            steps=(self.step,),
            reship=run["reship"],
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
        raise AirflowFailException("The configuration is broken; nothing was shipped.\n" + "\n".join(self.faults))


def _folder(job: Job) -> RunFolder:
    from shipper.config import resolve_uri
    from shipper.report.results import RunFolder

    uri = resolve_uri(job.config_dir, job.pipeline.runs_uri)
    return RunFolder(uri, job.pipeline.name, job.window_start, job.window_end, job.run_id)


def _failed_before(context: Context, folder: RunFolder) -> Failure | None:
    """The report may be written and well while a task failed after it had left its result: then Airflow knows."""
    from shipper_factory.outcome import Failure

    ti, run_id = context["ti"], context["run_id"]
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[run_id]).get(run_id, {})
    failed = sorted(task for task, state in states.items() if state in ("failed", "upstream_failed"))
    if not failed:
        return None
    return Failure(f"the run failed in {', '.join(failed)}; the report is in {folder.uri}", final=True)


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
