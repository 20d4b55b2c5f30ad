"""The tasks' side of a ship, without Kafka: an order, a task, and the topics that it fills."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from shipper.kafka.limits import TopicLimits
from shipper.kafka.producer import LaneSettings
from shipper.ledger.fold import Chunks, SplitState
from shipper.types import FileId, LogRecord, SplitId
from shipper.worker.assign import RecordLimits
from shipper.worker.chunk import Chunk
from shipper.worker.cut import split_slices
from shipper.worker.order import LaneOptions, OrderedSplit, ShipOrder
from shipper.worker.receipt import Receipt
from shipper.worker.shipment import TaskShipment
from shipper.worker.tuning import Following, Tuning

SPLIT = SplitId(FileId("a.log", 9, 9), 0)


def order_with(
    compression: str = "none", *, transactional: bool = True, seconds: int = 0, **changes: Any
) -> ShipOrder:
    """Return an order of nothing for one topic, with ``changes``."""
    settings = LaneSettings({}, 1, compression, 1, transactional=transactional)
    order = ShipOrder(
        pipeline="web", cluster="c", run_id="r", window="w", digest="d", generation=1, chunks_end=0,
        lane_options=LaneOptions(settings, "ledger", 0, seconds),
        limits={}, tuning=Tuning(1, 1000, 1000), topics=("t",), splits={},
    )  # fmt: skip
    return replace(order, **changes)


def run_task(
    order: ShipOrder, batch: pa.RecordBatch, submit: Callable[[list[Chunk]], object]
) -> Receipt:
    """Ship the rows of a batch as one task."""
    receipt, limits = Receipt(0), RecordLimits(TopicLimits(order.limits), order)
    task = TaskShipment(
        order,
        limits,
        receipt,
        submit=submit,
        at_commit=lambda value: value,
        sizes=Following(order.tuning),
    )
    for part in split_slices(iter([batch]), lambda: order.tuning.slice_bytes, order.splits):
        task.ship(part)
    task.finish()
    return receipt


class FilledTopics:
    """Topics, and a ledger that is compacted as soon as a key is written again."""

    def __init__(self):
        self.topics: dict[str, list[bytes]] = {}
        self.ledger: dict[bytes, LogRecord] = {}
        self._offsets = itertools.count()

    def chunks(self) -> Chunks:
        return Chunks("web").feed(sorted(self.ledger.values(), key=lambda record: record.offset))

    def commit(self, chunk: Chunk):
        key = chunk.ledger_key
        self.ledger[key] = LogRecord(next(self._offsets), 0, key, chunk.ledger_value(None, None))
        if chunk.topic:
            self.topics.setdefault(chunk.topic, []).extend(
                value or b"" for value in chunk.values[:]
            )

    def split(self, **fields: Any) -> OrderedSplit:
        """Return the split with what is there, as the driver orders it."""
        state = self.chunks().splits.get(SPLIT, SplitState())
        return OrderedSplit(
            SPLIT,
            there={topic: state.intervals(topic) for topic in state.topics},
            quarantines=state.quarantines,
            end_known=state.end is not None,
            **fields,
        )
