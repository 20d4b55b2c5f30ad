"""What a live hour knows by itself, and what must be true of it. See live_hour.py."""

import datetime as dt
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from shipper.report.markup import window as in_words

NEVER = float("inf")
SETTLE = 10
"""Seconds of `source.settle`."""
READER = 5
"""Seconds after a commit in which the consumer has the records, if the broker answers."""
RECOVERY = 30
"""Seconds after an outage of the broker in which the consumer has found it again."""


class Window(NamedTuple):
    """Seconds since the epoch."""

    start: int
    end: int

    def __str__(self):
        return f"{utc(self.start):%H:%M}–{utc(self.end):%H:%M}"


@dataclass
class LogFile:
    pipeline: str
    window: Window
    name: str
    count: int
    """Lines."""
    written: float
    late: bool
    """True if it came after its window had ended."""
    read: Counter[int] = field(default_factory=Counter)
    """Line → times that the consumer read it."""
    done: float = NEVER
    """When the consumer had all lines."""


@dataclass
class Episode:
    """Something that the script did."""

    kind: str
    pipeline: str
    start: float
    end: float = NEVER


@dataclass
class Run:
    """One end of a run in Airflow. A run that is cleared has another one."""

    pipeline: str
    run_id: str
    kind: str
    window: Window
    state: str
    queued: float
    start: float
    end: float
    evidence: str = ""


class Answer(NamedTuple):
    """What `shipper gaps` said of the windows that were due."""

    pipeline: str
    asked: float
    answered: float
    due: frozenset[Window]
    gaps: frozenset[Window]


class Notice(NamedTuple):
    at: float
    event: str
    pipeline: str
    window: str
    headline: str
    cause: str

    def __str__(self):
        return (
            f"{self.event} {self.pipeline} {self.window}: {self.headline}; {self.cause} (told "
            f"{clock(self.at)})"
        )


class Record:
    """All that was written, done, seen and told. Moments are seconds since the epoch."""

    def __init__(self, pipelines, first, step, minutes):
        self.pipelines, self.first, self.step = tuple(pipelines), first, step
        self.until = first + minutes * 60
        """When the script does nothing more, and nothing is written."""
        self.within, self.lookback = step * 3 // 2, step * 5
        """Seconds of `deliver_within` and of `lookback`."""
        self.files = {}
        self.episodes = []
        self.runs = {}
        self.active = {}
        """DAG and run → its state when it was last seen."""
        self.answers = []
        self.notices = []
        self.wide = set()
        """Windows of runs by hand."""
        self.faults = []

    def say(self, text):
        print(f"{utc(time.time()):%H:%M:%S} {text}", flush=True)

    def fault(self, text):
        self.faults.append(text)
        self.say(f"FAULT {text}")

    @property
    def names(self):
        """Pipelines that are not deleted."""
        deleted = {each.pipeline for each in self.episodes if each.kind == "delete"}
        return [name for name in self.pipelines if name not in deleted]

    def windows(self, until):
        """Return those that have ended by then."""
        starts = range(self.first, int(until) + 1, self.step)
        return [Window(start, start + self.step) for start in starts if start + self.step <= until]

    def during(self, start, end):
        return [each for each in self.episodes if each.start <= end and start <= each.end]

    def whole(self):
        """Return True if nothing is missing any more, and nothing is at work."""
        windows = {*self.windows(self.until)}
        last = {answer.pipeline: answer for answer in self.answers if answer.due >= windows}
        return (
            time.time() > self.until + 2 * self.step
            and all(
                each.done < NEVER for each in [*self.files.values()] if each.pipeline in self.names
            )
            and all(name in last and not last[name].gaps & windows for name in self.names)
        )

    def seen_by(self, moment):
        """Return when the consumer has everything that was committed by ``moment``."""
        for each in self.episodes:
            if (
                each.kind == "broker-outage"
                and each.start - READER <= moment <= each.end + RECOVERY
            ):
                moment = max(moment, each.end + RECOVERY)
        return moment + READER

    def late_files(self, name, window, before=NEVER):
        """Return when a run had succeeded by which the consumer had what came after the window had
        ended and ``before`` a moment; 0 if there is nothing. A run that delivers late files and
        fails at its gate completes no window, its own or another."""
        done = self._done(name, window, lambda file: file.late and file.written < before)
        ends = [
            run.end
            for run in self.runs.values()
            if (run.pipeline, run.state) == (name, "success") and run.end >= done
        ]
        return min(ends, default=NEVER) if done else 0.0

    def arrived(self, name, window):
        """Return when the consumer had what was written before the window ended; 0 if there is
        nothing."""
        return self._done(name, window, lambda file: not file.late)

    def _done(self, name, window, wanted):
        return max(
            (
                each.done
                for each in [*self.files.values()]
                if (each.pipeline, each.window) == (name, window) and wanted(each)
            ),
            default=0.0,
        )

    def looked_at(self, name, window):
        """Return when the first run that looked at all of the window had succeeded."""
        ends = [
            run.end
            for run in self.runs.values()
            if (run.pipeline, run.state) == (name, "success")
            and window.end <= run.window.end
            and run.window.start - (self.lookback if run.kind == "scheduled" else 0) <= window.start
        ]
        return min(ends, default=NEVER)

    def judge(self):
        self._judge_gaps()
        self._judge_runs()
        windows = self.windows(max([self.until, *(run.window.end for run in self.runs.values())]))
        spans = {
            Window(one.start, other.end) for one in windows for other in windows if one <= other
        }
        by_words = {
            in_words(utc(span.start), utc(span.end)): span
            for span in spans | {span for _, span in self.wide}
        }
        told = []
        for notice in self.notices:
            if span := by_words.get(notice.window):
                told.append((notice, span))
            else:
                self.fault(f"a notice names no window of the schedule: {notice}")
        self._judge_notices(told)
        for name in self.names:
            self._judge_silence(
                name, [(notice.event, span) for notice, span in told if notice.pipeline == name]
            )

    def _judge_gaps(self):
        for answer in self.answers:
            at = f"at {clock(answer.asked)} `gaps {answer.pipeline}`"
            for window in sorted(answer.due):
                arrived, looked = (
                    self.arrived(answer.pipeline, window),
                    self.looked_at(answer.pipeline, window),
                )
                if window not in answer.gaps and arrived > self.seen_by(answer.answered):
                    self.fault(
                        f"{at} held {window} for complete, but its lines came {clock(arrived)}"
                    )
                known = max(
                    looked, arrived, self.late_files(answer.pipeline, window, answer.answered)
                )
                if window in answer.gaps and known < answer.asked - READER:
                    self.fault(
                        f"{at} listed {window}, whose lines were there {clock(arrived)} and its "
                        f"run done {clock(looked)}"
                    )

    def _judge_runs(self):
        for run in self.runs.values():
            if run.state == "failed" and not self._excuse(run):
                near = ", ".join(
                    f"{each.kind} {each.pipeline}".strip()
                    for each in self.during(run.start - 60, run.end)
                )
                self.fault(
                    f"run {run.pipeline} {run.run_id} failed {clock(run.end)}; done then: "
                    f"{near or 'nothing'}{run.evidence}"
                )
        for (name, run_id), state in self.active.items():
            if state in ("running", "queued") and name not in self.names:
                self.fault(
                    f"run {name} {run_id} is {state} at the end, long after its pipeline was "
                    "deleted"
                )

    def _excuse(self, run):
        """Return True if the pipeline's file was broken or deleted meanwhile, the one thing that
        may fail a run."""
        kinds = {
            each.kind
            for each in self.during(run.start - 30, run.end)
            if each.pipeline == run.pipeline
        }
        return bool(kinds & {"broken-file", "delete"})

    def _judge_notices(self, told):
        heard = Counter()
        for notice, span in told:
            if notice.headline.startswith("In trouble"):
                continue
            if notice.event == "failure":
                heard[notice.pipeline, "failure", span] += 1
                self._judge_failure(notice, span, heard[notice.pipeline, "failure", span])
            elif not self._was_slow(notice.pipeline, span):
                for window in {
                    Window(span.start, span.start + self.step),
                    Window(span.end - self.step, span.end),
                }:
                    heard[notice.pipeline, "late", window] += 1
                    if self._was_in_time(notice.pipeline, window):
                        self.fault(
                            f"{window} was not late, but there "
                            f"{clock(self.looked_at(notice.pipeline, window))}: {notice}"
                        )
                    if (
                        heard[notice.pipeline, "late", window] > 1
                        or heard[notice.pipeline, "failure", window]
                    ):
                        self.fault(f"{window} was told before: {notice}")

    def _judge_failure(self, notice, span, times):
        failed = [
            run
            for run in self.runs.values()
            if (run.pipeline, run.window, run.state) == (notice.pipeline, span, "failed")
        ]
        if times > len(failed):
            self.fault(f"{len(failed)} runs have failed of what was told {times} times: {notice}")
        elif (
            any(self._excuse(run) for run in failed)
            and notice.pipeline in self.names
            and f"/{notice.pipeline}.yaml" not in notice.cause
        ):
            self.fault(f"wrong cause of what failed since its configuration was broken: {notice}")

    def _was_slow(self, name, span):
        """Return True for the window of a run by hand that took longer than it had."""
        ends = [run for run in self.runs.values() if (run.pipeline, run.window) == (name, span)]
        return (name, span) in self.wide and any(
            run.end - run.queued > self.within - READER for run in ends
        )

    def _was_in_time(self, name, window):
        there = max(
            self.arrived(name, window), self.looked_at(name, window), self.late_files(name, window)
        )
        return there < window.end + self.within - READER

    def _judge_silence(self, name, told):
        """What fails or is late is told. Of late windows that follow each other the first one
        speaks for all."""
        for run in self.runs.values():
            if (run.pipeline, run.state) == (name, "failed") and (
                "failure",
                run.window,
            ) not in told:
                self.fault(f"nobody was told that {name} {run.run_id} failed {clock(run.end)}")
        known = False
        for window in self.windows(self.until):
            due, arrived = window.end + self.within, self.arrived(name, window)
            known = known and max(self.looked_at(name, window), arrived) > due - READER
            known = known or any(
                span.start <= window.start and window.end <= span.end for _, span in told
            )
            if not known and arrived > self.seen_by(due):
                self.fault(
                    f"nobody was told that {name} {window} is late: its lines were there "
                    f"{clock(arrived)}"
                )

    def judge_lines(self, name, values):
        """Compare all that an independent reader finds in the topic with what was written."""
        found = Counter(b" ".join(value.split(b" ")[:4]).decode() for value in values)
        files = [each for each in [*self.files.values()] if each.pipeline == name]
        expected = Counter(
            f"{name} {each.window.start} {each.name} {n}"
            for each in files
            for n in range(each.count)
        )
        missing, more = expected - found, found - expected
        self.say(
            f"{name}: {found.total():,} lines in the topic of {expected.total():,} in {len(files)} "
            "files"
        )
        if more or (missing and name in self.names):
            self.fault(
                f"{name}: {missing.total()} lines missing {[*missing][:3]}, {more.total()} too "
                f"many {[*more][:3]}"
            )


def utc(seconds):
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def clock(moment):
    return (
        f"at {utc(moment):%H:%M:%S}"
        if 0 < moment < NEVER
        else "never"
        if moment
        else "from the start"
    )


def seconds(moment):
    return dt.datetime.fromisoformat(moment).timestamp() if moment else 0.0
