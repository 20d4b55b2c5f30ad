"""How a run ended, in a few words."""

from __future__ import annotations

import datetime as dt

import pytest

from shipper.error_codes import GATE_CLOSED, code_of, with_code
from shipper.report.message import LONGEST, Message, message, one_sentence, summary
from tests.samples import reports as samples


def test_counts_that_disagree_come_before_other_warnings() -> None:
    report = samples.shipped()
    report.delivery_gates[0].account[1].ledger = 5
    told = message(report)
    assert told.ending == "warning"
    assert told.cause is not None
    assert told.cause.startswith("frankfurt: counts disagree on logs.web (ledger 1,180,199 fewer).")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("One. Two.", "One."),
        ("a.b.c is 1.5 of e.g. two\nlines. Next", "a.b.c is 1.5 of e.g. two lines."),
        ("no end", "no end"),
        ("x" * 1000, "x" * (LONGEST - 1) + "…"),
    ],
)
def test_one_sentence_is_one_line(text: str, sentence: str) -> None:
    assert one_sentence(text) == sentence


def test_of_two_clusters_the_one_that_failed_first_is_the_cause() -> None:
    report = samples.ship_failed()
    singapore = next(ship for ship in report.ships if ship.status == "failed")
    earlier = singapore.finished_at - dt.timedelta(minutes=1)
    frankfurt = next(ship for ship in report.ships if ship.cluster == "frankfurt")
    frankfurt.status, frankfurt.error, frankfurt.finished_at = (
        "failed",
        "no broker answers",
        earlier + dt.timedelta(minutes=2),
    )
    assert named(message(report)) == "singapore"
    frankfurt.finished_at = earlier
    assert named(message(report)) == "frankfurt"
    # A step that left no result tells no time: it was killed, and another step's words are better.
    report.ships.remove(frankfurt)
    report.delivery_gates = [gate for gate in report.delivery_gates if gate.cluster != "frankfurt"]
    assert named(message(report)) == "singapore"


def test_a_closed_gate_is_told_by_its_check_and_the_gates_code() -> None:
    report = samples.gate_closed()
    assert report.gate_source is not None
    report.gate_source.error = with_code("closed", GATE_CLOSED["gate_source"])
    told = message(report)
    assert all("not tried" in line for line in told.clusters)
    assert told.cause is not None
    assert told.cause.startswith("Source gate: ")
    assert code_of(told.cause) == GATE_CLOSED["gate_source"]


def named(told: Message) -> str | None:
    assert told.step is not None
    return told.step.cluster


@pytest.mark.parametrize(("held", "says"), [(3, "3 records"), (None, "not be asked")])
def test_a_ship_whose_receipts_are_lost_never_says_that_it_sent_nothing(
    held: int | None, says: str
) -> None:
    lost = samples.ship({}, are_receipts_lost=True, ledger_records=held)
    assert "0 records sent" not in summary(lost)
    assert says in summary(lost)
    told = message(samples.report(ships=[lost]))
    assert "0 records sent" not in " ".join(map(str, vars(told).values()))
