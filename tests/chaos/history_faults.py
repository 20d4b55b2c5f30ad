"""Faults that come while a run of a history is under way. Each returns how it ends, or None if it
found nothing to hit."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer
from shipper_tools.faultproxy.proxy import FaultProxy

from tests.chaos.history_run import lane_id
from tests.chaos.history_world import TOPICS, HistoryRun

if TYPE_CHECKING:
    from tests.chaos.history_course import History

_END_TXN = 26
_TRANSACTION_TIMES_OUT_SECONDS = 11.5

#: Ends a fault.
Undo = Callable[[], object]


class Fault(NamedTuple):
    weight: float
    """Weight of the fault in the random choice."""
    begin: Callable[[History, HistoryRun], Undo | None]


def _nothing() -> None:
    """End a fault that is over when it has happened."""


def _after(begin: Callable[[], object], undo: Undo) -> Undo:
    begin()
    return undo


def _on_links(
    history: History, begin: Callable[[FaultProxy], object], undo: Callable[[FaultProxy], object]
) -> Undo:
    history.brokers.each(begin)
    return lambda: history.brokers.each(undo)


def _restart(history: History) -> Undo:
    history.brokers.stop()
    history.brokers.start()
    return _nothing


def _kill(run: HistoryRun, victim: str) -> Undo | None:
    if not run.driven:
        return None
    if victim == "driver":
        run.signal_driver(signal.SIGKILL)
    else:
        run.signal(signal.SIGKILL)
    return _nothing


def _put_to_sleep(history: History, run: HistoryRun) -> Undo | None:
    if not run.driven or run not in history.active:
        return None
    run.signal(signal.SIGSTOP)
    history.put_to_sleep(run)
    return _nothing


def _time_out(run: HistoryRun) -> Undo | None:
    """Let the broker abort open transactions, while nobody takes over."""
    if not run.driven:
        return None
    run.signal(signal.SIGSTOP)
    time.sleep(_TRANSACTION_TIMES_OUT_SECONDS)
    run.signal(signal.SIGCONT)
    return _nothing


def _hijack(history: History, run: HistoryRun) -> Undo:
    lane = lane_id(run.spec, history.rng.randrange(2), history.rng.randrange(2))
    thief = Producer({"bootstrap.servers": history.brokers.direct, "transactional.id": lane})
    thief.init_transactions(5)
    thief.begin_transaction()
    thief.produce(TOPICS[0], b"stolen: never to be committed")
    thief.poll(0.2)
    return _nothing


def _replace(history: History, run: HistoryRun) -> Undo | None:
    if run.spec.reship or not run.driven:
        return None
    busy = history.busy_paths(but=run)
    files = [
        file for file in run.spec.files if file.path not in busy and history.model.is_current(file)
    ]
    if not files:
        return None
    history.replace(history.rng.choice(files))
    history.write_source()
    return _nothing


def _add_partition(history: History) -> Undo | None:
    return _nothing if history.brokers.add_partition(history.rng.choice(TOPICS)) else None


DURING = {
    "broker killed": Fault(
        2, lambda history, run: _after(history.brokers.kill, history.brokers.start)
    ),
    "broker restarted": Fault(2, lambda history, run: _restart(history)),
    "broker paused": Fault(
        5, lambda history, run: _after(history.brokers.pause, history.brokers.resume)
    ),
    "connections cut": Fault(8, lambda history, run: _nothing if history.brokers.cut() else None),
    "connections reset": Fault(
        8, lambda history, run: _nothing if history.brokers.reset() else None
    ),
    "link stalled": Fault(
        5, lambda history, run: _on_links(history, FaultProxy.stall, FaultProxy.resume)
    ),
    "commit held back": Fault(
        10,
        lambda history, run: _on_links(
            history, lambda link: link.hold_request(_END_TXN), FaultProxy.release
        ),
    ),
    "commit's answer held back": Fault(
        10,
        lambda history, run: _on_links(
            history, lambda link: link.hold_response(_END_TXN), FaultProxy.release
        ),
    ),
    "partition added": Fault(3, lambda history, run: _add_partition(history)),
    "transactional.id hijacked": Fault(4, _hijack),
    "driver killed": Fault(8, lambda history, run: _kill(run, "driver")),
    "run killed": Fault(8, lambda history, run: _kill(run, "all")),
    "run stopped and taken over": Fault(12, _put_to_sleep),
    "transaction timed out": Fault(0.7, lambda history, run: _time_out(run)),
    "file replaced during the run": Fault(6, _replace),
}
