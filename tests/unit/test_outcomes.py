"""The table of Kafka's errors: complete, and as the page shows it."""

from pathlib import Path

from confluent_kafka import KafkaError

from shipper.kafka.outcomes import (
    OTHERWISE,
    TABLE,
    Action,
    TransactionOutcome,
    outcomes_page,
    policy_for,
)

#: Why a lane never sees them → librdkafka's other names. A name that librdkafka learns belongs here
#: or into ``TABLE``.
NOT_HERE = {
    "no error": "NO_ERROR _NOOP",
    "consumers and their groups": (
        "_PARTITION_EOF _UNKNOWN_GROUP _EXISTING_SUBSCRIPTION _ASSIGN_PARTITIONS "
        "_REVOKE_PARTITIONS _NO_OFFSET _MAX_POLL_EXCEEDED _ASSIGNMENT_LOST _AUTO_OFFSET_RESET "
        "_LOG_TRUNCATION _BAD_COMPRESSION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION "
        "OFFSET_OUT_OF_RANGE INVALID_MSG_SIZE OFFSET_METADATA_TOO_LARGE ILLEGAL_GENERATION "
        "INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT "
        "REBALANCE_IN_PROGRESS INVALID_COMMIT_OFFSET_SIZE GROUP_AUTHORIZATION_FAILED "
        "NON_EMPTY_GROUP GROUP_ID_NOT_FOUND FETCH_SESSION_ID_NOT_FOUND "
        "INVALID_FETCH_SESSION_EPOCH FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH "
        "OFFSET_NOT_AVAILABLE MEMBER_ID_REQUIRED GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID "
        "GROUP_SUBSCRIBED_TO_TOPIC UNSTABLE_OFFSET_COMMIT FENCED_MEMBER_EPOCH "
        "UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR STALE_MEMBER_EPOCH "
        "INVALID_REGULAR_EXPRESSION"
    ),
    "share groups and streams": (
        "INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH "
        "FENCED_STATE_EPOCH SHARE_SESSION_LIMIT_REACHED STREAMS_INVALID_TOPOLOGY "
        "STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED"
    ),
    "requests of administrators (creating the ledger topic among them: errors of that are shown "
    "as they are)": (
        "TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR "
        "INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG NOT_CONTROLLER SECURITY_DISABLED "
        "LOG_DIR_NOT_FOUND REASSIGNMENT_IN_PROGRESS DELEGATION_TOKEN_AUTH_DISABLED "
        "DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH "
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTHORIZATION_FAILED "
        "DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE TOPIC_DELETION_DISABLED "
        "PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED "
        "NO_REASSIGNMENT_IN_PROGRESS RESOURCE_NOT_FOUND DUPLICATE_RESOURCE "
        "UNACCEPTABLE_CREDENTIAL INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED "
        "MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE _UNKNOWN_BROKER _INVALID_TYPE"
    ),
    "brokers among themselves": (
        "STALE_CTRL_EPOCH STALE_BROKER_EPOCH INCONSISTENT_VOTER_SET "
        "PRINCIPAL_DESERIALIZATION_FAILURE UNKNOWN_CONTROLLER_ID INVALID_REGISTRATION "
        "INVALID_VOTER_KEY DUPLICATE_VOTER VOTER_NOT_FOUND"
    ),
    "inside librdkafka and its bindings, or not used by them any more": (
        "_FS _ISR_INSUFF _NODE_UPDATE _UNKNOWN_PROTOCOL _OUTDATED _KEY_SERIALIZATION "
        "_VALUE_SERIALIZATION _READ_ONLY _NOENT _APPLICATION UNKNOWN_SUBSCRIPTION_ID "
        "TELEMETRY_TOO_LARGE"
    ),
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "outcomes.md"
#: Every name that librdkafka gives to an error.
NAMES = {KafkaError(code).name() for code in vars(KafkaError).values() if isinstance(code, int)}
ELSEWHERE = [name for names in NOT_HERE.values() for name in names.split()]


def test_every_error_of_librdkafka_is_in_the_table_or_said_to_come_from_elsewhere():
    assert len(NAMES) > 150
    assert sorted([*TABLE, *ELSEWHERE]) == sorted(NAMES)


def test_no_error_means_delivered_and_one_nobody_knows_is_settled_by_the_ledger():
    assert {policy.outcome for policy in TABLE.values()} == {
        TransactionOutcome.NOT_DELIVERED,
        TransactionOutcome.UNKNOWN,
    }
    assert policy_for("SOMETHING_NEW") is OTHERWISE
    assert (OTHERWISE.outcome, OTHERWISE.action) == (TransactionOutcome.UNKNOWN, Action.REOPEN)


def test_what_fails_at_once_is_certainly_not_delivered():
    assert all(
        policy.outcome is TransactionOutcome.NOT_DELIVERED
        for policy in TABLE.values()
        if policy.action is Action.FAIL
    )


def test_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == outcomes_page(), (
        "the table has changed: python -m shipper.kafka.outcomes > docs/reference/outcomes.md"
    )
