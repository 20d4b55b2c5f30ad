"""Topics on the cluster, for commands that read a whole ledger, and the ledger's chunks that are
gone with an earlier topic."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from shipper.cli.expired import Sent, count
from shipper.cli.open_ledger import OpenLedger
from shipper.finding import Finding, fail
from shipper.ledger.fold import LedgerRecords
from shipper.ledger.incarnations import RecreatedTopic, entries_there, losses_of_entries, sum_losses
from shipper.ledger.inventory import Entries, entries


class PresentEntries:
    """Chunk records of the ledger, path by path, without those whose topics are gone; the lost
    records are known at the end."""

    def __init__(self, ledger: OpenLedger) -> None:
        self._ledger = ledger
        self._present: dict[str, str | None] = {}
        self._asked: set[str] = set()
        self._lost: list[RecreatedTopic] = []
        self.sent: Sent = {}
        """Entries that count, grouped by the ship that sent them."""

    def of(self, read: LedgerRecords) -> Iterator[Entries]:
        """Yield the entries of each ship. Raises ClusterError."""
        for of_path in entries(read):
            self._ask(
                {
                    entry.key.topic
                    for entry in of_path
                    if entry.value.topic_id and not entry.invalidated
                }
            )
            self._ask({topic for alias in of_path.aliases.values() for topic in alias.topic_ids})
            yield self._take(of_path)

    def _take(self, of_path: Entries) -> Entries:
        there = entries_there(of_path, self._present)
        if len(there) < len(of_path):
            self._lost += losses_of_entries(of_path, self._ledger.pipeline.key, self._present)
        count(self.sent, there)
        return there

    def _ask(self, topics: Collection[str]) -> None:
        if new := set(topics) - self._asked:
            self._asked |= new
            self._present |= self._ledger.client.present_ids(new)

    def findings(self) -> Iterator[Finding]:
        remedy = "to send them again, set `delivery.on_recreated: resend` and run their windows"
        for lost in sum_losses(self._lost):
            yield fail(str(lost), remedy, code="recreated", subject=lost.topic)
