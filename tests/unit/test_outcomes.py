"""The table of Kafka's errors: complete, and as the page shows it."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import KafkaError

from shipper.kafka.outcomes import NOT_HERE, OTHERWISE, TABLE, Action, TransactionOutcome, outcomes_page, ruling_on

PAGE = Path(__file__).resolve().parents[2] / "docs" / "outcomes.md"
#: Every name that librdkafka gives to an error.
NAMES = {KafkaError(code).name() for code in vars(KafkaError).values() if isinstance(code, int)}
ELSEWHERE = [name for names in NOT_HERE.values() for name in names.split()]


def test_every_error_of_librdkafka_is_in_the_table_or_said_to_come_from_elsewhere() -> None:
    assert len(NAMES) > 150
    assert sorted([*TABLE, *ELSEWHERE]) == sorted(NAMES)


def test_no_error_means_delivered_and_one_nobody_knows_is_settled_by_the_ledger() -> None:
    assert {ruling.outcome for ruling in TABLE.values()} == {TransactionOutcome.NOT_DELIVERED, TransactionOutcome.UNKNOWN}
    assert ruling_on("SOMETHING_NEW") is OTHERWISE
    assert (OTHERWISE.outcome, OTHERWISE.action) == (TransactionOutcome.UNKNOWN, Action.REOPEN)


def test_what_fails_at_once_is_certainly_not_delivered() -> None:
    assert all(ruling.outcome is TransactionOutcome.NOT_DELIVERED for ruling in TABLE.values() if ruling.action is Action.FAIL)


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == outcomes_page(), (
        "the table has changed: python -m shipper.kafka.outcomes > docs/outcomes.md"
    )
