"""A lane by hand: opened, and with a transaction under way, to be fenced, committed or left."""

import time

from shipper.kafka.connection import Until
from shipper.kafka.producer import LaneSettings
from shipper.kafka.transaction import RightToShip, Transactions


def within(seconds: float = 20) -> Until:
    ends = time.monotonic() + seconds
    return lambda: ends


class OpenLane:
    """``topic``: any that is there. Its right to ship is never questioned, as a zombie's own view
    would have it."""

    def __init__(
        self, settings: LaneSettings, transactional_id: str, topic: str, *, begun: bool = True
    ):
        self._transactions = Transactions(
            settings, transactional_id, [topic], RightToShip(lambda: None)
        )
        self._transactions.open(within())
        if begun:
            self.begin()

    def begin(self):
        self._producer = self._transactions.begin(within())

    def produce(self, *record):
        """Topic, value, key, partition; acknowledged when this returns."""
        with self._producer.faults():
            self._producer.produce(*record)
        self._producer.flush(within())

    def commit(self):
        self._transactions.commit(within())

    def leave(self):
        """Aborts what is open."""
        self._transactions.close(within())

    def die(self):
        """Leaves what is open as it is."""
        self._transactions.discard()
