"""What a topic's configuration means for records, and which settings contradict a pipeline."""

import datetime as dt
import math

import pytest

from shipper.config.replay_request import Replay, replayed
from shipper.driver.checks.refusals import contradictions, missing
from shipper.kafka.limits import TopicLimit, TopicLimits
from shipper.windows.window import Window
from shipper.worker.assign import RecordLimits
from tests.doubles.task import order_with
from tests.samples.config import pipeline_of

NEVER = str(2**63 - 1)
BEFORE, AFTER, DIFFERENCE = (
    f"message.timestamp.{which}.max.ms" for which in ("before", "after", "difference")
)
NOW = dt.datetime(2026, 11, 23, tzinfo=dt.UTC)
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("settings", "age", "ahead", "takes_times", "needs_key"),
    [
        ({}, math.inf, math.inf, True, False),
        (
            {BEFORE: NEVER, AFTER: "3600000", "retention.ms": "-1", "cleanup.policy": "delete"},
            math.inf,
            3_600_000,
            True,
            False,
        ),
        ({BEFORE: "2000", AFTER: NEVER, "retention.ms": "1000"}, 1000, math.inf, True, False),
        ({BEFORE: "500", "retention.ms": "1000"}, 500, math.inf, True, False),
        (
            {BEFORE: NEVER, AFTER: NEVER, DIFFERENCE: "70"},
            70,
            70,
            True,
            False,
        ),  # brokers from 3.6 to 3.9
        ({BEFORE: "90", AFTER: NEVER, DIFFERENCE: "70"}, 90, 70, True, False),
        ({DIFFERENCE: "70"}, 70, 70, True, False),  # older ones
        ({"cleanup.policy": "compact", "retention.ms": "1000"}, math.inf, math.inf, True, True),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1000"}, 1000, math.inf, True, True),
        (
            {"message.timestamp.type": "LogAppendTime", BEFORE: "1", "retention.ms": "1"},
            math.inf,
            math.inf,
            False,
            False,
        ),
    ],
)
def test_a_topics_settings_say_which_times_and_keys_it_takes(
    settings, age, ahead, takes_times, needs_key
):
    found = TopicLimit.by(settings)
    assert (found.max_age_ms, found.max_ahead_ms, found.takes_times, found.needs_key) == (
        age,
        ahead,
        takes_times,
        needs_key,
    )


def test_a_record_may_wait_for_its_topic_and_is_still_taken_then():
    """Between the decision and the broker lie the retries of a ship; a small bound leaves most of
    itself all the same."""
    limits = TopicLimits(
        {
            "days": TopicLimit(max_age_ms=DAY_MS, max_ahead_ms=3_600_000),
            "short": TopicLimit(max_age_ms=60_000),
            "any": TopicLimit(),
        }
    )
    found = RecordLimits(limits, order_with(seconds=600))
    now = 10.0 * DAY_MS
    assert found.times("days", now) == (now - DAY_MS + 610_000, now + 3_590_000)
    assert found.times("short", now) == (now - 54_000, math.inf)
    assert found.times("any", now) == (1, math.inf), (
        "no Kafka record has the time 0: librdkafka reads it as now"
    )


def pipeline(**more):
    return pipeline_of(**{"source": "logs/{window_start:%Y/%m/%d}/"} | more)


TIMED = {"records": {"timestamp": "now()"}}
KEPT, COMPACT = TopicLimit(max_age_ms=7 * DAY_MS), TopicLimit(needs_key=True)


@pytest.mark.parametrize(
    ("more", "topic", "limit", "days_ago", "faults"),
    [
        (TIMED, "t", KEPT, 9, [True]),
        (TIMED, "t", KEPT, 8, [False]),
        (TIMED, "t", KEPT, 6, []),
        (TIMED | {"source": "logs/"}, "t", KEPT, 900, [False]),
        (TIMED, "t", KEPT, None, []),
        (TIMED, "t", TopicLimit(takes_times=False), 900, []),
        ({}, "t", KEPT, 900, []),
        (TIMED | {"quarantine": {"topic": "q"}}, "q", KEPT, 900, []),
        ({}, "t", COMPACT, 1, [True]),
        ({"records": {"key": "value"}}, "t", COMPACT, 1, [False]),
        ({"records": {"key": "value"}, "quarantine": {"topic": "q"}}, "q", COMPACT, 1, [True]),
    ],
)
def test_settings_that_contradict_a_pipeline_are_found_before_it_ships(
    more, topic, limit, days_ago, faults
):
    window = (
        None
        if days_ago is None
        else Window(NOW - dt.timedelta(days=days_ago, hours=1), NOW - dt.timedelta(days=days_ago))
    )
    assert [
        each.severity == "fail"
        for each in contradictions(pipeline(**more), topic, limit, window, NOW)
    ] == faults


def test_a_missing_topic_of_a_replay_says_nothing_of_routes_that_are_right():
    replay = Replay(
        id="r1", reason="r", topic_prefix="again-", window_start=NOW, window_end=NOW, files=("/f",)
    )
    found = {}
    for pipeline in (pipeline_of(), replayed(pipeline_of(), replay)):
        [topic] = pipeline.needed_topics()
        [found[topic]] = missing(pipeline, [topic])
    assert {one.subject: "`routes`" in one.remedy for one in found.values()} == {
        "t": True,
        "again-t": False,
    }
