"""The warm processes in which commands of tests run (tests/warm): what a test sees is what the
command itself would have shown."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from shipper_tools.dev.kafka import KafkaServer

from tests import warm

from .world import WINDOW, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_output_and_exit_code_are_those_of_a_process_of_its_own(tmp_path: Path) -> None:
    for arguments in (
        ["shipper", "--help"],
        ["shipper", "plan", "none", "--window", WINDOW, "--config", str(tmp_path), "--json"],
    ):
        found = warm.run(arguments)
        with warm.cold():
            expected = warm.run(arguments)
        assert (found.returncode, found.stdout, found.stderr) == (
            expected.returncode,
            expected.stdout,
            expected.stderr,
        )


def test_what_a_command_leaves_in_java_does_not_reach_the_next(
    tmp_path: Path, kafka: KafkaServer
) -> None:
    """A JVM has one SparkContext, with the settings of whoever made it."""
    leave = (
        "import os; from pyspark import SparkContext; SparkContext('local[1]', 'left behind'); "
        "os._exit(3)"
    )
    assert warm.run(["timeit", "-n", "1", "-r", "1", leave]).returncode == 3
    world = World(tmp_path, kafka.bootstrap)
    world.write_log("a.log", b"one\n")
    assert world.run()["delivered"] == 1


def test_a_command_that_takes_too_long_is_ended_and_the_next_one_works(
    tmp_path: Path, kafka: KafkaServer
) -> None:
    world = World(tmp_path, kafka.bootstrap)
    world.write_log("a.log", b"one\n")
    command = [
        "shipper",
        "run",
        world.name,
        "--window",
        WINDOW,
        "--config",
        str(world.root / "config"),
    ]
    with pytest.raises(subprocess.TimeoutExpired):
        warm.run(command, timeout=0.2)
    assert world.run()["delivered"] + world.run()["before"] >= 1
