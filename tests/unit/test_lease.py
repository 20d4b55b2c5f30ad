"""Who gives the lease back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shipper.delivery.lease import HeldLease


class Ledger:
    """What a lease asks of one; keeps what is written."""

    pipeline, topic = "web", "_shipper.web"

    def __init__(self) -> None:
        self.generation = 7
        self.written: list[Any] = []

    def control(self) -> SimpleNamespace:
        return SimpleNamespace(generation=self.generation, holder=lambda run_id: None)

    def write_control(self, records: list[tuple[bytes, bytes | None]]) -> None:
        self.written += [value for _, value in records]


@pytest.mark.parametrize(("later", "released"), [(7, True), (8, False)])
def test_an_attempt_that_was_taken_over_leaves_the_lease_to_its_successor(later: int, released: bool) -> None:
    ledger = Ledger()
    with HeldLease(ledger, "the-run", 30.0, 0.0, print) as lease:  # type: ignore[arg-type]
        lease.generation = 7
        ledger.generation = later
    assert (ledger.written[-1] is None) == released
