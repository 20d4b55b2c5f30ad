"""Notices: how a run ended, told by the notifiers that the pipeline names.

::

    report fails or succeeds ─▶ RunEnded ──┬▶ Notice ─▶ notifier(**with), with `notice` in its templates
              it found late windows behind it ┤
    deadline is over         ─▶ run_is_late ──┘

The report task runs whatever became of the others and fails if the run did, so its callbacks speak for the run: once, in the
task's own process, where the run's folder can be read. If that process is killed, the DAG processor calls the same callback.
A notifier that cannot send harms neither the run nor another notifier: the task's log says so.

A window is told as late once, whoever notices it: Airflow while its run is at it, the report of the next run (of a window that no run was made for,
too), or `shipper gaps --alert`. Files beside the results remember it; see shipper/report/late.py.
"""

from __future__ import annotations

import datetime as dt
import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseNotifier

from shipper.config import load_pipeline, locate, resolve_uri
from shipper.config.pipeline import Notify, Pipeline
from shipper.errors import ConfigError
from shipper.runner import REPORT
from shipper_factory.graph import RESOLVE_WINDOW, group_id

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shipper.report.message import Message
    from shipper.report.results import Gap, RunReport
    from shipper.windows.window import Window

log = logging.getLogger(__name__)

Bounds = tuple[dt.datetime, dt.datetime]
"""Of a window."""


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
        run, report = _run_and_report(self, context)
        notice = _of_ended_run(self, context, run, report)
        told = send(self.pipeline, notice, context)
        if run is None or run.get("plan_only"):
            return
        try:
            _remember_and_look_back(self, context, run, report, failure=told and notice.event == "failure")
        except Exception:
            log.exception("nobody knows which windows are late: what was told of them cannot be read or noted")


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
    ``context`` has the run as the REST API shows it, and the deadline. A window of which somebody was told is not told again: a run that is
    cleared has a new deadline."""
    spec, run = _as_last_read(Path(config_dir), pipeline), context["dag_run"]
    bounds = _bounds(run.get("conf") or {}, run.get("data_interval_start"), run.get("data_interval_end"))
    within = spec.schedule and spec.schedule.deliver_within_seconds
    from airflow.sdk.configuration import conf

    from shipper.config.units import format_duration

    base = conf.get("api", "base_url", fallback="http://localhost:8080/").rstrip("/")
    headline = "Late: not finished" + (f" within {format_duration(within)}" if within else "")
    log_url = f"{base}/dags/{quote(run['dag_id'])}/runs/{quote(run['dag_run_id'])}"
    notice = _notice(spec, bounds, "late", headline, _why_late(spec, Path(config_dir), run, bounds), log=log_url)
    if bounds is None:
        send(spec, notice, context)
    else:
        _tell_once(spec, Path(config_dir), notice, _window(bounds), context)


def _as_last_read(config_dir: Path, name: str) -> Pipeline:
    """A file that is broken for a moment must not swallow the notice. Raises ConfigError where it never could be read."""
    try:
        return load_pipeline(config_dir, name)
    except ConfigError:
        from shipper_factory.faults import LastGood

        if spec := LastGood(config_dir).find(name):
            return spec
        raise


def _why_late(pipeline: Pipeline, config_dir: Path, run: Mapping[str, Any], bounds: Bounds | None) -> str | None:
    """By what the run's steps have left; what Airflow knows of it where they left nothing yet."""
    from shipper.report.late import newest, where_it_stands

    state, since = run.get("state"), run.get("start_date") or run.get("queued_at")
    found = f"The run is {state} since {since}" if state else None
    try:
        folder = newest(resolve_uri(config_dir, pipeline.runs_uri), pipeline.name, _window(bounds)) if bounds else None
        if folder is not None and state == "running":
            asked = (run.get("conf") or {}).get("clusters")
            return f"{found}; {where_it_stands(folder, asked or pipeline.clusters)}."
    except Exception:
        log.exception("the run's results cannot be read; the notice goes without them")
    if found and state == "queued":
        found += ": it waits for the run before it"
    return found and f"{found}."


def _tell_once(pipeline: Pipeline, config_dir: Path, notice: Notice, window: Window, context: Mapping[str, Any]) -> None:
    """That the window is late, if nobody was told. Where that cannot be known it is told."""
    from shipper.report.late import Told

    told = Told(resolve_uri(config_dir, pipeline.runs_uri), pipeline.name)
    try:
        if window in told.of("late"):
            log.info("told before: %s", notice.title)
            return
    except Exception:
        log.exception("nobody knows whether this was told before")
    if send(pipeline, notice, context):
        try:
            told.add("late", [window], dt.datetime.now(dt.UTC))
        except Exception:
            log.exception("that this was told cannot be noted: it may be told again")


def _remember_and_look_back(
    ended: RunEnded, context: Context, run: Mapping[str, Any], report: RunReport | None, *, failure: bool
) -> None:
    """Once a run has ended: tells which windows of the schedule are late, the run's own and those before it."""
    from shipper.report.late import Told, delivered_late, overdue, window_before, windows_of

    pipeline, now = ended.pipeline, dt.datetime.now(dt.UTC)
    told = Told(resolve_uri(ended.config_dir, pipeline.runs_uri), pipeline.name)
    own = _window(bounds) if (bounds := _bounds(run, None, None)) else None
    if failure and own:
        told.add("failure", [own], now)
    if report is None or own is None or not any("late" in entry.on for entry in pipeline.notify):
        return
    known, failed = told.of("late"), told.of("failure")
    is_new = run.get("scheduled") and own not in known and report.first_cause is None
    # Of the windows that are made up for after an outage the first one speaks for all.
    if (
        is_new
        and (late := delivered_late(pipeline, own, now))
        and (window_before(pipeline, own) in known or send(pipeline, _delivered_late(ended, own, report, late), context))
    ):
        told.add("late", [own], now)
    gaps = [gap for gap in overdue(pipeline, report.gaps or (), now) if windows_of([gap])[0] not in known]
    for already in (False, True):
        some = [gap for gap in gaps if (windows_of([gap])[0] in failed) is already]
        # Who heard of the failure knows: the others hear now.
        if some and send(pipeline, _missing(ended, some, report), context, but_of_failure=already):
            told.add("late", windows_of(some), now)


def _delivered_late(ended: RunEnded, own: Window, report: RunReport, headline: str) -> Notice:
    from shipper.report.markup import duration

    began = report.plan.started_at if report.plan else report.started_at
    cause = f"The run began {duration(own.end, began)} after that, and took {duration(began, report.finished_at)}."
    return _notice(ended.pipeline, (own.start, own.end), "late", headline, cause, report=report.page)


def _missing(ended: RunEnded, gaps: Sequence[Gap], report: RunReport) -> Notice:
    """One for all windows that the run found behind it."""
    from shipper.report.late import causes, missing_in_words, windows_of

    pipeline, windows = ended.pipeline, windows_of(gaps)
    lines = causes(resolve_uri(ended.config_dir, pipeline.runs_uri), pipeline.name, gaps)
    bounds = (windows[0].start, windows[-1].end)
    return _notice(pipeline, bounds, "late", missing_in_words(gaps), lines[0], report=report.page, details=tuple(lines))


def send(pipeline: Pipeline, notice: Notice, context: Mapping[str, Any], *, but_of_failure: bool = False) -> bool:
    """By every notifier that wants to hear of the event; of a window that failed only those that do not hear of failures. Returns whether it is
    done with: somebody was told, or there is nobody to tell."""
    heard = [entry for entry in pipeline.notify if _hears(entry, notice.event) and not (but_of_failure and "failure" in entry.on)]
    told = 0
    for entry in heard:
        try:
            notifier_class(entry.notifier)(**entry.with_)({**context, "notice": notice})
            log.info("told by %s: %s", entry.notifier, notice.title)
            told += 1
        except Exception:
            log.exception("%s could not tell: %s", entry.notifier, notice.title)
    return bool(told) or not heard


def _notice(pipeline: Pipeline, bounds: Bounds | None, event: str, headline: str, cause: str | None, **more: Any) -> Notice:
    """``bounds``: of the run's window, if they are known."""
    from shipper.report.markup import window

    clusters = ", ".join(pipeline.clusters)
    return Notice(event, pipeline.name, pipeline.owner, clusters, window(*bounds) if bounds else None, headline, cause, **more)


def _hears(entry: Notify, event: str) -> bool:
    return event in entry.on or (event == "warning" and "success" in entry.on)


def _run_and_report(ended: RunEnded, context: Context) -> tuple[dict[str, Any] | None, RunReport | None]:
    """What the run's first task said of it, and its report; None for what is not there."""
    from shipper.report.results import RunReport
    from shipper_factory.operators import folder_of, job_of

    run = None
    try:
        run = context["ti"].xcom_pull(task_ids=RESOLVE_WINDOW)
        return run, folder_of(job_of(run, ended.pipeline, ended.config_dir, ())).find(REPORT, RunReport) if run else None
    except Exception:
        log.exception("the run's report cannot be read; the notice goes without it")
        return run, None


def _of_ended_run(ended: RunEnded, context: Context, run: Mapping[str, Any] | None, report: RunReport | None) -> Notice:
    """Whatever is missing: a notice without its cause is better than none."""
    from shipper.report.message import message, one_sentence

    pipeline, told, page = ended.pipeline, None, None
    if report is not None:
        try:
            told, page = message(report), report.page
        except Exception:
            log.exception("the run's report cannot be put into words; the notice goes without them")
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


def _bounds(asked: Mapping[str, Any], interval_start: Any, interval_end: Any) -> Bounds | None:
    """Of the window: asked for, else the data interval."""
    start, end = asked.get("window_start") or interval_start, asked.get("window_end") or interval_end
    if not start or not end:
        return None
    return dt.datetime.fromisoformat(str(start)), dt.datetime.fromisoformat(str(end))


def _window(bounds: Bounds) -> Window:
    from shipper.windows.window import Window

    return Window(*(at.astimezone(dt.UTC) for at in bounds))
