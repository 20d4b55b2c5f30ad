"""How a run ended, as a whole and on each cluster, in a few words."""

import datetime as dt
import re

import pytest

from shipper.error_codes import GATE_CLOSED, code_of, with_code
from shipper.finding import warn
from shipper.report.message import LONGEST, one_sentence, summary
from shipper.report.page import render
from shipper.report.plan_result import LeftOut
from shipper.report.run_view import run_view
from shipper.report.window_records import records_of
from tests.samples import reports as samples


def test_counts_that_disagree_come_before_other_warnings():
    report = samples.shipped()
    report.delivery_gates[0].account[1].ledger = 5
    told = run_view(report)
    assert told.event == "warning"
    assert told.why.startswith("frankfurt: counts disagree on logs.web (ledger 1,180,199 fewer).")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("One. Two.", "One."),
        ("a.b.c is 1.5 of e.g. two\nlines. Next", "a.b.c is 1.5 of e.g. two lines."),
        ("no end", "no end"),
        ("x" * 1000, "x" * (LONGEST - 1) + "…"),
    ],
)
def test_one_sentence_is_one_line(text, sentence):
    assert one_sentence(text) == sentence


def test_of_two_clusters_the_one_that_failed_first_is_the_cause():
    report = samples.ship_failed()
    singapore = next(ship for ship in report.ships if ship.status == "failed")
    earlier = singapore.finished_at - dt.timedelta(minutes=1)
    frankfurt = next(ship for ship in report.ships if ship.cluster == "frankfurt")
    frankfurt.status, frankfurt.error, frankfurt.finished_at = (
        "failed",
        "no broker answers",
        earlier + dt.timedelta(minutes=2),
    )
    assert named(run_view(report)) == "singapore"
    frankfurt.finished_at = earlier
    assert named(run_view(report)) == "frankfurt"
    # A step that left no result tells no time: it was killed, and another step's words are better.
    report.ships.remove(frankfurt)
    report.delivery_gates = [gate for gate in report.delivery_gates if gate.cluster != "frankfurt"]
    assert named(run_view(report)) == "singapore"


def test_a_closed_gate_is_told_by_its_check_and_the_gates_code():
    report = samples.gate_closed()
    report.gate_source.error = with_code("closed", GATE_CLOSED["gate_source"])
    told = run_view(report)
    assert all("not tried" in one.line for one in told.clusters)
    assert told.why.startswith("Source gate: ")
    assert code_of(told.why) == GATE_CLOSED["gate_source"]


def named(told):
    return told.failed.cluster


@pytest.mark.parametrize(("held", "says"), [(3, "3 records"), (None, "unknown")])
def test_a_ship_whose_receipts_are_lost_never_says_that_it_sent_nothing(held, says):
    lost = samples.ship({}, are_receipts_lost=True, ledger_records=held)
    assert "0 records sent" not in summary(lost)
    assert says in summary(lost)
    told = run_view(samples.report(ships=[lost]))
    assert "0 records sent" not in " ".join(map(str, vars(told).values()))


def test_a_ship_names_as_many_files_as_it_sent_records_of():
    whole = samples.ship(files=3)
    unreadable = whole.files[0].model_copy(update={"records": 0, "delivered": 0})
    partly = whole.model_copy(update={"files": [unreadable, *whole.files[1:]]})
    assert ("3 files" in summary(whole), "2 files" in summary(partly)) == (True, True)


CLUSTERS = ("near", "far")


def of_near(what):
    """A run that shipped to two clusters, and something is to be said of `near`."""
    ships = [samples.ship(cluster=name) for name in CLUSTERS]
    gates = [samples.delivery_gate(ship) for ship in ships]
    plan = samples.plan(clusters=CLUSTERS)
    if what == "left out":
        late = LeftOut(path="/logs/a.log", reason="it is gone", warns=True, clusters=["near"])
        plan.left_out.append(late)
    elif what == "let pass":
        gates[0].checks[0].passed = False
    elif what == "warned of":
        plan.clusters[0].findings.append(warn("weak", cluster="near"))
    elif what == "not counted alike":
        gates[0].account[1].ledger = 5
    elif what == "quarantined":
        ships[0].quarantined = {"unparseable": ships[0].read // 3}
    else:
        del gates[0]
    source = samples.source_gate()
    return samples.report(plan=plan, gate_source=source, ships=ships, delivery_gates=gates)


@pytest.mark.parametrize(
    "what",
    ["left out", "let pass", "warned of", "not counted alike", "quarantined", "without a gate"],
)
def test_what_is_found_of_one_cluster_colours_that_cluster_alone(what):
    report = of_near(what)
    left = {one.cluster: one.ended for one in records_of(report) if one.ended}
    assert {name: end.state for name, end in left.items()} == {"near": "doubt", "far": "shipped"}
    assert left["far"].cause == ""
    shown = run_view(report)
    assert (shown.state, [one.state for one in shown.clusters]) == ("doubt", ["doubt", "shipped"])
    assert {found.cluster for found in shown.doubts} == {"near"}
    on_page = re.findall(r'<span aria-hidden="true" class="(\w+)">.</span> (\w+):', render(report))
    assert on_page == [("warn", "near"), ("good", "far")]


@pytest.mark.parametrize(
    "sample",
    [one for one in samples.SAMPLES if one is not samples.large],  # which is more of the same
    ids=lambda sample: sample.__name__,
)
def test_no_sentence_names_the_cluster_that_its_finding_is_of(sample):
    """Whoever shows a finding says of which cluster it is: once."""
    run = run_view(sample())
    for found in (*run.doubts, *run.warnings, *run.notes):
        assert not found.cluster or not found.text.startswith(f"{found.cluster}: ")
