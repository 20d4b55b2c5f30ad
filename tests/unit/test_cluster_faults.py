"""What is wrong with one cluster's file is that cluster's problem in the plan, with its reason;
nothing is raised."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from shipper.config.pipeline import Pipeline
from shipper.driver.clusters import Clusters
from shipper.driver.context import RunContext
from shipper.driver.plan import AskedCluster
from shipper.report.plan_result import PlanResult
from shipper.report.run_folder import RunFolder
from shipper.windows.window import Window
from spark_jobs.engine import SparkEngine

START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
CLUSTERS = {
    "no_ca": (
        "{security.protocol: ssl, ssl.ca.location: /nowhere/ca.pem}",
        "ssl.ca.location: there is no file /nowhere/ca.pem",
    ),
    "wrong": (
        "{security.protocol: tls}",
        'Invalid value "tls" for configuration property "security.protocol"',
    ),
    "absent": (
        "{sasl.password: '${SHIPPER_NOWHERE}'}",
        "config/clusters/absent.yaml:3:29: properties.sasl.password: ",
    ),
    "misspelt": ("{sasl.pasword: x}", "did you mean 'sasl.password'?"),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_wrong_cluster_file_is_a_problem_of_that_cluster(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHIPPER_NOWHERE", raising=False)
    folder = tmp_path / "config" / "clusters"
    folder.mkdir(parents=True)
    for cluster, (properties, _) in CLUSTERS.items():
        (folder / f"{cluster}.yaml").write_text(
            f"cluster: {cluster}\nbootstrap: 127.0.0.1:1\nproperties: {properties}\n"
        )
    pipeline = Pipeline.model_validate(
        {"pipeline": "web", "source": "logs", "topic": "logs", "clusters": [*CLUSTERS]}
    )
    clusters = Clusters(tmp_path / "config", pipeline.clusters)
    assert list(clusters) == [*CLUSTERS]
    run_folder = RunFolder(str(tmp_path / "runs"), "web", START, START, "r")
    context = RunContext(
        pipeline,
        clusters,
        tmp_path / "config",
        Window(START, START + dt.timedelta(hours=1)),
        run_folder,
        SparkEngine(pipeline),
    )
    plan = PlanResult(
        pipeline="web",
        window_start=START,
        window_end=START,
        run_id="r",
        started_at=START,
        finished_at=START,
        transform_digest="x",
    )
    asked = AskedCluster(context, name, plan, None)
    assert CLUSTERS[name][1] in str(asked.result().problem)
    assert asked.left() == set()
