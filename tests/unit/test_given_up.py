"""What is said of topics that could not be written to."""

from types import SimpleNamespace

import pytest

from shipper.errors import TopicMissing
from shipper.worker.parking import Admission, ParkingKey


def test_a_message_names_some_of_the_topics_that_log_lines_have_made():
    topics = SimpleNamespace(why_unusable=lambda topic, partition: "it is not there")
    admission = Admission(topics, 1000, 60.0)
    admission.parking.given_up.update(ParkingKey(f"topic-{n:05}") for n in range(10_000))
    admission.parking.unsent.update({f"other-{n:05}": 2 for n in range(10_000)})
    with pytest.raises(TopicMissing) as found:
        admission.raise_given_up()
    message = found.value.message
    assert len(message) < 1500
    assert "topic-00009 and 9,990 more could not be written to" in message
    assert "20,000 records of other-00000" in message
