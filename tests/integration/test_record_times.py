"""Times and keys that a topic does not take, on a real broker: what becomes of such a record, and
what is said of it before anything is sent."""

import time
from collections import Counter

import pytest
from shipper_tools.dev.console_consumer import read_records

from shipper.errors import ClusterRefuses
from shipper.kafka.limits import TopicLimits
from shipper.worker.chunk import Chunk

from .pool_world import Ledger, Pool
from .world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
DAY_MS = 86_400_000
TIME = "timestamp_millis(try_cast(split_part(value, ' ', 1) as bigint))"


def timed(tmp_path, bootstrap, records=None, *, q=True, **settings):
    """A pipeline whose lines begin with their time in milliseconds, and a topic with
    ``settings``."""
    world = World(tmp_path, bootstrap, topics={"-q": 1})
    world.client.create_topics({world.topic(): 1}, settings, 1)
    world.write_pipeline(
        records={"timestamp": TIME} if records is None else records,
        quarantine={"topic": world.topic("-q"), "max_rate": 1.0} if q else None,
    )
    return world


def line(ago_ms, text):
    return b"%d %s" % (time.time() * 1000 - ago_ms, text.encode())


@pytest.fixture
def ledger(kafka):
    return Ledger(kafka)


def reasons(world):
    """(last word of a value in quarantine, why)."""
    found = read_records(world.bootstrap, world.topic("-q"))
    return Counter(
        ((record.value or b"").split()[-1], dict(record.headers)["shipper-reason"].decode())
        for record in found
    )


def test_a_record_whose_time_the_topic_refuses_goes_to_quarantine_and_the_others_are_shipped(
    tmp_path, kafka
):
    world = timed(tmp_path, kafka.bootstrap, **{BEFORE: str(2 * DAY_MS), AFTER: "3600000"})
    good = [line(0, "now"), line(DAY_MS, "yesterday"), line(-1_800_000, "soon"), b"? none"]
    bad = [line(3 * DAY_MS, "old"), line(-7_200_000, "ahead"), b"0 epoch", b"-1 before"]
    world.write_log("a.log", b"\n".join([*good, *bad]))
    done = world.run()
    assert (done["delivered"], world.read()) == (4, Counter(good))
    assert reasons(world) == Counter((value.split()[-1], "timestamp") for value in bad)
    times = {
        record.value: record.timestamp_ms for record in read_records(world.bootstrap, world.topic())
    }
    assert {value: times[value] for value in good[:3]} == {
        value: int(value.split()[0]) for value in good[:3]
    }
    assert abs(times[b"? none"] - time.time() * 1000) < 300_000, (
        "a line without a time has the time at which it was sent"
    )
    assert world.run()["delivered"] == 0


@pytest.mark.long
def test_without_a_quarantine_the_run_names_the_record_and_goes_on_when_the_topic_takes_it(
    tmp_path, kafka
):
    world = timed(tmp_path, kafka.bootstrap, q=False, **{AFTER: "3600000"})
    lines = [line(0, "now"), line(-7_200_000, "ahead")]
    path = world.write_log("a.log", b"\n".join(lines))
    world.fails(code=1, says=rf"{path}.* record 2: .*records\.timestamp.*{AFTER}")
    assert world.nothing_was_sent()
    world.set_topic(AFTER, str(DAY_MS))
    assert world.run()["delivered"] == 2
    assert world.read() == Counter(lines)


@pytest.mark.parametrize("bad", ["x", "xx-", "-x"])
@pytest.mark.parametrize("settings", [{BEFORE: str(DAY_MS)}, {"cleanup.policy": "compact"}])
@pytest.mark.long
def test_what_a_broker_refuses_unforeseen_is_reported_with_its_true_cause(ledger, settings, bad):
    """As when the topic's settings change during the run. ``bad``: an x for each record that the
    topic does not take."""
    by_time, topic = BEFORE in settings, f"refuses.{bad}.{next(iter(settings))}"
    ledger.client.create_topics({topic: 1}, settings, 1)
    now = int(time.time() * 1000)
    keys = None if by_time else [None if each == "x" else b"key" for each in bad]
    times = [1_000 if each == "x" else now for each in bad] if by_time else None
    sent = Chunk(
        topic,
        [b"one"] * len(bad),
        9,
        topic.encode(),
        lambda p, topic_id: b"",
        "label",
        keys=keys,
        timestamps_ms=times,
    )
    with Pool(
        ledger.options(batch=1_000, limits=TopicLimits(ask=ledger.client.limits)),
        [f"{topic}.0"],
        ledger.keys,
    ) as pool:
        pool.open()
        pool.submit([sent])
        with pytest.raises(ClusterRefuses) as refused:
            pool.drain()
    assert (
        "INVALID_TIMESTAMP" in refused.value.message,
        "INVALID_RECORD" in refused.value.message,
    ) == (by_time, not by_time)
