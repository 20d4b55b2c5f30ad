"""Some hours of a real log directory; ``make log-day`` is a whole day, on HDFS and S3 as well."""

import pytest

from tests.chaos.log_day import OPERATIONS, Options, run_day

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.mark.long
def test_every_line_of_a_directory_that_changes_arrives_once_and_gaps_say_what_is_missing(
    tmp_path, kafka
):
    options = Options(
        seed=1, steps=2, operations=frozenset(OPERATIONS) - {"kill"}
    )  # a killed run is a cold one: half a minute
    assert run_day(options, tmp_path, kafka.bootstrap) == []
