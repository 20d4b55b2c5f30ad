"""A day of a real log directory, by a seed, through the commands that users have: ``python -m
tests.chaos.log_day --seed 1``.

Two pipelines: one reads a folder for each hour, the other one flat folder that logrotate rotates.
Each step is an hour: files are written, come late, grow, are renamed, compressed, copied and moved
away; entries that are no logs appear; then runs of the schedule, narrow and wide runs by hand, runs
that are killed and repeated. After each run the script compares what the run sent and left out, and
what `gaps` says, with what it knows itself. At the end an independent consumer must find each line
of each file once.

Each choice has random numbers of its own, so ``--without`` and ``--only`` leave the others as they
are: for a smaller reproduction.
"""

import argparse
import contextlib
import datetime as dt
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from shipper_tools.dev.java import SHORT_LIVED
from shipper_tools.dev.kafka import KafkaServer

from shipper.report.results import RunReport
from tests import warm
from tests.chaos.log_stores import Entry, LogFile, stores
from tests.integration.world import World, account_of
from tests.warm import kafka_tools

#: Operation → probability in each step.
OPERATIONS = {
    "unfinished": 0.4,
    "young": 0.4,
    "open": 0.4,
    "late": 0.4,
    "odd": 0.3,
    "grow": 0.5,
    "rename": 0.4,
    "compress": 0.4,
    "into-done": 0.3,
    "other-hour": 0.2,
    "away": 0.2,
    "copy": 0.2,
    "hostile": 0.4,
    "banner": 0.5,
    "rotate": 0.5,
    "copytruncate": 0.3,
    "half-packed": 0.2,
    "kill": 0.2,
    "skip": 0.2,
    "wide": 0.25,
    "narrow": 0.3,
    "again": 0.2,
    "empty-fails": 0.5,
}
UNFINISHED = (".tmp", ".inprogress", "._COPYING_", ".part")
#: Why a plan leaves something out, if somebody should hear of it: it may hold logs, so its hour is
#: a gap.
SUSPECT = {
    "unfinished",
    "unsettled",
    "open",
    "future",
    "dangling-link",
    "undecodable-name",
    "doubtful",
}
#: States of what counts as a file when a folder may be empty.
FILES = {"done", "unfinished", "unsettled", "open", "future"}
LOOKBACK, KEPT = 6, 4
HOUR = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Options:
    seed: int
    steps: int = 24
    fs: str = "file"
    operations: frozenset[str] = frozenset(OPERATIONS)
    pipelines: tuple[str, ...] = ("hourly", "rotated")


@dataclass
class Hour:
    """What the runs that succeeded have seen of an hour."""

    looked_at: bool = False
    left: set[str] = field(default_factory=set)
    """Names that the last look left out, of which somebody should hear."""
    held: bool = False
    """True if there was a file once: that a folder is empty is no news then."""


class Day:
    """One pipeline, its files, and what is known of both."""

    name: str
    pattern: str
    """Of the source's folders, below the store."""

    def __init__(self, options, store, folder, bootstrap):
        self.options, self.store = options, store
        self.world = World(folder, bootstrap, name=f"{self.name}-{os.getpid()}-{options.seed}")
        self.now = 0
        now = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
        self.begin = now - (options.steps + 2) * HOUR
        self.files = []
        self.gone = []
        """Files that were moved out of the source, or deleted after they had been shipped."""
        self.entries = []
        self.hours = {}
        self.faults = []
        self.empty_fails = self.chance("empty-fails", step=-1)
        self._numbers = 0
        self.world.write_pipeline(
            schedule={"cron": "0 * * * *", "start": f"{self.begin:%Y-%m-%dT%H:%M}"},
            source={
                "path": f"{store.uri}/{self.pattern}",
                "settle": "10m",
                "recursive": True,
                "lookback": f"{LOOKBACK}h",
                "split_size": "64KiB",
                "when_empty": "fail" if self.empty_fails else "succeed",
                "on_replaced": "continue",
                **store.settings,
            },
            runner=store.runner,
        )

    def random(self, what, step=None):
        return random.Random(
            f"{self.options.seed} {self.name} {self.now if step is None else step} {what}"
        )

    def chance(self, operation, step=None):
        return (
            operation in self.options.operations
            and self.random(operation, step).random() < OPERATIONS[operation]
        )

    def say(self, text):
        print(f"{self.now:3} {self.name:8} {text}", flush=True)

    def fault(self, text):
        self.faults.append(f"step {self.now}, {self.name}: {text}")
        self.say(f"FAULT {text}")

    def lines(self, count):
        found = [
            b"%06d %s %s" % (n, self.name.encode(), b"x" * (n % 50))
            for n in range(self._numbers, self._numbers + count)
        ]
        self._numbers += count
        return found

    def some_lines(self, rng):
        """Seldom so many that a file has several splits."""
        return self.lines(rng.choice([1, 3, 10, 40, 40, 2_000]))

    def time_in(self, hour, rng):
        return (self.begin + hour * HOUR).timestamp() + rng.randrange(3_600)

    def write(self, file, operation):
        self.say(f"{operation}: {file.name!r}, {len(file.lines)} lines")
        if file.state == "open":
            file.stream = self.store.open(file.name, file.content)
        else:
            self.store.write(file.name, file.content, file.shown_time)
        self.files.append(file)

    def append(self, file, more):
        self.say(f"grow: {file.name!r}, {len(file.lines)} lines and {len(more)} more")
        content = file.content
        self.store.append(
            file.name, content, b"".join(line + b"\n" for line in more), file.modified
        )
        file.lines += more
        file.changed = True

    def rename(self, file, to, operation):
        self.say(f"{operation}: {file.name!r} → {to!r}")
        self.store.rename(file.name, to, file.stored, file.shown_time)
        file.name, file.changed = to, True

    def compress(self, file, to):
        self.say(f"compress: {file.name!r} → {to!r}")
        self.store.compress(file.name, to, file.content, file.shown_time)
        file.name, file.packed, file.changed = to, True, True

    def settle(self, file):
        """Let a file be done that a plan left out."""
        if file.stream is not None:
            file.stream.close()
            file.stream = None
        if file.state == "unfinished":
            to = next(file.name.removesuffix(end) for end in UNFINISHED if file.name.endswith(end))
            self.rename(file, to, "finish")
        self.store.touch(file.name, file.modified)
        file.state = "done"
        self.say(f"settled: {file.name!r}")

    def settle_some(self, is_done):
        """Let some of what is being written be done."""
        for entry in [one for one in self.entries if one.state == "unsettled"]:
            self.store.delete(entry.name)
            self.entries.remove(entry)
        for file in self.files:
            if file.state != "done" and is_done():
                self.settle(file)

    def work(self):
        """Do what happens to the files in an hour."""
        raise NotImplementedError

    def hours_of(self, first, end, scheduled):
        """The hours that a run looks at."""
        return range(max(0, first - LOOKBACK) if scheduled else first, end)

    def in_hours(self, hours, each):
        return [one for one in each if one.hour in hours]

    def run(self, first, end, *, scheduled=False, killed=False):
        window = "/".join(f"{self.begin + hour * HOUR:%Y-%m-%dT%H:%M}" for hour in (first, end))
        arguments = [
            "run",
            self.world.name,
            "--window",
            window,
            "--json",
            *(["--scheduled"] if scheduled else []),
        ]
        what = f"{'scheduled' if scheduled else 'by hand'} {first}–{end}"
        if killed:
            self.kill(arguments)
        hours = self.hours_of(first, end, scheduled)
        files = self.in_hours(hours, self.files)
        done = [file for file in files if file.state == "done"]
        empty = self.empty_fails and not self.in_hours(range(first, end), done)
        ran = self.shipper(*arguments)
        report = RunReport.model_validate_json(ran.stdout) if ran.stdout else None
        if report is not None and report.plan is not None:
            self.note_doubtful(done, report.plan)
        done = [file for file in done if not file.doubtful]
        new = sum(len(file.lines) - file.sent for file in done)
        self.say(
            f"run {what}{' again' if killed else ''}: exit code {ran.returncode}, {new} new lines"
        )
        if ran.returncode != int(empty):
            self.fault(
                f"run {what} ended with {ran.returncode}: {' '.join(ran.stderr.split())[-1500:]}"
            )
        if report is None or ran.returncode:
            return
        delivered = account_of(report)["delivered"]
        if delivered != new and not (killed and delivered < new):
            self.fault(f"run {what} sent {delivered} lines, and {new} are new")
        self.compare_left_out(what, hours, range(first, end), report)
        for file in done:
            if file.sent < len(file.lines):
                file.sent_as.add(file.name)
            file.sent, file.changed = len(file.lines), False
        for hour in hours:
            left = {one.name for one in self.left_in(range(hour, hour + 1)) if one.code in SUSPECT}
            held = any(
                one.state in FILES
                for one in self.in_hours(range(hour, hour + 1), [*self.files, *self.entries])
            )
            self.hours[hour] = Hour(True, left, held or self.hours.get(hour, Hour()).held)

    def shipper(self, *arguments):
        """Run a command, which may take its time on a busy machine."""
        return warm.run(
            ["shipper", *arguments, "--config", str(self.world.root / "config")], timeout=1_800
        )

    def left_in(self, hours):
        """What a plan leaves out of the hours."""
        names = {file.name for file in self.files}
        for entry in self.entries:
            if entry.target:
                entry.state = "link" if entry.target in names else "dangling-link"
        return [
            one for one in self.in_hours(hours, [*self.files, *self.entries]) if one.code != "done"
        ]

    def note_doubtful(self, files, plan):
        """Believe a plan that nobody can tell whether a file was shipped, if the script knows why,
        and if the plan says what to do."""
        reasons = {
            self.relative(one.path): one.reason for one in plan.left_out if one.code == "doubtful"
        }
        for file in files:
            if file.doubtful and file.name not in reasons:
                self.say(f"no longer doubtful: {file.name!r}")
            file.doubtful = file.name in reasons
            if file.doubtful:
                self.say(f"doubtful: {file.name!r}")
                if (
                    not self.may_be_doubtful(file)
                    or "give it another name" not in reasons[file.name]
                ):
                    self.fault(f"{file.name!r} is doubtful: {reasons[file.name]}")

    def may_be_doubtful(self, file):
        """True if a file was shipped from the path that lies nowhere in the source now."""
        return any(file.name in one.sent_as for one in self.gone)

    def compare_left_out(self, what, hours, own, report):
        """Of the hours that a run looks back at, the plan need not repeat what nobody has to hear
        of."""
        assert report.plan is not None
        expected = Counter[tuple[str, str]]()
        for one in self.left_in(hours):
            if one.hour in own or one.code in SUSPECT:
                expected[one.name.rpartition("/")[0], one.code] += 1
        found = Counter[tuple[str, str]]()
        for left in report.plan.left_out:
            found[self.folder_of(left.path), left.code] += left.count
        for folder, state in list(found):
            if state not in SUSPECT and (folder, state) not in expected:
                del found[folder, state]
        if found != expected:
            self.fault(
                f"run {what}: the plan's `left_out` lacks {dict(expected - found)} and has "
                f"{dict(found - expected)} more"
            )

    def relative(self, path):
        return path.partition(f"{self.store.uri.partition('://')[2] or self.store.uri}/")[2]

    def folder_of(self, path):
        """Return the folder of an entry; of an object in a hidden folder, the one that this lies
        in."""
        parts = self.relative(path).split("/")
        return "/".join(
            parts[
                : next(
                    (at for at, part in enumerate(parts) if part[:1] in ("_", ".")), len(parts) - 1
                )
            ]
        )

    def kill(self, arguments):
        """Kill a run with -9: while it starts, or after its plan."""
        rng, runs = self.random("when"), self.world.root / "runs"
        early, plans = rng.random() < 0.2, len([*runs.rglob("plan.json")])
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        quiet = {
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            "start_new_session": True,
        }
        process = subprocess.Popen(self.world.command(*arguments), env=environment, **quiet)
        until = time.monotonic() + (rng.uniform(0, 10) if early else 120)
        while (
            process.poll() is None
            and time.monotonic() < until
            and (early or len([*runs.rglob("plan.json")]) == plans)
        ):
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 6))
        with contextlib.suppress(psutil.NoSuchProcess):
            for member in [
                *psutil.Process(process.pid).children(recursive=True),
                psutil.Process(process.pid),
            ]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
        self.say(
            f"killed a run, which had {'not ' if process.wait() == -signal.SIGKILL else ''}ended"
        )

    def runs(self):
        """The runs of an hour, at its end."""
        first = self.now
        if self.chance("skip") and first:
            self.say("no run of the schedule")
        else:
            self.run(first, first + 1, scheduled=True, killed=self.chance("kill"))
        rng = self.random("windows")
        one, other = rng.randrange(first + 1), rng.randrange(first + 1)
        if self.chance("wide"):
            self.run(min(one, other), max(one, other) + 1)
        if self.chance("narrow"):
            self.run(one, one + 1)
        if self.chance("again"):
            self.run(other, other + 1, scheduled=True)

    def compare_gaps(self, final=False):
        """Where every hour has the same folder, what is being written is the next run's: then a gap
        is allowed, until the end."""
        hours = {hour: self.hours.get(hour, Hour()) for hour in range(self.now + 1)}
        may = {
            hour
            for hour, seen in hours.items()
            if not seen.looked_at or seen.left or (self.empty_fails and not seen.held)
        }
        must = may if self.pattern or final else {hour for hour in may if not hours[hour].looked_at}
        done = self.shipper(
            "gaps", self.world.name, "--since", f"{self.begin:%Y-%m-%dT%H:%M}", "--json"
        )
        assert done.returncode < 2, done.stderr[-2_000:]
        found = {}
        for gap in json.loads(done.stdout)["gaps"]:
            begin, end = (
                int((dt.datetime.fromisoformat(at) - self.begin) / HOUR)
                for at in gap["window"].split("/")
            )
            found |= {
                hour: (gap["why"], gap["paths"]) for hour in range(begin, end) if hour <= self.now
            }
        if not must <= set(found) <= may:
            lacks = {
                hour: hours[hour].left or "nobody looked" for hour in sorted(must - set(found))
            }
            self.fault(
                f"`gaps` lacks {lacks} and has "
                f"{ ({hour: found[hour] for hour in sorted(set(found) - may)}) } more"
            )

    def judge(self):
        """Let all files be done, run over the whole day, and compare the topic with the files."""
        self.now += 1
        self.settle_some(lambda: True)
        self.run(0, self.now + 1)
        if doubtful := [file for file in self.files if file.doubtful]:
            for file in doubtful:
                self.rename(file, f"{file.name}.as-the-reason-says", "rename")
            self.run(0, self.now + 1)
        self.compare_gaps(final=True)
        expected = Counter(line for file in [*self.files, *self.gone] for line in file.lines)
        found = self.world.read()
        lost, doubled = expected - found, found - expected
        self.say(f"{found.total():,} records: {lost.total()} lost, {doubled.total()} doubled")
        for what, lines in (("lost", lost), ("doubled", doubled)):
            if lines:
                files = [
                    file.name
                    for file in [*self.files, *self.gone]
                    if lines.keys() & set(file.lines)
                ]
                self.fault(f"{lines.total()} lines are {what}: {sorted(lines)[0]!r}, … of {files}")


class HourlyDay(Day):
    """A folder for each hour."""

    name, pattern = "hourly", "{window_start:%Y-%m-%d/%H}/"

    def name_in(self, hour, name):
        return f"{self.begin + hour * HOUR:%Y-%m-%d/%H}/{name}"

    def new(self, operation, hour, name="", state="done", end=""):
        rng = self.random(f"new {operation}")
        name = self.name_in(hour, name or f"{operation}-{self.now}.log{end}")
        return LogFile(name, self.some_lines(rng), self.time_in(hour, rng), hour, state)

    def pick(self, operation, *, shipped=False, packed=True):
        """Choose a file that the operation may be done to."""
        if not self.chance(operation):
            return None
        fit = [
            file
            for file in self.files
            if file.state == "done"
            and not file.pinned
            and packed >= file.packed
            and (not shipped or file.sent == len(file.lines))
            and not (file.is_short and operation in ("grow", "into-done", "other-hour"))
        ]
        return self.random(f"pick {operation}").choice(fit) if fit else None

    def work(self):
        rng = self.random("work")
        self.settle_some(lambda: rng.random() < 0.6)
        if rng.random() < 0.8:
            self.write(self.new("host", self.now), "new")
        if self.chance("unfinished"):
            self.write(
                self.new("unfinished", self.now, state="unfinished", end=rng.choice(UNFINISHED)),
                "unfinished",
            )
        if self.chance("young"):
            self.write(self.new("young", rng.randrange(self.now + 1), state="unsettled"), "young")
        if self.chance("open") and self.store.knows_open_files:
            self.write(self.new("open", self.now, state="open"), "open")
        if self.chance("late"):
            self.write(self.new("late", rng.randrange(self.now + 1)), "late")
        if self.chance("odd"):
            self.write(
                self.new("odd", self.now, f"{self.now}{rng.choice(self.store.odd_names)}"), "odd"
            )
        self.change()
        if self.chance("hostile"):
            self.plant()

    def change(self):
        rng = self.random("change")
        if file := self.pick("grow", packed=False):
            file.modified += 60
            self.append(file, self.some_lines(rng))
        if file := self.pick("rename"):
            self.rename(file, f"{file.name}.{self.now}", "rename")
        if file := self.pick("compress", packed=False):
            self.compress(file, f"{file.name}.gz")
        if file := self.pick("into-done"):
            folder, _, name = file.name.rpartition("/")
            self.rename(file, f"{folder}/done/{name}", "into-done")
        if file := self.pick("other-hour"):
            file.hour = rng.randrange(self.now + 1)
            self.rename(
                file,
                self.name_in(file.hour, f"moved-{self.now}-{file.name.rpartition('/')[2]}"),
                "other-hour",
            )
        if file := self.pick("away", shipped=True):
            self.rename(file, f"archive/{self.now}-{file.name.rpartition('/')[2]}", "away")
            self.files.remove(file)
            self.gone.append(file)
        if (file := self.pick("copy", packed=False)) and file.copy is None and not file.changed:
            hour = rng.randrange(self.now + 1)
            copy = LogFile(
                self.name_in(hour, f"copy-{self.now}.log"), [*file.lines], file.modified, hour
            )
            file.copy = copy.copy = copy
            self.write(copy, f"copy of {file.name!r}")

    def plant(self):
        rng = self.random("plant")
        state, hour = rng.choice(self.store.states), rng.randrange(self.now + 1)
        base = {
            "hidden": f"_hidden-{self.now}.log", "hidden-folder": f".staging-{self.now}/x.log",
            "undecodable-name": os.fsdecode(b"bad-%d-\xff.log" % self.now),
        }.get(state, f"{state}-{self.now}.log")  # fmt: skip
        name = self.name_in(hour, base)
        here = [
            file.name
            for file in self.files
            if file.name.rpartition("/")[0] == name.rpartition("/")[0]
        ]
        target = (here[0] if here else "nothing") if state == "link" else ""
        self.say(f"{state}: {name!r}")
        self.store.plant(state, name, target.rpartition("/")[2], b"what nobody wants\n")
        state = self.store.hidden_folder if state == "hidden-folder" else state
        self.entries.append(Entry(name.removesuffix("/x.log"), state, hour, target))


class RotatedDay(Day):
    """One flat folder that every hour's run reads, with a file that logrotate rotates and
    compresses."""

    name, pattern = "rotated", ""

    def in_hours(self, hours, each):
        return [*each]

    def work(self):
        rng = self.random("work")
        all_of_them = (
            rng.random() < 0.6
        )  # the live file is never done before the one that was rotated
        self.settle_some(lambda: all_of_them)
        for _ in range(rng.choice([1, 1, 2])):
            self.write_on(rng)
            if self.chance("rotate") and not any(
                file.sent < len(file.lines) for file in self.rotated(KEPT)
            ):
                self.rotate(rng)
        if (
            self.chance("half-packed")
            and self.rotated(1)
            and not (file := self.rotated(1)[0]).packed
        ):
            half = f"{file.name}.gz"
            self.say(f"half-packed: {half!r}")
            self.store.write(half, gzip.compress(file.content)[:-9], time.time())
            self.entries.append(Entry(half, "unsettled", self.now))

    def rotated(self, number):
        return [file for file in self.files if file.name.removesuffix(".gz") == f"app.log.{number}"]

    def live(self):
        return next((file for file in self.files if file.name == "app.log"), None)

    def write_on(self, rng):
        file, modified = self.live(), self.time_in(self.now, rng)
        if file is None:
            banner = [b"#Fields: time host request"] * 60 if self.chance("banner", step=-1) else []
            state = next(
                (one.state for one in self.rotated(1)), "done"
            )  # it is younger than what was rotated
            self.write(
                LogFile("app.log", [*banner, *self.some_lines(rng)], modified, state=state), "new"
            )
            return
        file.modified = modified
        self.append(file, self.some_lines(rng))
        if file.state == "unsettled" or self.chance("young"):
            file.state = "unsettled"
            self.store.touch(file.name, time.time())

    def rotate(self, rng):
        for file in self.rotated(KEPT):
            self.say(f"delete: {file.name!r}")
            self.store.delete(file.name)
            self.files.remove(file)
            self.gone.append(file)
        for number in range(KEPT - 1, 0, -1):
            for file in self.rotated(number):
                to = f"app.log.{number + 1}.gz"
                self.rename(file, to, "rotate") if file.packed else self.compress(file, to)
        file = self.live()
        assert file is not None
        if not self.chance("copytruncate"):
            self.rename(file, "app.log.1", "rotate")
            return
        self.say("copytruncate: 'app.log' → 'app.log.1'")
        self.store.write("app.log.1", file.content, file.shown_time)
        emptied = LogFile(
            "app.log", [], file.modified, state=file.state
        )  # a moment after the copy was made
        file.name = "app.log.1"
        self.write(emptied, "empty")


def run_day(options, folder, bootstrap):
    """Live through the day. Return what is wrong; empty if all is well."""
    with stores(options.fs, folder) as both:
        days = [
            kind(options, store, folder / kind.name, bootstrap)
            for kind, store in zip((HourlyDay, RotatedDay), both, strict=True)
            if kind.name in options.pipelines
        ]
        for step in range(options.steps):
            for day in days:
                day.now = step
                day.work()
                day.runs()
                day.compare_gaps()
        for day in days:
            day.judge()
    return [fault for day in days for fault in day.faults]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--fs", choices=("file", "hdfs", "s3"), default="file")
    parser.add_argument(
        "--only", default=",".join(OPERATIONS), help="operations, with commas between them"
    )
    parser.add_argument("--without", default="", help="operations, with commas between them")
    parser.add_argument("--pipelines", default="hourly,rotated")
    asked = parser.parse_args()
    operations = {*asked.only.split(",")} - {*asked.without.split(",")}
    options = Options(
        asked.seed, asked.steps, asked.fs, frozenset(operations), tuple(asked.pipelines.split(","))
    )
    folder = Path(tempfile.mkdtemp(prefix="log-day-"))
    print(f"seed {options.seed}, {options.steps} steps on {options.fs}, in {folder}", flush=True)
    signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(143)
    )  # so that servers are stopped
    try:
        with (
            kafka_tools.for_readers(),
            KafkaServer(folder / "kafka", java_options=SHORT_LIVED, die_with_parent=True) as kafka,
        ):
            faults = run_day(options, folder, kafka.bootstrap)
    finally:
        warm.end()
    again = " ".join(f"--{name} {value}" for name, value in vars(asked).items() if value)
    print("\n".join([f"{len(faults)} faults with {again}", *faults]))
    if faults:
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
