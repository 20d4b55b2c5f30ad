"""What is generated from the models: JSON Schemas for editors, and the option reference for people."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from shipper.config import annotations as types
from shipper.config.json_schema import cluster_schema, pipeline_schema, platform_schema
from shipper.config.kafka_properties import ALLOWED, FORBIDDEN, OWNED, UNSAFE
from shipper.config.models import Cluster, Pipeline
from shipper.config.platform import Platform
from shipper.config.route import Route
from shipper.config.spark_settings import PINNED_SPARK_SETTINGS

_INTRODUCTION = """\
# Option reference

Generated from the models by `shipper schema`; do not edit. What is marked **required** has no default. An unknown key is
an error, and so is a key without a value.

- **Duration**: a number and a unit: `500ms`, `30s`, `10m`, `2h`, `1d`, `1h30m`.
- **Size**: a number and a unit: `256B`, `500kB`, `50MB`, `64MiB`, `2GB` (1 MB = 1,000,000 bytes, 1 MiB = 1,048,576 bytes).
- **References** are filled in everywhere in cluster files, and `${NAME}` also in `source` and `runs_uri` of pipelines:
  `${NAME}` and `${NAME:-default}`, a variable of the environment (the default also stands for one that is empty; without a default,
  one that is not set is an error); `${file:/run/secrets/kafka}`, a file that nobody else may read (a line end at its end is left
  away); `${airflow:CONNECTION.password}`, a connection of Airflow's (also `.login`, `.host`, `.port`, `.schema`, `.extra.KEY`), which
  its tasks look up. While Airflow parses DAGs, none of them need be known.
- **Paths** that are neither absolute nor begin with a scheme (`s3a://`, `hdfs://`) are relative to the folder above `config/`.
"""
_SHORTEST = """\
The shortest pipeline that works:

```yaml
# yaml-language-server: $schema=../schema/pipeline.json
pipeline: web_access
schedule: "0 * * * *"
source: s3a://logs/web/{window_start:%Y/%m/%d/%H}/
topic: logs.web
clusters: [frankfurt]
```
"""
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_SCALARS = {
    Any: "anything",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true`, `false`",
    dt.datetime: "date or time",
}
_HEAD = "| Key | Value | Default | Meaning |\n|---|---|---|---|"


def generated_files() -> dict[str, str]:
    """Name in ``config/schema/`` → text. ``shipper schema`` writes them; with ``--check`` it compares."""
    return {
        "pipeline.json": _json(pipeline_schema()),
        "cluster.json": _json(cluster_schema()),
        "platform.json": _json(platform_schema()),
        "REFERENCE.md": reference(),
    }


def _json(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def reference() -> str:
    """The option reference, in Markdown: a table for each section, checks included."""
    pinned = _table_of_reasons("Spark setting", PINNED_SPARK_SETTINGS)
    parts = [
        _INTRODUCTION,
        f"## Pipeline: `config/pipelines/NAME.yaml`\n\n{_SHORTEST}\n{_table(Pipeline)}",
        *_sections(Pipeline),
        f"### Spark settings that `runner.conf` may not hold\n\n{pinned}",
        f"## Platform: `config/shipper.yaml`\n\n{types.one_line(Platform.__doc__)}\n\n{_table(Platform)}",
        *_sections(Platform),
        f"## Cluster: `config/clusters/NAME.yaml`\n\n{_table(Cluster)}",
        *_sections(Cluster),
        f"### What `properties` may hold\n\n{_table_of_reasons('Kafka property', ALLOWED, 'What for')}",
        f"### What `unsafe_properties` may hold\n\n{_table_of_reasons('Kafka property', UNSAFE)}",
        f"### Kafka properties that are refused\n\n{_table_of_reasons('Kafka property', {**OWNED, **FORBIDDEN})}",
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _sections(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in types.yaml_keys(model).items():
        key, annotation = f"{above}{name}", types.bare(field.annotation)
        if types.is_model(annotation):
            yield f"###{'#' * above.count('.')} `{key}`\n\n{types.one_line(annotation.__doc__)}\n\n{_table(annotation)}"
            yield from _checks(key, annotation)
            yield from _sections(annotation, f"{key}.")
        elif types.is_list(annotation) and types.is_model(types.item(annotation)) and not types.variants(types.item(annotation)):
            section = types.item(annotation)
            yield f"### `{key}[]`\n\n{types.one_line(section.__doc__)}\n\n{_table(section)}"


def _checks(section: str, model: type[BaseModel]) -> Iterator[str]:
    for key, field in types.yaml_keys(model).items():
        for name, check in types.variants(types.item(types.bare(field.annotation))).items():
            table = _table(check, without="check")
            yield f"#### `{section}.{key}[]`: `check: {name}`\n\n{types.one_line(check.__doc__)}\n\n{table}"


def _table(model: type[BaseModel], without: str = "") -> str:
    rows = []
    for key, field in types.yaml_keys(model).items():
        if model is Pipeline and key == "routes":  # the one shorthand that is a key of its own
            topic = _value(Route, "topic", Route.model_fields["topic"])
            rows.append(_row("topic", topic, "this or `routes`", "Short for `routes` with this one topic."))
            rows.append(_row(key, _value(model, key, field), "this or `topic`", types.description(field)))
        elif key != without:
            rows.append(_row(key, _value(model, key, field), _default(model, key, field), types.description(field)))
    return "\n".join([_HEAD, *rows])


def _row(key: str, *cells: str) -> str:
    return f"| `{key}` | " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _table_of_reasons(what: str, reasons: Mapping[str, str], head: str = "Why") -> str:
    return "\n".join([f"| {what} | {head} |\n|---|---|", *(f"| `{name}` | {why} |" for name, why in reasons.items())])


def _default(model: type[BaseModel], key: str, field: FieldInfo) -> str:
    default = types.default(field)
    if field.is_required():
        return "**required**"
    if default is None:
        return "see below" if types.is_model(types.bare(field.annotation)) and field.default is not None else "–"
    if isinstance(default, list):
        entries = [
            "{" + ", ".join(f"{name}: {value}" for name, value in entry.items()) + "}" if isinstance(entry, dict) else str(entry)
            for entry in default
        ]
        return f"`[{', '.join(entries)}]`"
    text = types.written(default, types.unit(model, key))
    return f'`"{text}"`' if text.startswith(("*", "{")) else f"`{text}`"  # YAML would not read these as text


def _value(model: type[BaseModel], key: str, field: FieldInfo) -> str:
    unit = types.unit(model, key)
    bounds = [
        f"{_BOUNDS[name]} {types.written(value, unit)}" for name, value in types.constraints(field).items() if name in _BOUNDS
    ]
    shorthand = "text or " if model is Pipeline and key in ("schedule", "source") else ""
    return ", ".join([shorthand + (unit.name if unit else _kind(field.annotation)), *bounds])


def _kind(annotation: Any) -> str:
    annotation = types.bare(annotation)
    if words := types.words(annotation):
        return ", ".join(f"`{word}`" for word in words)
    if types.is_list(annotation):
        entry = types.item(annotation)
        if types.words(entry):
            return f"list of {_kind(entry)}"
        return f"list of {'checks' if types.variants(entry) else 'sections' if types.is_model(entry) else 'names'}"
    if types.is_map(annotation):
        return f"map of name to {_kind(types.item(annotation))}"
    if types.is_model(annotation):
        return "section"
    if types.is_scalar_union(annotation):
        return "text, number, true or false"
    return _SCALARS[annotation]
