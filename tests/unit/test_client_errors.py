"""What is said of a call that only timed out, and what of librdkafka's log."""

import logging

import pytest
from confluent_kafka import KafkaError

from shipper import complaints
from shipper.complaints import Complaints
from shipper.kafka.connection import ClientErrors, KafkaFault, LogListener
from shipper.kafka.outcomes import Action, policy_for

SILENCE = KafkaFault("_TIMED_OUT", "no answer")


@pytest.mark.parametrize(
    "names",
    [["_AUTHENTICATION"], ["_TRANSPORT", "_AUTHENTICATION"], ["_AUTHENTICATION", "_TRANSPORT"]],
)
def test_wrong_credentials_are_quoted_and_final_whatever_else_was_heard(names):
    heard = ClientErrors()
    for name in names:
        heard.hear(KafkaError(getattr(KafkaError, name), f"the text of {name}"))
    assert "the text of _AUTHENTICATION" in heard.explained(SILENCE).text
    assert heard.explained(SILENCE).name == "_TIMED_OUT"
    assert heard.refusal is not None


def test_what_waiting_may_mend_is_quoted_and_not_final():
    heard = ClientErrors()
    heard.hear(KafkaError(KafkaError._RESOLVE, "no such host"))
    assert "no such host" in heard.explained(SILENCE).text
    assert heard.refusal is None


def test_a_fault_with_a_reason_of_its_own_keeps_it():
    heard = ClientErrors()
    heard.hear(KafkaError(KafkaError._AUTHENTICATION, "wrong"))
    fault = KafkaFault("TOPIC_AUTHORIZATION_FAILED", "no")
    assert heard.explained(fault) is fault


def test_what_was_heard_long_ago_or_before_a_connection_came_up_refuses_nothing(monkeypatch):
    heard = ClientErrors()
    heard.hear(KafkaError(KafkaError._AUTHENTICATION, "wrong"))
    monkeypatch.setattr(complaints, "_BELIEVED_SECONDS", -1.0)
    assert heard.refusal is None
    monkeypatch.undo()
    heard.forget()
    assert heard.refusal is None
    assert heard.explained(SILENCE) is SILENCE


def test_what_is_final_is_so_by_the_table():
    decisive, vague = Complaints._TELLING
    assert [name for name in (*decisive, *vague) if policy_for(name).action is Action.FAIL] == [
        *Complaints.FINAL
    ]


def test_what_was_heard_and_not_yet_served_counts():
    heard = ClientErrors(lambda: heard.hear(KafkaError(KafkaError._AUTHENTICATION, "wrong")))
    assert "wrong" in heard.explained(SILENCE).text


@pytest.mark.parametrize("verbose", [False, True])
def test_librdkafkas_lines_are_for_those_who_ask_and_a_repeated_one_is_counted(
    caplog, monkeypatch, verbose
):
    monkeypatch.setenv("SHIPPER_LOG", "info") if verbose else monkeypatch.delenv(
        "SHIPPER_LOG", raising=False
    )
    monkeypatch.setattr(complaints, "_repeats", complaints._Repeats())
    caplog.set_level(logging.INFO)
    lanes = [LogListener() for _ in range(20)]

    def complain(number):
        for client, lane in enumerate(lanes):
            said = (
                "[thrd:b:9092/1]: b:9092/1: Connect failed: Connection refused (after "
                f"{number}ms in state CONNECT)"
            )
            lane.log(logging.ERROR, "%s [%s] %s", "FAIL", f"shipper#producer-{client}", said)

    for number in range(50):
        complain(number)
    assert [record.levelno for record in caplog.records] == [
        logging.ERROR if verbose else logging.INFO
    ]
    assert all(lane.lost for lane in lanes)
    monkeypatch.setattr(complaints, "_REPEATED_SECONDS", 0.0)
    complain(50)
    assert "999 more" in caplog.records[1].getMessage()
