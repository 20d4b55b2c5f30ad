"""Models of ``config/shipper.yaml``: decisions of the platform's operators for all pipelines.
Optional; without it, authors of pipelines are trusted as operators of the platform are
(SECURITY.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from shipper.config.explain import bare, is_model, validated, yaml_keys
from shipper.config.pipeline import SHORTHANDS, Pipeline
from shipper.config.rules import SCHEME, Fault, Model, lies_below, resolve_uri
from shipper.config.s3 import S3
from shipper.config.units import Seconds
from shipper.config.yaml_file import ConfigFault, KeyPath, YamlFile, read_yaml

NAME = "shipper.yaml"
#: Settings that neither load code nor read secrets nor send anything anywhere.
_PLAIN_SETTINGS = (
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.cores.max",
    "spark.driver.memoryOverhead",
    "spark.driver.maxResultSize",
    "spark.dynamicAllocation.*",
    "spark.task.cpus",
    "spark.task.maxFailures",
    "spark.network.timeout",
    "spark.sql.shuffle.partitions",
    "spark.sql.adaptive.enabled",
    "spark.sql.adaptive.coalescePartitions.enabled",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes",
    "spark.sql.adaptive.skewJoin.enabled",
    "spark.sql.execution.arrow.*",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.legacy.*",
    "spark.sql.parser.*",
)


class Allow(Model):
    """Bounds of what pipelines may use. They hold for a pipeline's own file, not for what
    `defaults` add to it. `*` stands for anything."""

    runners: tuple[Literal["local", "standalone", "yarn", "kubernetes"], ...] = (
        "local",
        "standalone",
        "yarn",
        "kubernetes",
    )
    """Kinds of `runner`."""
    programs: tuple[str, ...] = Field(default=(), examples=[["/opt/shipper/bin/python"]])
    """Programs that `runner.python`, `runner.archive` and `runner.spark_submit` may name. By
    default none: jobs run in the environment that runs shipper."""
    spark_settings: tuple[str, ...] = _PLAIN_SETTINGS
    """Settings that `runner.conf` may have. By default settings of size and of SQL. Settings that
    load code, such as `spark.jars`, `spark.plugins` or `spark.driver.extraJavaOptions`, must be
    listed here, or set in `defaults`."""
    notifiers: tuple[str, ...] = Field(default=(), examples=[["airflow.providers.slack.*"]])
    """Classes that `notify` may name. By default none, because a notifier's texts are Airflow
    templates, which may look up connections."""
    sources: tuple[str, ...] | None = Field(default=None, examples=[["s3a://logs/web/"]])
    """Folders in which `source` must lie, by its text and by what each plan lists. By default any
    folder. If set, a path may have no backslash, and no brace around a slash."""
    s3: tuple[str, ...] = ("region", "path_style", "requester_pays")
    """Keys of `source.s3` that pipelines may set. By default only keys that choose neither a server
    nor an identity: a pipeline's author could otherwise send a key to any server, or use another
    role of this machine. Set such keys in `defaults`, or list them here."""
    runs: tuple[str, ...] | None = Field(default=None, examples=[["s3a://shipper-runs/"]])
    """Folders in which `runs_uri` must lie. By default any folder."""


class Platform(Model):
    """Decisions of the platform's owner for all pipelines. Only the owner may be able to write this
    file."""

    allow: Allow | None = None
    """Bounds of pipelines. Without this section there are none: the author of a pipeline may run
    programs as shipper's user."""
    environment: tuple[str, ...] = Field(default=(), examples=[["LOG_ARCHIVE_*"]])
    """Variables of the environment that a job's process gets, besides those that every job needs
    and those that its files refer to."""
    index: str = Field(
        default="runs/shipments.sqlite",
        min_length=1,
        examples=["/var/lib/shipper/shipments.sqlite"],
    )
    """Index of the Shipments page: relative to the folder above this one, on a disk of the machine
    that shows the page. The file is a cache: it may be deleted, and the page makes it again from
    what runs noted in `runs_uri`."""
    keep_seconds: Seconds = Field(default=400 * 86_400.0, alias="keep", ge=30 * 86_400)
    """Retention of the results in `runs_uri`, and of the index's entries. At its end, a run removes
    older results of its pipeline. A pipeline's 200 newest windows stay, and so do the notes on what
    became of each window. No file counts as unshipped because its results were
    removed."""
    defaults: dict[str, Any] = Field(
        default_factory=dict, examples=[{"owner": "platform", "runner": {"kind": "yarn"}}]
    )
    """Default values of a pipeline's keys (except `pipeline`), for all pipelines that do not set
    them. Sections and maps are merged key by key, everything else is replaced. A section that lacks
    a required key, such as a `schedule` without `cron`, counts only for pipelines that have that
    section."""

    @field_validator("index")
    @classmethod
    def _a_file(cls, value: str) -> str:
        if SCHEME.match(value) or value.endswith("/"):
            raise ValueError("is a file on a disk of this machine; write its path")
        return value

    @field_validator("defaults")
    @classmethod
    def _no_name(cls, value: dict[str, Any]) -> dict[str, Any]:
        if "pipeline" in value:
            raise ValueError("`pipeline` is each pipeline's own; remove it from `defaults`")
        return value


@dataclass(frozen=True)
class PlatformFile:
    """The platform's file and its content, or the fact that there is none."""

    file: YamlFile
    platform: Platform
    faults: tuple[ConfigFault, ...] = ()

    def merged(self, own: YamlFile) -> YamlFile:
        """Return a pipeline's file with the defaults below it."""
        if not self.platform.defaults or self.faults or not own.parsed:
            return own
        return own.over(self.file, ("defaults",), merge(self.platform.defaults, own.data))

    def beyond(self, own: YamlFile, pipeline: Pipeline, config_dir: Path) -> Iterator[Fault]:
        """Yield what the pipeline's own file says and may not say. Quotes no value of `source.s3`:
        it may be a secret."""
        allow = self.platform.allow
        if allow is None:
            return
        runner, source = pipeline.runner, pipeline.source
        at_source = ("source",) if own.text(("source",)) is not None else ("source", "path")
        programs = ("python", "archive", "spark_submit")
        named: list[tuple[KeyPath, str | None, str]] = [
            (("runner", "kind"), runner.kind, "runners"),
            *((("runner", key), getattr(runner, key), "programs") for key in programs),
            *((("runner", "conf", name), name, "spark_settings") for name in runner.conf),
            *(
                (("notify", index, "notifier"), entry.notifier, "notifiers")
                for index, entry in enumerate(pipeline.notify)
            ),
            *((("source", "s3", key), key, "s3") for key in yaml_keys(S3)),
            (at_source, source.path, "sources"),
            (("runs_uri",), pipeline.runs_uri, "runs"),
        ]
        for path, value, name in named:
            allowed: tuple[str, ...] | None = getattr(allow, name)
            if value is None or allowed is None or not own.is_own(path):
                continue
            if name in ("sources", "runs"):
                uri = resolve_uri(config_dir, value)
                is_allowed = any(lies_below(uri, resolve_uri(config_dir, root)) for root in allowed)
            else:
                is_allowed = any(fnmatchcase(value, pattern) for pattern in allowed)
            if not is_allowed:
                shown = f"`{value}`" if name == "s3" else repr(own.text(path) or value)
                line = self.file.position(("allow", name)).line
                yield (
                    path,
                    f"{shown} is not allowed by {self.file.shown}:{line} (`allow.{name}`: "
                    f"{', '.join(allowed) or 'none'}); choose an allowed value, or ask the owner "
                    "of the platform's file",
                )


def read_platform(config_dir: Path, shown: str) -> PlatformFile:
    """Read the platform's file. Never raises. A broken file allows nothing: each pipeline then has
    its faults."""
    path = config_dir / NAME
    if not path.exists():
        return PlatformFile(YamlFile(shown), Platform())
    file = read_yaml(path, shown)
    faults, platform = list(file.faults), None
    if file.parsed:
        platform, more = validated(Platform, file)
        faults += more or _faults_of_defaults(platform.defaults if platform else {}, file)
    return PlatformFile(file, platform or Platform(), tuple(faults))


def merge(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Merge the defaults below what a pipeline says. Only what both have is merged; nothing of
    ``own`` is lost."""
    found: dict[str, Any] = {}
    routes = {"topic", "routes"}
    for key, value in defaults.items():
        if (
            key not in own
            and not (key in routes and routes & own.keys())
            and not _lacks(key, value)
        ):
            found[key] = value
    for key, value in own.items():
        below = defaults.get(key)
        if isinstance(below, dict) and isinstance(value, str) and key in SHORTHANDS:
            value = {SHORTHANDS[key]: value}
        if isinstance(below, str) and isinstance(value, dict) and key in SHORTHANDS:
            below = {SHORTHANDS[key]: below}
        found[key] = _deep(below, value)
    return found


def _deep(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    both = {key: _deep(below[key], above[key]) for key in below.keys() & above.keys()}
    return {**below, **above, **both}


def _lacks(key: str, value: Any) -> bool:
    """Return True if ``value`` is a section of a pipeline without a key that it must have."""
    field = yaml_keys(Pipeline).get(key)
    section = bare(field.annotation) if field else None
    if section is None or not isinstance(value, dict) or not is_model(section):
        return False
    return any(
        found.is_required() and name not in value for name, found in yaml_keys(section).items()
    )


def _faults_of_defaults(defaults: dict[str, Any], file: YamlFile) -> list[ConfigFault]:
    """Return the faults of ``defaults`` in a pipeline whose other settings are valid.
    Contradictions with the other settings are found in each pipeline."""
    rest: dict[str, Any] = {"pipeline": "any", "source": "/any", "clusters": ["any"]}
    if not {"topic", "routes"} & defaults.keys():
        rest["topic"] = "any"
    required = {
        "schedule": {"cron": "@hourly"},
        "source": {"path": "/any"},
        "quarantine": {"topic": "any.other"},
    }
    rest |= {key: needed for key, needed in required.items() if isinstance(defaults.get(key), dict)}
    whole = YamlFile("").over(file, ("defaults",), merge(rest, defaults))
    return [fault for fault in validated(Pipeline, whole)[1] if fault.file == file.shown]
