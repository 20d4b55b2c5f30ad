"""What a step calls in Java when it ends, and what it must not call after a signal."""

import signal

import pytest

from shipper.stopping import Stopped
from spark_jobs.jvm import afterwards


class Connection:
    """One connection to a JVM. A call that a signal interrupts leaves an answer on it, and the next
    call would wait for ever."""

    def __init__(self):
        self.cleaned_up = 0
        self._in_an_answer = False

    def interrupted_call(self):
        self._in_an_answer = True
        raise Stopped(signal.SIGTERM)

    def clean_up(self):
        assert not self._in_an_answer, "this call would wait for ever"
        self.cleaned_up += 1


def test_a_call_that_a_signal_interrupted_is_the_last_on_its_connection():
    connection = Connection()
    with pytest.raises(Stopped), afterwards(connection.clean_up):
        connection.interrupted_call()
    assert connection.cleaned_up == 0


def test_java_is_cleaned_up_after_a_block_that_ends_or_fails():
    connection = Connection()
    with afterwards(connection.clean_up):
        pass
    with pytest.raises(ValueError, match="a fault of Spark's"), afterwards(connection.clean_up):
        raise ValueError("a fault of Spark's")
    assert connection.cleaned_up == 2
