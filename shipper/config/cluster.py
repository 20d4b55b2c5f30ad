"""The Kafka side: a cluster and what its clients are given (``config/clusters/*.yaml``), and how
records travel there (`delivery`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Secret, StrictInt, WithJsonSchema, field_validator, model_validator

from shipper.config.avro import SchemaRegistry
from shipper.config.properties import ALLOWED, property_faults
from shipper.config.rules import (
    NAME_PATTERN,
    Fault,
    Model,
    bootstrap_fault,
    is_this_machine,
    legal_topic,
    original,
    refuse,
    reserved_topics,
)
from shipper.config.units import Bytes, BytesPerSecond, Seconds
from shipper.errors import ClusterRefuses

PropertyValue = str | int | float | bool
Properties = dict[
    str,
    Annotated[
        Secret[PropertyValue | None], WithJsonSchema({"type": ["string", "number", "boolean"]})
    ],
]
"""Settings of librdkafka. Every value hides from print, log and JSON, since any may be a secret;
None: it is a reference that is not known here."""
_SECRET_WORDS = (
    "password",
    "passphrase",
    "secret",
    "pem",
    "username",
    "oauthbearer.config",
    "oauthbearer.extensions",
)
SECRET_ENDS = ("password", "passphrase", "client.secret", "ssl.key.pem", "private.key.pem")
"""Ends of the names of settings that nobody else may know."""
_UNVERIFIED = (
    ("enable.ssl.certificate.verification", "false", "the brokers' certificates are not verified"),
    (
        "ssl.endpoint.identification.algorithm",
        "none",
        "the brokers' names are not compared with their certificates",
    ),
)


class Delivery(Model):
    """Settings of the delivery and of its guarantee."""

    guarantee: Literal["exactly_once", "at_least_once", "prefer_exactly_once"] = "exactly_once"
    """`exactly_once`: a chunk's records and its ledger record commit in one Kafka transaction.
    `at_least_once`: no transactions. The ledger record follows the acknowledgement of the records,
    so a fault duplicates at most the chunks in flight; the report counts what may be there twice,
    and each record has the headers `shipper-chunk` and `shipper-number`. `prefer_exactly_once`:
    `at_least_once` only if the cluster or a topic takes no transactions; the report says which was
    used."""
    ordering: Literal["none", "file"] = "none"
    """`file`: records of a file keep their order within a partition, also across retries. This
    costs throughput: a single task reads the files one after the other, and each file goes to one
    partition through one lane. Over distance the rate is that of one lane."""
    tuning: Literal["auto", "off"] = "auto"
    """`auto`: lanes, batches and chunks are sized before each run from the measured round trip and
    delay of acknowledgements, the cluster's `bandwidth`, the topics' `max.message.bytes` and the
    compression of a sample. Values set by hand stay. `off`: sizes for a short link."""
    chunk_size_bytes: Bytes | None = Field(
        default=None, alias="chunk_size", ge=1_000, le=256_000_000
    )
    """Values per transaction, in uncompressed bytes. Sized by `tuning` if not given. May change
    from run to run."""
    lanes: StrictInt | None = Field(default=None, ge=1, le=128)
    """Transactional producers per Spark task. Sized by `tuning` if not given. May change from run
    to run."""
    batch_size_bytes: Bytes | None = Field(
        default=None, alias="batch_size", ge=1_000, le=100_000_000
    )
    """Batch that a lane sends to a partition at a time, in uncompressed bytes. The broker compares
    the compressed batch with the topic's `max.message.bytes`; a batch that is too large is halved
    and resent. Sized by `tuning` if not given. May change from run to run."""
    memory_bytes: Bytes = Field(default=160_000_000, alias="memory", ge=1_000_000)
    """Most bytes of chunks under way in one Spark task. Its Python worker then takes some 590 MB
    over a long link (measured with 20 lanes), 260 MB over a short one."""
    partitions: Literal["all", "share"] | tuple[StrictInt, ...] = "all"
    """Partitions for records without a key. `all`: all partitions in turn, chunk by chunk. A list:
    only these, which every topic of the pipeline must have. `share`: every lane keeps to its own
    share, so that a slow partition delays only its own lanes. With `ordering: file` each file has
    one of them."""
    rate_limit: BytesPerSecond | None = Field(default=None, ge=1)
    """Most bytes per second on the wire, over all tasks of a run, to each cluster. See also the
    cluster's `rate_limit`."""
    compression: Literal["auto", "none", "gzip", "snappy", "lz4", "zstd"] = "zstd"
    """Codec of the batches on the wire and in the topic. `auto`: zstd, at its level 9 where a
    `rate_limit` or the cluster's `bandwidth` leaves the processor idle. Log lines then take some 10
    % fewer bytes than at the usual level 3."""
    metadata_wait_seconds: Seconds = Field(default=600.0, alias="metadata_wait", ge=1)
    """Longest time that a chunk waits for a topic that is unknown or has no leader, before the run
    fails. Other topics do not wait. If an ACL forbids the topic, the wait is at most 15 s."""
    on_recreated: Literal["fail", "resend"] = "fail"
    """Policy for a topic that was deleted, and maybe created again, after records of the run's
    files were delivered to it. The ledger keeps the topic's id, so the run notices. `fail`: the run
    fails before the first byte, and names the topic and the number of records. `resend`: the run
    sends exactly the records that are gone. Records in other topics, or in the new topic, are not
    sent again."""
    stall_timeout_seconds: Seconds | None = Field(default=None, alias="stall_timeout", ge=1)
    """Time without progress (no line read, no chunk committed) after which a ship is stopped and
    fails. Causes are a file system that does not answer, or an expression that never ends on some
    line. By default 30m, or 10m more than `metadata_wait` and `transaction_timeout` if that is
    longer. A `rate_limit` that makes chunks slower prolongs it."""
    transaction_timeout_seconds: Seconds = Field(
        default=120.0, alias="transaction_timeout", ge=10, le=900
    )
    """Time after which the broker aborts a transaction that its producer does not end. Brokers
    allow 15m at most by default."""
    lease_seconds: Seconds = Field(default=30.0, alias="lease", ge=1, le=86_400)
    """Lease of a run: the longest time for which a run that died silently keeps the next one
    waiting. It is renewed after each third of this time."""
    lease_wait_seconds: Seconds = Field(default=60.0, alias="lease_wait", ge=0, le=86_400)
    """Longest time that a second run of the same pipeline and cluster waits for the first one,
    before it stops and names the holder of the lease."""

    @model_validator(mode="after")
    def _sizes_fit_each_other(self) -> Delivery:
        batch, chunk, lanes, memory = (
            self.batch_size_bytes,
            self.chunk_size_bytes,
            self.lanes,
            self.memory_bytes,
        )
        if batch and chunk and batch > chunk:
            raise ValueError("`batch_size` is larger than `chunk_size`, and could never fill")
        if (chunk or batch or 0) * (lanes or 1) > memory:
            raise ValueError(
                "`lanes` × `chunk_size` is more than `memory`: each lane holds its chunk"
            )
        if (
            self.stall_timeout_seconds is not None
            and self.stall_timeout_seconds <= self.longest_wait_seconds
        ):
            raise ValueError(
                "`stall_timeout` is not longer than `metadata_wait` and `transaction_timeout` "
                "together: a ship would be stopped while it rightly waits for a topic"
            )
        if isinstance(self.partitions, tuple) and (
            min(self.partitions, default=-1) < 0 or len(set(self.partitions)) < len(self.partitions)
        ):
            raise ValueError(
                "`partitions` must name each partition once, by its number from 0; or write `all`"
            )
        return self

    @property
    def longest_wait_seconds(self) -> float:
        """Longest time in which nothing may move although all is well: a topic is waited for, or a
        transaction times out."""
        return self.metadata_wait_seconds + self.transaction_timeout_seconds

    @property
    def codec(self) -> str:
        return "zstd" if self.compression == "auto" else self.compression

    @property
    def stall_seconds(self) -> float:
        """Longest time that a ship may make no progress before it is stopped."""
        return self.stall_timeout_seconds or max(1800.0, self.longest_wait_seconds + 600.0)


class Ledger(Model):
    """Compacted topic on the target cluster that records which files were delivered."""

    topic: str = "_shipper.{pipeline}"
    """Name of the topic. `{pipeline}` gives every pipeline a ledger of its own, so that none waits
    for another's open transactions."""
    replication_factor: int | None = Field(default=None, ge=1)
    """Replication factor with which a run creates the topic. By default 3, or the number of brokers
    if that is less; with 3 or more the topic gets `min.insync.replicas=2`. If the ledger is lost,
    everything is sent again, so each plan warns when the ledger is less durable than the pipeline's
    topics."""
    create: bool = True
    """True if a run may create the topic. If false, create it yourself: two partitions,
    cleanup.policy=compact, message.timestamp.type=LogAppendTime."""

    @field_validator("topic")
    @classmethod
    def _legal_topic(cls, value: str) -> str:
        if not legal_topic(value.replace("{pipeline}", "x")):
            raise ValueError(
                "a topic name has letters, digits, '.', '_' and '-' only; the one placeholder is "
                "{pipeline}"
            )
        return value


class Cluster(Model):
    """One Kafka target."""

    name: str = Field(alias="cluster", pattern=NAME_PATTERN)
    """Name that pipelines use."""
    bootstrap: str = Field(min_length=1, examples=["kafka-1.example:9092,kafka-2.example:9092"])
    """Comma-separated host:port, or a list of them."""
    properties: Properties = Field(
        default_factory=dict, repr=False, json_schema_extra={"propertyNames": {"enum": [*ALLOWED]}}
    )
    """Settings of the connection and the login: `security.protocol`, `sasl.mechanisms`,
    `sasl.username`, `sasl.password`, `ssl.ca.location` and others that are listed below, as
    librdkafka knows them. Write secrets as references (`${NAME}`, `${file:/path}`,
    `${airflow:CONNECTION.password}`); no value is ever printed or logged."""
    bandwidth: BytesPerSecond = Field(default=125_000_000, ge=1)
    """Bandwidth of the link to the cluster. `delivery.tuning` sizes lanes and batches so that
    in-flight bytes are at least bandwidth × round trip. A value above the real bandwidth costs only
    memory."""
    rate_limit: BytesPerSecond | None = Field(default=None, ge=1)
    """Most bytes per second on the wire that one run sends to the cluster, all tasks together."""
    airflow_pool: str | None = Field(
        default=None, min_length=1, max_length=256, examples=["kafka_frankfurt"]
    )
    """Airflow pool from which each ship to the cluster takes a slot: the number of slots limits the
    pipelines that ship there at once. The pool must exist: `airflow pools set kafka_frankfurt 4
    'ships to frankfurt'`. By default Airflow's `default_pool`, like all other tasks."""
    idempotence: bool = True
    """`false`: the brokers take no idempotent producer, as Confluent Freight's. Then no run ships
    exactly once there (`delivery.guarantee`), and the ledger's records are written without, too.
    `shipper doctor` finds out."""
    ledger: Ledger = Ledger()
    schema_registry: SchemaRegistry | None = Field(default=None, repr=False)
    """Schema Registry, for pipelines with `records.avro`."""

    @field_validator("bootstrap", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return (
            ",".join(value)
            if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
            else value
        )

    @field_validator("bootstrap")
    @classmethod
    def _hosts_and_ports(cls, value: str) -> str:
        if why := bootstrap_fault(value):
            raise ValueError(why)
        return value

    @field_validator("properties")
    @classmethod
    def _safe(cls, value: Properties) -> Properties:
        refuse(property_faults(_values(value)))
        return value

    def property_value(self, name: str) -> PropertyValue | None:
        """Return what the user set; None also for a reference that is not known here."""
        found = self.properties.get(name)
        return found.get_secret_value() if found is not None else None

    def warnings(self) -> Iterator[Fault]:
        """Yield warnings about settings that are allowed and may be mistakes. They contain no value
        of a property."""
        for place, why in self.schema_registry.warnings() if self.schema_registry else ():
            yield ("schema_registry", *place), why
        yield from self._in_the_clear()

    @property
    def in_the_clear(self) -> str:
        """Warning that records, or passwords too, can be read on their way; empty if they cannot,
        or go no further than this machine."""
        return "; ".join(why for _, why in self._in_the_clear())

    def _in_the_clear(self) -> Iterator[Fault]:
        if all(map(_on_this_machine, self.bootstrap.split(","))):
            return
        protocol = str(self.property_value("security.protocol") or "plaintext").lower()
        unknown = (
            "security.protocol" in self.properties
            and self.property_value("security.protocol") is None
        )
        if protocol.endswith("plaintext") and not unknown:
            what = (
                "passwords and records travel" if protocol.startswith("sasl") else "records travel"
            )
            in_properties = "security.protocol" in self.properties
            yield (
                ("properties", "security.protocol") if in_properties else ("bootstrap",),
                f"{what} unencrypted to {protocol.upper()} listeners of other machines; use SSL "
                "or SASL_SSL",
            )
            return
        values = _values(self.properties)
        for name, weak, why in _UNVERIFIED:
            if name in values and str(values[name]).lower() == weak:
                yield (
                    ("properties", name),
                    f"{why}, so a machine in between can read the records; remove `{name}`",
                )

    def ledger_topic(self, pipeline: str) -> str:
        """Name of the ledger topic of the pipeline with this name. A replay shares its pipeline's:
        none must be made, nor allowed, for it."""
        return self.ledger.topic.replace("{pipeline}", original(pipeline))

    @property
    def reserved_topics(self) -> str:
        """Regular expression, for Python and Java, of the names that no record may be sent to: see
        :func:`reserved_topics`."""
        return reserved_topics(self.ledger.topic)


def _values(properties: Properties) -> dict[str, PropertyValue | None]:
    return {name: value.get_secret_value() for name, value in properties.items()}


def _on_this_machine(broker: str) -> bool:
    """Return True if ``host:port`` is on this machine, as far as is known."""
    host = broker.strip().rpartition("://")[2].rpartition(":")[0].strip("[]").lower()
    return is_this_machine(host) or "${" in broker


def _plain(value: Any) -> Any:
    return value.get_secret_value() if isinstance(value, Secret) else value


def client_settings(cluster: Cluster) -> dict[str, Any]:
    """Return the settings of every Kafka client of the cluster: where it is, and what the user set.
    Values that may be secrets are still hidden in ``pydantic.Secret``."""
    return {"bootstrap.servers": cluster.bootstrap, **cluster.properties}


def reveal(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``settings`` in the clear, for the constructor of a client alone. Raises
    ClusterRefuses for a reference whose value was not looked up."""
    found = {name: _plain(value) for name, value in settings.items()}
    unknown = [name for name, value in found.items() if value is None]
    if unknown:
        raise ClusterRefuses(
            f"{', '.join(unknown)}: the value that the setting refers to is not known in this "
            "process. Nothing was sent. Make the variable, file or connection available to it.",
            code="SHIP-206",
        )
    return found


def refused(cluster: str, settings: Mapping[str, Any], why: str) -> ClusterRefuses:
    """Return the error for ``why``, which librdkafka said when it refused to make a client. Values
    in it that may be secrets are taken out."""
    return ClusterRefuses(
        f"cluster {cluster}: its `properties` are not accepted: "
        f"{without_secrets(settings, why)}. Nothing was sent. Correct them in "
        f"clusters/{cluster}.yaml. `shipper validate` checks them.",
        code="SHIP-207",
    )


def without_secrets(settings: Mapping[str, Any], text: str) -> str:
    """Return librdkafka's words without values that may be secrets. A missing file is named, since
    OpenSSL does not name it."""
    for name, value in settings.items():
        path = str(_plain(value))
        if (
            name in text
            and name.endswith((".location", ".file", ".keytab"))
            and not Path(path).exists()
        ):
            return f"{name}: there is no file {path}"
    text = " ".join(
        text.removeprefix("Failed to create producer: ")
        .removeprefix("Failed to create consumer: ")
        .split()
    )
    for name, value in settings.items():
        if any(word in name for word in _SECRET_WORDS):
            shown = str(_plain(value))
            text = text.replace(shown, "…") if shown else text
    return text
