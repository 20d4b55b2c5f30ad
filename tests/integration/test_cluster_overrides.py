"""Two clusters of a pipeline, of which one has routes of its own."""

import json

import pytest
from shipper_tools.dev.console_consumer import read_topic

from .world import WINDOW, World, account_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.mark.long
def test_each_cluster_gets_its_own_topics_and_a_change_of_one_is_not_the_others(tmp_path, kafka):
    """Both are one broker here, with a ledger each."""
    world = World(tmp_path, kafka.bootstrap, topics={"": 1, "-even": 1, "-odd": 1})
    (tmp_path / "config/clusters/other.yaml").write_text(
        f"cluster: other\nbootstrap: {world.bootstrap}\nledger: {{replication_factor: 1, topic: "
        "'_other.{pipeline}'}\n"
    )
    routes = [
        {"when": "cast(value as int) % 2 = 0", "topic": world.topic("-even")},
        {"topic": world.topic("-odd")},
    ]
    world.write_pipeline(
        clusters={"local": {}, "other": {"routes": routes}},
        gates={"delivery": [{"check": "sum_closes"}, {"check": "checksum"}]},
    )
    world.write_log("a.log", b"".join(b"%d\n" % n for n in range(1_000)))

    plan = json.loads(world.shipper("plan", world.name, "--window", WINDOW, "--json").stdout)
    assert plan["topics"] == [world.topic(), world.topic("-even"), world.topic("-odd")]
    assert [cluster["topics"] for cluster in plan["clusters"]] == [
        [],
        [world.topic("-even"), world.topic("-odd")],
    ]
    for cluster, topics in (
        ((), [world.topic()]),
        (("--cluster", "other"), [world.topic("-even"), world.topic("-odd")]),
    ):
        shown = json.loads(
            world.shipper(
                "preview", world.name, "--window", WINDOW, "-n", "2", "--json", *cluster
            ).stdout
        )
        assert list(dict.fromkeys(line["topic"] for line in shown["lines"])) == topics
    report = world.report()
    assert account_of(report)["topics"].keys() == {world.topic()}
    assert {
        topic: found["ledger"] for topic, found in account_of(report, "other")["topics"].items()
    } == {world.topic("-even"): 500, world.topic("-odd"): 500}
    numbers = {
        suffix: sorted(int(value) for value in read_topic(world.bootstrap, world.topic(suffix)))
        for suffix in ("", "-even", "-odd")
    }
    assert numbers == {
        "": list(range(1_000)),
        "-even": list(range(0, 1_000, 2)),
        "-odd": list(range(1, 1_000, 2)),
    }

    # A missing topic of the one is no business of the other.
    world.write_log("b.log", b"1001\n")
    missing = [*routes[:1], {"topic": world.topic("-nowhere")}]
    world.write_pipeline(clusters={"local": {}, "other": {"routes": missing}})
    report = world.report(code=1)
    assert account_of(report)["delivered"] == 1
    assert [bool(cluster.missing_topics) for cluster in report.plan.clusters] == [False, True]
