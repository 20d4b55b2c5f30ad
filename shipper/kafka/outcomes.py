"""One table of what each Kafka fault in a lane means.

A lane has one way to recover: discard the producer, open a new one with the same transactional.id
(which ends the old transaction, one way or the other) and read in the ledger whether the chunk is
committed. So the table only separates faults that are worth a retry from others. The ledger
resolves an UNKNOWN outcome.

docs/reference/outcomes.md is made from it: ``python -m shipper.kafka.outcomes`` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TransactionOutcome(Enum):
    """Outcome of a transaction, as far as the client can know."""

    DELIVERED = "delivered"
    NOT_DELIVERED = "not delivered"
    UNKNOWN = "unknown"


class Action(Enum):
    REOPEN = "reopen the lane, settle by the ledger, send again if needed"
    SMALLER_BATCHES = (
        "reopen the lane, halve the topic's batches until they fit; then only a record that is "
        "too large alone fails"
    )
    PARK = "reopen the lane; the topic's chunks wait for it, the others go on"
    FAIL = "fail the task with a message for people"


@dataclass(frozen=True)
class ErrorPolicy:
    outcome: TransactionOutcome
    action: Action
    reason: str
    wait_seconds: float | None = None
    """Longest time in which a retry makes sense, if that is shorter than
    `delivery.metadata_wait`."""


#: A refusal is permanent, except for the moment in which the right is being granted; together with
#: the time to stop, half a minute.
GRANT_SECONDS = 15.0
_N, _U = TransactionOutcome.NOT_DELIVERED, TransactionOutcome.UNKNOWN
_CREDENTIALS = (
    "wrong credentials; correct the cluster's `sasl.username` and `sasl.password`, or what its "
    "`sasl.mechanisms` logs in by"
)
_R, _S, _P, _F = Action.REOPEN, Action.SMALLER_BATCHES, Action.PARK, Action.FAIL

TABLE: dict[str, ErrorPolicy] = {
    # The topic: the others go on.
    "_UNKNOWN_TOPIC": ErrorPolicy(
        _N, _P, "the topic may be about to be created; the metadata wait bounds it"
    ),
    "_UNKNOWN_PARTITION": ErrorPolicy(
        _N, _P, "the partition may be about to be created; the metadata wait bounds it"
    ),
    "UNKNOWN_TOPIC_OR_PART": ErrorPolicy(
        _N, _P, "created or deleted a moment ago; the metadata wait bounds it"
    ),
    "UNKNOWN_TOPIC_ID": ErrorPolicy(
        _N, _P, "the topic was deleted, and maybe made anew, a moment ago"
    ),
    "INCONSISTENT_TOPIC_ID": ErrorPolicy(
        _N, _P, "the topic was deleted and made anew; fresh metadata know the new one"
    ),
    "LEADER_NOT_AVAILABLE": ErrorPolicy(
        _N, _P, "the partition has no leader right now; one is elected when a replica is back"
    ),
    "LISTENER_NOT_FOUND": ErrorPolicy(
        _N,
        _P,
        "the partition's leader does not listen where this client connects; maybe it just started",
    ),
    "NOT_ENOUGH_REPLICAS": ErrorPolicy(
        _N, _P, "fewer replicas in sync than the topic's min.insync.replicas; they may come back"
    ),
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": ErrorPolicy(
        _U, _P, "written, but to fewer replicas than the topic's min.insync.replicas"
    ),
    "TOPIC_AUTHORIZATION_FAILED": ErrorPolicy(
        _N,
        _P,
        "an ACL forbids writing to the topic, and is waited for 15 s at most: grant the user "
        "Write on it",
        GRANT_SECONDS,
    ),
    # The size.
    "MSG_SIZE_TOO_LARGE": ErrorPolicy(
        _N, _S, "the batch, as compressed, is larger than the topic's max.message.bytes"
    ),
    "RECORD_LIST_TOO_LARGE": ErrorPolicy(_N, _S, "the batch is larger than the broker's segment"),
    # The connection.
    "_TIMED_OUT": ErrorPolicy(_U, _R, "no answer; the broker may have done it"),
    "REQUEST_TIMED_OUT": ErrorPolicy(
        _U, _R, "the broker waited for its replicas in vain; the records may be there"
    ),
    "_TIMED_OUT_QUEUE": ErrorPolicy(_N, _R, "a request waited for a connection and was never sent"),
    "_MSG_TIMED_OUT": ErrorPolicy(
        _N, _R, "a record was not acknowledged within the transaction's life"
    ),
    "_TRANSPORT": ErrorPolicy(_U, _R, "a connection broke, maybe after the request arrived"),
    "NETWORK_EXCEPTION": ErrorPolicy(_U, _R, "the broker lost the connection before it answered"),
    "_ALL_BROKERS_DOWN": ErrorPolicy(_U, _R, "no connection left; brokers come back"),
    "_RESOLVE": ErrorPolicy(
        _U, _R, "a broker's name cannot be resolved; name servers have their moments"
    ),
    "_SSL": ErrorPolicy(
        _U, _R, "TLS broke, in the handshake or later; a certificate may be being replaced"
    ),
    "_FAIL": ErrorPolicy(_U, _R, "the connection failed in a way that has no name of its own"),
    "_PARTIAL": ErrorPolicy(_U, _R, "an answer was cut short"),
    "_UNDERFLOW": ErrorPolicy(_U, _R, "an answer was cut short"),
    "_BAD_MSG": ErrorPolicy(_U, _R, "an answer that cannot be read"),
    "_DESTROY_BROKER": ErrorPolicy(_U, _R, "a broker left the cluster with requests under way"),
    "_INTR": ErrorPolicy(_U, _R, "a call was interrupted"),
    "REBOOTSTRAP_REQUIRED": ErrorPolicy(
        _U, _R, "all brokers that the client knew are gone; a new one begins with `bootstrap`"
    ),
    "BROKER_NOT_AVAILABLE": ErrorPolicy(_U, _R, "the broker is not up yet"),
    # The partition's leader.
    "NOT_LEADER_FOR_PARTITION": ErrorPolicy(
        _N, _R, "the leader has moved; the new one is in fresh metadata"
    ),
    "REPLICA_NOT_AVAILABLE": ErrorPolicy(
        _N, _R, "the broker has no such replica yet, as while partitions are moved"
    ),
    "KAFKA_STORAGE_ERROR": ErrorPolicy(
        _U, _R, "the leader's disk failed; another replica takes over"
    ),
    "INVALID_MSG": ErrorPolicy(
        _N, _R, "the batch was damaged on its way (checksum); sent again, it is not"
    ),
    "THROTTLING_QUOTA_EXCEEDED": ErrorPolicy(
        _N,
        _R,
        "a broker throttles for longer than the transaction may last; lanes then take turns at "
        "the rate of its quota",
    ),
    "_WAIT_CACHE": ErrorPolicy(_N, _R, "metadata did not come in time"),
    # The transaction's coordinator.
    "_WAIT_COORD": ErrorPolicy(_U, _R, "the coordinator is not known yet"),
    "COORDINATOR_LOAD_IN_PROGRESS": ErrorPolicy(
        _U, _R, "the coordinator has just moved, and reads its log"
    ),
    "COORDINATOR_NOT_AVAILABLE": ErrorPolicy(
        _U, _R, "no coordinator right now; one is elected when a replica is back"
    ),
    "NOT_COORDINATOR": ErrorPolicy(
        _U, _R, "the coordinator has moved; a new producer asks where to"
    ),
    "CONCURRENT_TRANSACTIONS": ErrorPolicy(
        _U, _R, "the coordinator is still ending the transaction before"
    ),
    "TRANSACTION_COORDINATOR_FENCED": ErrorPolicy(
        _U, _R, "the coordinator moved while it ended the transaction"
    ),
    "OPERATION_NOT_ATTEMPTED": ErrorPolicy(
        _N, _R, "another partition of the request was refused, and this one left out with it"
    ),
    # The producer's identity and state.
    "_FENCED": ErrorPolicy(
        _N,
        _R,
        "a newer producer has this id: a later attempt, or a later run; the generation tells which",
    ),
    "PRODUCER_FENCED": ErrorPolicy(_N, _R, "as _FENCED, said by the coordinator"),
    "INVALID_PRODUCER_EPOCH": ErrorPolicy(_N, _R, "as _FENCED, said by the broker"),
    "UNKNOWN_PRODUCER_ID": ErrorPolicy(
        _N, _R, "the broker has forgotten the producer, since nothing of it is left in the log"
    ),
    "INVALID_PRODUCER_ID_MAPPING": ErrorPolicy(
        _N, _R, "the id has expired (transactional.id.expiration.ms); a new producer gets another"
    ),
    "OUT_OF_ORDER_SEQUENCE_NUMBER": ErrorPolicy(
        _U, _R, "the partition lacks a batch that came before; nothing of this one is taken"
    ),
    "DUPLICATE_SEQUENCE_NUMBER": ErrorPolicy(_U, _R, "the partition had the batch already"),
    "INVALID_TXN_STATE": ErrorPolicy(
        _U, _R, "the coordinator has ended the transaction, as at its timeout"
    ),
    "TRANSACTION_ABORTABLE": ErrorPolicy(
        _N, _R, "the broker asks for the transaction to be given up and begun anew"
    ),
    "_STATE": ErrorPolicy(_U, _R, "the producer is in no state to go on; a new one is"),
    "_CONFLICT": ErrorPolicy(_U, _R, "a call after a fatal error, or another call still under way"),
    "_IN_PROGRESS": ErrorPolicy(_U, _R, "the call before has not ended yet"),
    "_PREV_IN_PROGRESS": ErrorPolicy(_U, _R, "the call before has not ended yet"),
    "_RETRY": ErrorPolicy(_U, _R, "librdkafka asks for the call again"),
    "_INCONSISTENT": ErrorPolicy(
        _N, _R, "a record of the transaction failed, so it can only be aborted"
    ),
    "_GAPLESS_GUARANTEE": ErrorPolicy(
        _U, _R, "a batch may be missing before this one; a new producer begins anew"
    ),
    "_FATAL": ErrorPolicy(_U, _R, "the producer is beyond repair; a new one is not"),
    "_QUEUE_FULL": ErrorPolicy(_N, _R, "nothing left the queue until the deadline"),
    "_PURGE_QUEUE": ErrorPolicy(_N, _R, "the producer was being thrown away"),
    "_PURGE_INFLIGHT": ErrorPolicy(
        _U, _R, "the producer was being thrown away with the record under way"
    ),
    "_DESTROY": ErrorPolicy(_U, _R, "the producer was being closed"),
    "_CRIT_SYS_RESOURCE": ErrorPolicy(
        _U, _R, "the machine gives no memory or thread; it may again"
    ),
    "UNKNOWN": ErrorPolicy(
        _U, _R, "the broker failed in a way that has no name of its own; its log says more"
    ),
    # What waiting does not change.
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": ErrorPolicy(
        _N,
        _F,
        "an ACL forbids the transactional.id; grant the user Write on those that begin with the "
        "pipeline's and the cluster's name",
    ),
    "CLUSTER_AUTHORIZATION_FAILED": ErrorPolicy(_N, _F, "an ACL forbids idempotent writes"),
    "SASL_AUTHENTICATION_FAILED": ErrorPolicy(_N, _F, _CREDENTIALS),
    "_AUTHENTICATION": ErrorPolicy(_N, _F, _CREDENTIALS),
    "UNSUPPORTED_SASL_MECHANISM": ErrorPolicy(_N, _F, "the broker does not know `sasl.mechanisms`"),
    "ILLEGAL_SASL_STATE": ErrorPolicy(_N, _F, "the listener wants another `security.protocol`"),
    "INVALID_TRANSACTION_TIMEOUT": ErrorPolicy(
        _N, _F, "`delivery.transaction_timeout` is above the broker's transaction.max.timeout.ms"
    ),
    "INVALID_REQUIRED_ACKS": ErrorPolicy(_N, _F, "the broker takes no records with these acks"),
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": ErrorPolicy(
        _N, _F, "the topic's message format knows no transactions"
    ),
    "UNSUPPORTED_COMPRESSION_TYPE": ErrorPolicy(
        _N, _F, "the broker or the topic does not take the codec; change `delivery.compression`"
    ),
    "UNSUPPORTED_VERSION": ErrorPolicy(_N, _F, "the broker is too old for this client"),
    "_UNSUPPORTED_FEATURE": ErrorPolicy(_N, _F, "the broker knows no transactions"),
    "INVALID_REQUEST": ErrorPolicy(
        _N, _F, "the broker cannot make sense of a request; client and broker do not fit"
    ),
    "TOPIC_EXCEPTION": ErrorPolicy(
        _N, _F, "no legal topic name; see the columns that `routes` makes it of"
    ),
    "_INVALID_ARG": ErrorPolicy(_N, _F, "a setting or a record that librdkafka refuses"),
    "_NOT_CONFIGURED": ErrorPolicy(_N, _F, "a call that the producer was not set up for"),
    "_NOT_IMPLEMENTED": ErrorPolicy(_N, _F, "this build of librdkafka lacks something, as a codec"),
    "INVALID_RECORD": ErrorPolicy(
        _N,
        _F,
        "the topic is compacted, and takes no record without a key, or with a time outside of its "
        "bounds",
    ),
    "_INVALID_DIFFERENT_RECORD": ErrorPolicy(
        _N, _F, "the broker refuses another record of the batch, as above"
    ),
    "INVALID_TIMESTAMP": ErrorPolicy(
        _N,
        _F,
        "the topic takes no record so old or so new (message.timestamp.before.max.ms, "
        "message.timestamp.after.max.ms)",
    ),
    "POLICY_VIOLATION": ErrorPolicy(_N, _F, "a policy of the broker refuses it"),
}

#: Any other fault: its outcome is unknown. The ledger resolves it, and the deadline bounds the
#: retries.
OTHERWISE = ErrorPolicy(
    TransactionOutcome.UNKNOWN,
    Action.REOPEN,
    "not in the table: settled by the ledger, tried again until the deadline",
)


def policy_for(fault_name: str) -> ErrorPolicy:
    return TABLE.get(fault_name, OTHERWISE)


def is_refusal(fault_name: str) -> bool:
    """Return True if waiting does not change the fault, or only for a moment."""
    policy = policy_for(fault_name)
    return policy.action is Action.FAIL or policy.wait_seconds is not None


# The page.

_INTRODUCTION = """\
# What a Kafka error means

Made from the table in `shipper/kafka/outcomes.py`; do not edit. The names are librdkafka's, as they
stand in messages and logs. Names that begin with `_` come from the client, the others from a
broker.

Whatever the error, a lane recovers in one way. It throws its producer away and opens a new one with
the same transactional.id, which ends the old transaction. Then it asks the ledger which chunks were
committed. So **outcome** is what the client can know when the error comes, and never what is
counted in the end.

`delivery.metadata_wait` bounds the tries and the reads of the ledger between them, or less time
where the table says so. Time spent in the rate limiter does not count.
"""
_OUTCOMES = {
    TransactionOutcome.NOT_DELIVERED: "the transaction will not be committed",
    TransactionOutcome.UNKNOWN: "the transaction may have been committed; the ledger tells",
}
_WORDS = {
    Action.REOPEN: "reopen",
    Action.SMALLER_BATCHES: "smaller batches",
    Action.PARK: "park",
    Action.FAIL: "fail",
}


def outcomes_page() -> str:
    """Return the page docs/reference/outcomes.md, in Markdown."""
    parts = [
        _INTRODUCTION.strip(),
        "\n".join(
            [
                "| Outcome | |\n|---|---|",
                *(f"| {outcome.value} | {text} |" for outcome, text in _OUTCOMES.items()),
            ]
        ),
        "\n".join(
            [
                "| Action | |\n|---|---|",
                *(f"| {word} | {action.value} |" for action, word in _WORDS.items()),
            ]
        ),
        "\n".join(
            [
                "| Error | Outcome | Action | Why |\n|---|---|---|---|",
                *(_row(f"`{n}`", v) for n, v in TABLE.items()),
            ]
        ),
        "\n".join(
            [
                "| Any other | Outcome | Action | Why |\n|---|---|---|---|",
                _row("(a name of a newer librdkafka)", OTHERWISE),
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _row(name: str, policy: ErrorPolicy) -> str:
    return f"| {name} | {policy.outcome.value} | {_WORDS[policy.action]} | {policy.reason} |"


if __name__ == "__main__":
    print(outcomes_page(), end="")
