"""Checks of ``shipper doctor`` on a cluster: address, TLS, login, topics, rights, ledger, clock.
It writes nothing there; that a transactional id may be used it learns by using one that no lane
has."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from shipper import runtime
from shipper.config.cluster import Cluster
from shipper.config.load import load_cluster
from shipper.config.rules import resolve_uri
from shipper.config.units import plural
from shipper.driver.checks.catalogue import Check, CheckTarget, skipped
from shipper.driver.checks.machine import latest_window
from shipper.driver.checks.refusals import (
    contradictions,
    lacking_partitions,
    missing,
    no_transactions,
)
from shipper.driver.schemas import refused_schemas
from shipper.errors import ClusterError, LedgerGone
from shipper.finding import Finding, fail, of_error, ok, warn
from shipper.kafka import tls
from shipper.kafka.admin import NO_TRANSACTIONS, TopicFacts
from shipper.kafka.client import GROUP, ClusterClient
from shipper.kafka.connection import KafkaFault, connection, refusal
from shipper.ledger.identity import LedgerIdentity
from shipper.ledger.log import SETTINGS, LedgerLog
from shipper.ledger.records import CONTROL, PARTITIONS
from shipper.ledger.rights import Right, ledger_rights, rights, transactional_prefix
from shipper.ledger.snapshot import LedgerFolder

_SOON = dt.timedelta(days=14)
_AHEAD_SECONDS = 5.0
_LAST_RECORDS = 100
_CONNECT_SECONDS = 4.0
_NAMED_THERE = "docs/reference/outcomes.md says what the name means"
_TOPICS = 20
"""Shown; `topics` of a route may be many."""


@dataclass
class ClusterTarget(CheckTarget):
    """Checks of one cluster, for one pipeline or for none. Later checks use the results of earlier
    ones."""

    _cluster: Cluster | None = None
    _client: ClusterClient | None = None
    _reached: set[tuple[str, int]] = field(default_factory=set)
    """Host and port of the brokers that a connection was made to."""

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    @property
    def client(self) -> ClusterClient:
        assert self._client is not None
        return self._client

    def file(self) -> Iterator[Finding]:
        self._cluster = load_cluster(self.config_dir, self.cluster_name)
        if why := refusal(self._cluster):
            yield fail(f"no client can be made with its properties: {why}")
            return
        warnings = list(self._cluster.warnings())
        for path, why in warnings:
            remedies = {
                "bootstrap": "use SSL or SASL_SSL",
                "security.protocol": "use SSL or SASL_SSL",
                "url": "use https",
            }
            remedy = remedies.get(str(path[-1]), "leave it out unless you need it")
            yield warn(f"`{path[-1]}`: {why}", remedy)
        if not warnings:
            yield ok("the cluster's file is right, and a client can be made")

    def schema_registry(self) -> Iterator[Finding]:
        if self.of.records.avro is None:
            return
        right = ok("it has the schema of `records.avro`, or would take it")
        yield next(refused_schemas(self.cluster, self.of), right)

    def address(self) -> Iterator[Finding]:
        bad = []
        for host, port in tls.hosts_and_ports(self.cluster.bootstrap):
            if why := self._reach(host, port):
                bad.append(why)
        reached = ", ".join(f"{host}:{port}" for host, port in sorted(self._reached))
        if not self._reached:
            yield fail("; ".join(bad))
        elif bad:
            yield warn(f"{'; '.join(bad)}. {reached} can be reached")
        else:
            yield ok(f"{reached} can be reached")

    def _reach(self, host: str, port: int) -> str:
        """Return why the address cannot be reached; empty if it can."""
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            return f"the name {host} cannot be resolved ({error.strerror or error})"
        why = ""
        for family, kind, protocol, _, address in addresses:
            with socket.socket(family, kind, protocol) as connection:
                connection.settimeout(_CONNECT_SECONDS)
                try:
                    connection.connect(address)
                except OSError as error:
                    why = f"{host}:{port} cannot be reached ({error.strerror or error})"
                else:
                    self._reached.add((host, port))
                    return ""
        return why

    def certificate(self) -> Iterator[Finding]:
        settings = connection(self.cluster)
        if not tls.is_tls(settings):
            yield skipped("`security.protocol` is one without TLS")
            return
        for host, port in sorted(self._reached):
            try:
                shown = tls.handshake(settings, host, port, _CONNECT_SECONDS)
            except tls.HandshakeFailed as refused:
                yield fail(str(refused))
                continue
            if shown is None:
                yield skipped(
                    f"{host}:{port}: `enable.ssl.certificate.verification` is off, so the "
                    "certificate is not verified"
                )
                continue
            left = shown.ends - runtime.now()
            says = (
                f"{host}:{port}: {shown.subject}, valid until {shown.ends:%Y-%m-%d} ({left.days} "
                "days)"
            )
            yield (
                warn(says, "give the brokers a new certificate before that day")
                if left < _SOON
                else ok(says)
            )

    def login(self) -> Iterator[Finding]:
        self._client = ClusterClient(self.cluster, self.limit_seconds)
        brokers = self._client.brokers()
        mechanism = self.cluster.property_value("sasl.mechanisms") or self.cluster.property_value(
            "sasl.mechanism"
        )
        protocol = str(self.cluster.property_value("security.protocol") or "plaintext").upper()
        by = f" by {mechanism}" if mechanism and protocol.startswith("SASL") else ""
        yield ok(f"{protocol}{by}: {brokers} {'broker' if brokers == 1 else 'brokers'}")

    def brokers(self) -> Iterator[Finding]:
        """Connect to the brokers by their advertised addresses, which every client uses after its
        first question."""
        bad = []
        addresses = self.client.addresses()
        for host, port in addresses:
            if (host, port) not in self._reached and (why := self._reach(host, port)):
                bad.append(why)
        if bad:
            yield fail("; ".join(bad))
        else:
            yield ok(", ".join(f"{host}:{port}" for host, port in addresses))

    # For a pipeline.

    def topics(self) -> Iterator[Finding]:
        wanted = [right for right in rights(self.of, self.cluster) if right.resource == "topic"][
            :-1
        ][:_TOPICS]
        if not wanted:
            yield skipped("only the lines decide the pipeline's topics, so none can be checked")
            return
        allowed = self.client.allowed([right.name for right in wanted])
        readable = [
            right.name for right in wanted if "DescribeConfigs" in _granted(allowed.get(right.name))
        ]
        facts = self.client.facts(readable)
        for right in wanted:
            if (
                found := self._topic(right, allowed[right.name], facts.get(right.name))
            ) is not None:
                yield replace(found, subject=f"topic {right.name}")

    def _topic(
        self, right: Right, said: set[str] | KafkaFault, facts: TopicFacts | None
    ) -> Finding | None:
        if isinstance(said, KafkaFault):
            return self._absent(right, said)
        lacking = [operation for operation in right.operations if operation not in said]
        if lacking:
            return self._lacks(right, lacking)
        return self._limits(right.name, facts) if facts else None

    def _lacks(self, right: Right, lacking: Sequence[str]) -> Finding:
        return fail(
            f"the user lacks {' and '.join(lacking)} on {right.resource} {right.name}",
            self._grant(right, lacking),
        )

    def _absent(self, right: Right, fault: KafkaFault) -> Finding:
        if "AUTHORIZATION" in fault.name:
            return fail(
                ("the user in `properties` has no right on the topic, so the topic cannot be seen"),
                self._grant(right, right.operations),
            )
        if fault.name.startswith("UNKNOWN_TOPIC"):
            return next(missing(self.of, [right.name]))
        return fail(str(fault), _NAMED_THERE)

    def _limits(self, topic: str, facts: TopicFacts) -> Finding:
        says = (
            f"{plural(facts.partitions, 'partition')}, {plural(facts.replication, 'replica')}, "
            "batches to "
            f"{facts.limit.max_bytes:,} bytes"
        )
        longest = self.of.records.max_line_bytes
        if facts.min_insync > facts.replication:
            return warn(
                f"{says}; min.insync.replicas={facts.min_insync} is more than the number of "
                "replicas: since Kafka 3.7 brokers take the number of replicas instead, and "
                "earlier ones refuse every record",
                "kafka-configs --alter --add-config "
                f"min.insync.replicas={max(1, facts.replication - 1)}, or more replicas",
            )
        now = runtime.now()
        found = [
            *lacking_partitions(self.of, {topic: facts}),
            *contradictions(self.of, topic, facts.limit, latest_window(self.of, now), now),
        ]
        for each in sorted(found, key=lambda each: each.severity != "fail")[:1]:
            return replace(each, text=f"{says}; {each.text}")
        if facts.limit.max_bytes < longest:
            return warn(
                f"{says}; a line of `records.max_line` ({longest:,} bytes) fits only if it "
                "compresses",
                f"raise max.message.bytes of {topic}, or lower `records.max_line`",
            )
        return ok(says)

    def ledger(self) -> Iterator[Finding]:
        try:
            yield from self._ledger()
        except LedgerGone as gone:
            yield replace(of_error(gone), remedy="see docs/how-to/recover-a-ledger.md")

    def _ledger(self) -> Iterator[Finding]:
        topic = self.cluster.ledger_topic(self.of.key)
        right = Right("topic", topic, ledger_rights(self.cluster))
        said = self.client.allowed([topic])[topic]
        if isinstance(said, KafkaFault):
            if not said.name.startswith("UNKNOWN_TOPIC"):
                yield self._absent(right, said)
                return
            self._ledger_identity()[1].check(exists=False)
            if self.cluster.ledger.create:
                yield self._may_create(right)
            else:
                yield fail(
                    f"the ledger topic {topic} does not exist, and `ledger.create` is false",
                    "create it as docs/reference/ledger.md says",
                )
            return
        if lacking := [each for each in right.operations if each not in {*said, "Create"}]:
            yield self._lacks(right, lacking)
            return
        ledger, identity = self._ledger_identity()
        beside = self.client.allowed(list(self.of.needed_topics())).items()
        readable = [name for name, said in beside if "DescribeConfigs" in _granted(said)]
        facts = self.client.facts([topic, *readable])
        exists = ledger.exists_by(facts)
        identity.check(exists)
        if weaknesses := ledger.weaknesses():
            yield from (replace(each, subject="ledger") for each in weaknesses)
        else:
            found = facts[topic]
            yield ok(
                f"{topic}: {found.replication} replicas, min.insync.replicas={found.min_insync}"
            )

    def _ledger_identity(self) -> tuple[LedgerLog, LedgerIdentity]:
        folder = LedgerFolder(
            resolve_uri(self.config_dir, self.of.runs_uri), self.of.key, self.cluster_name
        )
        ledger = LedgerLog(self.client, self.cluster, self.of.key, folder)
        return ledger, LedgerIdentity(ledger, new_ledger=False)

    def _may_create(self, right: Right) -> Finding:
        missing = f"the ledger topic {right.name} does not exist yet"
        try:
            self.client.try_to_create(right.name, SETTINGS, self.cluster.ledger.replication_factor)
        except KafkaFault as fault:
            remedy = (
                self._grant(right, right.operations)
                if "AUTHORIZATION" in fault.name
                else (
                    "see `ledger` in the cluster's file. If the cluster makes new topics without "
                    "compaction, create the ledger as a classic topic with "
                    f"{PARTITIONS} partitions and {', '.join(map('='.join, SETTINGS.items()))}, "
                    "and set `ledger.create: false`"
                )
            )
            return fail(f"{missing}, and could not be created: {fault.text}", remedy)
        return ok(f"{missing}; the first ship may create it")

    def transactions(self) -> Iterator[Finding]:
        prefix = transactional_prefix(self.of.key, self.cluster_name)
        known = self.client.topics()
        topics = [topic for topic in self.of.needed_topics() if topic in known]
        any_topic = next(iter(topics), self.cluster.ledger_topic(self.of.key))
        if self.of.delivery.guarantee == "at_least_once" or not self.cluster.idempotence:
            yield from self._idempotence(any_topic)
            return
        try:
            self.client.try_transactions(any_topic, f"{prefix}doctor", topics)
        except KafkaFault as fault:
            if fault.name in NO_TRANSACTIONS:
                yield self._without_transactions(prefix, topics, fault)
            elif "AUTHORIZATION" in fault.name:
                right = Right("transactional-id", prefix, ("Write",), prefixed=True)
                yield fail(
                    f"the user lacks Write on transactional ids that begin with {prefix}",
                    self._grant(right, ("Write",)),
                )
            else:
                yield fail(f"no transactional producer can be opened: {fault}", _NAMED_THERE)
        else:
            yield ok(f"a producer whose id begins with {prefix} can be opened, for all topics")

    def _without_transactions(self, prefix: str, topics: list[str], fault: KafkaFault) -> Finding:
        """Name the topics that take no transactions."""
        refusing = []
        for topic in topics:
            try:
                self.client.try_transactions(topic, f"{prefix}doctor", [topic])
            except KafkaFault:
                refusing.append(topic)
        said = f"these topics take no transactions: {', '.join(refusing)} ({fault})"
        if self.of.delivery.guarantee == "prefer_exactly_once":
            return warn(said, "this pipeline ships at least once here; its report says so")
        return fail(
            said,
            "set `delivery.guarantee: at_least_once` in the pipeline: see docs/how-to/"
            "clusters-without-transactions.md",
        )

    def _idempotence(self, topic: str) -> Iterator[Finding]:
        """Look whether the brokers take the producer that writes the ledger."""
        if not self.cluster.idempotence:
            unwanted = ok("not asked for, nor idempotent producers (`idempotence: false`)")
            yield next(no_transactions(self.of, self.cluster), unwanted)
            return
        try:
            self.client.try_idempotence(topic, self.client.answer_seconds(topic))
        except KafkaFault as fault:
            yield fail(
                f"the brokers take no idempotent producer: {fault.text}",
                "set `idempotence: false` in the cluster's file",
            )
        else:
            yield ok("not asked for; the ledger's producer, which is idempotent, can be opened")

    def group(self) -> Iterator[Finding]:
        right = Right("group", GROUP, ("Describe",))
        said = self.client.group_allowed(GROUP)
        if (
            isinstance(said, KafkaFault) and said.name == "GROUP_ID_NOT_FOUND"
        ):  # nobody is ever in it
            yield ok(f"{GROUP} may be described")
        elif isinstance(said, KafkaFault) and "AUTHORIZATION" not in said.name:
            yield fail(f"group {GROUP} cannot be described: {said}", _NAMED_THERE)
        elif "Describe" not in _granted(said):
            yield fail(
                f"the user lacks Describe on group {GROUP}, so the ledger cannot be read",
                self._grant(right, ("Describe",)),
            )
        else:
            yield ok(f"{GROUP} may be described")

    def _grant(self, right: Right, operations: Sequence[str]) -> str:
        words = " ".join(replace(right, operations=tuple(operations)).words())
        return (
            f"kafka-acls --bootstrap-server {self.cluster.bootstrap} --add --allow-principal "
            f"User:… {words}"
        )

    def clock(self) -> Iterator[Finding]:
        """Compare the clocks: brokers note when each record of the ledger came, and a time in the
        future shows a wrong clock."""
        topic = self.cluster.ledger_topic(self.of.key)
        newest = self._newest(topic)
        if newest is None:
            yield skipped("unknown: the ledger has no readable record yet")
            return
        ahead = newest / 1000 - runtime.time()
        at = f"{dt.datetime.fromtimestamp(newest / 1000, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
        if ahead > _AHEAD_SECONDS:
            yield fail(
                f"the ledger's newest record has the time {at} by the brokers' clock, "
                f"{ahead:.0f} s after this machine's clock",
                (
                    "synchronise both clocks (NTP): settle times, certificates and tokens "
                    "depend on them"
                ),
            )
        else:
            yield ok(
                f"the ledger's newest record, with the brokers' time {at}, does not lie in "
                "the future"
            )

    def _newest(self, topic: str) -> int | None:
        try:
            end = self.client.end_offset(topic, CONTROL)
            if not end:
                return None
            start = max(0, end - _LAST_RECORDS)
            records = self.client.read(topic, CONTROL, start, wait_seconds=None)
        except ClusterError:  # said by the check of the ledger
            return None
        return max((record.timestamp_ms for record in records), default=None)


def _granted(said: set[str] | KafkaFault | None) -> set[str]:
    return said if isinstance(said, set) else set()


_GRANT = "grant what docs/how-to/secure-a-cluster.md lists"
#: What is asked of each cluster: without a pipeline, as far as its login.
CHECKS = (
    Check("file", ClusterTarget.file, "correct the cluster's file; `shipper validate` checks it"),
    Check(
        "address",
        ClusterTarget.address,
        after="file",
        remedy="check `bootstrap`, this machine's name servers, routes and firewalls, and that "
        "the brokers are up",
    ),
    Check(
        "TLS",
        ClusterTarget.certificate,
        after="address",
        remedy="see the `ssl.…` properties in the cluster's file, and what the brokers show",
    ),
    Check(
        "login", ClusterTarget.login, "correct the properties in the cluster's file", after="TLS"
    ),
    Check(
        "brokers",
        ClusterTarget.brokers,
        after="login",
        remedy="the brokers advertise these addresses: correct their advertised.listeners, or this "
        "machine's routes",
    ),
    Check("topics", ClusterTarget.topics, _GRANT, after="brokers", needs_pipeline=True),
    Check("ledger", ClusterTarget.ledger, _GRANT, after="brokers", needs_pipeline=True),
    Check("transactions", ClusterTarget.transactions, _GRANT, after="brokers", needs_pipeline=True),
    Check("group", ClusterTarget.group, _GRANT, after="brokers", needs_pipeline=True),
    Check("clock", ClusterTarget.clock, _GRANT, after="brokers", needs_pipeline=True),
    Check(
        "schema registry",
        ClusterTarget.schema_registry,
        after="brokers",
        needs_pipeline=True,
        remedy="correct `schema_registry` in the cluster's file, or `records.avro` of the pipeline",
    ),
)


def examined(cluster: str, here: CheckTarget) -> ClusterTarget:
    """Return the cluster with its checks. ``here``: the machine from which the cluster is asked."""
    # A question without an answer must end before its check does, so that the finding has the
    # reason and not only the time-out.
    limit = 0.8 * here.limit_seconds
    return ClusterTarget(here.config_dir, here.pipeline, limit, cluster, CHECKS)
