"""Notices: how a run ended, told by the notifiers that the pipeline names.

::

    report fails or succeeds ─▶ RunEnded ──┐
    deadline is over         ─▶ run_is_late ┴▶ Notice ─▶ notifier(**with), with `notice` in its templates

The report task runs whatever became of the others and fails if the run did, so its callbacks speak for the run: once, in the
task's own process, where the run's folder can be read. If that process is killed, the DAG processor calls the same callback.
A notifier that cannot send harms neither the run nor another notifier: the task's log says so.
"""

from __future__ import annotations

import datetime as dt
import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseNotifier

from shipper.config import load_pipeline, locate
from shipper.config.pipeline import Notify, Pipeline
from shipper.errors import ConfigError
from shipper.runner import REPORT
from shipper_factory.graph import RESOLVE_WINDOW, group_id

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shipper.report.message import Message

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Notice:
    """What templates know as ``notice``. What is not known is None."""

    event: str
    """``failure``, ``late``, ``warning`` or ``success``."""
    pipeline: str
    owner: str
    clusters: str
    """Names, with commas."""
    window: str | None
    """``2026-11-21 11:00–12:00 UTC``."""
    headline: str
    cause: str | None
    """The first cause in one sentence."""
    report: str | None = None
    """Where the page lies: a path or a URL, by the pipeline's ``runs_uri``."""
    log: str | None = None
    """URL of the log of the task that failed first, else of the run, in Airflow."""
    details: tuple[str, ...] = ()
    """A line for each cluster."""

    @property
    def title(self) -> str:
        """One line: pipeline, window, what happened."""
        return f"{' '.join(part for part in (self.pipeline, self.window) if part)}: {self.headline}"

    @property
    def text(self) -> str:
        """All of it, in plain lines."""
        facts = [
            ("First cause", self.cause) if self.event == "failure" else ("Look at", self.cause),
            ("Clusters", "; ".join(self.details) or self.clusters),
            ("Report", self.report),
            ("Log" if self.event == "failure" else "Run", self.log),
            ("Owner", self.owner),
        ]
        return "\n".join([self.title, *(f"{name}: {value}" for name, value in facts if value)])

    def __str__(self) -> str:
        return self.text


def check_notifiers(pipeline: Pipeline, config_dir: Path) -> None:
    """Raises ConfigError, with file and line, for a notifier that is not there or does not take its arguments. Imports it,
    but makes none: that could be where it reaches out."""
    for index, entry in enumerate(pipeline.notify):
        field, fault = f"notify[{index}].notifier", None
        try:
            inspect.signature(notifier_class(entry.notifier)).bind(**entry.with_)
        except (ImportError, AttributeError) as error:
            fault = f"cannot be imported ({error}); install its provider where Airflow runs, or correct the name"
        except TypeError as error:
            fault = f"{error}; see `with`"
        if fault:
            raise ConfigError(str(locate(config_dir, pipeline.name, field, f"{entry.notifier}: {fault}")))


def notifier_class(name: str) -> type[BaseNotifier]:
    """Raises ImportError or AttributeError if it is not there, TypeError if it is no notifier."""
    module, _, class_name = name.rpartition(".")
    found = getattr(import_module(module), class_name)
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise TypeError("is no notifier: a subclass of airflow.sdk.BaseNotifier is needed")
    return found


class RunEnded:
    """The report task's callback when it succeeded, or when it ``failed``."""

    def __init__(self, pipeline: Pipeline, config_dir: Path, *, failed: bool) -> None:
        self.pipeline = pipeline
        self.config_dir = config_dir
        self.failed = failed

    def __call__(self, context: Context) -> None:
        send(self.pipeline, _of_ended_run(self, context), context)


class RunTimedOut:
    """The DAG's own callback, for a run that Airflow ended because it took too long. Its report did not run, so this speaks for it."""

    def __init__(self, pipeline: Pipeline, config_dir: Path) -> None:
        self.pipeline = pipeline
        self.config_dir = config_dir

    def __call__(self, context: Context) -> None:
        if context.get("reason") != "timed_out":
            return
        run: Any = context.get("dag_run")
        bounds = run and _bounds(run.conf or {}, run.data_interval_start, run.data_interval_end)
        cause = "Airflow ended the run, which had not ended in the time of `schedule.give_up_after`; a task may wait for a worker or a pool."
        send(self.pipeline, _notice(self.pipeline, bounds, "failure", "Failed: given up", cause), context)


def run_is_late(*, config_dir: str, pipeline: str, context: Mapping[str, Any]) -> None:
    """Airflow's callback for a run that missed its deadline. It runs in a process of its own, without the task's context:
    ``context`` has the run as the REST API shows it, and the deadline."""
    spec, run = load_pipeline(Path(config_dir), pipeline), context["dag_run"]
    bounds = _bounds(run.get("conf") or {}, run.get("data_interval_start"), run.get("data_interval_end"))
    within = spec.schedule and spec.schedule.deliver_within_seconds
    from airflow.sdk.configuration import conf

    from shipper.config.units import format_duration

    base = conf.get("api", "base_url", fallback="http://localhost:8080/").rstrip("/")
    headline = "Late: not finished" + (f" within {format_duration(within)}" if within else "")
    cause = f"The run is {run['state']} since {run.get('start_date') or run.get('queued_at')}." if run.get("state") else None
    log_url = f"{base}/dags/{quote(run['dag_id'])}/runs/{quote(run['dag_run_id'])}"
    send(spec, _notice(spec, bounds, "late", headline, cause, log=log_url), context)


def send(pipeline: Pipeline, notice: Notice, context: Mapping[str, Any]) -> None:
    """By every notifier that wants to hear of the event."""
    for entry in pipeline.notify:
        if _hears(entry, notice.event):
            try:
                notifier_class(entry.notifier)(**entry.with_)({**context, "notice": notice})
                log.info("told by %s: %s", entry.notifier, notice.title)
            except Exception:
                log.exception("%s could not tell: %s", entry.notifier, notice.title)


def _notice(
    pipeline: Pipeline, bounds: tuple[dt.datetime, dt.datetime] | None, event: str, headline: str, cause: str | None, **more: Any
) -> Notice:
    """``bounds``: of the run's window, if they are known."""
    from shipper.report.markup import window

    clusters = ", ".join(pipeline.clusters)
    return Notice(event, pipeline.name, pipeline.owner, clusters, window(*bounds) if bounds else None, headline, cause, **more)


def _hears(entry: Notify, event: str) -> bool:
    return event in entry.on or (event == "warning" and "success" in entry.on)


def _of_ended_run(ended: RunEnded, context: Context) -> Notice:
    """Whatever is missing: a notice without its cause is better than none."""
    from shipper.report.message import one_sentence

    pipeline, told, page, run = ended.pipeline, None, None, None
    try:
        run = context["ti"].xcom_pull(task_ids=RESOLVE_WINDOW)
        told, page = _from_report(pipeline, ended.config_dir, run) if run else (None, None)
    except Exception:
        log.exception("the run's report cannot be read; the notice goes without it")
    failed = _failed_tasks(context)
    event = "failure" if ended.failed or failed or told is None else told.ending
    if told is not None and told.ending == event:
        headline, cause = told.headline, told.cause
    else:
        # Airflow may know of a failure that the report does not: a task that died after it had left its result.
        error = context.get("exception")
        word = f"the run failed in {', '.join(failed)}" if failed else "the report task died and left no word"
        headline, cause = "Failed", one_sentence(str(error)) if error else word
    bounds = _bounds(run, None, None) if run else None
    details = told.clusters if told else ()
    return _notice(pipeline, bounds, event, headline, cause, report=page, log=_log_url(context, told), details=details)


def _failed_tasks(context: Context) -> list[str]:
    """Empty where nobody can be asked: in the DAG processor."""
    from shipper_factory.step import failed_tasks

    try:
        return failed_tasks(context)
    except Exception:
        log.info("the states of the run's tasks cannot be had here")
        return []


def _from_report(pipeline: Pipeline, config_dir: Path, run: Mapping[str, Any]) -> tuple[Message | None, str | None]:
    """What the run's report says, and where its page lies; None, None if it left none."""
    from shipper.report.message import message
    from shipper.report.results import RunReport
    from shipper_factory.operators import folder_of, job_of

    folder = folder_of(job_of(run, pipeline, config_dir, ()))
    report = folder.find(REPORT, RunReport)
    return (message(report), report.page) if report else (None, None)


def _log_url(context: Context, told: Message | None) -> str | None:
    """Of the task that failed first. Its last try, which Airflow shows when none is named."""
    own: str | None = getattr(context.get("ti"), "log_url", None)
    if own is None or told is None:
        return own
    run, _, _ = own.rpartition("/tasks/")
    if told.step is None:
        return run
    name, cluster = told.step.name, told.step.cluster
    return f"{run}/tasks/{f'{group_id(cluster)}.{name}' if cluster else name}"


def _bounds(asked: Mapping[str, Any], interval_start: Any, interval_end: Any) -> tuple[dt.datetime, dt.datetime] | None:
    """Of the window: asked for, else the data interval."""
    start, end = asked.get("window_start") or interval_start, asked.get("window_end") or interval_end
    if not start or not end:
        return None
    return dt.datetime.fromisoformat(str(start)), dt.datetime.fromisoformat(str(end))
