"""What is said of a call that only timed out."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from shipper.kafka import connection
from shipper.kafka.connection import ClientErrors, KafkaFault

SILENCE = KafkaFault("_TIMED_OUT", "no answer")


@pytest.mark.parametrize("names", [["_AUTHENTICATION"], ["_TRANSPORT", "_AUTHENTICATION"], ["_AUTHENTICATION", "_TRANSPORT"]])
def test_wrong_credentials_are_quoted_and_final_whatever_else_was_heard(names: list[str]) -> None:
    heard = ClientErrors()
    for name in names:
        heard.hear(KafkaError(getattr(KafkaError, name), f"the text of {name}"))
    assert "the text of _AUTHENTICATION" in heard.explained(SILENCE).text
    assert heard.explained(SILENCE).name == "_TIMED_OUT"
    assert heard.refusal is not None


def test_what_waiting_may_mend_is_quoted_and_not_final() -> None:
    heard = ClientErrors()
    heard.hear(KafkaError(KafkaError._RESOLVE, "no such host"))
    assert "no such host" in heard.explained(SILENCE).text
    assert heard.refusal is None


def test_a_fault_with_a_reason_of_its_own_keeps_it() -> None:
    heard = ClientErrors()
    heard.hear(KafkaError(KafkaError._AUTHENTICATION, "wrong"))
    fault = KafkaFault("TOPIC_AUTHORIZATION_FAILED", "no")
    assert heard.explained(fault) is fault


def test_what_was_heard_long_ago_or_before_a_connection_came_up_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = ClientErrors()
    heard.hear(KafkaError(KafkaError._AUTHENTICATION, "wrong"))
    monkeypatch.setattr(connection, "_BELIEVED_SECONDS", -1.0)
    assert heard.refusal is None
    monkeypatch.undo()
    heard.forget()
    assert heard.refusal is None
    assert heard.explained(SILENCE) is SILENCE
