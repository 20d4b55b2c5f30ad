"""Models of ``config/pipelines/*.yaml``; the parts below `records` and `delivery` are in modules of
their own.

Every model is frozen and forbids unknown keys. Durations and sizes carry their unit in the YAML
value (``10m``, ``64MB``) and in the field's name in code (``_seconds``, ``_bytes``). The JSON
Schemas for editors and the option reference are generated from here, so a field's description is
the documentation.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    StrictBool,
    StrictInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from shipper.config.checks import PipelineFacts
from shipper.config.cluster import Delivery
from shipper.config.content_checks import Gates
from shipper.config.formats import (
    MADE,
    ONE_PIECE,
    UTF8,
    Codec,
    Csv,
    Format,
    source_faults,
    starts_with_fault,
    with_objects_asked_for,
)
from shipper.config.formats import deciding as deciding_format
from shipper.config.properties import deciding
from shipper.config.record_mapping import (
    GIVEN_COLUMNS,
    Quarantine,
    Records,
    Route,
    Target,
    as_targets,
    route_faults,
)
from shipper.config.rules import (
    CLASS_PATTERN,
    NAME_PATTERN,
    PATTERN_MEANINGS,
    SCHEME,
    TAR,
    Fault,
    Model,
    check_source_placeholders,
    glob_fault,
    named_twice,
    password_fault,
    pattern_of_source,
    refuse,
    source_fault,
)
from shipper.config.runner_options import Runner
from shipper.config.s3 import S3
from shipper.config.schedule import Schedule
from shipper.config.units import Bytes, Seconds, format_duration

WHOLE_FILES_BYTES = 2**62
SMALLEST_SPLIT_BYTES = 64 * 2**10
#: Section → its key that a bare text stands for.
SHORTHANDS = {"schedule": "cron", "source": "path"}


def _one_or_several(schema: dict[str, Any]) -> None:
    """Allow one entry without brackets in the JSON Schema of a list."""
    listed = {key: schema.pop(key) for key in ("type", "items", "minItems") if key in schema}
    schema["anyOf"] = [listed["items"], listed]
    if len(default := schema.get("default", ())) == 1:
        schema["default"] = default[0]


OneOrSeveral = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    Field(json_schema_extra=_one_or_several),
]


class Source(Model):
    """Place and format of a window's files. A bare string is taken as `path`."""

    path: str = Field(min_length=1, examples=["s3a://logs/web/{window_start:%Y/%m/%d/%H}/"])
    """URI of a folder or a glob: `s3a://`, `hdfs://`, `viewfs://`, `file://`, or a path relative to
    the folder above `config/`. `{window_start:%Y-%m-%d}` is filled in for every hour, day, … (the
    finest unit in the pattern) of the window, so that a wide window reads every folder in it;
    `{window_end:…}` is the end of each tick of the schedule in it, or the window's. Patterns are
    made of `%Y %m %d %j %H %M %S`, and of `%-m %-d %-j %-H %-M %-S` for numbers without a leading
    zero (`hour=6`). `${NAME}` and `${NAME:-default}` are taken from the environment."""
    s3: S3 | None = None
    """Settings of the S3 server for a `path` with `s3a://`: endpoint, region, credentials by
    reference. S3A's jars are fetched automatically."""
    include_globs: OneOrSeveral = Field(
        default=("*",), alias="include", min_length=1, examples=[["*.log", "*.log.gz"]]
    )
    """Globs on file names: one, or a list, any of which may match. Files whose name begins with `_`
    or `.`, or ends in `._COPYING_`, `.inprogress`, `.tmp` or `.part`, are not taken; [every
    reason](../../docs/reference/left-out.md)."""
    window_by: Literal["path", "modified"] = "path"
    """Rule that assigns files to windows. `path`: the files in the folders that `path` names for
    the window; all files, if `path` names no time. `modified`: the files under `path` that were
    last modified in the window, by the file system's clock. Use `modified` for writers that put
    everything into one folder: `path` is then listed completely each time and has no placeholder. A
    file that is written again belongs to another window."""
    shared_folders: StrictBool = False
    """True if windows of the schedule share folders by intent, such as hours in the folder of a
    day. `shipper validate` then does not warn of it."""
    recursive: StrictBool = False
    """True if files in folders below `path` count too."""
    format: Format = "text"
    """`text`: each line, cut only at `\\n`, is one record, byte for byte (a `\\r` stays). With
    `records.starts_with`, several lines are one record. `jsonl`: as `text`, but a line that is not
    a JSON object is `unparseable`. `csv`: each row becomes a JSON object with text fields; a row
    with another number of fields is `unparseable`, as an array. `parquet`, `orc`, `avro`: each row
    becomes a JSON object, by the file's own schema. `whole_file`: a file is one record, byte for
    byte, of at most `records.max_line`. [More](../../docs/how-to/formats.md)."""
    codec: Codec = "auto"
    """Codec of the files. `auto`: the first bytes decide, not the name: gzip, bzip2, zstd, lz4
    (frames), snappy (frames), or none. A name that promises another codec is an error. Any other
    value: all files have this codec, whatever their names. `none`: the bytes are taken as they are.
    `hadoop_snappy`: blocks as Hadoop's SnappyCodec writes them, which their bytes do not reveal."""
    csv: Csv | None = None
    """Dialect of CSV files, with `format: csv`."""
    encoding: str = Field(
        default=UTF8,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+-]*$",
        examples=["ISO-8859-1", "windows-1252", "UTF-16"],
    )
    """Encoding of the files' text, by a name that Java knows (IANA), for `text`, `jsonl` and `csv`.
    Records are always UTF-8. Files in another encoding are not cut into splits. In text, each byte
    that is none of the encoding becomes the byte FF, which no UTF-8 has. A CSV row with such bytes
    becomes a JSON array, which is `unparseable`; if it is the row that names the fields, the file
    fails."""
    settle_seconds: Seconds = Field(default=600.0, alias="settle")
    """Age below which a file counts as still being written: the plan leaves the file out and says
    so. A scheduled run begins this long after its window has closed, so that the window's last
    files are included."""
    wait_seconds: Seconds = Field(default=300.0, alias="wait")
    """Time for which a file system that refuses connections or does not answer is asked again,
    before a listing or the next file is given up. All tasks in one Java wait together, so an outage
    costs this once, not once for each file. `0s`: never wait. A file that is gone or denied, and a
    wrong login, are never waited for."""
    split_size_bytes: Bytes = Field(default=32 * 2**20, alias="split_size", ge=SMALLEST_SPLIT_BYTES)
    """Size of the splits into which files are cut. The size is part of a split's identity: a file
    that was shipped in part under one size is refused under another."""
    lookback_seconds: Seconds = Field(default=86_400.0, alias="lookback")
    """Time by which each scheduled run looks back, in whole windows. Files there that a cluster's
    ledger does not hold came late, were still being written, or were left by a failed run. The same
    run ships them, in their own window. Looking back costs a listing, and no reading. It never goes
    before `schedule.start`, nor before the window of the pipeline's first scheduled run. `0s`: only
    the window's own folders. Manual runs and backfills never look back."""
    on_replaced: Literal["fail", "skip", "reship", "continue"] = "fail"
    """Policy for a file that was replaced after it was shipped (another size or modification time).
    `fail`: stop. `skip`: leave the file alone. `reship`: ship the whole file again. `continue`: if
    the file begins with everything that was shipped of it, which the sum of its bytes says, ship
    only the rest. If the file begins otherwise, it is a new file and is shipped whole. If this
    cannot be decided, the file is left out with a warning. `continue` also covers a file that grew
    and was renamed. A new file at the path of a renamed one does not count as replaced.
    [More](../../docs/how-to/rotated-logs.md#a-new-file-at-an-old-path)."""
    on_renamed: Literal["recognise", "ship"] = "recognise"
    """Policy for a new file that begins like one that was shipped and is gone. `recognise`: read
    the file once, and compare its bytes with the sum of what was shipped. If they are equal,
    nothing is sent twice. If this cannot be decided, the file is left out with a warning. `ship`: a
    new name is a new file, and its records are sent.
    [More](../../docs/how-to/rotated-logs.md#files-that-are-renamed)."""
    on_unreadable: Literal["fail", "skip_and_fail", "quarantine"] = "skip_and_fail"
    """Policy for a file that cannot be read (corrupt, truncated, no permission, an unsupported
    format). `skip_and_fail`: all other files are shipped, and the run fails and names each bad
    file. `fail`: nothing is sent if the plan or the source gate finds such a file. `quarantine`:
    one record with the reason `unreadable` stands for the file in the quarantine topic, the ledger
    counts the file as done, and the run succeeds with a note. Packed files are then read once
    before they are shipped, so that no file is both in quarantine and in its topic. A file that
    begins like a packed file but has another name is never quarantined, because an attacker could
    write such a first line. The run fails and names the file; `codec: none` ships it as text."""
    when_empty: Literal["fail", "succeed"] = "fail"
    """Meaning of a window without any file: a failed run (a source went silent), or nothing to
    do."""

    formerly: tuple[str, ...] | None = Field(default=None, examples=[["hdfs://nn1:8020/logs/web/"]])
    """Folders in which the files lay before they were moved, or reached through another host, mount
    or scheme. Each folder stands for the part of `path` before its first placeholder or glob. A
    file that was shipped from there is not shipped again if its path below, its size and its
    modification time are equal. By default the ledger knows the earlier folders, because every ship
    notes them. Set this once if the files moved before shipper noted folders. `[]`: the files here
    are not those that lay there."""

    @field_validator("encoding")
    @classmethod
    def _one_name_of_utf8(cls, value: str) -> str:
        return UTF8 if value.upper() in (UTF8, "UTF8") else value

    @field_validator("include_globs")
    @classmethod
    def _globs_on_names(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        for glob in globs:
            if not glob or "/" in glob:
                raise ValueError(
                    f"{glob!r} matches no file name; set `path` and `recursive` for folders"
                )
            if re.search(r"\{[^}]*,|,\s*\*", glob):
                raise ValueError(f"{glob!r} is one glob; write a list: ['*.log', '*.gz']")
            if why := glob_fault(glob, braces=False):
                raise ValueError(why)
        return globs

    @model_validator(mode="after")
    def _format_fits(self) -> Source:
        refuse(source_faults(self.format, self.codec, self.csv, self.encoding))
        refuse(
            (
                ("include", index) if len(self.include_globs) > 1 else ("include",),
                f"{glob!r} matches tar archives, whose headers would become records",
            )
            for index, glob in enumerate(self.include_globs)
            if self.format != "whole_file" and TAR.search(glob)
        )
        return self

    @property
    def include(self) -> str:
        """The globs on names, for people."""
        return ", ".join(self.include_globs)

    @property
    def verbatim(self) -> bool:
        """True if records are the bytes of the file; else shipper makes them."""
        return self.format not in MADE and self.encoding == UTF8

    @field_validator("formerly")
    @classmethod
    def _formerly_are_folders(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        why = "write the whole folder, with its scheme: s3a://bucket/logs/, file:/mnt/logs/"
        refuse(((index,), why) for index, root in enumerate(value or ()) if not SCHEME.match(root))
        return value and tuple(
            re.sub(r"^file:/+", "file:/", root).rstrip("/") + "/" for root in value
        )

    @field_validator("window_by")
    @classmethod
    def _one_way_to_find_a_window(cls, value: str, info: ValidationInfo) -> str:
        if value == "modified" and "{window_" in info.data.get("path", ""):
            why = "`modified` and the placeholder in `path` contradict each other; remove one"
            refuse([((), why)])
        return value

    @field_validator("s3")
    @classmethod
    def _s3_has_a_path(cls, value: S3 | None, info: ValidationInfo) -> S3 | None:
        path = info.data.get("path", "s3a://")
        if value is not None and not path.startswith(("s3a://", "${")):
            raise ValueError(f"`s3` is for a `path` that begins with s3a://, not for {path}")
        return value

    @field_validator("path")
    @classmethod
    def _placeholders_exist(cls, value: str) -> str:
        refuse([((), why)] if (why := password_fault(value) or source_fault(value)) else [])
        check_source_placeholders(value)
        return value


class Limits(Model):
    """Limits that stop unexpected windows and lines. A run that would exceed `max_files` or
    `max_bytes` stops at the plan, and sends nothing."""

    max_files: StrictInt = Field(default=100_000, ge=1)
    """Most files in one window."""
    max_bytes: Bytes | None = None
    """Most bytes (as stored) in one window; unlimited by default."""
    max_topics: StrictInt = Field(default=1_000, ge=1, le=100_000)
    """Most topics that one Spark task takes from lines by a route's `matching`. Records of any
    topic beyond these are not shipped: they go to quarantine as `too_many_topics` or, without one,
    fail the run. Topics that are listed do not count."""


class Notify(Model):
    """A notice by one of Airflow's notifiers. Sent by the DAG only; `shipper run` prints."""

    on: tuple[Literal["failure", "late", "warning", "success"], ...] = Field(
        default=("failure",), min_length=1
    )
    """`failure`: the run failed. `late`: the run had not ended at `schedule.deliver_within`, or a
    later run finds an earlier window incomplete. `warning`: the run succeeded, but a check of
    severity `warn` failed, records were quarantined, or counts disagree. `success`: the run
    succeeded, with or without warnings."""
    notifier: str = Field(
        pattern=CLASS_PATTERN,
        examples=["airflow.providers.slack.notifications.slack.SlackNotifier"],
    )
    """Full name of the notifier's class, a subclass of Airflow's `BaseNotifier`. Its provider must
    be installed where the DAG is parsed and where its tasks run."""
    with_: dict[str, Any] = Field(default_factory=dict, alias="with")
    """Arguments of the notifier. Arguments that the notifier renders as templates may use `{{
    notice.title }}`, `{{ notice.text }}`, `{{ notice.cause }}`, … and everything that Airflow's
    templates offer; docs/how-to/notices.md lists them. Do not write secrets here: name an Airflow
    connection."""


class Pipeline(Model):
    """One stream of log files."""

    name: str = Field(alias="pipeline", pattern=NAME_PATTERN)
    """Name of the pipeline and of its file. The DAG's id, every transactional.id and every ledger
    key contain it. A renamed pipeline is a new one with an empty ledger, unless `formerly` gives
    its earlier name."""
    formerly: OneOrSeveral = ()
    """Earlier names of the pipeline, the latest first; one name needs no brackets. The pipeline
    continues where the earlier one ended: with its ledger, results, history and the beginning of
    its schedule, which all keep the first of its names. Nothing is shipped again, and no window is
    left out. No other pipeline may have one of these names."""
    owner: str = "shipper"
    """Team that is called when a run is red."""
    description: str = ""
    """One sentence for people."""
    schedule: Schedule | None = None
    """Times when windows close; without it the pipeline runs by hand only."""
    notify: tuple[Notify, ...] = Field(default=(), validate_default=True)
    """Notices about how a run ended. By default, no notice is sent, and only Airflow shows the
    end."""
    source: Source
    records: Records = Records()
    routes: tuple[Route, ...] = Field(min_length=1)
    """Routing table. The first route that matches takes the record, and the last route has no
    `when`. `topic: x` at the top is short for a table of one route."""
    targets: dict[str, Target] = Field(alias="clusters")
    """Names of the target clusters (`config/clusters/NAME.yaml`). Each cluster gets everything,
    independent of the others. To override settings per cluster, write a section for each instead of
    the list: `{frankfurt: {routes: [...]}, tokyo: {}}`."""
    quarantine: Quarantine | None = Field(default=None, validate_default=True)
    """Topic for records that cannot be shipped. Without a quarantine, the first such record fails
    the run, which names the record's file and number."""
    delivery: Delivery = Delivery()
    gates: Gates = Gates()
    limits: Limits = Limits()
    runner: Runner = Runner()
    access_control: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, examples=[{"edge-team": ["can_read", "can_edit"]}]
    )
    """Role in Airflow → its permissions for the DAG (`can_read`, `can_edit`, `can_delete`), for
    an auth manager that knows roles. A person who may trigger the DAG may also send everything
    again."""
    runs_uri: str = "runs"
    """Folder of step results and reports (relative to the one above `config/`), or any fsspec
    URL."""

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
        if (
            "topic" in data and "routes" not in data
        ):  # with both, `topic` stays, and is refused as no key of a pipeline
            data["routes"] = [{"topic": data.pop("topic")}]
        for key, field in SHORTHANDS.items():
            if isinstance(data.get(key), str):
                data[key] = {field: data[key]}
        return with_objects_asked_for(data)

    # The validators below check fields and not the whole, so that a fault elsewhere in the file
    # does not hide theirs. Each sees the fields above its own, if those are right.

    @field_validator("formerly")
    @classmethod
    def _former_names(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        refuse(
            ((index,), PATTERN_MEANINGS[NAME_PATTERN])
            for index, name in enumerate(names)
            if not re.fullmatch(NAME_PATTERN, name)
        )
        refuse(
            ((index,), f"{name!r} is the pipeline's present name")
            for index, name in enumerate(names)
            if name == info.data.get("name")
        )
        refuse(named_twice(names))
        return names

    @field_validator("source")
    @classmethod
    def _source_fits_the_schedule(cls, source: Source, info: ValidationInfo) -> Source:
        if "schedule" not in info.data:
            return source
        schedule, given = info.data["schedule"], source.model_fields_set
        if schedule is None:
            if "lookback_seconds" in given and source.lookback_seconds:
                refuse([(("lookback",), "needs `schedule`: only a run of the schedule looks back")])
            return source
        within, settle = schedule.deliver_within_seconds, source.settle_seconds
        if within and within <= settle:
            why = (
                f"every run would be late: files settle for {format_duration(settle)} (`settle`), "
                f"and `schedule.deliver_within` is {format_duration(within)}"
            )
            refuse([(("settle",) if "settle_seconds" in given else (), why)])
        return source

    @field_validator("gates")
    @classmethod
    def _one_task_asks_nobody(cls, gates: Gates, info: ValidationInfo) -> Gates:
        schedule: Schedule | None = info.data.get("schedule")
        if schedule and schedule.tasks == "one" and gates.on_closed == "ask":
            why = "`ask` needs a task of its own for the gate: leave `schedule.tasks: one` out"
            refuse([(("on_closed",), why)])
        return gates

    @field_validator("records")
    @classmethod
    def _records_fit_the_format(cls, records: Records, info: ValidationInfo) -> Records:
        source: Source | None = info.data.get("source")
        if source and records.starts_with is not None and (why := starts_with_fault(source.format)):
            refuse([(("starts_with",), why)])
        return records

    @field_validator("notify")
    @classmethod
    def _late_needs_a_deadline(
        cls, notify: tuple[Notify, ...], info: ValidationInfo
    ) -> tuple[Notify, ...]:
        if "schedule" not in info.data:
            return notify
        schedule: Schedule | None = info.data["schedule"]
        late = [
            (index, "on", entry.on.index("late"))
            for index, entry in enumerate(notify)
            if "late" in entry.on
        ]
        if schedule is None or schedule.deliver_within_seconds is None:
            refuse(
                (place, "`late` needs `schedule.deliver_within`: without it no run is ever late")
                for place in late
            )
        elif notify and not late:
            raise ValueError(
                "`schedule.deliver_within` needs a `notify` with `on: [late]`: the others say "
                "nothing of a late run"
            )
        return notify

    @field_validator("routes")
    @classmethod
    def _every_record_has_a_route(
        cls, routes: tuple[Route, ...], info: ValidationInfo
    ) -> tuple[Route, ...]:
        refuse((*route_faults(routes, _columns(info)), *_avro_faults(routes, info)))
        return routes

    @field_validator("targets", mode="before")
    @classmethod
    def _a_list_names_them(cls, clusters: Any) -> Any:
        return as_targets(clusters)

    @field_validator("targets")
    @classmethod
    def _every_record_has_a_route_there(
        cls, targets: dict[str, Target], info: ValidationInfo
    ) -> dict[str, Target]:
        columns = _columns(info)
        refuse(
            ((name, "routes", *place), why)
            for name, target in targets.items()
            for place, why in (
                *route_faults(target.routes, columns),
                *_avro_faults(target.routes, info),
            )
        )
        return targets

    @field_validator("quarantine")
    @classmethod
    def _quarantine_is_apart(
        cls, quarantine: Quarantine | None, info: ValidationInfo
    ) -> Quarantine | None:
        routes: tuple[Route, ...] = info.data.get("routes", ())
        source: Source | None = info.data.get("source")
        if quarantine is None and source and source.on_unreadable == "quarantine":
            raise ValueError("`source.on_unreadable: quarantine` needs `quarantine`")
        targets: dict[str, Target] = info.data.get("targets", {})
        routes = (*routes, *(route for target in targets.values() for route in target.routes))
        if quarantine and any(quarantine.topic in (route.topic, *route.topics) for route in routes):
            why = f"{quarantine.topic!r} is a route's topic too; name another topic"
            refuse([(("topic",), why)])
        return quarantine

    @field_validator("gates")
    @classmethod
    def _checks_fit_the_pipeline(cls, gates: Gates, info: ValidationInfo) -> Gates:
        given = info.data  # what is broken is not in it
        records, source, routes = (given.get(name) for name in ("records", "source", "routes"))
        facts = PipelineFacts(
            columns=records
            and ["value", *(["key"] if records.key is not None else []), *records.named_columns],
            source_path=source and source.path,
            topics=routes and [route.topic for route in routes],
            quarantines=given["quarantine"] is not None if "quarantine" in given else None,
            empty_succeeds=source and source.when_empty == "succeed",
        )
        refuse(
            ((gate, index, check.check, *path), why)
            for gate, checks in (("source", gates.source), ("delivery", gates.delivery))
            if gate in gates.model_fields_set  # the default of a gate contradicts nothing
            for index, check in enumerate(checks)
            for path, why in check.faults(facts)
        )
        return gates

    @property
    def names(self) -> tuple[str, ...]:
        """The name, and those that it had."""
        return (self.name, *self.formerly)

    @property
    def key(self) -> str:
        """The name under which its ledger and its results are kept: the first that it had."""
        return self.formerly[-1] if self.formerly else self.name

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names, in the file's order."""
        return tuple(self.targets)

    def on(self, cluster: str) -> Pipeline:
        """Return the pipeline as it is on this one of its clusters."""
        target = self.targets.get(cluster, Target())
        if target == Target():
            return self
        delivery = self.delivery.model_copy(
            update={"rate_limit": target.rate_limit or self.delivery.rate_limit}
        )
        return self.model_copy(
            update={"routes": target.routes or self.routes, "delivery": delivery}
        )

    def all_routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the routes of the pipeline, and those of its clusters; with the place of each in
        the file."""
        yield from ((f"routes[{index}]", route) for index, route in enumerate(self.routes))
        for name, target in self.targets.items():
            yield from (
                (f"clusters.{name}.routes[{index}]", route)
                for index, route in enumerate(target.routes)
            )

    def fixed_topics(self) -> Iterator[str]:
        """Yield the topics whose name is known before any record is read, in routing order, each
        once."""
        yield from dict.fromkeys(route.topic for route in self.routes if not route.columns)

    def listed_topics(self) -> Iterator[str]:
        """Yield the topics that are named in the file, of routes with a `{column}` too; each
        once."""
        yield from dict.fromkeys(
            topic
            for route in self.routes
            for topic in (route.topics if route.columns else (route.topic,))
        )

    def may_ship_to(self, topic: str) -> bool:
        """Return True if a record can go there: a route's topic, or the quarantine's."""
        in_quarantine = self.quarantine is not None and topic == self.quarantine.topic
        return in_quarantine or self.routes_to(topic)

    def routes_to(self, topic: str) -> bool:
        """Return True if a route can lead there: never to the quarantine's topic."""
        in_quarantine = self.quarantine is not None and topic == self.quarantine.topic
        return not in_quarantine and any(route.matches(topic) for route in self.routes)

    def needed_topics(self) -> Iterator[str]:
        """Yield the topics that every cluster must have before anything is sent."""
        yield from self.fixed_topics()
        if self.quarantine is not None:
            yield self.quarantine.topic

    @property
    def restores_bom(self) -> bool:
        """True if the byte order mark of a file stands in front of its first record: if that is
        text as it was read. No JSON begins with one (RFC 8259)."""
        mapping = self.records
        source = self.source
        is_text = (
            source.format == "text"
            and source.verbatim
            and not (mapping.parse and mapping.parse.json_object)
        )
        return is_text and mapping.value == "value" and mapping.avro is None

    @property
    def split_size_bytes(self) -> int:
        """Size at which files are cut. Not at all for `ordering: file`: only one task after the
        other could keep the order of two splits."""
        source = self.source
        is_one_piece = source.format in ONE_PIECE or source.encoding != UTF8
        cut = self.delivery.ordering == "none" and not is_one_piece
        return self.source.split_size_bytes if cut else WHOLE_FILES_BYTES

    @property
    def tasks(self) -> int:
        """Spark tasks that ship side by side."""
        return self.runner.cores if self.delivery.ordering == "none" else 1

    def transform_digest(self) -> str:
        """Return 12 hex digits over all settings that decide which records a file becomes and where
        they go. A partly shipped file is refused under another digest unless the run says `reship`.
        The digest does not cover the records that go to quarantine, since the ledger has these one
        by one (ADR 9); so neither does it cover the topics that a route allows. An unused part of a
        pipeline is left out, so that a newer shipper does not take older files for changed."""
        unused = {
            name for name in ("parse", "drop", "starts_with") if not getattr(self.records, name)
        }
        if self.records.max_line_bytes == Records.model_fields["max_line_bytes"].default:
            unused.add("max_line_bytes")
        decides = {
            **deciding_format(
                self.source.format, self.source.codec, self.source.csv, self.source.encoding
            ),
            "split_size": self.split_size_bytes,
            "records": self.records.model_dump(exclude={"redact", "avro", *unused}),
            "routes": [route.model_dump(include={"topic", "when"}) for route in self.routes],
        }
        if self.records.redact:
            decides["redact"] = [rule.decides() for rule in self.records.redact]
        if self.records.avro:
            decides["avro"] = {"schema": self.records.avro.schema_}
        if spark := deciding(self.runner.conf):
            decides["spark"] = spark
        if "window_start" in json.dumps(decides):
            decides["window_start"] = pattern_of_source(self.source.path)
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]


def _columns(info: ValidationInfo) -> list[str] | None:
    """Return the columns of which topics may be made; None if `records` is not right."""
    records: Records | None = info.data.get("records")
    return None if records is None else [*GIVEN_COLUMNS[:3], *records.named_columns]


def _avro_faults(routes: tuple[Route, ...], info: ValidationInfo) -> Iterator[Fault]:
    """Yield faults of routes that the subject of `records.avro` does not go with."""
    records: Records | None = info.data.get("records")
    avro = records.avro if records else None
    for index, route in enumerate(routes if avro else ()):
        if avro and route.matching is not None and (why := avro.open_topics_fault()):
            yield (index, "matching"), why
