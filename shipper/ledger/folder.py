"""Where files of one pipeline's ledger on one cluster lie, beside the runs.

::

    {runs_uri}/{pipeline}/ledger.{cluster}/ledger.json  which topic it is (shipper.ledger.identity)
    {runs_uri}/{pipeline}/ledger.{cluster}/snapshot/    can be lost at any time: the topic holds all of it
    {runs_uri}/{pipeline}/ledger.{cluster}/archive/     cannot: `shipper ledger archive` moved it out of the topic
"""

from __future__ import annotations

from shipper.ledger.store import RecordStore


class LedgerFolder:
    def __init__(self, runs_uri: str, pipeline: str, cluster: str) -> None:
        self.runs = f"{runs_uri.rstrip('/')}/{pipeline}"
        self.uri = f"{self.runs}/ledger.{cluster}"
        self.snapshots = RecordStore(f"{self.uri}/snapshot", pipeline)
        self.archives = RecordStore(f"{self.uri}/archive", pipeline, durable=True)
