"""Runs on machines whose clocks differ: what they learned of a window counts in the order in which
they looked."""

import datetime as dt

from shipper.report.coverage import coverage
from shipper.report.plan_result import ClusterPlan, LeftOut, PlanResult
from shipper.report.results import DeliveryGateResult
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import read_records
from shipper.report.window_state import KILLED_AFTER, state_at, window_state
from tests.samples.results import NOON, common

AHEAD = dt.timedelta(minutes=10)


class Runs:
    """Runs over one window, on workers whose clocks are ahead of the true time."""

    def __init__(self, root):
        self.uri, self.now = str(root), NOON.end

    def look(self, run_id, *, ahead, left_out=()):
        """Plan, ship and pass the delivery gate, one after the other."""
        folder = RunFolder(self.uri, "web", NOON, run_id)
        left = [LeftOut(path=path, reason="unsettled", warns=True) for path in left_out]
        plan = PlanResult(
            **self.step(folder, run_id, "plan", ahead),
            clusters=[ClusterPlan(cluster="near")],
            left_out=left,
        )
        folder.write("plan", plan)
        gate = DeliveryGateResult(
            **self.step(folder, run_id, "gate_delivery.near", ahead), cluster="near"
        )
        gate.coverage = coverage(plan, "near", when_empty_fails=False)
        folder.write("gate_delivery.near", gate)

    def step(self, folder, run_id, name, ahead):
        self.now += dt.timedelta(seconds=20)
        return common(NOON, run_id, folder.begin(name, self.now + ahead))

    def left(self):
        records = read_records(self.uri, "web", NOON.start)
        state = window_state(NOON, records)
        return [path for one in (state.left if state else ()) for path in one.paths]


def test_a_look_with_a_clock_that_is_ahead_takes_back_no_note_of_a_later_one(tmp_path):
    runs = Runs(tmp_path)
    runs.look("first", ahead=AHEAD)
    runs.look("second", ahead=dt.timedelta(), left_out=("/logs/g.log",))
    assert runs.left() == ["/logs/g.log"]
    runs.look("third", ahead=dt.timedelta())
    assert runs.left() == []


def test_a_note_of_a_clock_that_is_ahead_is_taken_back_by_a_later_look(tmp_path):
    runs = Runs(tmp_path)
    runs.look("first", ahead=AHEAD, left_out=("/logs/g.log",))
    runs.look("second", ahead=-AHEAD)
    assert runs.left() == []


def test_a_clock_that_was_wrong_for_once_makes_no_run_look_younger(tmp_path):
    """It changes the order alone: a run that was killed is told of when its time is over."""
    runs = Runs(tmp_path)
    runs.look("first", ahead=dt.timedelta(days=300), left_out=("/logs/g.log",))
    folder = RunFolder(runs.uri, "web", NOON, "killed")
    began = folder.begin("plan", runs.now)
    folder.note_begin(NOON, began, ())
    found = window_state(NOON, read_records(runs.uri, "web", NOON.start))
    assert state_at(found, None, began) == "shipping"
    assert state_at(found, None, began + KILLED_AFTER) == "failed"
    runs.look("last", ahead=dt.timedelta())
    assert runs.left() == []
