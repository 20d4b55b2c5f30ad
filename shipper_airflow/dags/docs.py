"""Texts of Airflow's docs tab for a pipeline: its schedule, routes and gates, where its reports
are, and its file as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from shipper.config.checks import GateCheck
from shipper.config.pipeline import Pipeline
from shipper.config.units import format_duration, write_duration, write_size

_HIDDEN = "***"
#: As Spark's own `spark.redaction.regex`.
_SECRET = re.compile(r"secret|password|token|access[._]?key|credential", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_LONGEST = 20_000


def page(
    pipeline: Pipeline, config_dir: Path | None, pools: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return the page in Markdown. Without ``config_dir`` it goes without the file. ``pools``:
    cluster → Airflow's pool, of clusters that name one."""
    source, gates = pipeline.source, pipeline.gates
    rows = {
        "schedule": _schedule(pipeline),
        "files": f"`{source.path}`"
        + (f", `{_cell(source.include)}` alone" if source.include != "*" else ""),
        "routes": "<br>".join(
            f"`{route.topic}`" + (f" when `{_cell(route.when)}`" if route.when else "")
            for _, route in pipeline.all_routes()
        ),
        "clusters": ", ".join(
            f"`{name}`"
            + (
                f" (its ships take a slot of Airflow's pool `{_cell(pools[name])}`)"
                if name in pools
                else ""
            )
            for name in pipeline.clusters
        ),
        "gate before": "<br>".join(map(_check, gates.source)),
        "gate after": "<br>".join(map(_check, gates.delivery)),
        "reports": (
            f"`{pipeline.runs_uri}`, below `{pipeline.key}/`: a folder for each window, in "
            "it one for each run, with `report.html` and `report.json`; the last line of the "
            "task `report` names the page, and earlier ones are beside it"
        ),
        "configuration": f"`pipelines/{pipeline.name}.yaml`",
        "owner": pipeline.owner,
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"""\
{pipeline.description or "Ships log files to Kafka."}

| | |
|---|---|
{table}

Clearing a task, running a window again or backfilling over it ships what is not there yet, and nothing twice.
To ship some other window, trigger the DAG with `window_start` and `window_end`; the form says what else a run can be asked for.
{_file(pipeline, config_dir) if config_dir else ""}"""  # noqa: E501


def _schedule(pipeline: Pipeline) -> str:
    schedule = pipeline.schedule
    if schedule is None:
        return "none: by hand"
    since = f", since {schedule.start:%Y-%m-%d %H:%M}" if schedule.start else ""
    within = (
        f"; late after {format_duration(schedule.deliver_within_seconds)}"
        if schedule.deliver_within_seconds
        else ""
    )
    settle = (
        f"; a window is run {format_duration(pipeline.source.settle_seconds)} after its end "
        "(`source.settle`)"
    )
    return f"`{schedule.cron}` ({schedule.timezone}), by data interval{since}{settle}{within}"


def _check(check: GateCheck) -> str:
    """Return the check with its arguments, as far as they are not the default."""
    told = check.model_dump(
        mode="json", exclude_defaults=True, exclude={"check", "severity", "column"}
    )
    limits = ", ".join(
        f"{type(check).model_fields[name].alias or name} {_with_unit(name, value)}"
        for name, value in told.items()
    )
    severity = "" if check.severity == "block" else f" ({check.severity})"
    return f"`{check.title}`{severity}" + (f": `{_cell(limits)}`" if limits else "")


def _with_unit(name: str, value: Any) -> Any:
    """Return the value of a field as the pipeline's file would have it."""
    if name.endswith("_seconds"):
        return write_duration(value)
    return write_size(value) if name.endswith("_bytes") else value


def _cell(text: str) -> str:
    """Return a cell of a table, between backquotes."""
    return " ".join(text.split()).replace("|", "\\|").replace("`", "'")


def _file(pipeline: Pipeline, config_dir: Path) -> str:
    """Return the pipeline's YAML. References to secrets stay references; text that may be a secret
    is hidden."""
    try:
        text = (config_dir / "pipelines" / f"{pipeline.name}.yaml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    for value in _may_be_secret(pipeline):
        if value not in text:
            return "The file is not shown: it may hold secrets."
        text = text.replace(value, _HIDDEN)
    if len(text) > _LONGEST:
        return ""
    return f"\n## The pipeline's file\n\n{_fenced(text)}\n"


def _fenced(text: str) -> str:
    """Put the text into a fence that none of its lines can end."""
    fence = "`" * max(3, 1 + max((len(found) for found in re.findall("`+", text)), default=0))
    return f"{fence}yaml\n{text.rstrip()}\n{fence}"


def _may_be_secret(pipeline: Pipeline) -> list[str]:
    """Return plain values that are named like a secret, and addresses that a notifier is given: a
    webhook's is one. The longest first, so that none is left half."""
    given = [
        _leaves("conf", pipeline.runner.conf),
        *(_leaves("with", entry.with_) for entry in pipeline.notify),
    ]
    values = {
        value
        for leaves in given
        for name, value in leaves
        if _SECRET.search(name) or _ADDRESS.match(value)
    }
    return sorted((value for value in values if "${" not in value), key=len, reverse=True)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield texts, each with its name."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _leaves(str(key), one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _leaves(name, one)
    elif isinstance(value, str) and value:
        yield name, value
