"""Where a step's time went."""

from __future__ import annotations

import threading

from shipper.report.page import render
from shipper.report.phases import STARTING_PYTHON, Phases
from shipper.report.results import GateResult, RunReport
from tests.samples.reports import plan, step


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_seconds_of_a_phase_within_another_one_are_its_own_and_all_add_up_to_what_passed() -> None:
    clock = Clock()
    phases = Phases(clock)
    with phases("asking"):
        clock.now += 1
        with phases("starting Spark"):
            clock.now += 2
        clock.now += 4
    clock.now += 8  # nobody's
    with phases("asking"):
        clock.now += 16
    assert phases.seconds() == {"asking": 21.0, "starting Spark": 2.0}


def test_a_phase_that_fails_has_had_its_time() -> None:
    clock = Clock()
    phases = Phases(clock)
    try:
        with phases("asking"), phases("waiting"):
            clock.now += 1
            raise OSError
    except OSError:
        pass
    assert phases.seconds() == {"waiting": 1.0}


def test_what_other_threads_do_meanwhile_is_not_counted_twice() -> None:
    clock = Clock()
    phases = Phases(clock)

    def beside() -> None:
        with phases("beside"):
            clock.now += 1

    with phases("shipping"):
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        clock.now += 1
    assert phases.seconds() == {"shipping": 2.0}


def test_seconds_are_moved_as_far_as_they_are_there() -> None:
    phases = Phases(Clock())
    phases.add("shipping", 3.0)
    phases.move(1.0, of="shipping", to="starting tasks")
    assert list(phases.seconds()) == ["starting tasks", "shipping"], (
        "in the order in which they were"
    )
    phases.move(-1.0, of="shipping", to="starting tasks")
    phases.move(99.0, of="shipping", to="elsewhere")
    assert phases.seconds() == {"starting tasks": 1.0, "elsewhere": 2.0}


def test_the_page_says_it_step_by_step_and_does_not_where_nobody_measured() -> None:
    timed = plan(phases={STARTING_PYTHON: 0.6, "starting Java": 1.0, "listing": 2.0, "<b>": 0.3})
    report = RunReport(**step(8, 1), plan=timed, page="report.html")
    page = render(report)
    assert 'id="times"' in page
    for says in ("starting Python 0.6s", "starting Java 1s", "listing 2s", "&lt;b&gt; 0.3s"):
        assert says in page, says
    assert 'id="times"' not in render(RunReport(**step(8, 1), plan=plan(), page="report.html"))


def test_the_page_adds_up_the_requests_to_the_object_store() -> None:
    listed = plan(phases={"listing": 2.0}, source_requests={"LIST": 2, "GET": 1_000})
    gate = GateResult(step="gate_source", **step(2, 3), source_requests={"GET": 234, "HEAD": 1})
    page = render(RunReport(**step(8, 1), plan=listed, gate_source=gate, page="report.html"))
    assert "Requests to the object store: 2 LIST, 1,234 GET, 1 HEAD." in page
    assert "object store" not in render(
        RunReport(**step(8, 1), plan=plan(phases={"listing": 2.0}), page="report.html")
    )
