"""Notices: how a run ended, told by the notifiers that the pipeline names.

::

    report fails or succeeds ─▶ RunEnded ──┬▶ Notice ─▶ notifier(**with), with `notice` in its templates
              it found late windows behind it ┤
    deadline is over         ─▶ run_is_late ──┘

The report task runs whatever became of the others and fails if the run did, so its callbacks speak
for the run: once, in the task's own process, where the run's folder can be read. If that process is
killed, the DAG processor calls the same callback. A notifier that cannot send harms neither the run
nor another notifier: the task's log says so.

A step that is still tried again after some ten minutes is told once, by step_in_trouble.

A window is told once per state. A failure is told again only if another attempt fails for another
reason, or if the window was whole in between. A late window is told by whoever notices it first:
Airflow while its run is at it, the report of the next run (also of a window without a run), or
`shipper gaps --alert`. Who heard of the failure does not hear that the window is late. Files beside
the results remember it; see shipper/report/late.py. Notices of one cause from outside, such as a
dead cluster, are told together, over all pipelines: see together.py.
"""  # noqa: E501

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shipper import runtime
from shipper.config.environment import EVERYTHING
from shipper.config.load import load_all, load_pipeline, locate
from shipper.config.pipeline import Notify, Pipeline
from shipper.config.rules import resolve_uri
from shipper.config.units import format_duration
from shipper.error_codes import code_of
from shipper.errors import ConfigError
from shipper.report.markup import moment, words
from shipper.report.markup import window as in_words
from shipper.runner import REPORT
from shipper.windows.window import Window
from shipper_airflow.dags.last_good import LastGood, is_removed, removed
from shipper_airflow.dags.links import report_url, run_page, window_page
from shipper_airflow.dags.task_operators import (
    FAILURE,
    RESOLVE_WINDOW,
    folder_of,
    job_of,
    pull,
    request_of,
    window_in,
)
from shipper_airflow.dags.together import Together, common_cause, forget, waiting
from shipper_airflow.notifiers import find_fault, notifier_class
from shipper_airflow.run_window import window_of_run

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shipper.report.late import Event, Told
    from shipper.report.results import Gap, RunReport
    from shipper.report.run_view import RunStep
    from shipper.runner import Job

log = logging.getLogger(__name__)
_IN_TROUBLE = 5
"""Attempt whose failure is told: by the pauses of RETRIES, seven and a half minutes after the first
failed."""


@dataclass(frozen=True)
class Notice:
    """Notice as templates see it, as ``notice``. Unknown values are None."""

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
    """First cause in one sentence, with the error's code at its end."""
    at: str | None = None
    """Moment of the failure: ``2026-11-21 12:10:04 UTC``."""
    report: str | None = None
    """URL of the run's report; its path if no server shows reports."""
    page: str | None = None
    """URL of the window on the Shipments page."""
    log: str | None = None
    """URL of the log of the task that failed first, else of the run, in Airflow."""
    details: tuple[str, ...] = ()
    """A line for each cluster; of a notice of several, a line for each."""
    details_are: str = "Clusters"
    common: tuple[str, str] | None = None
    """`runs_uri` and name of a cause that other pipelines may have too."""

    @property
    def code(self) -> str | None:
        """Code of the first cause, such as ``SHIP-303``."""
        return code_of(self.cause)

    @property
    def title(self) -> str:
        """One line: pipeline, window, what happened."""
        return f"{' '.join(part for part in (self.pipeline, self.window) if part)}: {self.headline}"

    @property
    def text(self) -> str:
        """Notice in plain lines."""
        facts = [
            ("First cause", self.cause) if self.event == "failure" else ("Look at", self.cause),
            ("Failed at", self.at),
            (self.details_are, "; ".join(self.details) or self.clusters),
            ("Report", self.report),
            ("Window", self.page),
            ("Log" if self.event == "failure" else "Run", self.log),
            ("Owner", self.owner),
        ]
        return "\n".join([self.title, *(f"{name}: {value}" for name, value in facts if value)])

    def __str__(self) -> str:
        return self.text


def check_notifiers(pipeline: Pipeline, config_dir: Path) -> None:
    """Raise ConfigError, with file and line, for a notifier that does not exist or does not take
    its arguments."""
    for index, entry in enumerate(pipeline.notify):
        if fault := find_fault(entry.notifier, entry.with_):
            field = f"notify[{index}].notifier"
            raise ConfigError(
                str(locate(config_dir, pipeline.name, field, f"{entry.notifier}: {fault}")),
                code="SHIP-208",
            )


@dataclass(frozen=True, eq=False)
class RunEnded:
    """The report task's callback when it succeeded, or when it ``failed``."""

    pipeline: Pipeline
    config_dir: Path
    failed: bool
    resolved_by: str = RESOLVE_WINDOW
    """Task that says which run it is, by the XCom ``key``."""
    key: str = "return_value"

    @property
    def prefix(self) -> str:
        """Prefix of the ids of the run's tasks, in a DAG that has others too."""
        return self.resolved_by.removesuffix(RESOLVE_WINDOW)

    def __call__(self, context: Context) -> None:
        from shipper.report.late import windows_of

        run, report = _run_and_report(self, context)
        window = _window_of(self.pipeline, context.get("dag_run"), run)
        told = _told(self.pipeline, self.config_dir)
        news = _news(told, report) if report and report.gaps else report
        notice = _of_ended_run(self, context, run, news, window)
        if run and request_of(run).plan_only:
            send(self.pipeline, notice, context)
            return
        if notice.event == "failure":
            tell_once(self.pipeline, self.config_dir, notice, window, context, "failure")
        elif send(self.pipeline, notice, context) and news and news.gaps:
            with _unless("these gaps cannot be noted as told, and may be told again"):
                told.add("gap", windows_of(news.gaps), _now())
        with _unless(
            "which windows are late is unknown: the notes on earlier notices cannot be read or "
            "written"
        ):
            _look_back(self, context, run or {}, report, window, failed=notice.event == "failure")
            _send_what_waited(self, context)


def _send_what_waited(ended: RunEnded, context: Context) -> None:
    """Send the notices of one cause that waited for their time, of this and other pipelines."""
    pipeline = ended.pipeline
    runs_uri = resolve_uri(ended.config_dir, pipeline.runs_uri)
    for entry in pipeline.notify:
        for together in waiting(runs_uri, entry):
            if notice := together.due():
                _send_by(entry, notice, context)
                together.sent()


def _news(told: Told, report: RunReport) -> RunReport:
    """Return the report without the gaps that a notice of an earlier run has told."""
    from shipper.report.late import windows_of

    with _unless("which gaps were told before is unknown"):
        known = told.of("gap")
        new = [gap for gap in report.gaps or () if windows_of([gap])[0] not in known]
        return report.model_copy(update={"gaps": new})
    return report


def step_in_trouble(
    pipeline: Pipeline, config_dir: Path, resolved_by: str, key: str, context: Context
) -> None:
    """Tell of a step that failed and is tried again, when that has gone on for some ten minutes; a
    step's callback. A failure is told only when no retry is left, which takes forty.
    ``resolved_by``, ``key``: see :class:`RunEnded`."""
    from shipper.report.message import one_sentence

    ti = context["ti"]
    if ti.try_number < _IN_TROUBLE:
        return
    try:
        run = pull(context, resolved_by, key)
    except Exception:  # the DAG processor calls this for a task that was killed
        run = None
    window = _window_of(pipeline, context.get("dag_run"), run)
    error = context.get("exception")
    cause = one_sentence(str(error)) if error else "its process was killed"
    notice = _notice(
        pipeline,
        window,
        "failure",
        f"In trouble: {ti.task_id} fails again and again, and is tried again",
        cause,
        at=moment(_now()),
        log=_log_url(context, ti.task_id, "failure"),
        common=common_cause(pipeline, config_dir, cause, _cluster_of(ti.task_id)),
    )
    tell_once(pipeline, config_dir, notice, window, context, "trouble")


def tell_of_question(
    pipeline: Pipeline, job: Job, subject: str, within: dt.timedelta, context: Context
) -> None:
    """Tell those who hear of failures that the source gate waits for a person's answer."""
    until = moment(_now() + within)
    own: str | None = getattr(context.get("ti"), "log_url", None)
    link = own and f"{own.partition('?')[0]}/required_actions"
    headline = f"The source gate is closed, and waits for an answer until {until}"
    send(pipeline, _notice(pipeline, job.window, "failure", headline, subject, log=link), context)


def run_timed_out(pipeline: Pipeline, config_dir: Path, context: Context) -> None:
    """Send a notice for a run that Airflow ended because it took too long; the DAG's own callback.
    The run's report did not run."""
    if context.get("reason") != "timed_out":
        return
    run: Any = context.get("dag_run")
    window = _window_of(pipeline, run, None)
    cause = (
        "Airflow ended the run, because it had not ended within `schedule.give_up_after`. A task "
        "may wait for a worker or a pool."
    )
    link = run_page(run.dag_id, run.run_id) if run else None
    notice = _notice(
        pipeline, window, "failure", "Failed: given up", cause, at=moment(_now()), log=link
    )
    tell_once(pipeline, config_dir, notice, window, context, "failure")


def run_is_late(*, config_dir: str, pipeline: str, context: Mapping[str, Any]) -> None:
    """Send a notice for a run that missed its deadline; Airflow's callback. It runs in a process of
    its own, without the task's context: ``context`` has the run as the REST API shows it, and the
    deadline. A window is notified once: a cleared run has a new deadline."""
    folder, run = Path(config_dir), context["dag_run"]
    spec = _as_last_read(folder, pipeline)
    window = _window_of(spec, run, None)
    within = spec.schedule and spec.schedule.deliver_within_seconds
    headline = "Late: not finished" + (f" within {format_duration(within)}" if within else "")
    (why, cluster), link = (
        _why_late(spec, folder, run, window), run_page(run["dag_id"], run["dag_run_id"])
    )  # fmt: skip
    common = common_cause(spec, folder, why, cluster)
    why = " ".join(filter(None, (_standstill(spec, folder), why))) or None
    notice = _notice(spec, window, "late", headline, why, log=link, common=common)
    tell_once(spec, folder, notice, window, context, "late")


def _standstill(pipeline: Pipeline, config_dir: Path) -> str | None:
    """Return the sentence for a schedule that stands still, as behind a run that hangs."""
    from shipper.report.incomplete import read_schedule, stands_still, standstill_in_words

    with _unless("when the schedule's last run began cannot be read"):
        runs_uri = resolve_uri(config_dir, pipeline.runs_uri)
        last = read_schedule(runs_uri, pipeline.key).last_run
        settle = pipeline.source.settle_seconds
        stands = pipeline.schedule and stands_still(
            pipeline.schedule, settle, last, lambda window: False, _now()
        )
        return standstill_in_words(last) if last and stands else None
    return None


def _as_last_read(config_dir: Path, name: str) -> Pipeline:
    """Return the pipeline as last read: a file that is broken for a moment must not swallow the
    notice. Raises ConfigError where it never could be read."""
    try:
        return load_pipeline(config_dir, name)
    except ConfigError:
        if spec := LastGood(config_dir).find(name):
            return spec
        raise


def _why_late(
    pipeline: Pipeline, config_dir: Path, run: Mapping[str, Any], window: Window | None
) -> tuple[str | None, str | None]:
    """Return why the run is late, by what its steps have left; by Airflow's states if they left
    nothing yet. Beside it the cluster of the step that is not done, if it is a cluster's."""
    from shipper.report.late import newest
    from shipper.report.steps_now import open_step, steps_now, where_it_stands

    stands = _stands(run)
    if is_removed(config_dir, pipeline.name):
        here = load_all(config_dir, EVERYTHING).pipelines.values()
        return f"{removed(config_dir, pipeline.name, here)} {stands or ''}".strip(), None
    with _unless("the run's results cannot be read; the notice goes without them"):
        folder = (
            newest(resolve_uri(config_dir, pipeline.runs_uri), pipeline.key, window)
            if window
            else None
        )
        if folder is not None and stands and run.get("state") == "running":
            asked = (run.get("conf") or {}).get("clusters")
            began = _parsed(run.get("start_date"))
            steps = steps_now(folder, asked or [*pipeline.clusters], began)
            where = where_it_stands(steps)
            why = f"{stands.rstrip('.')}; {where}{'' if code_of(where) else '.'}"
            return why, open_step(steps).cluster or None
    return stands, None


def _stands(run: Mapping[str, Any]) -> str | None:
    """Return in one sentence where the run stands, by what Airflow knows."""
    state = run.get("state")
    if state in ("failed", "success"):
        return (
            "The run "
            f"{'failed' if state == 'failed' else 'succeeded'}{_since(run.get('end_date'), 'at')}."
        )
    if state == "running":
        return f"The run is running{_since(run.get('start_date'), 'since')}."
    return state and (
        f"The run is {state}{_since(run.get('queued_at'), 'since')}: it waits for the run "
        "before it."
    )


def _since(at: Any, word: str) -> str:
    return f" {word} {moment(dt.datetime.fromisoformat(str(at)))}" if at else ""


def tell_once(
    pipeline: Pipeline,
    config_dir: Path,
    notice: Notice,
    window: Window | None,
    context: Mapping[str, Any],
    event: Event,
) -> None:
    """Send the notice that a window failed, is late or in trouble, unless that was told before: a
    failure with the same cause. Of a late window, notifiers that have sent its failure are left
    out. If this cannot be known, the notice is sent to all."""
    if window is None:
        send(pipeline, notice, context)
        return
    told = _told(pipeline, config_dir)
    known = failed = False
    why = ""
    with _unless("whether this notice was sent before is unknown"):
        if event == "failure":
            # Figures differ from one attempt to the next.
            why = re.sub(r"\d+", "#", notice.cause or "")
            known = told.why("failure", window) == why
        else:
            known = window in told.of(event)
            failed = event == "late" and window in told.of("failure")
    if known:
        log.info("told before: %s", notice.title)
    elif send(pipeline, notice, context, but_of_failure=failed):
        with _unless("the notice cannot be noted as sent, and may be sent again"):
            told.add(event, [window], _now(), why)


def _told(pipeline: Pipeline, config_dir: Path) -> Told:
    from shipper.report.late import Told

    return Told(resolve_uri(config_dir, pipeline.runs_uri), pipeline.key)


@contextmanager
def _unless(harm: str) -> Iterator[None]:
    """Go on after an error, and log the ``harm`` that it does: a notice that says less is better
    than none."""
    try:
        yield
    except Exception:
        log.exception(harm)


def _now() -> dt.datetime:
    return runtime.now()


def _look_back(
    ended: RunEnded,
    context: Context,
    run: Mapping[str, Any],
    report: RunReport | None,
    own: Window | None,
    *,
    failed: bool,
) -> None:
    """Look back once a run has ended: tell which windows of the schedule are late, the run's own
    and those before it."""
    from shipper.report.incomplete import read_schedule
    from shipper.report.late import delivered_late, overdue, window_before, windows_of

    pipeline, now = ended.pipeline, _now()
    runs_uri = resolve_uri(ended.config_dir, pipeline.runs_uri)
    told = _told(pipeline, ended.config_dir)
    if report is None or own is None:
        return
    known, failures = told.of("late"), told.of("failure")
    if not failed and not request_of(run).clusters:  # it is whole: another failure is news
        told.forget("trouble", own)
        if own in failures:
            told.forget("failure", own)
        forget(runs_uri, pipeline, in_words(own.start, own.end))
    if not any("late" in entry.on for entry in pipeline.notify):
        return
    last = read_schedule(runs_uri, pipeline.key).last_run
    since = last.schedule_since if last else None
    is_new = request_of(run).scheduled and own not in known and not failed
    # Of the windows that are made up for after an outage, only the first one gets a notice.
    if (
        is_new
        and (late := delivered_late(pipeline, own, report, since))
        and (
            window_before(pipeline, own) in known
            or send(
                pipeline,
                _delivered_late(ended, run, own, report, late),
                context,
                but_of_failure=own in failures,
            )
        )
    ):
        told.add("late", [own], now)
    gaps = [
        gap
        for gap in overdue(pipeline, report.gaps or (), since, now)
        if windows_of([gap])[0] not in known
    ]
    for already in (False, True):
        some = [gap for gap in gaps if (windows_of([gap])[0] in failures) is already]
        # People who got the notice of the failure know: now the others get one.
        if some and send(pipeline, _missing(ended, some), context, but_of_failure=already):
            told.add("late", windows_of(some), now)


def _delivered_late(
    ended: RunEnded, run: Mapping[str, Any], own: Window, report: RunReport, headline: str
) -> Notice:
    from shipper.report.markup import duration

    began = report.plan.started_at if report.plan else report.started_at
    cause = (
        f"The run began {duration(own.end, began)} after that, and took "
        f"{duration(began, report.finished_at)}."
    )
    return _notice(
        ended.pipeline, own, "late", headline, cause, report=_report_url(ended, run, report)
    )


def _missing(ended: RunEnded, gaps: Sequence[Gap]) -> Notice:
    """Return one notice for all windows that the run found behind it. Its page is that of the
    first."""
    from shipper.report.late import causes, missing_in_words, windows_of

    pipeline, windows = ended.pipeline, windows_of(gaps)
    lines = causes(resolve_uri(ended.config_dir, pipeline.runs_uri), pipeline.key, gaps)
    first = window_page(pipeline.name, windows[0])
    stretch = Window(windows[0].start, windows[-1].end)
    clusters = {gap.cluster for gap in gaps}
    cluster = clusters.pop() if len(clusters) == 1 else None
    return _notice(
        pipeline,
        stretch,
        "late",
        missing_in_words(gaps),
        lines[0],
        page=first,
        details=tuple(lines),
        common=common_cause(pipeline, ended.config_dir, lines[0], cluster),
    )


def send(
    pipeline: Pipeline, notice: Notice, context: Mapping[str, Any], *, but_of_failure: bool = False
) -> bool:
    """Send a notice through every notifier that subscribes to the event; for a failed window only
    through those that do not subscribe to failures. Returns True if the notice is settled: it was
    sent, or is kept to be told with others of its cause, or no notifier subscribes."""
    heard = [
        entry
        for entry in pipeline.notify
        if _hears(entry, notice.event) and not (but_of_failure and "failure" in entry.on)
    ]
    told = 0
    for entry in heard:
        with _unless(f"{entry.notifier} could not tell: {notice.title}"):
            if notice.common is None:
                _send_by(entry, notice, context)
            else:
                _send_with_others(entry, notice, *notice.common, context)
            told += 1
    return bool(told) or not heard


def _send_with_others(
    entry: Notify, notice: Notice, runs_uri: str, cause: str, context: Mapping[str, Any]
) -> None:
    together = Together(runs_uri, entry, cause)
    try:
        now = together.add(notice)
    except OSError:
        log.exception("notices of the same cause cannot be had; this one goes without them")
        _send_by(entry, notice, context)
        return
    if now is None:
        log.info("kept, to be told with others of its cause: %s", notice.title)
        return
    _send_by(entry, now, context)
    together.sent()


def _send_by(entry: Notify, notice: Notice, context: Mapping[str, Any]) -> None:
    notifier_class(entry.notifier)(**entry.with_)({**context, "notice": notice})
    log.info("told by %s: %s", entry.notifier, notice.title)


def _notice(
    pipeline: Pipeline,
    window: Window | None,
    event: str,
    headline: str,
    cause: str | None,
    **more: Any,
) -> Notice:
    named = in_words(window.start, window.end) if window else None
    more.setdefault("page", window_page(pipeline.name, window) if window else None)
    return Notice(
        event,
        pipeline.name,
        pipeline.owner,
        ", ".join(pipeline.clusters),
        named,
        headline,
        cause,
        **more,
    )


def _hears(entry: Notify, event: str) -> bool:
    return event in entry.on or (event == "warning" and "success" in entry.on)


def _run_and_report(
    ended: RunEnded, context: Context
) -> tuple[dict[str, Any] | None, RunReport | None]:
    """Return what the run's first task said of it, and its report; None for what does not exist."""
    from shipper.report.results import RunReport

    run = report = None
    with _unless("the run's report cannot be read; the notice goes without it"):
        if run := pull(context, ended.resolved_by, ended.key):
            job = job_of(run, ended.pipeline, ended.config_dir, ())
            report = folder_of(job).find(REPORT, RunReport)
    return run, report


def _of_ended_run(
    ended: RunEnded,
    context: Context,
    run: Mapping[str, Any] | None,
    report: RunReport | None,
    window: Window | None,
) -> Notice:
    """Make the notice of an ended run, whatever is missing: a notice without its cause is better
    than none."""
    from shipper.report.message import one_sentence
    from shipper.report.run_view import run_view

    pipeline, told = ended.pipeline, None
    if report is not None:
        with _unless("the run's report cannot be put into words; the notice goes without them"):
            told = run_view(report)
    failed = _failed_tasks(context, ended.prefix)
    event = "failure" if ended.failed or failed or told is None else told.event
    agreed = told if told is not None and told.event == event else None
    headline, cause, at = (agreed.headline, agreed.why, None) if agreed else ("Failed", None, None)
    task_id = _task_of(agreed.failed, ended) if agreed else None
    cluster = agreed.failed.cluster if agreed and agreed.failed else None
    if event == "failure":
        word = _first_word(context, failed)
        if agreed and agreed.failed and agreed.failed.result:
            at = agreed.failed.result.finished_at
        # Airflow may know of a failure that the report does not: a task that died after it had left
        # its result, or before it had one.
        if word and (at is None or (word[1] != task_id and word[0] < at)):
            headline = headline if at is None else "Failed"
            at, task_id, says = word
            cause, cluster = one_sentence(says), _cluster_of(task_id)
        elif failed and not cause:
            task_id = failed[0]
            cause = (
                f"{words(failed)} failed and left no message: somebody marked it failed, or its "
                "process died. Its log in Airflow says more"
            )
        elif not cause and (error := context.get("exception")):
            cause = one_sentence(str(error))
        at = at or _now()
        cause = cause or "the report task died and left no message"
    details = tuple(one.line for one in told.clusters) if told else ()
    return _notice(
        pipeline,
        window,
        event,
        headline,
        cause,
        at=at and moment(at),
        report=_report_url(ended, run, report),
        log=_log_url(context, task_id, event),
        details=details,
        common=common_cause(pipeline, ended.config_dir, cause, cluster)
        if event == "failure"
        else None,
        **({"page": None} if run and request_of(run).plan_only else {}),
    )


def _report_url(
    ended: RunEnded, run: Mapping[str, Any] | None, report: RunReport | None
) -> str | None:
    if not run or report is None:
        return None
    job = job_of(run, ended.pipeline, ended.config_dir, ())
    return report_url(job, folder_of(job)) or report.page


def _failed_tasks(context: Context, prefix: str) -> list[str]:
    """Return the names of the run's failed tasks; empty in the DAG processor, which cannot ask
    Airflow for them."""
    from shipper_airflow.dags.step import failed_tasks

    try:
        return failed_tasks(context, prefix)
    except Exception:
        log.info("the states of the run's tasks cannot be had here")
        return []


def _first_word(context: Context, failed: Sequence[str]) -> tuple[dt.datetime, str, str] | None:
    """Return the task that failed first, of the ``failed`` ones that said why: when it failed, its
    id, and what it said."""
    found = []
    for task_id in failed:
        with _unless(f"what {task_id} said when it failed cannot be had here"):
            if left := pull(context, task_id, FAILURE):
                found.append((dt.datetime.fromisoformat(left["at"]), task_id, str(left["says"])))
    return min(found, default=None)


def _task_of(step: RunStep | None, ended: RunEnded) -> str | None:
    if step is None:
        return None
    if not ended.resolved_by.endswith(RESOLVE_WINDOW):
        return ended.resolved_by  # one task did it all
    name = f"to_{step.cluster}.{step.name}" if step.cluster else step.name
    return f"{ended.prefix}{name}"


def _cluster_of(task_id: str) -> str | None:
    """Return the cluster of a task of a DAG for several; None for any other task."""
    found = re.search(r"(?:^|\.)to_([^.]+)\.\w+$", task_id)
    return found[1] if found else None


def _log_url(context: Context, task_id: str | None, event: str) -> str | None:
    """Return the page of the task's last try, which Airflow shows when none is named. Without a
    task: that of the run, or of the report task that failed."""
    own: str | None = getattr(context.get("ti"), "log_url", None)
    if own is None:
        return None
    run, _, _ = own.rpartition("/tasks/")
    if task_id is None:
        return own if event == "failure" else run
    return f"{run}/tasks/{task_id}"


def _window_of(pipeline: Pipeline, dag_run: Any, run: Mapping[str, Any] | None) -> Window | None:
    """Return the window of a DAG run, which may be a mapping. ``run``: what its first task said, if
    it did; else it is worked out as this task does."""
    if run:
        return window_in(run)
    try:
        return window_of_run(pipeline.schedule, pipeline.source.settle_seconds, dag_run)
    except Exception as error:
        log.info("the run has no window: %s", error)
        return None


def _parsed(at: Any) -> dt.datetime | None:
    return dt.datetime.fromisoformat(str(at)) if at else None
