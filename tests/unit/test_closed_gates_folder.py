"""Closed delivery gates beside the results, and what a later gate makes of them."""

import datetime as dt
from types import SimpleNamespace

import pytest

from shipper.driver.earlier_gates import EarlierGates
from shipper.ledger.codec import encode_chunk, encode_identity, encode_invalidation
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, CONTROL, ChunkKey, Identity, Invalidation
from shipper.report.closed_gates import ClosedGate, ClosedGates, ClosedGatesFolder
from shipper.report.results import Coverage
from shipper.report.run_folder import RunFolder
from shipper.request import CLOSED_GATE, RunRequest
from shipper.types import FileId, SplitId
from shipper.windows.window import Window
from tests.doubles.memory_log import MemoryLog
from tests.samples import reports as samples
from tests.samples.config import cluster_of, pipeline_of
from tests.samples.ledger import chunk_value
from tests.samples.results import checked

HOUR = dt.timedelta(hours=1)
START = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
WINDOW, NEXT = Window(START, START + HOUR), Window(START + HOUR, START + 2 * HOUR)
SUM, TOPIC = (checked(name, False, "1", "2") for name in ("sum_closes(lines)", "read_back(logs)"))


def closed(generation, **fields):
    changes = {"run_id": "r1", "topics": [], "files": [], "delivered": 0, "read": 0, **fields}
    ship = samples.ship(generation=generation).model_copy(update=changes)
    return ClosedGate(at=START, ship=ship, files=[FileId("/a", 1, 2)], failed=[SUM, TOPIC])


def earlier(tmp_path, window, generation, records=None, **context):
    client = SimpleNamespace(present_ids=lambda topics: {})
    about = SimpleNamespace(
        window=window, own_runs_uri=str(tmp_path), pipeline=pipeline_of(),
        connections=lambda _: SimpleNamespace(client=client), is_trial=False, request=RunRequest(),
    )  # fmt: skip
    vars(about).update(context)
    plan = SimpleNamespace(files_for=lambda _: [])
    cluster = cluster_of("frankfurt")
    log = LedgerLog(records or MemoryLog(), cluster, "web")
    shipped = samples.ship({}, generation=generation)
    return EarlierGates(about, cluster, log, plan, shipped)


def test_gates_are_kept_by_window_and_cluster(tmp_path):
    folder = ClosedGatesFolder(str(tmp_path), "web", "frankfurt")
    folder.add(WINDOW, closed(5))
    folder.add(WINDOW, closed(5))  # tried again
    folder.add(WINDOW, closed(7))
    assert [gate.ship.generation for gate in folder.find(WINDOW)] == [5, 7]
    assert folder.find(NEXT) == []
    assert ClosedGatesFolder(str(tmp_path), "web", "tokyo").windows() == []
    assert folder.windows() == [WINDOW]
    found = folder.find(WINDOW)
    folder.forget(WINDOW, found)
    folder.forget(WINDOW, found)
    assert folder.windows() == []


def test_a_gate_that_closes_while_another_one_opens_the_window_stays_closed(tmp_path):
    folder = ClosedGatesFolder(str(tmp_path), "web", "frankfurt")
    folder.add(WINDOW, closed(5))
    opening = earlier(tmp_path, WINDOW, 9, reshipped(9))
    assert opening.count_again(None) == []
    folder.add(WINDOW, closed(7))
    opening.remember(SimpleNamespace(status="succeeded", checks=[]), None)
    assert [gate.ship.generation for gate in folder.find(WINDOW)] == [7]


def test_what_an_earlier_release_kept_in_one_file_is_closed_until_all_of_it_is_open(tmp_path):
    folder, gates = ClosedGatesFolder(str(tmp_path), "web", "frankfurt"), [closed(5), closed(7)]
    file = tmp_path / "web" / "closed" / f"{RunFolder.name_of(WINDOW)}.frankfurt.json"
    file.parent.mkdir(parents=True)
    file.write_text(ClosedGates(gates=gates).model_dump_json())
    assert folder.find(WINDOW) == gates
    folder.forget(WINDOW, gates[:1])
    assert folder.windows() == [WINDOW]
    folder.forget(WINDOW, gates)
    assert folder.windows() == []


def failed(gates):
    return [check.check for check in gates.count_again(None) if not check.passed]


def test_sums_are_made_again_and_what_cannot_be_read_back_stays_as_it_was(tmp_path):
    folder = ClosedGatesFolder(str(tmp_path), "web", "frankfurt")
    folder.add(WINDOW, closed(5))
    assert failed(earlier(tmp_path, WINDOW, 9)) == ["run r1: read_back(logs)"]
    folder.add(WINDOW, closed(5, read=3, delivered=3))
    assert "run r1: sum_closes(read)" in failed(earlier(tmp_path, WINDOW, 9)), "the ledger lacks it"
    assert earlier(tmp_path, WINDOW, 5).count_again(None) == [], "it is this very gate"
    assert earlier(tmp_path, NEXT, 9).count_again(None) == []


def reshipped(by):
    """Return a ledger with one file, sent by generation 5 and then by a reship."""
    log, file = MemoryLog(), FileId("/a", 1, 2)
    key = ChunkKey(SplitId(file, 0), 0, "logs")
    log.append("l", CHUNKS, [encode_chunk("web", key, chunk_value(generation=5))])
    again = Invalidation("r2", "wrong")
    log.append("l", CONTROL, [encode_invalidation("web", file, by, again)])
    log.append("l", CHUNKS, [encode_chunk("web", key, chunk_value(generation=by))])
    return log


def begun_anew():
    """Return a ledger that was begun, after all samples, in the place of a lost one."""
    log = MemoryLog()
    log.append("l", CONTROL, [encode_identity("web", Identity("r2", "2100-01-01T00:00:00Z", "l"))])
    return log


@pytest.mark.parametrize(
    "opened",
    [
        {"request": RunRequest(skip_checks=(CLOSED_GATE,))},
        {"records": reshipped(9)},
        {"records": begun_anew()},
    ],
)
def test_a_person_a_reship_or_a_new_ledger_opens_it(tmp_path, opened):
    folder = ClosedGatesFolder(str(tmp_path), "web", "frankfurt")
    folder.add(WINDOW, closed(5))
    gates = earlier(tmp_path, WINDOW, 9, **opened)
    assert gates.count_again(None) == []
    gates.remember(SimpleNamespace(status="succeeded", checks=[]), None)
    assert folder.find(WINDOW) == []


def test_the_closed_gate_of_a_reship_stays_closed_and_the_one_before_it_is_over(tmp_path):
    folder = ClosedGatesFolder(str(tmp_path), "web", "frankfurt")
    folder.add(WINDOW, closed(5))
    folder.add(WINDOW, closed(7, run_id="r2"))
    gates = earlier(tmp_path, WINDOW, 9, reshipped(7))
    assert "run r2: read_back(logs)" in (found := failed(gates))
    assert all(name.startswith("run r2: ") for name in found)
    assert "r1 is over" in gates.scope


def test_a_window_with_a_closed_gate_is_not_covered_by_a_look_over_it_or_a_part_of_it(tmp_path):
    folder, both = ClosedGatesFolder(str(tmp_path), "web", "frankfurt"), Window(START, NEXT.end)
    folder.add(both, closed(5))
    folder.add(Window(START - HOUR, START), closed(6))
    for window, start in ((WINDOW, START), (NEXT, NEXT.start), (NEXT, START)):
        look = Coverage(start=start, end=window.end)
        found = earlier(tmp_path, window, 9).without_closed(look)
        assert [each.window for each in found.uncovered] == [str(both)]
