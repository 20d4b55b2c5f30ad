"""What a live hour (tests/dags/live_hour.py) holds for a fault: each rule on a course that breaks
it, and on none that does not."""

import pytest

from shipper.report.markup import window as in_words
from tests.dags.live_record import Answer, Episode, LogFile, Notice, Record, Run, Window, utc

FIRST, STEP = 1_800_000_000, 120
ONE, TWO = Window(FIRST, FIRST + STEP), Window(FIRST + STEP, FIRST + 2 * STEP)


def run(window, after, state="success"):
    """One that began when its window had closed, and ended some seconds later."""
    return Run(
        "web",
        f"{state} {window}",
        "scheduled",
        window,
        state,
        window.end,
        window.end,
        window.end + after,
    )


def notice(window, after, event="late", cause="why"):
    words = in_words(utc(window.start), utc(window.end))
    return Notice(window.end + after, event, "web", words, event, cause)


def calm():
    """Two windows, each with a file that was there in time, and a run."""
    record = Record(["web"], FIRST, STEP, minutes=4)
    for window in (ONE, TWO):
        file = LogFile("web", window, "a", 2, window.start + 5, late=False, done=window.end + 30.0)
        record.files["web", window.start, "a"] = file
        add(record, run(window, 40))
    record.answers.append(
        Answer("web", TWO.end + 60, TWO.end + 61, frozenset({ONE, TWO}), frozenset())
    )
    return record


def add(record, ended):
    record.runs[ended.pipeline, ended.run_id, ended.end] = ended


def arrive(record, window, after):
    record.files["web", window.start, "a"].done = window.end + after
    record.runs = {key: each for key, each in record.runs.items() if each.window != window}
    add(record, run(window, after + 5))


def say_gap(record):
    record.answers[0] = record.answers[0]._replace(gaps=frozenset({ONE}))


def late(record, *notices):
    arrive(record, TWO, 200)
    record.answers.clear()
    record.notices += notices


def broken(record, *notices):
    add(record, run(ONE, 20, "failed"))
    record.episodes.append(Episode("broken-file", "web", ONE.end, ONE.end + 30))
    record.notices += notices


@pytest.mark.parametrize(
    ("happen", "faults"),
    [
        (lambda record: None, 0),
        (say_gap, 1),
        (lambda record: arrive(record, TWO, 90), 1),  # gaps said that nothing was missing
        (late, 1),  # and nobody was told
        (lambda record: late(record, notice(TWO, 180)), 0),
        (lambda record: late(record, notice(TWO, 180), notice(TWO, 190)), 1),
        (lambda record: record.notices.append(notice(TWO, 180)), 1),  # it was not late
        (lambda record: record.notices.append(notice(TWO, 20, "failure")), 1),  # nor failed
        (lambda record: record.notices.append(notice(TWO, 20)._replace(window="None")), 1),
        # without a cause, and nobody was told
        (lambda record: add(record, run(ONE, 20, "failed")), 2),
        (broken, 1),
        (lambda record: broken(record, notice(ONE, 20, "failure", "in x/web.yaml")), 0),
        (lambda record: broken(record, notice(ONE, 20, "failure", "no window")), 1),
        (lambda record: record.judge_lines("web", [b"web %d a %d x" % (at, n) for at in (ONE[0], TWO[0]) for n in (0, 1)]), 0),  # noqa: E501
        (lambda record: record.judge_lines("web", [b"web %d a 0 x" % ONE.start]), 1),
    ],
)  # fmt: skip
def test_a_live_hour_tells_each_fault(happen, faults):
    record = calm()
    happen(record)
    record.judge()
    assert len(record.faults) == faults, record.faults


def test_an_outage_of_the_broker_keeps_the_consumer_from_seeing_what_is_there():
    record = calm()
    arrive(record, TWO, 90)
    record.episodes.append(Episode("broker-outage", "", TWO.end + 55, TWO.end + 70))
    record.judge()
    assert record.faults == []
