"""Which topics a line of a log may choose, and which nobody may write records to."""

import re

import pytest

from shipper.config.load import load_all, load_pipeline
from shipper.errors import ConfigError
from tests.samples.config import cluster_of, pipeline_of

HEAD = (
    "pipeline: web\nsource: s3a://logs/web/\nclusters: [local, other]\nrecords: {columns: "
    "{service: value}}\n"
)


@pytest.fixture
def faults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config"
    (config / "pipelines").mkdir(parents=True)
    (config / "clusters").mkdir()
    (config / "clusters" / "local.yaml").write_text("cluster: local\nbootstrap: ${NOT_SET_HERE}\n")
    (config / "clusters" / "other.yaml").write_text(
        "cluster: other\nbootstrap: h:1\nledger: {topic: 'audit.{pipeline}'}\n"
    )

    def found(more):
        """By `shipper run` and by what Airflow parses: the same."""
        (config / "pipelines" / "web.yaml").write_text(HEAD + more)
        of_one = []
        try:
            load_pipeline(config, "web")
        except ConfigError as error:
            of_one = str(error).splitlines()
        of_all = [
            str(fault)
            for fault in load_all(config).broken.get("web", ())
            if "NOT_SET_HERE" not in str(fault)
        ]
        assert [line.partition(": ")[0].rpartition("web.yaml:")[2] for line in of_all] == [
            line.partition(": ")[0].rpartition("web.yaml:")[2] for line in of_one
        ]
        return [line.partition("web.yaml:")[2] for line in of_one]

    return found


@pytest.mark.parametrize(
    ("more", "place", "says"),
    [
        ("topic: _shipper.web\n", "5:8: topic: ", "cannot hold records"),
        ("topic: __transaction_state\n", "5:8: topic: ", "cannot hold records"),
        ("topic: audit.other_pipeline\n", "5:8: topic: ", "cannot hold records"),
        (
            "topic: t\nquarantine: {topic: _shipper.x}\n",
            "6:21: quarantine.topic: ",
            "cannot hold records",
        ),
        (
            "topic: t\nquarantine: {topic: audit.web}\n",
            "6:21: quarantine.topic: ",
            "cannot hold records",
        ),
        (
            "routes: [{topic: '{service}', topics: [a, audit.web]}]\n",
            "5:43: routes[0].topics[1]: ",
            "cannot hold records",
        ),
        (
            "routes: [{topic: '{service}', topics: [a, _shipper.web]}]\n",
            "5:43: routes[0].topics[1]: ",
            "cannot hold records",
        ),
        (
            "topic: 'logs.{service}'\n",
            "5:8: topic: ",
            "any line could choose any topic.*matching: ",
        ),
        (
            "routes: [{topic: 'l.{service}', topics: [l.a], matching: l}]\n",
            "5:58: routes[0].matching: ",
            "contradict",
        ),
        (
            "routes: [{topic: 'l.{service}', topics: [m.a]}]\n",
            "5:42: routes[0].topics[0]: ",
            "never leads to 'm.a'",
        ),
        ("routes: [{topic: l, matching: l}]\n", "5:31: routes[0].matching: ", "remove it"),
        (
            "routes: [{topic: 'l.{service}', topics: [l.a]}]\nquarantine: {topic: l.a}\n",
            "6:21: quarantine.topic: ",
            "name another",
        ),
    ],
)
def test_a_topic_that_is_not_for_records_is_refused_with_its_line(faults, more, place, says):
    [found] = faults(more)
    assert found.startswith(place)
    assert re.search(says, found)


@pytest.mark.parametrize("more", ["topics: [l.a, l.b]", "matching: 'l[.][a-z]+'"])
def test_a_list_or_a_pattern_says_where_lines_may_go(faults, more):
    assert faults(f"routes: [{{topic: 'l.{{service}}', {more}}}]\n") == []


def pipeline(**route):
    return pipeline_of(records={"columns": {"s": "value"}}, routes=[route])


def test_a_route_with_a_column_leads_where_it_allows_only():
    listed, matching = (
        pipeline(topic="l.{s}", topics=["l.a"]),
        pipeline(topic="l.{s}", matching="l[.][a-c]+"),
    )
    assert [listed.may_ship_to(topic) for topic in ("l.a", "l.b", "l.")] == [True, False, False]
    assert [matching.may_ship_to(topic) for topic in ("l.abc", "l.x", "m.a")] == [
        True,
        False,
        False,
    ]


def test_no_pattern_leads_to_a_ledger():
    anything = pipeline(topic="{s}", matching=".+")
    assert [
        anything.may_ship_to(topic) for topic in ("web", "_shipper.web", "__consumer_offsets")
    ] == [True, False, False]


def test_a_clusters_ledgers_are_reserved_for_every_pipeline():
    cluster = cluster_of(ledger={"topic": "audit.{pipeline}.v1"})
    reserved = re.compile(cluster.reserved_topics)
    assert [
        bool(reserved.fullmatch(topic))
        for topic in ("audit.web.v1", "audit.v1", "_shipper.x", "__x", "_x", "audit.web.v2")
    ] == [True, False, True, True, False, False]
