"""For what a plan refuses a cluster, by code: neither more nor less than this list. `shipper
doctor` finds the same."""

import pytest

from shipper.driver.checks.catalogue import CheckTarget, examine
from shipper.driver.checks.remote import examined

from .world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TIMED = {"records": {"timestamp": "now()"}}
#: Case → changes of the pipeline, of the cluster, and of the topic's settings; code.
CASES = {
    "nothing": ({}, "", {}, ""),
    "the topic is missing": ({"topic": "nowhere"}, "", {}, "SHIP-403"),
    "the quarantine is missing": ({"quarantine": {"topic": "nowhere"}}, "", {}, "SHIP-403"),
    "a partition is missing": ({"delivery": {"partitions": [0, 3]}}, "", {}, "SHIP-405"),
    "producers are not idempotent": ({}, "idempotence: false\n", {}, "SHIP-410"),
    "records have no key": ({}, "", {"cleanup.policy": "compact"}, "SHIP-410"),
    "no record would stay": (
        {"source": {"path": "logs/{window_start:%Y}", "settle": "0s"}, **TIMED},
        "",
        {"retention.ms": "60000"},
        "SHIP-410",
    ),
    "a record may not stay": (TIMED, "", {"retention.ms": "60000"}, ""),
    "keys and min.insync.replicas": (
        {"records": {"key": "value"}},
        "",
        {"cleanup.policy": "compact", "min.insync.replicas": "2"},
        "",
    ),
}


OFTEN = ("the topic is missing", "a partition is missing", "no record would stay")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case in OFTEN else [pytest.mark.long]) for case in CASES],
)
def test_a_plan_refuses_a_cluster_for_these_faults_and_for_no_others(tmp_path, kafka, case):
    pipeline, cluster, settings, code = CASES[case]
    world = World(tmp_path, kafka.bootstrap)
    world.write_log("a.log", b"line\n")
    world.write_log("2026/a.log", b"line\n")
    world.write_pipeline(**pipeline)
    with (tmp_path / "config" / "clusters" / "local.yaml").open("a") as file:
        file.write(cluster)
    for name, value in settings.items():
        world.set_topic(name, value)
    (planned,) = world.plan().clusters
    assert planned.left_files == 1
    assert (planned.problem.code if planned.problem else "") == code
    assert world.nothing_was_sent()
    here = CheckTarget(tmp_path / "config", world.pipeline, 30)
    findings = examine([examined("local", here)], 60)
    found = {each.code for each in findings if each.severity == "fail"}
    # The doctor judges the latest window, and the plan one of long ago.
    assert found == ({code} - {""} if case != "no record would stay" else set())
