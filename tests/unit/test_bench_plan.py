"""What the benchmark's scenarios make of their axes, and what their targets ask, without measuring anything."""

from __future__ import annotations

from shipper_tools.bench.end_to_end import shipments
from shipper_tools.bench.plan import SCENARIOS
from shipper_tools.bench.results import Case, Contender, Measurement, Summary, summarise

OURS = Contender(name="shipper", ours=True)


def measured(case: Case, contender: Contender, records: int, seconds: float, cpu_seconds: float = 1.0) -> Measurement:
    return Measurement(
        case=case, contender=contender, round=1, records=records, bytes=records, seconds=seconds, task_seconds=seconds / 2,
        cpu_seconds={"jvm": cpu_seconds, "broker": 99.0},
    )  # fmt: skip


def found(scenario: str, summaries: list[Summary]) -> list[float | None]:
    return [target.verdict(summaries).found for target in SCENARIOS[scenario].targets]


def test_tasks_are_shipments_of_their_own_and_what_is_told_is_on_top_of_what_the_scenario_sets() -> None:
    told = shipments(SCENARIOS["tasks"], {"delivery": {"lanes": 8}}, {"bundles": {"records": {"bundle": {}}}})
    assert [each.contender.name for each in told] == [
        "shipper, tasks 1",
        "shipper, tasks 2",
        "shipper, tasks 4",
        "shipper, bundles",
    ]
    assert [each.pipeline["runner"]["cores"] for each in told[:3]] == [1, 2, 4]
    assert {each.pipeline["delivery"]["lanes"] for each in told} == {8}
    assert {each.pipeline["delivery"]["chunk_size"] for each in told} == {"1MB"}


def test_more_tasks_are_compared_by_the_time_in_tasks() -> None:
    case = Case(rtt_ms=140)
    rounds = [measured(case, OURS.model_copy(update={"tasks": tasks}), 1000, 12 / tasks) for tasks in (1, 2, 4)]
    assert found("tasks", summarise(rounds)) == [4.0]
    assert found("tasks", summarise(rounds[:2])) == [None]


def test_a_run_to_three_clusters_is_held_against_one_as_a_whole() -> None:
    """Rates and CPU are of records that arrived, and to three clusters arrive three times as many."""
    runs = [
        measured(Case(rtt_ms=0, clusters=1), OURS, 1_000_000, seconds=10.0, cpu_seconds=20.0),
        measured(Case(rtt_ms=0, clusters=3), OURS, 3_000_000, seconds=24.0, cpu_seconds=50.0),
    ]
    assert found("clusters", summarise(runs)) == [2.4, 2.5, None, None]
