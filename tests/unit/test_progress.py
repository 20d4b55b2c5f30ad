"""When a ship is stopped since nothing moves, and when not."""

import datetime as dt
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from shipper import runtime
from shipper.config.cluster import Delivery
from shipper.driver import ledger_progress
from shipper.driver.ledger_progress import Progress
from shipper.errors import ClusterError
from shipper.ledger.codec import encode_chunk
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, ChunkKey
from shipper.report.plan_result import PlanResult
from shipper.report.progress import ProgressFile, ShipProgress, progress_of
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import read_records
from shipper.report.window_state import FAILED, SHIPPING, state_at, window_state
from shipper.types import FileId, SplitId
from shipper.windows.window import Window
from shipper.worker.order import OrderedSplit
from tests.doubles.memory_log import MemoryLog
from tests.doubles.runtime import runtime_with
from tests.doubles.task import order_with
from tests.samples.ledger import chunk_value
from tests.samples.results import NOON, common
from tests.waiting import wait_until

CHUNK = ChunkKey(SplitId(FileId("a.log", 100, 5), 0), 0, "t")
VALUE = chunk_value(end=False, generation=3)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(ledger_progress, "_EVERY_SECONDS", 0.02)
    monkeypatch.setattr(ledger_progress, "_LOOK_SECONDS", 0.02)


def order(stall_seconds, rate=None):
    return order_with(generation=3, stall_seconds=stall_seconds, tasks=2, rate_limit_bytes=rate)


class Clock:
    """The module's clock: it stands still until a test moves it on."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(ledger_progress, "runtime", runtime_with(monotonic=clock.monotonic))
    return clock


class Job:
    """What Progress watches: a ledger, what was read, and whether the job was stopped."""

    def __init__(self, given, read=lambda: None, tell=lambda figures: None):
        def read_and_count():
            self.looks += 1
            return read()

        self.looks = 0
        self.log, self.stopped, self.superseded = MemoryLog(), threading.Event(), threading.Event()
        cluster = SimpleNamespace(name="c", ledger_topic=lambda pipeline: "ledger")
        ledger = LedgerLog(self.log, cluster, "web")
        self.progress = Progress(
            ledger, given, self.superseded, self.stopped.set, read_and_count, tell
        )

    def goes_on_for(self, clock, seconds):
        """Move the clock on. Return whether the job is not stopped when the watch has looked, and
        has come to look once more."""
        for passed in (seconds, 0.03):
            looks = self.looks
            clock.now += passed
            wait_until(lambda looks=looks: self.looks > looks or self.stopped.is_set())
        return not self.stopped.is_set()


def test_a_job_in_which_nothing_moves_is_stopped_and_the_error_says_so(clock):
    job = Job(order(60))
    with job.progress:
        assert job.goes_on_for(clock, 59)
        assert not job.goes_on_for(clock, 2)
    assert job.progress.stalled is not None
    assert job.progress.stalled.retriable
    assert "`delivery.stall_timeout`" in job.progress.stalled.message


def test_rows_that_are_read_are_progress_though_none_is_sent(clock):
    rows = iter(range(10**9))
    job = Job(order(60), lambda: next(rows))
    with job.progress:
        assert all(job.goes_on_for(clock, 59) for _ in range(3))


def test_commits_are_progress_though_nothing_is_read_and_other_pipelines_commits_are_not(clock):
    job = Job(order(60))
    with job.progress:
        for _ in range(3):
            job.log.append("ledger", CHUNKS, [encode_chunk("web", CHUNK, VALUE)])
            assert job.goes_on_for(clock, 59)
        job.log.append("ledger", CHUNKS, [encode_chunk("other", CHUNK, VALUE)])
        assert not job.goes_on_for(clock, 61)


def test_a_rate_limit_that_makes_chunks_slow_prolongs_the_wait(clock):
    """Two tasks with 1,000 bytes in a transaction at 4 B/s: 500 s until their lanes, that take
    turns, commit once more."""
    job = Job(order(60, rate=4))
    with job.progress:
        assert job.goes_on_for(clock, 499)


def test_no_rate_is_told_above_the_limit_however_long_the_first_transaction_took(clock):
    told = []
    job = Job(order(600, rate=4), tell=told.append)
    with job.progress:
        assert job.goes_on_for(clock, 100)
        sent = chunk_value(generation=3, wire_bytes=40)
        job.log.append("ledger", CHUNKS, [encode_chunk("web", CHUNK, sent)])
        assert job.goes_on_for(clock, 1)
    figures = told[-1]
    assert figures.wire_bytes / (figures.at - figures.began).total_seconds() <= 4


def test_a_stall_is_told_from_a_wait_for_a_topic():
    assert Delivery().stall_seconds == 1800
    assert Delivery(metadata_wait="2h").stall_seconds == 2 * 3600 + 120 + 600
    with pytest.raises(ValidationError, match="`stall_timeout` is not longer than"):
        Delivery(stall_timeout="10m")
    assert Delivery(stall_timeout="10m", metadata_wait="1m").stall_seconds == 600


def test_a_ledger_that_does_not_answer_is_told_once_a_minute(monkeypatch, capfd):
    job, asked = Job(order(60)), threading.Semaphore(0)

    def look(*arguments):
        asked.release()
        raise ClusterError("no broker answers")

    monkeypatch.setattr(LedgerLog, "look", look)
    with job.progress:
        for _ in range(3):
            assert asked.acquire(timeout=300)
    assert "".join(capfd.readouterr()).count("no broker answers") == 1


def folder_in(tmp_path):
    at = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    return RunFolder(str(tmp_path), "web", Window(at, at + dt.timedelta(hours=1)), "r1")


def test_figures_are_beside_the_results_while_it_ships_and_gone_when_it_is_over(tmp_path):
    folder = folder_in(tmp_path)
    with ProgressFile(folder, "c") as file:
        job = Job(order(60), tell=file.tell)
        with job.progress:
            wait_until(lambda: progress_of(folder, "c"))
            parked = chunk_value(generation=3, wire_bytes=40, parked=("late.topic",))
            job.log.append("ledger", CHUNKS, [encode_chunk("web", CHUNK, parked)])

            def found():
                figures = progress_of(folder, "c")
                return figures if figures and figures.records else None

            wait_until(found)
            figures = found()
    assert figures is not None
    assert (
        figures.cluster,
        figures.records,
        figures.bytes,
        figures.wire_bytes,
        figures.splits_done,
    ) == ("c", 10, 100, 40, 1)
    assert figures.parked == ("late.topic",)
    read = figures.model_copy(update={"splits_done": figures.splits, "share": 1.0})
    assert read.seconds_left is None, "nobody knows when the topic takes them"
    assert list(tmp_path.rglob("progress.*")) == []


def test_the_run_of_a_ship_that_takes_days_is_not_called_killed(tmp_path):
    runs, hour, now = str(tmp_path), dt.timedelta(hours=1), runtime.now()
    folder = RunFolder(runs, "web", NOON, "r")
    folder.note_begin(NOON, now, ())
    folder.write("plan", PlanResult(**common(at=now), source="s"))

    def state_seen_at(moment):
        found = window_state(NOON, read_records(runs, "web", NOON.start))
        return state_at(found, None, moment)

    assert state_seen_at(now + 25 * hour) == SHIPPING
    assert state_seen_at(now + 27 * hour) == FAILED
    figures = ShipProgress(
        cluster="c", began=now, at=now + 13 * hour, records=1, bytes=1, wire_bytes=1,
        records_per_second=1, splits=2, splits_done=1,
    )  # fmt: skip
    with ProgressFile(folder, "c") as file:
        file.tell(figures)
        wait_until(lambda: state_seen_at(now + 38 * hour) == SHIPPING)
    assert state_seen_at(now + 40 * hour) == FAILED, "since then it has said nothing"


def test_one_large_file_is_counted_by_its_bytes():
    file = FileId("a.log", 1000, 5)
    splits = {
        start: OrderedSplit(SplitId(file, start), counts_bytes=start == 0) for start in (0, 600)
    }
    told = []
    job = Job(order_with(generation=3, splits=splits), tell=told.append)
    chunk = chunk_value(end=False, generation=3, records=10, bytes=290)
    of_first, of_packed = (ChunkKey(SplitId(file, start), 0, "t") for start in (0, 600))
    with job.progress:
        job.log.append("ledger", CHUNKS, [encode_chunk("web", of_first, chunk)])
        wait_until(lambda: told and told[-1].share == 0.3)
        job.log.append("ledger", CHUNKS, [encode_chunk("web", of_packed, chunk)])
        wait_until(lambda: told[-1].records == 20)
        assert told[-1].share == 0.3, "who knows how much the rest unpacks to"
        ended = replace(chunk, end=True)
        job.log.append("ledger", CHUNKS, [encode_chunk("web", of_packed, ended)])
        wait_until(lambda: told[-1].share == 0.7)


def test_the_start_of_tasks_makes_no_rate_slower_and_no_forecast_longer(clock):
    told, file = [], FileId("a.log", 1000, 5)
    split = OrderedSplit(SplitId(file, 0), counts_bytes=True)
    job = Job(order_with(generation=3, splits={0: split}, stall_seconds=600), tell=told.append)
    with job.progress:
        assert job.goes_on_for(clock, 100)
        chunk = chunk_value(end=False, generation=3, records=10, bytes=90)
        job.log.append("ledger", CHUNKS, [encode_chunk("web", ChunkKey(split.id, 0, "t"), chunk)])
        assert job.goes_on_for(clock, 5)
        assert job.goes_on_for(clock, 5)
    assert told[-1].share == 0.1
    assert told[-1].seconds_left == pytest.approx(90, abs=5)


def test_a_store_that_does_not_answer_holds_up_neither_the_ship_nor_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("shipper.report.progress._LEAVE_WITHIN_SECONDS", 0.2)
    answers = threading.Event()
    monkeypatch.setattr(RunFolder, "write_text", lambda self, name, text: answers.wait(300))
    began = time.monotonic()
    with ProgressFile(folder_in(tmp_path), "c") as file:
        job = Job(order(60), tell=file.tell)
        with job.progress:
            wait_until(lambda: job.looks > 2)
            job.superseded.set()
            assert job.stopped.wait(300)
    assert time.monotonic() - began < 250, "nobody waited for the answer"
    answers.set()


def test_a_line_that_cannot_be_printed_does_not_end_the_watch(monkeypatch):
    monkeypatch.setattr(ledger_progress, "say", lambda text: 1 / 0)
    job = Job(order(60))
    with job.progress:
        wait_until(lambda: job.looks > 2)
        job.superseded.set()
        assert job.stopped.wait(30)
