"""What a user may write in ``config/pipelines/*.yaml`` and ``config/clusters/*.yaml``.

Every model is frozen and forbids unknown keys. Durations and sizes carry their unit in the YAML value (``10m``,
``64MB``) and in the field's name in code (``_seconds``, ``_bytes``). The JSON Schemas for editors and the option
reference are generated from here, so a field's description is the documentation.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import Field, Secret, StrictBool, StrictInt, ValidationInfo, field_validator, model_validator

from shipper.config.base import THE_KEY, Model, refuse
from shipper.config.check_rules import faults_of_check, faults_without_quarantine
from shipper.config.checks import FilesCheck, RowsCheck, SourceCheck
from shipper.config.delivery import Delivery
from shipper.config.delivery_checks import DeliveryCheck, SumClosesCheck
from shipper.config.kafka_properties import property_faults, unsafe_faults, why_unsafe
from shipper.config.mapping import GIVEN_COLUMNS, Records
from shipper.config.notify import Notify
from shipper.config.quarantine import Quarantine
from shipper.config.route import Route
from shipper.config.rules import (
    MEMORY_PATTERN,
    NAME_PATTERN,
    bootstrap_fault,
    check_cron,
    check_source_placeholders,
    check_timezone,
    legal_topic,
    password_fault,
    reserved_topics,
    suggestion,
)
from shipper.config.spark_settings import deciding, fault_of_setting
from shipper.config.units import Bytes, BytesPerSecond, Seconds

_WHOLE_FILES_BYTES = 2**62
SMALLEST_SPLIT_BYTES = 64 * 2**10


class Schedule(Model):
    """When a window closes and its run starts. A bare string is taken as `cron`."""

    cron: str = Field(min_length=1, examples=["0 * * * *"])
    """Cron expression of five fields, or an Airflow preset such as `@hourly`. Each interval between two ticks is one window."""
    timezone: str = "UTC"
    """IANA name of the time zone in which `cron` is read. Windows themselves are always UTC."""
    start: dt.datetime | None = None
    """First moment that belongs to a window (a date means midnight UTC). Without it the schedule begins with the latest window that had
    closed when Airflow first saw the pipeline."""
    catchup: StrictBool = True
    """Whether every window of the schedule is run, in order: those between `start` and now, and those that an outage or a pause left out. Off:
    after an outage Airflow goes on with the latest window that has closed; `shipper gaps` says which ones are missing."""
    deliver_within_seconds: Seconds | None = Field(default=None, alias="deliver_within", gt=0)
    """Time that a run has, from the moment when Airflow queues it (a scheduled one: when its window closes), `source.settle`
    included. One that has not ended by then is late: `notify` says so with `on: [late]`."""

    give_up_after_seconds: Seconds | None = Field(default=86_400.0, alias="give_up_after", gt=0)
    """Time that a run has, from when its files have settled. What is at work then is stopped, and the run fails and says so: a run that hangs would
    hold up every window after it. Nothing is lost: what is in the ledger stays, and the next run ships the rest. `null`: no bound.
    For a backfill over a wide window that takes longer, run it again, or raise this."""

    @field_validator("cron")
    @classmethod
    def _readable_cron(cls, value: str) -> str:
        check_cron(value)
        return value

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str) -> str:
        check_timezone(value)
        return value

    @field_validator("start", mode="before")
    @classmethod
    def _date_is_midnight(cls, value: Any) -> Any:
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            value = dt.date.fromisoformat(value)
        if isinstance(value, int | float) or (isinstance(value, str) and value.isdigit()):
            raise ValueError("a date or time is written 2026-11-01, 2026-11-01T06:00 or 2026-11-01T06:00+01:00")
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
        return value

    @field_validator("start")
    @classmethod
    def _start_is_utc(cls, value: dt.datetime | None) -> dt.datetime | None:
        return value and (value.astimezone(dt.UTC) if value.tzinfo else value.replace(tzinfo=dt.UTC))


class Source(Model):
    """Where the files of a window lie. A bare string is taken as `path`."""

    path: str = Field(min_length=1, examples=["s3a://logs/web/{window_start:%Y/%m/%d/%H}/"])
    """URI of a folder or a glob: `s3a://`, `hdfs://`, `file://`, or a path relative to the folder above `config/`.
    `{window_start:%Y-%m-%d}` is filled in for every hour, day, … (the finest unit in the pattern) of the window, so that a
    wide window reads every folder in it; `{window_end:…}` is the window's end, once. Patterns are made of `%Y %m %d %j %H %M %S`, and of
    `%-m %-d %-j %-H %-M %-S` for numbers without a leading zero (`hour=6`). `${NAME}` and `${NAME:-default}` are taken from the environment."""
    include: str = "*"
    """Glob on file names. Files whose name begins with `_` or `.`, or ends in `._COPYING_`, `.inprogress`, `.tmp` or `.part`, never count."""
    recursive: StrictBool = False
    """Whether files in folders below `path` count too."""
    format: Literal["text"] = "text"
    """`text`: every line, cut at `\\n` alone, is one record, byte for byte (a `\\r` stays).
    A file's first bytes say whether it is packed (gzip, bzip2, zstd, lz4), whatever its name."""
    settle_seconds: Seconds = Field(default=600.0, alias="settle")
    """A file that was modified less than this ago is still being written: the plan leaves it out and says so. A scheduled run waits
    for this long after its window has closed, so that the window's last files are in it."""
    split_size_bytes: Bytes = Field(default=32 * 2**20, alias="split_size", ge=SMALLEST_SPLIT_BYTES)
    """Files are cut into splits of this size. It is part of a split's identity: a file half-shipped under one size is
    refused under another."""
    lookback_seconds: Seconds = Field(default=86_400.0, alias="lookback")
    """How far back each run of the schedule also looks, in whole windows: files there that the ledger of a cluster does not hold came late, or were
    being written, or were left by a run that failed, and are shipped in the same run, by the window that they belong to. Costs a listing,
    and no reading. Never before `schedule.start`, nor before the pipeline's first scheduled run. `0s`: only the window's own folders.
    A run that is asked for by hand, and a backfill, never look back."""
    on_replaced: Literal["fail", "skip", "reship"] = "fail"
    """What to do with a file that has other bytes (size or modification time) than when it was shipped: stop, leave it,
    or ship it anew."""
    on_unreadable: Literal["fail", "skip_and_fail", "quarantine"] = "skip_and_fail"
    """What a file that cannot be read (corrupt, cut off, no permission, a format that shipper does not read) means.
    `skip_and_fail`: all other files are shipped, and the run fails and names each bad one. `fail`: nothing is sent if the plan or the source gate
    sees one. `quarantine`: one record with the reason `unreadable` stands for it in the quarantine topic, the ledger has it as done, and
    the run succeeds with a note; packed files are then read once before they are shipped, so that none is in quarantine and in its topic."""
    when_empty: Literal["fail", "succeed"] = "fail"
    """What a window without any file means: a failed run (a source went silent), or nothing to do."""

    formerly: tuple[str, ...] | None = Field(default=None, examples=[["hdfs://nn1:8020/logs/web/"]])
    """Folders in which the files lay before they were moved, or were reached by another host, mount or scheme: each in place of the part of
    `path` in front of its first placeholder or glob. A file that was shipped from there is not shipped again from here, if its path below,
    its size and its modification time are the same. By default the ledger knows: every ship writes down where the files lay. Needed once, if they
    moved before shipper did so; `[]` if what lies here now is something else than what lay there."""

    @field_validator("formerly")
    @classmethod
    def _formerly_are_folders(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        bad = [((index,), "write the whole folder, with scheme: hdfs://host:8020/logs/, s3a://bucket/logs/ or file:/mnt/logs/") for index, root in
               enumerate(value or ()) if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", root)]  # fmt: skip
        refuse(bad)
        return value and tuple(re.sub(r"^file:/+", "file:/", root).rstrip("/") + "/" for root in value)

    @field_validator("path")
    @classmethod
    def _placeholders_exist(cls, value: str) -> str:
        refuse([((), why)] if (why := password_fault(value)) else [])
        check_source_placeholders(value)
        return value


class Gates(Model):
    """What must hold before the first byte leaves and after the last one arrived (evaluated by Great Expectations)."""

    sample_files: StrictInt = Field(default=4, ge=1)
    """How many pieces of files a `sample` is: that many files, spread evenly over the list, or several pieces of each if there are fewer."""
    sample_piece_bytes: Bytes = Field(default=2_000_000, alias="sample_piece", ge=64 * 2**10)
    """Most bytes in a piece; a smaller file is one piece. Plain text and bzip2 are cut at any place, and pieces are spread over the file;
    of another compressed file that is larger, the piece is its first 20,000 lines."""
    source: tuple[SourceCheck, ...] = Field(default=(FilesCheck(check="files"), RowsCheck(check="rows")), min_length=1)
    """Checks before shipping. A gate without a check would always be open, so an empty list is refused."""
    delivery: tuple[DeliveryCheck, ...] = Field(default=(SumClosesCheck(check="sum_closes"),), min_length=1)
    """Checks after shipping, each kind once."""

    @field_validator("delivery")
    @classmethod
    def _each_kind_once(cls, delivery: tuple[DeliveryCheck, ...]) -> tuple[DeliveryCheck, ...]:
        kinds = [check.check for check in delivery]
        refuse(
            ((index, kind, "check"), f"there is a {kind!r} above already; it looks at everything, so keep one of them")
            for index, kind in enumerate(kinds)
            if kind in kinds[:index]
        )
        return delivery


class Limits(Model):
    """Against windows and lines that are not what anybody expected. A run that would go beyond `max_files` or `max_bytes` stops at the plan:
    nothing is sent."""

    max_files: StrictInt = Field(default=100_000, ge=1)
    """Most files in one window."""
    max_bytes: Bytes | None = None
    """Most bytes (as stored) in one window; unlimited by default."""
    max_topics: StrictInt = Field(default=1_000, ge=1, le=100_000)
    """Most topics that one Spark task takes from lines by a route's `matching`. Records of any topic beyond these are not shipped: they go
    to quarantine as `too_many_topics` or, without one, fail the run. Topics that are listed do not count."""


class Runner(Model):
    """Where the Spark job runs. Scaling out is Spark's."""

    kind: Literal["local", "standalone", "yarn", "kubernetes"] = "local"
    """`local`: in one process on the machine of the Airflow worker. The others: Spark in client mode on that cluster manager."""
    cores: StrictInt = Field(default=2, ge=1, le=4096)
    """`local`: threads. Otherwise the number of Spark tasks that ship side by side; give Spark that many cores."""
    master: str | None = None
    """Spark master URL, for `standalone` (`spark://host:7077`) and `kubernetes` (`k8s://https://…`)."""
    python: str | None = None
    """Python of an environment with `shipper[spark]`, on the driver and the executors. Default: the one that runs shipper."""
    spark_submit: str | None = None
    """Path of a `spark-submit`. Default: `python`'s own pyspark starts Spark."""
    driver_memory: str = Field(default="2g", pattern=MEMORY_PATTERN)
    """Heap of Spark's driver (which is everything in `local`)."""
    conf: dict[str, str] = Field(default_factory=dict)
    """Further Spark settings (`spark.…`). No secrets: Spark shows them. Those of Spark SQL that may change what a line becomes
    (`spark.sql.ansi.enabled`, `spark.sql.legacy.…`) count as part of the transform, as `records` does."""

    @model_validator(mode="after")
    def _master_fits_kind(self) -> Runner:
        needs = self.kind in ("standalone", "kubernetes")
        if needs and self.master is None:
            raise ValueError(f"`kind: {self.kind}` needs `master`")
        if not needs and self.master is not None:
            raise ValueError(f"`master` and `kind: {self.kind}` contradict each other; remove `master` or change `kind`")
        return self

    @field_validator("conf")
    @classmethod
    def _spark_conf(cls, value: dict[str, str]) -> dict[str, str]:
        refuse(((key, THE_KEY), why) for key in value if (why := fault_of_setting(key)))
        return value

    @property
    def spark_master(self) -> str:
        """Master URL. `local[n,4]`: without the second number local Spark never retries a failed task."""
        if self.kind == "local":
            return f"local[{self.cores},4]"
        return self.master or "yarn"


class Pipeline(Model):
    """One stream of log files."""

    name: str = Field(alias="pipeline", pattern=NAME_PATTERN)
    """Name, and the file's: the DAG's id, and part of every transactional.id and ledger key. Renaming a pipeline makes it
    a new one, with an empty ledger."""
    owner: str = "shipper"
    """Team that is called when a run is red."""
    description: str = ""
    """One sentence for people."""
    schedule: Schedule | None = None
    """When windows close; without it the pipeline runs by hand only."""
    notify: tuple[Notify, ...] = Field(default=(), validate_default=True)
    """Who is told how a run ended. By default nobody is: Airflow shows it."""
    source: Source
    records: Records = Records()
    routes: tuple[Route, ...] = Field(min_length=1)
    """Routing table, first match wins; the last one has no `when`. `topic: x` at the top is short for a table of one line."""
    clusters: tuple[str, ...] = Field(min_length=1)
    """Names of the target clusters (`config/clusters/NAME.yaml`); each gets everything, apart from the others."""
    quarantine: Quarantine | None = Field(default=None, validate_default=True)
    """Where records go that cannot be shipped. Without it the first of them fails the run, with its file and number."""
    delivery: Delivery = Delivery()
    gates: Gates = Gates()
    limits: Limits = Limits()
    runner: Runner = Runner()
    access_control: dict[str, tuple[str, ...]] = Field(default_factory=dict, examples=[{"edge-team": ["can_read", "can_edit"]}])
    """Role in Airflow → what it may do with the DAG (`can_read`, `can_edit`, `can_delete`), for an auth manager that knows roles. Who
    may trigger may also send everything again."""
    runs_uri: str = "runs"
    """Where step results and reports are written: a folder (relative to the one above `config/`) or any fsspec URL."""

    @field_validator("runs_uri")
    @classmethod
    def _no_password(cls, value: str) -> str:
        refuse([((), why)] if (why := password_fault(value)) else [])
        return value

    @model_validator(mode="before")
    @classmethod
    def _shorthands(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        if "topic" in data and "routes" not in data:  # with both, `topic` stays, and is refused as no key of a pipeline
            data["routes"] = [{"topic": data.pop("topic")}]
        for key, field in (("schedule", "cron"), ("source", "path")):
            if isinstance(data.get(key), str):
                data[key] = {field: data[key]}
        return data

    # What follows are validators of fields and not of the whole, so that a fault elsewhere in the file does not hide
    # theirs. Each sees the fields above its own, if those are right.

    @field_validator("source")
    @classmethod
    def _lookback_needs_a_schedule(cls, source: Source, info: ValidationInfo) -> Source:
        if "lookback_seconds" in source.model_fields_set and source.lookback_seconds and info.data.get("schedule", True) is None:
            refuse([(("lookback",), "needs `schedule`: only a run of the schedule looks back")])
        return source

    @field_validator("notify")
    @classmethod
    def _late_needs_a_deadline(cls, notify: tuple[Notify, ...], info: ValidationInfo) -> tuple[Notify, ...]:
        if "schedule" not in info.data:
            return notify
        schedule: Schedule | None = info.data["schedule"]
        late = [(index, "on", entry.on.index("late")) for index, entry in enumerate(notify) if "late" in entry.on]
        if schedule is None or schedule.deliver_within_seconds is None:
            refuse((place, "`late` needs `schedule.deliver_within`: without it no run is ever late") for place in late)
        elif not late:
            raise ValueError(
                "`schedule.deliver_within` and no `notify` with `on: [late]`: nobody would hear of it; add one, or leave it out"
            )
        return notify

    @field_validator("routes")
    @classmethod
    def _every_record_has_a_route(cls, routes: tuple[Route, ...], info: ValidationInfo) -> tuple[Route, ...]:
        faults: list[tuple[tuple[str | int, ...], str]] = [
            ((index,), f"the route to {route.topic!r} has no `when`, so the routes after it can never match")
            for index, route in enumerate(routes[:-1])
            if route.when is None
        ]
        if routes[-1].when is not None:
            last = len(routes) - 1
            faults.append(((last, "when"), "the last route must have no `when`: it takes the records that match none before it"))
        if "records" in info.data:
            known = [*GIVEN_COLUMNS[:3], *info.data["records"].named_columns]
            faults += [
                (
                    (index, "topic"),
                    f"no column {column!r}{suggestion(column, known)}; `records.columns` defines them",
                )
                for index, route in enumerate(routes)
                for column in route.columns
                if column not in known
            ]
        unknown = {place[0] for place, _ in faults if place[1:] == ("topic",)}
        faults += [
            ((index, *path), why) for index, route in enumerate(routes) if index not in unknown for path, why in route.faults()
        ]
        refuse(faults)
        return routes

    @field_validator("clusters")
    @classmethod
    def _clusters_differ(cls, clusters: tuple[str, ...]) -> tuple[str, ...]:
        refuse(((i,), f"{name!r} is named twice") for i, name in enumerate(clusters) if name in clusters[:i])
        return clusters

    @field_validator("quarantine")
    @classmethod
    def _quarantine_is_apart(cls, quarantine: Quarantine | None, info: ValidationInfo) -> Quarantine | None:
        routes: tuple[Route, ...] = info.data.get("routes", ())
        source: Source | None = info.data.get("source")
        if quarantine is None and source and source.on_unreadable == "quarantine":
            raise ValueError("`source.on_unreadable: quarantine` needs `quarantine`: there is no topic for what cannot be read")
        if quarantine and any(quarantine.topic in (route.topic, *route.topics) for route in routes):
            why = f"{quarantine.topic!r} is a route's topic too: nobody could tell its records from those in quarantine; name another"
            refuse([(("topic",), why)])
        return quarantine

    @field_validator("delivery")
    @classmethod
    def _bundle_fits_chunk(cls, delivery: Delivery, info: ValidationInfo) -> Delivery:
        records: Records | None = info.data.get("records")
        bundle = records.bundle if records else None
        chunk = delivery.chunk_size_bytes
        if chunk and bundle and "max_bytes" in bundle.model_fields_set and bundle.max_bytes > chunk:
            raise ValueError(
                "`records.bundle.max_bytes` is larger than `delivery.chunk_size`: a chunk's lines are bundled, so such a bundle "
                "could never fill"
            )
        return delivery

    @field_validator("gates")
    @classmethod
    def _checks_fit_the_pipeline(cls, gates: Gates, info: ValidationInfo) -> Gates:
        records, source, routes = (info.data.get(name) for name in ("records", "source", "routes"))  # what is broken is not there
        columns = None if records is None else ["value", *(["key"] if records.key is not None else []), *records.named_columns]
        topics = None if routes is None else [route.topic for route in routes]
        if "quarantine" in info.data and info.data["quarantine"] is None:
            refuse(faults_without_quarantine(gates.source, gates.delivery))
        refuse(
            (("source", index, check.check, *path), why)
            for index, check in enumerate(gates.source)
            for path, why in faults_of_check(check, columns=columns, source_path=source and source.path, topics=topics)
        )
        return gates

    def fixed_topics(self) -> Iterator[str]:
        """Topics whose name is known before any record is read, in routing order, each once."""
        yield from dict.fromkeys(route.topic for route in self.routes if not route.columns)

    def listed_topics(self) -> Iterator[str]:
        """Topics that are written out somewhere, of routes with a `{column}` too; each once."""
        yield from dict.fromkeys(topic for route in self.routes for topic in (route.topics if route.columns else (route.topic,)))

    def may_ship_to(self, topic: str) -> bool:
        """Whether a record can go there: a route's topic, or the quarantine's."""
        in_quarantine = self.quarantine is not None and topic == self.quarantine.topic
        return in_quarantine or any(route.matches(topic) for route in self.routes)

    def needed_topics(self) -> Iterator[str]:
        """Topics that every cluster must have before anything is sent."""
        yield from self.fixed_topics()
        if self.quarantine is not None:
            yield self.quarantine.topic

    @property
    def split_size_bytes(self) -> int:
        """Where files are cut. Not at all for `ordering: file`: only one task after the other could keep the order of two splits."""
        return self.source.split_size_bytes if self.delivery.ordering == "none" else _WHOLE_FILES_BYTES

    @property
    def tasks(self) -> int:
        """Spark tasks that ship side by side."""
        return self.runner.cores if self.delivery.ordering == "none" else 1

    def transform_digest(self) -> str:
        """12 hex digits over all that decides which records a file becomes and where they go. A file that was shipped
        in part under another digest is refused unless the run says `reship`. Not in it: how lines are packed into bundles (ADR 5), and what
        goes to quarantine, since the ledger has that record by record (ADR 9); so neither are the topics that a route allows. A part
        that a pipeline does not use is left out, so that a newer shipper takes no older one's file for changed."""
        unused = {name for name in ("parse", "drop") if not getattr(self.records, name)}
        if self.records.max_line_bytes == Records.model_fields["max_line_bytes"].default:
            unused.add("max_line_bytes")
        decides = {
            "format": self.source.format,
            "split_size": self.split_size_bytes,
            "records": self.records.model_dump(exclude={"bundle", *unused}),
            "routes": [route.model_dump(include={"topic", "when"}) for route in self.routes],
            **({"spark": spark} if (spark := deciding(self.runner.conf)) else {}),
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]


PropertyValue = str | int | float | bool
Properties = dict[str, Secret[PropertyValue | None]]
"""Settings of librdkafka. Every value hides from print, log and JSON, since any may be a secret; None: it is a reference that is
not known here."""


class Ledger(Model):
    """The compacted topic on the target cluster that knows what was delivered."""

    topic: str = "_shipper.{pipeline}"
    """Its name. `{pipeline}` gives every pipeline a ledger of its own, so that none waits for another's open transactions."""
    replication_factor: int | None = Field(default=None, ge=1)
    """For creating it. By default 3, or as many as there are brokers; with 3 or more it gets `min.insync.replicas=2`. A ledger that is lost means
    that everything is sent again, so each plan warns when it is less durable than the pipeline's topics."""
    create: bool = True
    """Whether a run may create it. If not, create it yourself: two partitions, cleanup.policy=compact,
    message.timestamp.type=LogAppendTime."""

    @field_validator("topic")
    @classmethod
    def _legal_topic(cls, value: str) -> str:
        if not legal_topic(value.replace("{pipeline}", "x")):
            raise ValueError("a topic name has letters, digits, '.', '_' and '-' only; the one placeholder is {pipeline}")
        return value


class Cluster(Model):
    """One Kafka target."""

    name: str = Field(alias="cluster", pattern=NAME_PATTERN)
    """Name that pipelines use."""
    bootstrap: str = Field(min_length=1, examples=["kafka-1.example:9092,kafka-2.example:9092"])
    """Comma-separated host:port."""
    properties: Properties = Field(default_factory=dict, repr=False)
    """How to reach and convince the brokers: `security.protocol`, `sasl.mechanisms`, `sasl.username`, `sasl.password`, `ssl.ca.location`
    and others that are listed below, as librdkafka knows them. Write secrets as references (`${NAME}`, `${file:/path}`,
    `${airflow:CONNECTION.password}`); no value is ever printed or logged."""
    unsafe_properties: Properties = Field(default_factory=dict, repr=False)
    """Further properties of librdkafka, of which nobody has shown that they leave the guarantees alone. `validate`, the plan and the
    report warn of each. What loads code, runs commands or is set by shipper is refused here too."""
    bandwidth: BytesPerSecond = Field(default=125_000_000, ge=1)
    """What the link to the cluster carries. `delivery.tuning` sizes lanes and batches so that in-flight bytes are at least
    bandwidth × round trip; more than the link has costs memory only."""
    rate_limit: BytesPerSecond | None = Field(default=None, ge=1)
    """Most bytes per second on the wire that one run sends to the cluster, all tasks together."""
    ledger: Ledger = Ledger()

    @field_validator("bootstrap")
    @classmethod
    def _hosts_and_ports(cls, value: str) -> str:
        if why := bootstrap_fault(value):
            raise ValueError(why)
        return value

    @field_validator("properties")
    @classmethod
    def _safe(cls, value: Properties) -> Properties:
        refuse(_property_places(property_faults(_values(value))))
        return value

    @field_validator("unsafe_properties")
    @classmethod
    def _not_refused(cls, value: Properties) -> Properties:
        refuse(_property_places(unsafe_faults(_values(value))))
        return value

    def property_value(self, name: str) -> PropertyValue | None:
        """What the user set, in either section; None also for a reference that is not known here."""
        found = {**self.properties, **self.unsafe_properties}.get(name)
        return found.get_secret_value() if found is not None else None

    def warnings(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """(place, why) of what is allowed and may be a mistake all the same. Holds no value."""
        for name in self.unsafe_properties:
            why = f"unsafe: {why_unsafe(name)}; nobody has shown that shipper's guarantees hold with it"
            yield ("unsafe_properties", name), why
        protocol = str(self.property_value("security.protocol") or "plaintext").lower()
        if "security.protocol" in self.properties and self.properties["security.protocol"].get_secret_value() is None:
            return
        if protocol.endswith("plaintext") and not all(map(_on_this_machine, self.bootstrap.split(","))):
            what = "passwords and records travel" if protocol.startswith("sasl") else "records travel"
            place = ("properties", "security.protocol") if "security.protocol" in self.properties else ("bootstrap",)
            yield place, f"{what} in the clear to {protocol.upper()} listeners of other machines; use SSL or SASL_SSL"

    def ledger_topic(self, pipeline: str) -> str:
        return self.ledger.topic.replace("{pipeline}", pipeline)

    @property
    def reserved_topics(self) -> str:
        """Regular expression, for Python and Java, of the names that no record may be sent to: see :func:`reserved_topics`."""
        return reserved_topics(self.ledger.topic)


def _values(properties: Properties) -> dict[str, PropertyValue | None]:
    return {name: value.get_secret_value() for name, value in properties.items()}


def _property_places(faults: Iterable[tuple[str, bool, str]]) -> Iterator[tuple[tuple[str, ...], str]]:
    return (((name,) if of_value else (name, THE_KEY), why) for name, of_value, why in faults)


def _on_this_machine(broker: str) -> bool:
    """Whether ``host:port`` is loopback; so is what is a reference still, as far as anybody knows."""
    host = broker.strip().rpartition("://")[2].rpartition(":")[0].strip("[]").lower()
    return host in ("localhost", "::1") or host.startswith("127.") or "${" in broker
