"""What a Kafka fault in a lane means: one table.

A lane has one way to recover: throw the producer away, open a new one with the same transactional.id (which ends the old
transaction, one way or the other) and read in the ledger whether the chunk is there. So the table only has to tell what
is worth another try from what is not; an outcome that is UNKNOWN is settled by the ledger, never by hope.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """How a transaction ended, as far as the client can know."""

    DELIVERED = "delivered"
    NOT_DELIVERED = "not delivered"
    UNKNOWN = "unknown"


class Action(Enum):
    REOPEN = "reopen the lane, settle by the ledger, send again if needed"
    SMALLER_BATCHES = (
        "reopen the lane, halve the topic's batches until they fit; then only a record that is too large alone fails"
    )
    PARK = "reopen the lane; the topic's chunks wait for it, the others go on"
    FAIL = "fail the task with a message for people"


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    action: Action
    reason: str


_N, _U = Outcome.NOT_DELIVERED, Outcome.UNKNOWN
_R, _S, _P, _F = Action.REOPEN, Action.SMALLER_BATCHES, Action.PARK, Action.FAIL

TABLE: dict[str, Verdict] = {
    "_FENCED": Verdict(_N, _R, "a newer producer has this id: a later attempt, or a later run; the generation tells which"),
    "INVALID_PRODUCER_EPOCH": Verdict(_N, _R, "as _FENCED, said by the broker"),
    "_TIMED_OUT": Verdict(_U, _R, "no answer; the broker may have done it"),
    "_MSG_TIMED_OUT": Verdict(_N, _R, "a record was not acknowledged within the transaction's life"),
    "_TRANSPORT": Verdict(_U, _R, "a connection broke, maybe after the request arrived"),
    "_ALL_BROKERS_DOWN": Verdict(_U, _R, "no connection left; brokers come back"),
    "_STATE": Verdict(_U, _R, "the producer is in no state to go on; a new one is"),
    "_CONFLICT": Verdict(_U, _R, "a call after a fatal error, or another call still under way"),
    "_INCONSISTENT": Verdict(_N, _R, "a record of the transaction failed, so it can only be aborted"),
    "_QUEUE_FULL": Verdict(_N, _R, "nothing left the queue until the deadline"),
    "_PURGE_QUEUE": Verdict(_N, _R, "the producer was being thrown away"),
    "_UNKNOWN_TOPIC": Verdict(_N, _P, "the topic may be about to be created; the metadata wait bounds it"),
    "_UNKNOWN_PARTITION": Verdict(_N, _P, "the partition may be about to be created; the metadata wait bounds it"),
    "UNKNOWN_TOPIC_OR_PART": Verdict(_N, _P, "created or deleted a moment ago; the metadata wait bounds it"),
    "MSG_SIZE_TOO_LARGE": Verdict(_N, _S, "the batch, as compressed, is larger than the topic's max.message.bytes"),
    "RECORD_LIST_TOO_LARGE": Verdict(_N, _S, "the batch is larger than the broker's segment"),
    "TOPIC_AUTHORIZATION_FAILED": Verdict(
        _N, _P, "an ACL forbids writing to the topic; somebody may change it within the metadata wait"
    ),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": Verdict(_N, _F, "an ACL forbids the transactional.id"),
    "CLUSTER_AUTHORIZATION_FAILED": Verdict(_N, _F, "an ACL forbids idempotent writes"),
    "SASL_AUTHENTICATION_FAILED": Verdict(_N, _F, "wrong credentials"),
    "_AUTHENTICATION": Verdict(_N, _F, "wrong credentials"),
    "INVALID_TRANSACTION_TIMEOUT": Verdict(
        _N, _F, "`delivery.transaction_timeout` is above the broker's transaction.max.timeout.ms"
    ),
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": Verdict(_N, _F, "the topic's message format knows no transactions"),
    "_UNSUPPORTED_FEATURE": Verdict(_N, _F, "the broker knows no transactions"),
    "_INVALID_ARG": Verdict(_N, _F, "a setting or a record that librdkafka refuses"),
    "INVALID_RECORD": Verdict(_N, _F, "the broker refuses the record, for example one without a key on a compacted topic"),
    "POLICY_VIOLATION": Verdict(_N, _F, "a policy of the broker refuses it"),
}

#: Anything else: maybe it happened, maybe not; the ledger will tell, and the deadline bounds the tries.
OTHERWISE = Verdict(Outcome.UNKNOWN, Action.REOPEN, "not in the table: settled by the ledger, tried again until the deadline")


def verdict(fault_name: str) -> Verdict:
    return TABLE.get(fault_name, OTHERWISE)
