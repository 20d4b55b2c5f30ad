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
from functools import partial


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
_P = Action.PARK
_parked, _smaller = partial(ErrorPolicy, _N, _P), partial(ErrorPolicy, _N, Action.SMALLER_BATCHES)
_retried, _unsure = (partial(ErrorPolicy, each, Action.REOPEN) for each in (_N, _U))
_refused = partial(ErrorPolicy, _N, Action.FAIL)

TABLE: dict[str, ErrorPolicy] = {
    # The topic: the others go on.
    "_UNKNOWN_TOPIC": _parked("the topic may be about to be created; the metadata wait bounds it"),
    "_UNKNOWN_PARTITION": _parked(
        "the partition may be about to be created; the metadata wait bounds it"
    ),
    "UNKNOWN_TOPIC_OR_PART": _parked(
        "created or deleted a moment ago; the metadata wait bounds it"
    ),
    "UNKNOWN_TOPIC_ID": _parked("the topic was deleted, and maybe made anew, a moment ago"),
    "INCONSISTENT_TOPIC_ID": _parked(
        "the topic was deleted and made anew; fresh metadata know the new one"
    ),
    "LEADER_NOT_AVAILABLE": _parked(
        "the partition has no leader right now; one is elected when a replica is back"
    ),
    "LISTENER_NOT_FOUND": _parked(
        "the partition's leader does not listen where this client connects; maybe it just started"
    ),
    "NOT_ENOUGH_REPLICAS": _parked(
        "fewer replicas in sync than the topic's min.insync.replicas; they may come back"
    ),
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": ErrorPolicy(
        _U, _P, "written, but to fewer replicas than the topic's min.insync.replicas"
    ),
    "TOPIC_AUTHORIZATION_FAILED": _parked(
        "an ACL forbids writing to the topic, and is waited for 15 s at most: grant the user "
        "Write on it",
        GRANT_SECONDS,
    ),
    # The size.
    "MSG_SIZE_TOO_LARGE": _smaller(
        "the batch, as compressed, is larger than the topic's max.message.bytes"
    ),
    "RECORD_LIST_TOO_LARGE": _smaller("the batch is larger than the broker's segment"),
    # The connection.
    "_TIMED_OUT": _unsure("no answer; the broker may have done it"),
    "REQUEST_TIMED_OUT": _unsure(
        "the broker waited for its replicas in vain; the records may be there"
    ),
    "_TIMED_OUT_QUEUE": _retried("a request waited for a connection and was never sent"),
    "_MSG_TIMED_OUT": _unsure(
        "a record was not acknowledged within the transaction's life; it may be there"
    ),
    "_TRANSPORT": _unsure("a connection broke, maybe after the request arrived"),
    "NETWORK_EXCEPTION": _unsure("the broker lost the connection before it answered"),
    "_ALL_BROKERS_DOWN": _unsure("no connection left; brokers come back"),
    "_RESOLVE": _unsure("a broker's name cannot be resolved; name servers have their moments"),
    "_SSL": _unsure("TLS broke, in the handshake or later; a certificate may be being replaced"),
    "_FAIL": _unsure("the connection failed in a way that has no name of its own"),
    "_PARTIAL": _unsure("an answer was cut short"),
    "_UNDERFLOW": _unsure("an answer was cut short"),
    "_BAD_MSG": _unsure("an answer that cannot be read"),
    "_DESTROY_BROKER": _unsure("a broker left the cluster with requests under way"),
    "_INTR": _unsure("a call was interrupted"),
    "REBOOTSTRAP_REQUIRED": _unsure(
        "all brokers that the client knew are gone; a new one begins with `bootstrap`"
    ),
    "BROKER_NOT_AVAILABLE": _unsure("the broker is not up yet"),
    # The partition's leader.
    "NOT_LEADER_FOR_PARTITION": _retried("the leader has moved; the new one is in fresh metadata"),
    "REPLICA_NOT_AVAILABLE": _retried(
        "the broker has no such replica yet, as while partitions are moved"
    ),
    "KAFKA_STORAGE_ERROR": _unsure("the leader's disk failed; another replica takes over"),
    "INVALID_MSG": _retried("the batch was damaged on its way (checksum); sent again, it is not"),
    "THROTTLING_QUOTA_EXCEEDED": _retried(
        "a broker throttles for longer than the transaction may last; lanes then take turns at "
        "the rate of its quota"
    ),
    "_WAIT_CACHE": _retried("metadata did not come in time"),
    # The transaction's coordinator.
    "_WAIT_COORD": _unsure("the coordinator is not known yet"),
    "COORDINATOR_LOAD_IN_PROGRESS": _unsure("the coordinator has just moved, and reads its log"),
    "COORDINATOR_NOT_AVAILABLE": _unsure(
        "no coordinator right now; one is elected when a replica is back"
    ),
    "NOT_COORDINATOR": _unsure("the coordinator has moved; a new producer asks where to"),
    "CONCURRENT_TRANSACTIONS": _unsure("the coordinator is still ending the transaction before"),
    "TRANSACTION_COORDINATOR_FENCED": _unsure(
        "the coordinator moved while it ended the transaction"
    ),
    "OPERATION_NOT_ATTEMPTED": _retried(
        "another partition of the request was refused, and this one left out with it"
    ),
    # The producer's identity and state.
    "_FENCED": _retried(
        "a newer producer has this id: a later attempt, or a later run; the generation tells which"
    ),
    "PRODUCER_FENCED": _retried("as _FENCED, said by the coordinator"),
    "INVALID_PRODUCER_EPOCH": _retried("as _FENCED, said by the broker"),
    "UNKNOWN_PRODUCER_ID": _retried(
        "the broker has forgotten the producer, since nothing of it is left in the log"
    ),
    "INVALID_PRODUCER_ID_MAPPING": _retried(
        "the id has expired (transactional.id.expiration.ms); a new producer gets another"
    ),
    "OUT_OF_ORDER_SEQUENCE_NUMBER": _unsure(
        "the partition lacks a batch that came before; nothing of this one is taken"
    ),
    "DUPLICATE_SEQUENCE_NUMBER": _unsure("the partition had the batch already"),
    "INVALID_TXN_STATE": _unsure("the coordinator has ended the transaction, as at its timeout"),
    "TRANSACTION_ABORTABLE": _retried(
        "the broker asks for the transaction to be given up and begun anew"
    ),
    "_STATE": _unsure("the producer is in no state to go on; a new one is"),
    "_CONFLICT": _unsure("a call after a fatal error, or another call still under way"),
    "_IN_PROGRESS": _unsure("the call before has not ended yet"),
    "_PREV_IN_PROGRESS": _unsure("the call before has not ended yet"),
    "_RETRY": _unsure("librdkafka asks for the call again"),
    "_INCONSISTENT": _retried("a record of the transaction failed, so it can only be aborted"),
    "_GAPLESS_GUARANTEE": _unsure(
        "a batch may be missing before this one; a new producer begins anew"
    ),
    "_FATAL": _unsure("the producer is beyond repair; a new one is not"),
    "_QUEUE_FULL": _retried("nothing left the queue until the deadline"),
    "_PURGE_QUEUE": _retried("the producer was being thrown away"),
    "_PURGE_INFLIGHT": _unsure("the producer was being thrown away with the record under way"),
    "_DESTROY": _unsure("the producer was being closed"),
    "_CRIT_SYS_RESOURCE": _unsure("the machine gives no memory or thread; it may again"),
    "UNKNOWN": _unsure("the broker failed in a way that has no name of its own; its log says more"),
    # What waiting does not change.
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _refused(
        "an ACL forbids the transactional.id; grant the user Write on those that begin with the "
        "pipeline's and the cluster's name"
    ),
    "CLUSTER_AUTHORIZATION_FAILED": _refused("an ACL forbids idempotent writes"),
    "SASL_AUTHENTICATION_FAILED": _refused(_CREDENTIALS),
    "_AUTHENTICATION": _refused(_CREDENTIALS),
    "UNSUPPORTED_SASL_MECHANISM": _refused("the broker does not know `sasl.mechanisms`"),
    "ILLEGAL_SASL_STATE": _refused("the listener wants another `security.protocol`"),
    "INVALID_TRANSACTION_TIMEOUT": _refused(
        "`delivery.transaction_timeout` is above the broker's transaction.max.timeout.ms"
    ),
    "INVALID_REQUIRED_ACKS": _refused("the broker takes no records with these acks"),
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": _refused("the topic's message format knows no transactions"),
    "UNSUPPORTED_COMPRESSION_TYPE": _refused(
        "the broker or the topic does not take the codec; change `delivery.compression`"
    ),
    "UNSUPPORTED_VERSION": _refused("the broker is too old for this client"),
    "_UNSUPPORTED_FEATURE": _refused("the broker knows no transactions"),
    "INVALID_REQUEST": _refused(
        "the topic takes no transactions (`shipper doctor` tells; `delivery.guarantee: "
        "at_least_once` needs none), or client and broker do not fit"
    ),
    "TOPIC_EXCEPTION": _refused("no legal topic name; see the columns that `routes` makes it of"),
    "_INVALID_ARG": _refused("a setting or a record that librdkafka refuses"),
    "_NOT_CONFIGURED": _refused("a call that the producer was not set up for"),
    "_NOT_IMPLEMENTED": _refused("this build of librdkafka lacks something, as a codec"),
    "INVALID_RECORD": _refused(
        "the topic is compacted, and takes no record without a key, or with a time outside of its "
        "bounds"
    ),
    "_INVALID_DIFFERENT_RECORD": _refused(
        "the broker refuses another record of the batch, as above"
    ),
    "INVALID_TIMESTAMP": _refused(
        "the topic takes no record so old or so new (message.timestamp.before.max.ms, "
        "message.timestamp.after.max.ms)"
    ),
    "POLICY_VIOLATION": _refused("a policy of the broker refuses it"),
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
    tables = {
        "Outcome | |": [f"| {outcome.value} | {text} |" for outcome, text in _OUTCOMES.items()],
        "Action | |": [f"| {word} | {action.value} |" for action, word in _WORDS.items()],
        "Error | Outcome | Action | Why |": [_row(f"`{name}`", row) for name, row in TABLE.items()],
        "Any other | Outcome | Action | Why |": [_row("(a name of a newer librdkafka)", OTHERWISE)],
    }
    parts = [
        "\n".join([f"| {head}\n|{'---|' * head.count('|')}", *rows])
        for head, rows in tables.items()
    ]
    return "\n\n".join([_INTRODUCTION.strip(), *parts]) + "\n"


def _row(name: str, policy: ErrorPolicy) -> str:
    return f"| {name} | {policy.outcome.value} | {_WORDS[policy.action]} | {policy.reason} |"


if __name__ == "__main__":
    print(outcomes_page(), end="")
