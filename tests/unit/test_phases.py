"""Where a step's time went."""

import threading

from shipper.report.page import render
from shipper.report.phases import STARTING_PYTHON, Phases
from shipper.report.results import RunReport
from tests.samples.reports import plan, step


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_seconds_of_a_phase_within_another_one_are_its_own_and_all_add_up_to_what_passed():
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


def test_what_other_threads_do_meanwhile_is_not_counted_twice():
    clock = Clock()
    phases = Phases(clock)

    def beside():
        with phases("beside"):
            clock.now += 1

    with phases("shipping"):
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        clock.now += 1
    assert phases.seconds() == {"shipping": 2.0}


def test_the_page_says_it_step_by_step_and_does_not_where_nobody_measured():
    timed = plan(phases={STARTING_PYTHON: 0.6, "starting Java": 1.0, "listing": 2.0, "<b>": 0.3})
    report = RunReport(**step(8, 1), plan=timed, page="report.html")
    page = render(report)
    assert 'id="times"' in page
    for says in ("starting Python 0.6s", "starting Java 1s", "listing 2s", "&lt;b&gt; 0.3s"):
        assert says in page, says
    assert 'id="times"' not in render(RunReport(**step(8, 1), plan=plan(), page="report.html"))
