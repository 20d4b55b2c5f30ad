"""Bytes on the wire, as a run says, held against what a proxy in front of the broker counted."""

import random

import pytest
from shipper_tools.dev.java import SHORT_LIVED
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.ports import free_port
from shipper_tools.faultproxy.proxy import FaultProxy

from .world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture(scope="module")
def link(tmp_path_factory):
    port = free_port()
    with (
        KafkaServer(
            tmp_path_factory.mktemp("kafka"),
            java_options=SHORT_LIVED,
            die_with_parent=True,
            far_port=port,
        ) as kafka,
        FaultProxy(kafka.far_listener, port) as proxy,
    ):
        yield kafka, proxy


@pytest.mark.long
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_run_says_how_many_bytes_librdkafka_sent(link, tmp_path, guarantee):
    kafka, proxy = link
    world = World(tmp_path / "world", kafka.far_bootstrap)
    world.write_pipeline(
        delivery={"guarantee": guarantee, "lease": "2s", "transaction_timeout": "20s"}
    )
    world.write_log("ten.log", b"".join(b"line %d\n" % number for number in range(10)))
    figures = tmp_path / "shipper.prom"
    ten = world.run("--metrics-file", str(figures))
    assert ten["delivered"] == 10
    assert 100 < ten["wire_bytes"] < proxy.counts()["bytes_up"]

    noise = random.Random(7)
    world.write_log(
        "more.log", b"".join(noise.randbytes(100).hex().encode() + b"\n" for _ in range(60_000))
    )
    before = proxy.counts()["bytes_up"]
    more = world.run("--metrics-file", str(figures))
    assert more["delivered"] == 60_000
    went = proxy.counts()["bytes_up"] - before
    assert 0.97 * went < more["wire_bytes"] <= went, "the rest is what the driver asked the cluster"
    on_the_wire = ten["wire_bytes"] + more["wire_bytes"]
    assert (
        f'shipper_bytes_on_the_wire_total{{cluster="local",pipeline="{world.name}"}} {on_the_wire}'
        in figures.read_text().splitlines()
    )
