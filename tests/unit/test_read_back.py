"""What is read back, and what it is held against. The reader is a fake: what a real one finds is
tests/integration's."""

import datetime as dt
from collections import Counter

import pytest

from shipper.config.checks import ReadBackCheck
from shipper.errors import StepResultError
from shipper.ledger.inventory import LedgerFigures, Tally
from shipper.report.results import ShipResult, TopicAccount
from shipper.verify.readback import UNKNOWN, SpanSums
from shipper.verify.reconcile import LEDGER, RECEIPTS, CountRow, CountTable
from shipper.verify.recount import look
from shipper.windows.window import Window
from tests.samples.results import common

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


class FakeReader:
    """Topics by partition: (end, what is in there since the ship began)."""

    def __init__(self, topics):
        self.topics = topics
        self.spans = {}

    def ends(self, wanted):
        return {
            topic: [end for end, _ in parts]
            for topic, parts in self.topics.items()
            if wanted(topic)
        }

    def read(self, spans, taker, patience_seconds):
        self.spans = spans
        return {(topic, number): self.topics[topic][number][1] for topic, number in spans}


def ship(ends_before, hour=0, **delivered):
    start = NOW + dt.timedelta(hours=hour)
    topics = [
        TopicAccount(topic=name, delivered=count, quarantine=name == "q")
        for name, count in delivered.items()
    ]
    of_run = common(Window(start, start + dt.timedelta(hours=1)), at=NOW)
    return ShipResult(cluster="c", topics=topics, ends_before=ends_before, **of_run)


def sent(**by_topic):
    """topic → {partition: (records, checksum)}."""
    tallies = {
        t: {n: Tally(records=r, checksum=c) for n, (r, c) in parts.items()}
        for t, parts in by_topic.items()
    }
    return LedgerFigures(sent=tallies)


def looked(reader, shipped, ledger, mode="full", others=None):
    check = ReadBackCheck(check="read_back", mode=mode)
    table = CountTable(shipped, ledger)
    return look(check, table, reader, lambda: others), table


def rows(table, *subjects):
    return [row for row in table.rows if row.check == "read_back" and row.subject in subjects]


def figures(table, *subjects):
    found = rows(table, *(subjects or ("topic", "cluster")))
    return {row.name: list(row.figures.values()) for row in found}


def test_topics_and_partitions_that_were_made_during_the_ship_are_read_from_their_beginning():
    reader = FakeReader({"t": [(10, SpanSums(4)), (8, SpanSums(5))], "new": [(3, SpanSums(2))]})
    looked(reader, ship({"t": [6]}, t=9, new=2), sent(t={0: (4, 0), 1: (5, 0)}, new={0: (2, 0)}))
    assert {place: span.start for place, span in reader.spans.items()} == {
        ("t", 0): 6,
        ("t", 1): 0,
        ("new", 0): 0,
    }


def test_a_topic_that_got_nothing_is_read_too():
    reader = FakeReader({"t": [(2, SpanSums(1))], "errors": [(5, SpanSums(4))]})
    _, table = looked(reader, ship({"t": [0], "errors": [0]}, t=1), sent(t={0: (1, 0)}))
    assert figures(table)["errors"] == [0, 0, 4]


def test_a_sample_is_a_quarter_of_the_partitions_the_same_each_time_and_another_for_another_window():  # noqa: E501
    parts = dict.fromkeys(range(8), (5, 0))
    reader = FakeReader({"t": [(9, SpanSums(5)) for _ in range(8)]})
    chosen = []
    for hour in (0, 0, *range(1, 24)):
        _, table = looked(reader, ship({"t": [0] * 8}, hour, t=40), sent(t=parts), "sample")
        chosen.append(tuple(number for _, number in reader.spans))
        assert len(chosen[-1]) == 2
        assert len(rows(table, "partition")) == 4  # a count and a checksum each
        assert figures(table) == {}
        assert table.topics()[0].read_back is None
    assert chosen[0] == chosen[1]
    assert {number for numbers in chosen for number in numbers} == set(range(8))


def test_with_others_at_least_as_many_and_no_checksum():
    reader = FakeReader({"t": [(99, SpanSums(50, 1))]})
    scope, table = looked(
        reader, ship({"t": [0]}, t=40), sent(t={0: (40, 7)}), others="somebody writes"
    )
    assert all(row.at_least for row in table.rows)
    assert figures(table) == {"t": [40, 40, 50]}
    assert "somebody writes" in scope


def test_offsets_reads_nothing():
    reader = FakeReader({"t": [(30, None), (7, None)]})
    _, table = looked(
        reader, ship({"t": [12, 3]}, t=13), sent(t={0: (10, 5), 1: (3, 0)}), "offsets"
    )
    assert reader.spans == {}
    assert figures(table) == {"t": [13, 22]}
    assert figures(table, "partition") == {"t, partition 0": [10, 18], "t, partition 1": [3, 4]}
    assert all(row.at_least for row in table.rows)


@pytest.mark.parametrize("mode", ["offsets", "full"])
def test_a_topic_that_is_gone_has_nothing_of_what_was_sent(mode):
    _, table = looked(FakeReader({}), ship({"t": [0]}, t=13), sent(t={0: (13, 5)}), mode)
    assert figures(table)["t"][-1] == 0
    assert "does not exist" in rows(table, "topic")[0].remark


@pytest.mark.parametrize("mode", ["offsets", "full"])
def test_an_end_that_nobody_knew_has_no_figure(mode):
    reader = FakeReader({"t": [(3, SpanSums(3)), (3, SpanSums(3))]})
    _, table = looked(reader, ship({"t": [0, UNKNOWN]}, t=6), sent(t={0: (3, 0), 1: (3, 0)}), mode)
    assert figures(table)["t"][-1] is None
    assert "partition 1 had no leader" in list(rows(table, "topic")[0].figures)[-1]


def test_offsets_that_were_not_noted_cannot_be_guessed():
    with pytest.raises(StepResultError, match="not noted"):
        looked(FakeReader({"t": [(3, SpanSums(3))]}), ship(None, t=3), sent(t={0: (3, 0)}))


def test_the_quarantine_topic_is_counted_by_reason_and_may_be_shared():
    ledger = sent(q={0: (3, 9)})
    ledger.sent["q"][0].reasons.update({"too_large": 2, "unparseable": 1})
    reader = FakeReader({"q": [(99, SpanSums(3, 9, Counter(too_large=2, other=1)))]})
    _, table = looked(reader, ship({"q": [0]}, q=3), ledger, others="somebody writes")
    assert not any(row.at_least for row in rows(table, "topic", "cluster"))
    counted = figures(table)
    assert counted["q"] == [3, 3, 3]
    assert counted["quarantined: too_large"] == [2, 2]
    assert counted["quarantined: unparseable"] == [1, 0]
    assert counted["quarantined: other"] == [0, 1]
    figures_of_ship = {RECEIPTS: 1, LEDGER: 1}
    table.rows.append(
        CountRow("sum_closes", "cluster", "quarantined: unparseable", figures_of_ship)
    )
    [count] = table.counts()
    assert (count.read_back, count.agrees) == (0, False)


def test_more_is_missing_than_offsets_have_expired():
    """Records 0 to 4 may have expired; the others are missing for another reason."""
    reader = FakeReader({"t": [(30, SpanSums(1, 1, begins=17))]})
    _, table = looked(reader, ship({"t": [12]}, t=10), sent(t={0: (10, 5)}))
    assert not any(row.check == "expired" for row in table.rows)
    assert figures(table)["t"] == [10, 10, 1]
    assert "are deleted" in rows(table, "topic")[0].remark
