"""A ship that another run has taken over meanwhile."""

from unittest.mock import patch

from shipper import runtime
from shipper.driver.ship import ClusterShip
from shipper.ledger.log import CONTROL_NOW, ask_committed
from shipper.report.results import ShipResult
from tests.sim.course import course
from tests.sim.ships import TOPICS, Run


def _cluster_that_takes_two_passes(world):
    (cluster,) = world.clusters.values()
    world.write("app.log", 60)
    for number in range(len(cluster.topics[TOPICS[1]].partitions)):
        cluster.lose_leader(TOPICS[1], number, 10.0)
    return cluster


@course()
def test_a_ship_that_was_taken_over_between_two_passes_does_not_take_over_again(world):
    """What the other run sent meanwhile would be in no account."""
    _cluster_that_takes_two_passes(world)
    first, second = Run("first"), Run("second")
    next_scan = ClusterShip._next_scan

    def paused(ship, *arguments):
        for process in first.machine if not second.ended else ():
            world.world.pause(process, 60.0)
        return next_scan(ship, *arguments)

    with patch.object(ClusterShip, "_next_scan", paused):
        begun = [world._begin(first)]
        while not any(process.paused_until for process in first.machine):
            runtime.sleep(1.0)
        begun.append(world._begin(second))
        world._wait_for(begun)
    found = [world._context(run).folder.find("ship.one", ShipResult) for run in (first, second)]
    assert [one.status for one in found if one] == ["failed", "succeeded"]
    assert sum(one.delivered for one in found if one) == world.found().total() == 60
    assert (first.code, second.code) == (1, 0)


@course()
def test_a_second_pass_does_not_believe_a_ledger_that_was_made_anew_before_it(world):
    """It would hold nothing, and everything would be sent again."""
    cluster = _cluster_that_takes_two_passes(world)
    run, take_over, taken = Run("first"), ClusterShip._take_over, []

    def taken_over(ship, *arguments):
        if taken:
            cluster.remake(ship._ledger.topic, 1.0)
            runtime.sleep(5.0)
            for question in 40 * [CONTROL_NOW, ask_committed(0)]:  # each writes a record
                ship._ledger.of_generation(0).decide(question)
        taken.append(ship)
        return take_over(ship, *arguments)

    with patch.object(ClusterShip, "_take_over", taken_over):
        world._wait_for([world._begin(run)])
    found = world._context(run).folder.find("ship.one", ShipResult)
    assert found is not None
    assert (found.status, found.code, len(taken)) == ("failed", "SHIP-503", 2)
    assert max(world.found().values()) == 1
