"""What ``shipper doctor`` asks of a cluster: address, TLS, login, topics, rights, ledger, clock. It writes nothing there; that a transactional id
may be used it learns by using one that no lane has."""

from __future__ import annotations

import datetime as dt
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shipper.config import load_cluster, resolve_uri
from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.driver.doctor import Chain, Check, Finding, failed, ok, skipped, warning
from shipper.driver.doctor_machine import latest_window
from shipper.driver.schemas import schema_problem
from shipper.driver.topic_settings import contradictions
from shipper.errors import ClusterError
from shipper.kafka import tls
from shipper.kafka.admin import TopicFacts
from shipper.kafka.client import GROUP, ClusterClient
from shipper.kafka.connection import KafkaFault, connection, refusal
from shipper.ledger.identity import LedgerIdentity
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CONTROL
from shipper.ledger.rights import Right, ledger_rights, rights, transactional_prefix
from shipper.ledger.snapshot import LedgerFolder

_SOON = dt.timedelta(days=14)
_AHEAD_SECONDS = 5.0
_LAST_RECORDS = 100
_CONNECT_SECONDS = 4.0
_TOPICS = 20
"""Shown; `topics` of a route may be many."""


@dataclass
class ClusterExamination:
    """One cluster, for one pipeline or for none. What one check finds the next ones use."""

    config_dir: Path
    name: str
    pipeline: Pipeline | None
    timeout_seconds: float
    """Of a question to the cluster; less than the limit of a check."""
    _cluster: Cluster | None = None
    _client: ClusterClient | None = None
    _reached: set[tuple[str, int]] = field(default_factory=set)

    def chain(self) -> Chain:
        file = f"correct clusters/{self.name}.yaml; `shipper validate` checks it"
        first: list[Check] = [
            Check(self._title("file"), self._file, file),
            Check(self._title("address"), self._address, "check `bootstrap`, name servers, routes and firewalls"),
            Check(self._title("TLS"), self._tls, f"correct the `ssl.…` properties in clusters/{self.name}.yaml"),
            Check(self._title("login"), self._login, f"correct the properties in clusters/{self.name}.yaml"),
            Check(self._title("brokers"), self._brokers, "correct the brokers' advertised.listeners, or this machine's routes"),
        ]
        if self.pipeline is None:
            return first
        acls = "grant what docs/operations.md, ACLs, lists"
        then: tuple[Check, ...] = (
            Check(self._title("topics"), self._topics, acls),
            Check(self._title("ledger"), self._ledger, acls),
            Check(self._title("transactions"), self._transactions, acls),
            Check(self._title("group"), self._group, acls),
            Check(self._title("clock"), self._clock, acls),
        )
        if self.pipeline.records.avro is not None:
            remedy = f"correct `schema_registry` in clusters/{self.name}.yaml"
            then = (*then, Check(self._title("schema registry"), self._schema_registry, remedy))
        return [*first, then]

    def _title(self, what: str) -> str:
        return f"{self.name}: {what}"

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    @property
    def client(self) -> ClusterClient:
        assert self._client is not None
        return self._client

    def _file(self) -> Iterator[Finding]:
        title = self._title("file")
        self._cluster = load_cluster(self.config_dir, self.name)
        if why := refusal(self._cluster):
            yield failed(title, f"no client can be made with its properties: {why}", f"correct them in clusters/{self.name}.yaml")
            return
        warnings = list(self._cluster.warnings())
        for path, why in warnings:
            remedies = {"bootstrap": "use SSL or SASL_SSL", "security.protocol": "use SSL or SASL_SSL", "url": "use https"}
            remedy = remedies.get(str(path[-1]), "leave it out unless you need it")
            yield warning(title, f"`{path[-1]}`: {why}", remedy)
        if not warnings:
            yield ok(title, "it is right, and a client can be made")

    def _schema_registry(self) -> Iterator[Finding]:
        assert self.pipeline is not None
        title = self._title("schema registry")
        if problem := schema_problem(self.cluster, self.pipeline):
            yield failed(
                title, problem, f"correct `schema_registry` in clusters/{self.name}.yaml, or `records.avro` of the pipeline"
            )
        else:
            yield ok(title, "it has the schema of `records.avro`, or would take it")

    def _address(self) -> Iterator[Finding]:
        title, bad = self._title("address"), []
        for host, port in tls.hosts_and_ports(self.cluster.bootstrap):
            if why := self._reach(host, port):
                bad.append(why)
        reached = ", ".join(f"{host}:{port}" for host, port in sorted(self._reached))
        remedy = "check `bootstrap`, this machine's name servers, routes and firewalls, and that the brokers are up"
        if not self._reached:
            yield failed(title, "; ".join(bad), remedy)
        elif bad:
            yield warning(title, f"{'; '.join(bad)}. {reached} can be reached", remedy)
        else:
            yield ok(title, f"{reached} can be reached")

    def _reach(self, host: str, port: int) -> str:
        """Why not; empty if it was."""
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

    def _tls(self) -> Iterator[Finding]:
        title, settings = self._title("TLS"), connection(self.cluster)
        if not tls.is_tls(settings):
            yield skipped(title, "`security.protocol` is one without TLS")
            return
        for host, port in sorted(self._reached):
            try:
                shown = tls.handshake(settings, host, port, _CONNECT_SECONDS)
            except tls.HandshakeFailed as refused:
                yield failed(
                    title, str(refused), f"see the `ssl.…` properties in clusters/{self.name}.yaml, and what the brokers show"
                )
                continue
            if shown is None:
                yield skipped(title, f"{host}:{port}: `enable.ssl.certificate.verification` is off, so nothing is verified")
                continue
            left = shown.ends - dt.datetime.now(dt.UTC)
            says = f"{host}:{port}: {shown.subject}, valid until {shown.ends:%Y-%m-%d} ({left.days} days)"
            yield warning(title, says, "give the brokers a new certificate before that day") if left < _SOON else ok(title, says)

    def _login(self) -> Iterator[Finding]:
        title = self._title("login")
        self._client = ClusterClient(self.cluster, self.timeout_seconds)
        brokers = self._client.brokers()
        mechanism = self.cluster.property_value("sasl.mechanisms") or self.cluster.property_value("sasl.mechanism")
        protocol = str(self.cluster.property_value("security.protocol") or "plaintext").upper()
        by = f" by {mechanism}" if mechanism and protocol.startswith("SASL") else ""
        yield ok(title, f"{protocol}{by}: {brokers} {'broker' if brokers == 1 else 'brokers'}")

    def _brokers(self) -> Iterator[Finding]:
        """By the names that they give themselves, which every client goes by after its first question."""
        title, bad = self._title("brokers"), []
        addresses = self.client.addresses()
        for host, port in addresses:
            if (host, port) not in self._reached and (why := self._reach(host, port)):
                bad.append(why)
        if bad:
            yield failed(
                title,
                "; ".join(bad),
                "the brokers name themselves so: correct their advertised.listeners, or this machine's routes",
            )
        else:
            yield ok(title, ", ".join(f"{host}:{port}" for host, port in addresses))

    # For a pipeline.

    def _topics(self) -> Iterator[Finding]:
        assert self.pipeline is not None
        wanted = [right for right in rights(self.pipeline, self.cluster) if right.resource == "topic"][:-1][:_TOPICS]
        if not wanted:
            yield skipped(self._title("topics"), "the pipeline's topics are named by its lines alone")
            return
        allowed = self.client.allowed([right.name for right in wanted])
        readable = [right.name for right in wanted if "DescribeConfigs" in _granted(allowed.get(right.name))]
        facts = self.client.facts(readable)
        for right in wanted:
            title = self._title(f"topic {right.name}")
            said = allowed[right.name]
            if isinstance(said, KafkaFault):
                yield self._absent(title, right, said)
            elif lacking := [operation for operation in right.operations if operation not in said]:
                yield failed(title, f"{' and '.join(lacking)} on it not granted", self._grant(right, lacking))
            elif right.name in facts:
                yield self._limits(title, right.name, facts[right.name])

    def _absent(self, title: str, right: Right, fault: KafkaFault) -> Finding:
        if "AUTHORIZATION" in fault.name:
            return failed(
                title,
                "it may not be seen: nothing on it is granted to the user in `properties`",
                self._grant(right, right.operations),
            )
        if fault.name.startswith("UNKNOWN_TOPIC"):
            return failed(
                title, "it is not there", f"kafka-topics --create --topic {right.name} --partitions …, or correct `routes`"
            )
        return failed(title, str(fault), "docs/outcomes.md says what the name means")

    def _limits(self, title: str, topic: str, facts: TopicFacts) -> Finding:
        assert self.pipeline is not None
        says = f"{facts.partitions} partitions, {facts.replication} replicas, batches to {facts.limit.max_bytes:,} bytes"
        longest = self.pipeline.records.max_line_bytes
        if facts.min_insync > facts.replication:
            return failed(
                title,
                f"{says}; min.insync.replicas={facts.min_insync} is more than there are, so nothing can be written",
                f"kafka-configs --alter --add-config min.insync.replicas={max(1, facts.replication - 1)}, or more replicas",
            )
        now = dt.datetime.now(dt.UTC)
        found = list(contradictions(self.pipeline, topic, facts.limit, latest_window(self.pipeline, now), now))
        for each in sorted(found, key=lambda each: not each.is_fault)[:1]:
            return (failed if each.is_fault else warning)(title, f"{says}; {each.says}", each.remedy)
        if facts.limit.max_bytes < longest:
            return warning(
                title,
                f"{says}; a line of `records.max_line` ({longest:,} bytes) fits only if it compresses",
                f"raise max.message.bytes of {topic}, or lower `records.max_line`",
            )
        return ok(title, says)

    def _ledger(self) -> Iterator[Finding]:
        assert self.pipeline is not None
        title, topic = self._title("ledger"), self.cluster.ledger_topic(self.pipeline.key)
        right = Right("topic", topic, ledger_rights(self.cluster))
        said = self.client.allowed([topic])[topic]
        if isinstance(said, KafkaFault):
            if not said.name.startswith("UNKNOWN_TOPIC"):
                yield self._absent(title, right, said)
            elif self.cluster.ledger.create:
                yield from self._may_create(title, topic)
            else:
                yield failed(title, f"{topic} is not there, and `ledger.create` is false", "create it as docs/operations.md says")
            return
        if lacking := [operation for operation in right.operations if operation not in said and operation != "Create"]:
            yield failed(title, f"{' and '.join(lacking)} on {topic} not granted", self._grant(right, lacking))
            return
        folder = LedgerFolder(resolve_uri(self.config_dir, self.pipeline.runs_uri), self.pipeline.key, self.name)
        ledger = LedgerLog(self.client, self.cluster, self.pipeline.key, folder)
        facts = self.client.facts([topic, *(t for t, said in self.client.allowed(list(self.pipeline.needed_topics())).items()
                                           if "DescribeConfigs" in _granted(said))])  # fmt: skip
        exists = ledger.exists_by(facts)
        LedgerIdentity(ledger, folder, new_ledger=False).check(exists)
        weaknesses = ledger.weaknesses()
        for fault in weaknesses:
            yield warning(title, fault, "make it as durable as the topics that it knows of")
        if not weaknesses:
            found = facts[topic]
            yield ok(title, f"{topic}: {found.replication} replicas, min.insync.replicas={found.min_insync}")

    def _may_create(self, title: str, topic: str) -> Iterator[Finding]:
        try:
            self.client.try_to_create(topic, self.cluster.ledger.replication_factor)
        except KafkaFault as fault:
            right = Right("topic", topic, ledger_rights(self.cluster))
            remedy = (
                self._grant(right, right.operations) if "AUTHORIZATION" in fault.name else "see `ledger` in the cluster's file"
            )
            yield failed(title, f"{topic} is not there yet, and could not be created: {fault.text}", remedy)
        else:
            yield ok(title, f"{topic} is not there yet; the first ship may create it")

    def _transactions(self) -> Iterator[Finding]:
        assert self.pipeline is not None
        title, prefix = self._title("transactions"), transactional_prefix(self.pipeline.key, self.name)
        if self.pipeline.delivery.guarantee == "at_least_once":
            yield skipped(title, "`delivery.guarantee` is at_least_once")
            return
        try:
            self.client.try_transactions(self.cluster.ledger_topic(self.pipeline.key), f"{prefix}doctor")
        except KafkaFault as fault:
            if "AUTHORIZATION" in fault.name:
                right = Right("transactional-id", prefix, ("Write",), prefixed=True)
                yield failed(
                    title, f"Write on transactional ids that begin with {prefix} not granted", self._grant(right, ("Write",))
                )
            else:
                yield failed(
                    title, f"no transactional producer can be opened: {fault}", "docs/outcomes.md says what the name means"
                )
        else:
            yield ok(title, f"a producer whose id begins with {prefix} can be opened")

    def _group(self) -> Iterator[Finding]:
        title, right = self._title("group"), Right("group", GROUP, ("Describe",))
        said = self.client.group_allowed(GROUP)
        if isinstance(said, KafkaFault) and said.name == "GROUP_ID_NOT_FOUND":  # nobody is ever in it
            yield ok(title, f"{GROUP} may be described")
        elif isinstance(said, KafkaFault) and "AUTHORIZATION" not in said.name:
            yield failed(title, f"group {GROUP} cannot be described: {said}", "docs/outcomes.md says what the name means")
        elif "Describe" not in _granted(said):
            yield failed(
                title, f"Describe on group {GROUP} not granted: the ledger cannot be read", self._grant(right, ("Describe",))
            )
        else:
            yield ok(title, f"{GROUP} may be described")

    def _grant(self, right: Right, operations: tuple[str, ...] | list[str]) -> str:
        words = " ".join(Right(right.resource, right.name, tuple(operations), right.prefixed).words())
        return f"kafka-acls --bootstrap-server {self.cluster.bootstrap} --add --allow-principal User:… {words}"

    def _clock(self) -> Iterator[Finding]:
        """The brokers write when each record of the ledger came: one that has not come yet tells of a clock that is wrong."""
        assert self.pipeline is not None
        title, topic = self._title("clock"), self.cluster.ledger_topic(self.pipeline.key)
        newest = self._newest(topic)
        if newest is None:
            yield skipped(title, "nothing tells: the ledger holds no record that could be read")
            return
        ahead = newest / 1000 - time.time()
        at = f"{dt.datetime.fromtimestamp(newest / 1000, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
        if ahead > _AHEAD_SECONDS:
            yield failed(
                title,
                f"the ledger's newest record came at {at} by the brokers' clock, {ahead:.0f} s after this machine's now",
                "set both clocks (NTP): settle times, certificates and tokens go by them",
            )
        else:
            yield ok(title, f"the ledger's newest record, of {at} by the brokers' clock, is not of the future")

    def _newest(self, topic: str) -> int | None:
        try:
            end = self.client.end_offset(topic, CONTROL)
            records: list[Any] = self.client.read(topic, CONTROL, max(0, end - _LAST_RECORDS), wait_seconds=None) if end else []
        except ClusterError:  # said by the check of the ledger
            return None
        return max((record.timestamp_ms for record in records), default=None)


def _granted(said: set[str] | KafkaFault | None) -> set[str]:
    return said if isinstance(said, set) else set()
