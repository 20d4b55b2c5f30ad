import pytest

from shipper.config.checks import ChecksumCheck, SumClosesCheck
from shipper.driver.account import throttling
from shipper.driver.forecast import forecast, limit_of
from shipper.driver.judge_delivery import evaluate_delivery
from shipper.ledger.fold import Chunks
from shipper.ledger.inventory import figures
from shipper.ledger.records import ChunkKey, ChunkValue
from shipper.report.results import FileAccount, ShipResult, TopicAccount, write_checksum
from shipper.report.throughput import foretold
from shipper.types import FileId, SplitId
from shipper.verify.reconcile import SPARK, reconcile
from shipper.worker.receipt import Receipt
from shipper.worker.tuning import LinkProfile, Sizing
from tests.samples.results import common

A, B = FileId("/a", 100, 1), FileId("/b", 100, 1)
OURS, EARLIER = 7, 3


def value(
    first,
    last,
    records=None,
    *,
    generation=OURS,
    checksum=0,
    partition=0,
    end=False,
    reasons=None,
    filtered=None,
):
    count = last - first if records is None else records
    return ChunkValue(
        last=last,
        end=end,
        records=count,
        bytes=10 * count,
        checksum=checksum,
        digest="d",
        generation=generation,
        run_id="r",
        window="w",
        partition=partition,
        reasons=reasons,
        filtered=filtered,
    )


def ledger(*chunks):
    """``chunks``: (file, split start, first, topic, value)."""
    found = Chunks("p")
    for file, start, first, topic, chunk in chunks:
        found.add(ChunkKey(SplitId(file, start), first, topic), chunk)
    return figures(found, [A, B], [OURS])


def ship(**fields):
    return ShipResult(cluster="c", generation=OURS, **common(), **fields)


def checksums(table):
    return [row for row in table.rows if row.check == "checksum"]


def planned(*files):
    return {file.path: file for file in files}


def test_the_ledgers_figures_tell_this_ship_from_earlier_ones():
    found = ledger(
        (A, 0, 0, "t", value(0, 10, generation=EARLIER, checksum=2**64 - 1)),
        (A, 0, 10, "t", value(10, 30, checksum=5, end=True)),
        (A, 50, 0, "t", value(0, 4, checksum=2**64 - 2, partition=1)),
        (A, 50, 0, "u", value(0, 6, 2, partition=None)),
        (A, 50, 6, "", value(6, 6, end=True)),
    )
    assert found.topics == {"t": 34, "u": 2}
    assert found.files[A].lines == 36
    assert found.files[A].records == 36
    assert found.files[A].checksum == 2
    assert found.sent_to("t").records == 24
    assert found.sent_to("t").checksum == 3
    assert set(found.sent["t"]) == {0, 1}
    assert set(found.sent["u"]) == {None}
    assert found.files[B].records == 0


def test_a_ship_at_least_once_may_have_sent_more_than_a_later_run_left_it_in_the_ledger():
    """Nobody fences such a ship: a later run sends a chunk again, whose record takes the place of
    the first one's."""
    sent = ledger(
        (A, 0, 0, "t", value(0, 10, checksum=1)),
        (A, 0, 10, "t", value(10, 12, generation=OURS + 1, checksum=2, end=True)),
    )
    account = FileAccount(
        path="/a", records=12, delivered=12, before=0, checksums={"t": write_checksum(3)}
    )
    topic = TopicAccount(topic="t", delivered=12)

    def failed(guarantee, found=sent):
        sums = {"checksum": write_checksum(3), "checksum_added": write_checksum(0)}
        result = ship(read=12, files=[account], topics=[topic], guarantee=guarantee, **sums)
        checks = (SumClosesCheck(check="sum_closes"), ChecksumCheck(check="checksum"))
        judged = evaluate_delivery(checks, reconcile(result, planned(A), found))
        return [each.check for each in judged if not each.passed]

    assert failed("at_least_once") == []
    assert {"sum_closes(t)", "checksum(files)"} <= {*failed("exactly_once")}
    short = ledger((A, 0, 0, "t", value(0, 10, checksum=1)))
    assert "sum_closes(t)" in failed("at_least_once", short)


def test_a_filter_rule_that_spark_did_not_observe_has_no_figure_to_compare():
    found = reconcile(ship(read=3, filtered={"health": 3}), {}, ledger())
    (rule,) = [one for one in found.rows if one.name == "filtered: health"]
    assert list(rule.figures.values()) == [3, 0, None]


@pytest.mark.parametrize("added", [0, 2**64 - 3])
def test_sparks_checksum_and_what_the_tasks_added_is_the_ledgers(added):
    sent = 2**63 + 5
    spark = (sent - added) % 2**64
    result = ship(
        read=10,
        checksum=write_checksum(spark),
        checksum_added=write_checksum(added),
        files=[
            FileAccount(
                path="/a", records=10, delivered=10, before=0, checksums={"t": write_checksum(sent)}
            )
        ],
    )
    found = reconcile(
        result, planned(A), ledger((A, 0, 0, "t", value(0, 10, checksum=sent, end=True)))
    )
    of_file, of_cluster = checksums(found)
    assert set(of_cluster.figures.values()) == set(of_file.figures.values()) == {sent}


def test_a_checksum_that_was_not_asked_for_has_no_figure_unless_nothing_was_read():
    read = reconcile(
        ship(read=1, files=[FileAccount(path="/a", records=1, delivered=1, before=0)]),
        planned(A),
        ledger(),
    )
    assert checksums(read)[0].figures[SPARK] is None
    idle = reconcile(
        ship(files=[FileAccount(path="/a", records=1, delivered=0, before=1, unread=True)]),
        planned(A),
        ledger(),
    )
    assert checksums(idle)[0].figures[SPARK] == 0


def test_a_ship_that_brokers_throttled_says_so():
    receipts = [
        Receipt.from_json(Receipt(task, throttled_seconds=seconds).to_json())
        for task, seconds in enumerate((0.0, 93.2, 40.0))
    ]
    note = throttling(receipts, "tokyo")
    assert note.startswith("The brokers of tokyo throttled this ship, one task for 93 s: a quota")
    assert throttling(receipts[:1], "tokyo") == ""


@pytest.mark.parametrize(
    ("limit", "waited", "cpu", "found"),
    [
        ("source", 5.0, 30.0, {}),
        ("processor", 5.0, 180.0, {}),
        ("processor", 150.0, 180.0, {"ack_ms": 400.0}),
        ("processor", 150.0, 60.0, {"ack_ms": 400.0, "held_ack_ms": 3.0}),
        ("acknowledgements", 150.0, 60.0, {"ack_ms": 5.0, "held_ack_ms": 400.0}),
        ("bandwidth", 150.0, 60.0, {"ack_ms": 140.0, "wire_bytes": 900_000_000}),
        ("rate_limit", 150.0, 60.0, {"wire_bytes": 99_000_000, "rate_limit_bytes": 1_000_000}),
        ("acknowledgements", 150.0, 60.0, {"ack_ms": 99.0, "rate_limit_bytes": 1_000_000}),
        (None, 5.0, 1.0, {"ship_seconds": 3.0}),
    ],
)
def test_a_ship_says_what_held_it_up(limit, waited, cpu, found):
    """By two tasks of 100 seconds over a link of 10 MB/s."""
    receipts = [
        Receipt(task, first_at=0.0, last_at=100.0, waited_seconds=waited / 2) for task in (0, 1)
    ]
    result = ship(**{"ship_seconds": 100.0, "cpu_seconds": cpu, **found})
    assert limit_of(result, receipts, 10_000_000) == limit


def test_a_ship_that_a_quota_held_up_says_so():
    receipt = Receipt(0, first_at=0.0, last_at=100.0, waited_seconds=80.0, throttled_seconds=60.0)
    assert limit_of(ship(ship_seconds=100.0, ack_ms=400.0), [receipt], 10_000_000) == "quota"


PAST = ShipResult(
    **common(run_id="r9"),
    cluster="c",
    tasks=2,
    ship_seconds=10.0,
    cpu_seconds=12.0,
    wire_bytes=200_000_000,
    limited_by="source",
    topics=[TopicAccount(topic="t", delivered_bytes=1_000_000_000)],
)
NEAR = {"rtt_seconds": 0.001, "ack_seconds": 0.004, "bandwidth_bytes_per_second": 125e6}


@pytest.mark.parametrize(
    ("limit", "rate", "link", "past"),
    [
        (None, None, {}, None),
        (None, None, {"ack_seconds": 0.0}, None),
        ("rate_limit", 7e6, {"cap_bytes_per_second": 1_000_000, "cap_seconds": 30.0}, None),
        ("bandwidth", 14e6, {"bandwidth_bytes_per_second": 2e6}, None),
        (None, None, {"ack_seconds": 1.0, "partitions": 16}, None),
        ("source", 100e6, {}, {}),
        ("quota", 100e6, {}, {"limited_by": "quota"}),
        ("processor", 100e6, {}, {"limited_by": "processor"}),
        ("processor", 2 / 12e-9, {}, {"limited_by": "bandwidth"}),
        ("processor", 2 / 12e-9, {}, {"tasks": 1}),
        ("bandwidth", 50e6, {"bandwidth_bytes_per_second": 10e6}, {}),
        ("acknowledgements", 71e6, {"ack_seconds": 1.0, "partitions": 16}, {}),
    ],
)
def test_a_plan_foretells_what_limits_by_the_link_and_by_an_earlier_ship(limit, rate, link, past):
    """Two tasks, 7 GB. What only a ship can tell is not known before one has told."""
    sizing = Sizing(LinkProfile(ratio=7.0, limit_bytes=1_048_588, **(NEAR | link)), 2, 160_000_000)
    earlier = None if past is None else PAST.model_copy(update=past)
    found = forecast(sizing, sizing.tune(), 7_000_000_000, earlier)
    assert (found.limited_by, found.wire_bytes / 1e9) == (limit, 1.4 if past is not None else 1.0)
    assert found.bytes_per_second == (rate and pytest.approx(rate, rel=0.01))
    assert found.seconds == (rate and pytest.approx(7e9 / rate, rel=0.15))
    assert (found.measured_by, round(found.cpu_seconds)) in (("r9", 84), (None, 57), (None, 74))
    assert ("not known" in foretold(found)) == (limit is None)


def test_of_a_short_ship_no_limit_is_foretold_as_none_is_found_afterwards():
    sizing = Sizing(LinkProfile(ratio=7.0, limit_bytes=1_048_588, **NEAR), 2, 160_000_000)
    found = forecast(sizing, sizing.tune(), 70_000_000, PAST)
    assert found.limited_by is None
    assert found.seconds == pytest.approx(0.7, abs=0.3)
    assert "too little" in foretold(found)
