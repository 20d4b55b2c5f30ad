"""Some hours of a real log directory; ``make log-day`` is a whole day, and HDFS and S3 as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from shipper_tools.dev.kafka import KafkaServer

from tests.chaos.log_day import OPERATIONS, Options, run_day

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_every_line_of_a_directory_that_changes_arrives_once_and_gaps_say_what_is_missing(tmp_path: Path, kafka: KafkaServer):
    options = Options(seed=1, steps=3, operations=frozenset(OPERATIONS) - {"kill"})  # a killed run is a cold one: half a minute
    assert run_day(options, tmp_path, kafka.bootstrap) == []
