"""Which delivered records have expired, by the partitions' first offsets and by where partitions
ended before each ship."""

from collections import Counter

from shipper.cli.expired import ShipRun, expired, findings
from shipper.kafka.admin import LogFacts

FIRST, SECOND, THIRD = (ShipRun(n, f"run-{n}", "w") for n in (1, 2, 3))
ENDS = {FIRST: {"t": [0, 0]}, SECOND: {"t": [10, 20]}, THIRD: {"t": [30, 40]}}
SENT = {run: Counter({("t", 0): 9, ("t", 1): 19}) for run in ENDS}


def at(*starts, sent=SENT, ends=ENDS):
    asked = []

    def ends_before(run):
        asked.append(run)
        return ends.get(run)

    found = expired(sent, {"t": LogFacts("c", "A", list(starts), [50, 60])}, ends_before)
    return found["t"], asked


def test_nothing_has_expired_while_partitions_begin_at_their_first_record():
    assert at(0, 0) == (0, [])


def test_ships_in_front_of_the_first_offsets_have_expired_whole_and_only_the_newest_results_are_read():  # noqa: E501
    assert at(30, 40) == (56, [THIRD])
    assert at(50, 60) == (84, [])


def test_of_a_ship_in_the_middle_at_most_as_many_as_there_are_offsets():
    assert at(4, 0) == (4, [THIRD, SECOND, FIRST])
    assert at(14, 40)[0] == 9 + 4 + 38


def test_records_with_keys_may_lie_in_any_partition():
    keyed = {run: Counter({("t", None): 28}) for run in ENDS}
    assert at(30, 40, sent=keyed)[0] == 56
    assert at(4, 0, sent=keyed)[0] == 4


def test_of_a_ship_without_a_result_only_what_a_later_one_tells_is_known():
    assert at(14, 25, ends={THIRD: ENDS[THIRD]})[0] == 0
    assert at(30, 40, ends={THIRD: ENDS[THIRD]})[0] == 56
    assert at(30, 40, ends={})[0] == 0


def test_what_has_expired_is_not_wrong():
    logs = {"t": LogFacts("c", "A", [0, 7], [50, 60])}
    [finding] = findings(Counter(t=1234, u=0), logs)
    assert (finding.severity, finding.subject) == ("ok", "t")
    assert finding.text.startswith(
        "up to 1,234 delivered records have expired (partition 1 at offset 7)"
    )
