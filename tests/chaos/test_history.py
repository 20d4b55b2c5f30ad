"""A short history; ``make history`` is the long one. And what histories have found, each by
itself."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.history import run_history
from tests.chaos.history_course import History, Options, Request
from tests.chaos.history_model import FileVersion
from tests.chaos.history_run import Strike
from tests.chaos.history_world import HistoryRun, OneBroker, RunServer

pytestmark = [pytest.mark.kafka]


@pytest.mark.short
@pytest.mark.parametrize("seed", [2])
def test_nothing_is_lost_or_doubled_in_a_history_of_runs(tmp_path: Path, seed: int):
    assert run_history(Options(runs=15, seed=seed), tmp_path)


@contextmanager
def quiet_history(folder: Path) -> Iterator[History]:
    """A history in which nothing happens by itself."""
    server = RunServer()
    try:
        with OneBroker(folder / "brokers") as brokers:
            brokers.create_topics()
            yield History(brokers, server, folder, Options(runs=0, seed=0))
    finally:
        server.stop()


def wait(holds: Callable[[], bool], run: HistoryRun) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, run.log.read_text()
        time.sleep(0.05)


def test_a_reship_that_was_taken_over_before_it_invalidated_anything_changes_nothing_any_more(
    tmp_path: Path,
):
    """Reship 1 sleeps before it writes its invalidation. Reships 2 and 3 are done meanwhile. Then
    reship 1 wakes up and invalidates all chunks that are older than itself: those of reship 2 count
    again, beside those of reship 3, and the file is never complete."""
    with quiet_history(tmp_path) as history:
        history.hour = 1
        history.write(FileVersion("history:///0001/1.log", 1, 1_000, (0,)))
        first = history.ask(Request("ship", (1, 2), "first"))
        wait(lambda: not first.alive, first)
        strike = Strike("before invalidations are written", "all", 1, signal.SIGSTOP)
        stale = history.ask(Request("ship", (1, 2), "stale", reship="reship-1"), strikes=(strike,))
        wait(lambda: bool(stale.stopped), stale)
        for number in (2, 3):
            run = history.ask(Request("ship", (1, 2), f"run-{number}", reship=f"reship-{number}"))
            wait(lambda run=run: not run.alive, run)  # type: ignore[misc]
            assert run.succeeded, run.end
        stale.signal(signal.SIGCONT)
        wait(lambda: not stale.alive, stale)
        assert not stale.succeeded
        history.settle()
        assert (history.judge(), history.faults) == ([], [])


def test_a_run_that_planned_a_file_before_it_was_replaced_invalidates_nothing_of_its_successor(
    tmp_path: Path,
):
    """``on_replaced: reship``. A run plans version 1 and sleeps; version 2 is shipped by another;
    the first one wakes up. By its plan version 2 was replaced by version 1: it invalidates version
    2, and cannot read version 1. The next run ships version 2 once more."""
    with quiet_history(tmp_path) as history:
        old, new = (
            FileVersion("history:///0001/1.log", 1, modified_ms, (born,))
            for born, modified_ms in enumerate((1_000, 2_000))
        )
        history.hour = 1
        history.write(old)
        request = Request("ship", (1, 2), "stale")
        stale = history.ask(request, strikes=(Strike("before takeover", "all", 1, signal.SIGSTOP),))
        wait(lambda: bool(stale.stopped), stale)
        history.write(new)
        fresh = history.ask(Request("ship", (1, 2), "fresh"))
        wait(lambda: not fresh.alive, fresh)
        assert fresh.succeeded, fresh.end
        stale.signal(signal.SIGCONT)
        wait(lambda: not stale.alive, stale)
        assert not stale.succeeded
        history.settle()
        assert (history.judge(), history.faults) == ([], [])
