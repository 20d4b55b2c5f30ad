"""How often a ship waits for a far cluster before the first record, in round trips one after the
other. Counted by the proxy that makes the cluster far, so that nobody adds one unseen: at 140 ms
seven of them are a second."""

import itertools
import os
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
from shipper_tools.dev.console_consumer import read_topic
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.ports import free_port
from shipper_tools.faultproxy.proxy import FaultProxy

from shipper.kafka.client import ClusterClient
from shipper.report.phases import Phases
from shipper.worker.order import ShipOrder
from shipper.worker.tuning import Following, Tuning
from tests.chaos import ship_numbered
from tests.chaos.numbered import Numbered

pytestmark = [pytest.mark.kafka]

_RTT_MS = 150.0
_RECORDS = 2000  # 2 files of a split: one transaction
#: Measured, and one more: a fetch of a reader that was just in the way, or an answer that came late
#: on a busy machine.
_PHASES = {
    "asking the cluster": 9 + 1,
    "waiting for the lease": 1 + 1,
    "taking over": 7 + 1,
    "shipping": 17 + 2,
    "reading the ledger": 1 + 1,
    "releasing the lease": 1 + 1,
}
_MOST = {**_PHASES, "opening lanes": 12 + 1}
_ADD_PARTITIONS_TO_TXN = 24
_unique = itertools.count(1)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    port = free_port()
    with (
        KafkaServer(tmp_path_factory.mktemp("far"), far_port=port) as kafka,
        FaultProxy(kafka.far_listener, port) as link,
    ):
        yield kafka, link


@pytest.fixture
def far(straight):
    """A broker, and the link to it, to be shaped by the test."""
    yield straight
    straight[1].shape(rtt_ms=0, ack_ms=0, ack_p99_ms=0)


@contextmanager
def slow_to_acknowledge(far, folder, *, most_bytes=10_000_000, records=50_000, **shape):
    """Yield a ship to a broker that answers at once and acknowledges late, as on object storage.
    ``most_bytes``: of a batch; ``records``: of each of four splits. An independent consumer finds
    each record once."""
    kafka, link = far
    link.shape(**shape)
    name = f"slow{next(_unique)}-{os.getpid()}"
    numbered = Numbered(
        name,
        kafka.far_bootstrap,
        (name,),
        str(folder),
        files=(0, 1),
        splits=4,
        records=records,
        records_per_second=1e9,
        tasks=1,
        delivery={"chunk_size": None, "batch_size": None, "lanes": None, "lease": "60s"},
    )
    ClusterClient(numbered.cluster).create_topics(
        {name: 16}, {"max.message.bytes": str(most_bytes)}, replication_factor=1
    )
    yield numbered
    values = read_topic(kafka.bootstrap, name)
    assert len(set(values)) == len(values) == 4 * records


def spy_on_sizes(patch):
    """Return the sizes that a ship changes to, and the waits that tell it the delay."""
    followed, waits = list[Tuning](), list[float]()
    follow, note = Following.follow, Following.note

    def spy(self, waited_share):
        if changed := follow(self, waited_share):
            followed.append(self.tuning)
        return changed

    patch.setattr(Following, "follow", spy)
    patch.setattr(Following, "note", lambda self, each: (waits.append(each), note(self, each)))
    return followed, waits


def test_a_broker_that_answers_at_once_and_acknowledges_late_gets_lanes_for_its_acknowledgements(
    far, tmp_path
):
    """Metadata alone would ask for two lanes and small batches."""
    orders = list[ShipOrder]()

    def tasks(numbered, order, cluster, cancelled):
        orders.append(order)
        return [ship_numbered.write(numbered, order, cluster, 0, 0)], None

    with slow_to_acknowledge(far, tmp_path, ack_ms=300) as numbered:
        result = ship_numbered.ship(numbered, tasks)
    [order] = orders
    assert result.rtt_ms is not None
    assert result.ack_ms is not None
    assert result.rtt_ms < 250 < 300 <= result.ack_ms
    sizes = order.tuning
    assert (sizes.batch_bytes, sizes.side_by_side) == (2_000_000, 3)
    assert 12 <= sizes.lanes <= 26, "what memory allows, and what 80 MB/s need"
    assert sizes.slice_bytes == 2_000_000
    assert result.delivered == 200_000


@pytest.mark.long
def test_batches_follow_acknowledgements_that_become_slow_during_the_ship(
    far, tmp_path, monkeypatch
):
    followed, _ = spy_on_sizes(monkeypatch)
    with slow_to_acknowledge(far, tmp_path) as numbered:

        def tasks(numbered, order, cluster, cancelled):
            sizing = replace(order.sizing, link=replace(order.sizing.link, rtt_seconds=0.001))
            near = sizing.with_ack(0.004)
            order = replace(order, sizing=near, tuning=near.tune())
            far[1].shape(ack_ms=300)
            return [ship_numbered.write(numbered, order, cluster, 0, 0)], None

        numbered = replace(
            numbered, delivery={**numbered.delivery, "chunk_size": "4MB", "lanes": 2}
        )
        result = ship_numbered.ship(numbered, tasks)
    assert result.held_ack_ms is not None
    assert result.held_ack_ms >= 300
    assert [each.side_by_side for each in followed] == [3]
    assert result.delivered == 200_000


@pytest.mark.long
def test_acknowledgements_that_vary_neither_move_the_sizes_nor_end_a_transaction(
    far, tmp_path, monkeypatch
):
    """Half of them take 250 ms, one of a hundred 1.5 s. The narrow link makes lanes few and
    transactions small, so that other sizes would be at hand and the delay is judged often."""
    followed, waits = spy_on_sizes(monkeypatch)

    def tasks(numbered, order, cluster, cancelled):
        return [ship_numbered.write(numbered, order, cluster, 0, 0)], None

    shape = {"ack_ms": 250, "ack_p99_ms": 1500}
    with slow_to_acknowledge(far, tmp_path, most_bytes=200_000, records=400_000, **shape) as slow:
        delivery = {**slow.delivery, "memory": "40MB"}
        result = ship_numbered.ship(replace(slow, bandwidth="16MB/s", delivery=delivery), tasks)
    assert len(waits) > 4 * 32, "each 32 of them tell another delay"
    # Once, as a rule. What a busy machine adds to each wait is a delay, too.
    assert len(followed) <= 3, "by the latest wait alone they change four to six times"
    assert (result.lane_reopened, result.task_retries) == (0, 0)
    assert result.held_ack_ms is not None
    assert 150 < result.held_ack_ms < 1000
    assert result.delivered == 1_600_000


class Spans(Phases):
    """Also says when each phase was."""

    def __init__(self):
        super().__init__()
        self.spans = []

    def _turn(self):
        if self._open:
            self.spans.append((self._open[-1], self._since, time.monotonic()))
        super()._turn()


def in_series(exchanges, began, ended):
    """The most exchanges of which each was asked when the one before was answered: what waiting for
    the next answer cannot hide."""
    count, free_at = 0, began
    within = [
        each
        for each in exchanges
        if each.answered is not None
        and each.asked >= began - 0.005
        and each.answered <= ended + 0.02
    ]
    for exchange in sorted(within, key=lambda each: each.answered or 0.0):
        if exchange.asked >= free_at - 0.005:
            count, free_at = count + 1, exchange.answered or 0.0
    return count


@pytest.mark.long
def test_a_ship_to_a_far_cluster_waits_for_no_more_round_trips_than_it_needs(
    far, tmp_path, monkeypatch, capsys
):
    kafka, link = far
    link.shape(rtt_ms=_RTT_MS)
    name = f"far{next(_unique)}x{os.getpid()}"
    numbered = Numbered(
        name,
        kafka.far_bootstrap,
        (name,),
        str(tmp_path),
        files=(0, 2),
        splits=1,
        records=_RECORDS // 2,
        records_per_second=1e9,
        tasks=1,
        delivery={"chunk_size": "8MB", "batch_size": "1MB", "lease": "60s"},
    )
    ClusterClient(numbered.cluster).create_topics({name: 4}, replication_factor=1)
    spans, made = Spans(), ship_numbered._context

    def context(*given):
        found = made(*given)
        found.phases = spans
        return found

    monkeypatch.setattr(ship_numbered, "_context", context)

    def tasks(numbered, order, cluster, cancelled):
        return [ship_numbered.write(numbered, order, cluster, 0, 0)], None

    assert ship_numbered.ship(numbered, tasks).delivered == _RECORDS
    link.note_exchanges()
    spans.spans.clear()
    result = ship_numbered.ship(replace(numbered, run_id="again", files=(2, 4)), tasks)
    assert result.delivered == _RECORDS
    exchanges = link.exchanges()
    found = {
        phase: sum(
            in_series(exchanges, began, ended)
            for name, began, ended in spans.spans
            if name == phase
        )
        for phase in _PHASES
    }
    # Of shipping, what comes before the first record: see docs/understand/sizing.md.
    [began] = [began for name, began, _ in spans.spans if name == "shipping"]
    first = min(each.asked for each in exchanges if each.api_key == _ADD_PARTITIONS_TO_TXN)
    found["opening lanes"] = in_series(exchanges, began, first)
    with capsys.disabled():
        print(
            f"\nround trips in series: {found}; {result.phases or ''} requests: {len(exchanges)}",
            end="",
        )
    assert all(found[phase] <= most for phase, most in _MOST.items()), found
    assert sum(found.values()) > 20, "else nothing was counted"
    assert len(read_topic(kafka.bootstrap, name)) == 2 * _RECORDS
