"""Generated files: JSON Schemas (2020-12) of the YAML files, for editors, and the option reference
for people.

A schema is pydantic's own, as far as it is about what a user writes: the keys of the YAML, the
shorthands, durations and sizes with their units, and no null. It cannot say all that the loader
checks, such as contradictions between keys. Sections are written out where they stand, without
`$ref`: an editor then shows a key's own description.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, NoDefault
from pydantic_core import core_schema

from shipper.config.cases import PipelineTests
from shipper.config.cluster import Cluster
from shipper.config.pipeline import SHORTHANDS, Pipeline
from shipper.config.platform import Platform
from shipper.config.properties import ALLOWED, PINNED_SPARK_SETTINGS
from shipper.config.rules import Model
from shipper.config.units import DURATION, MOMENT, RATE, SIZE, Unit, written
from shipper.docstrings import docstring_of

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FROM_ENVIRONMENT = {"type": "string", "pattern": r"\$\{.+\}"}
_UNITS = {unit.pattern: unit for unit in (DURATION, SIZE, RATE, MOMENT)}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}
#: pydantic's own names for the bounds of what it does not know as a number.
_BOUNDS_OF_PYDANTIC = dict(zip(("ge", "gt", "le", "lt"), _BOUNDS, strict=True))
_SCALARS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true`, `false`",
}
_INTRODUCTION = """\
# Option reference

Generated from the models by `shipper schema`; do not edit. A key that is marked **required** has no default.
An unknown key is an error, and so is a key without a value.

- **Duration**: a number and a unit: `500ms`, `30s`, `10m`, `2h`, `1d`, `1h30m`.
- **Size**: a number and a unit: `256B`, `500kB`, `50MB`, `64MiB`, `2GB` (1 MB = 1,000,000 bytes, 1 MiB = 1,048,576 bytes).
- **References** may stand in every value of a cluster file. In a pipeline's file they may stand in the keys of `source.s3`, in
  `records.redact[].hash.key` and, `${NAME}` only, in `source` and `runs_uri`. While Airflow parses DAGs, their values need not be known.
  - `${NAME}` and `${NAME:-default}`: a variable of the environment. The default also replaces an empty variable. Without a
    default, a variable that is not set is an error.
  - `${file:/run/secrets/kafka}`: a file that nobody else may read, without the line end at its end.
  - `${airflow:CONNECTION.password}`: a field of an Airflow connection (also `.login`, `.host`, `.port`, `.schema`,
    `.extra.KEY`), which Airflow's tasks look up.
- **Paths** that are neither absolute nor begin with a scheme (`s3a://`, `hdfs://`) are relative to the folder above `config/`.
"""  # noqa: E501
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
_HEAD = "| Key | Value | Default | Meaning |\n|---|---|---|---|"


def generated_files() -> dict[str, str]:
    """Name in ``config/schema/`` → text. ``shipper schema`` writes them; with ``--check`` it
    compares."""
    schemas = {
        "pipeline": pipeline_schema(),
        "cluster": cluster_schema(),
        "platform": platform_schema(),
        "tests": cases_schema(),
    }
    texts = {
        f"{name}.json": json.dumps(
            {"$schema": _DIALECT, "title": f"shipper {name}", **schema},
            indent=1,
            ensure_ascii=False,
        )
        + "\n"
        for name, schema in schemas.items()
    }
    return {**texts, "REFERENCE.md": reference()}


# --- Schemas


def pipeline_schema() -> Schema:
    """Return the schema of ``config/pipelines/*.yaml``."""
    schema = _published(_described(Pipeline))
    keys = schema["properties"]
    for name, stands_for in SHORTHANDS.items():
        section = keys[name]
        text = {
            key: value
            for key, value in section["properties"][stands_for].items()
            if key != "description"
        }
        keys[name] = {"description": section.pop("description"), "anyOf": [text, section]}
    clusters = keys["clusters"]
    names = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    keys["clusters"] = {"description": clusters.pop("description"), "anyOf": [names, clusters]}
    redact = keys["records"]["properties"]["redact"]
    redact["items"] = {"anyOf": [redact["items"]["properties"]["rule"], redact["items"]]}
    topic = keys["routes"]["items"]["properties"]["topic"]
    schema["properties"] = {}
    for name, found in keys.items():
        schema["properties"] |= {"topic": topic, name: found} if name == "routes" else {name: found}
    schema["required"].remove("routes")
    return {**schema, "oneOf": [{"required": ["topic"]}, {"required": ["routes"]}]}


def cluster_schema() -> Schema:
    """Return the schema of ``config/clusters/*.yaml``. Any text may refer to the environment, and
    so may text that is converted to another type."""
    schema = _published(_described(Cluster))
    bootstrap = schema["properties"]["bootstrap"]
    one = {key: bootstrap.pop(key) for key in ("type", "minLength")}
    schema["properties"]["bootstrap"] = bootstrap | {
        "anyOf": [one, {"type": "array", "items": one, "minItems": 1}]
    }
    for keys in (schema["properties"], schema["properties"]["ledger"]["properties"]):
        for name, found in keys.items():
            if "pattern" in found or found.get("type") in ("integer", "boolean"):
                value = {
                    key: found.pop(key) for key in ("type", "pattern", "minimum") if key in found
                }
                keys[name] = {**found, "anyOf": [value, _FROM_ENVIRONMENT]}
    return schema


def platform_schema() -> Schema:
    """Return the schema of ``config/shipper.yaml``. Its defaults are as in a pipeline, whose schema
    lies beside it, but any keys of a section may be missing."""
    schema = _published(_described(Platform))
    keys = {}
    for name, found in pipeline_schema()["properties"].items():
        partly = _partly(found)
        keys[name] = partly if partly != found else {"$ref": f"pipeline.json#/properties/{name}"}
    del keys["pipeline"]
    schema["properties"]["defaults"] |= {"additionalProperties": False, "properties": keys}
    return schema


def cases_schema() -> Schema:
    """Return the schema of ``config/tests/*.yaml``."""
    schema = _published(_described(PipelineTests))
    case = schema["properties"]["cases"]["additionalProperties"]
    case["oneOf"] = [{"required": ["lines"]}, {"required": ["file"]}]
    return schema


def _partly(section: Schema) -> Schema:
    """Return a section in which any keys may be missing; entries of a list must be complete."""
    found = {name: value for name, value in section.items() if name != "required"}
    if "anyOf" in found:
        found["anyOf"] = [_partly(variant) for variant in found["anyOf"]]
    return found


class _AsWritten(GenerateJsonSchema):
    """pydantic's schema without null, which no file can hold, and with defaults as a user would
    write them."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> Schema:
        return self.generate_inner(schema["schema"])

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        value = super().get_default_value(schema)
        if value is None or value == "":
            return NoDefault
        return [_as_data(entry) for entry in value] if isinstance(value, tuple) else _as_data(value)

    def sort(self, value: Schema, parent_key: str | None = None) -> Schema:
        return value


def _as_data(value: Any) -> Any:
    return (
        value.model_dump(by_alias=True, exclude_defaults=True)
        if isinstance(value, BaseModel)
        else value
    )


def _described(model: type[BaseModel]) -> Schema:
    """Return what a user may write for ``model``, its sections instead of their `$ref`, each with
    its own description as `title`. What has a unit is text, but its default and its bounds are
    numbers still. `check` comes first, since it says what the other keys mean."""
    whole = model.model_json_schema(schema_generator=_AsWritten)
    sections = whole.pop("$defs", {})
    models = {one.__name__: one for one in _models(Model)}
    for name, section in {model.__name__: whole, **sections}.items():
        if name in models:
            _document(section, models[name])

    def described(schema: Schema) -> Schema:
        found = {
            _BOUNDS_OF_PYDANTIC.get(key, key): value
            for key, value in schema.items()
            if key not in ("title", "discriminator")
        }
        if "discriminator" in schema:
            found |= {"type": "object", "required": ["check"]}
        if "description" in found:
            found = {"description": " ".join(found.pop("description").split()), **found}
        if "check" in found.get("properties", {}):
            found["properties"] = {"check": found["properties"]["check"], **found["properties"]}
        if "$ref" in found:
            section = _each(sections[found.pop("$ref").rpartition("/")[2]], described)
            return {**section, "title": section["description"], **found}
        return found

    return _each(whole, described)


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def _document(section: Schema, model: type[BaseModel]) -> None:
    """Give each key the docstring of its field, where it has no description of its own."""
    for name, field in model.model_fields.items():
        key = field.alias or name
        if (text := docstring_of(model, name)) and key in section["properties"]:
            section["properties"][key].setdefault("description", text)


def _published(schema: Schema) -> Schema:
    """Return ``schema`` as editors get it."""

    def published(found: Schema) -> Schema:
        found = {key: value for key, value in found.items() if key != "title"}
        if found.get("default") == {}:  # of a section; its keys have theirs
            del found["default"]
        if unit := _unit(found):  # an editor can check a text's pattern only
            found = {
                key: unit.write(value) if key == "default" else value
                for key, value in found.items()
                if key not in _BOUNDS
            }
        return found

    return _each(schema, published)


def _each(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Return ``schema`` with every schema in it changed, the inner ones first."""
    found = dict(schema)
    if "properties" in found:
        found["properties"] = {
            name: _each(inner, change) for name, inner in found["properties"].items()
        }
    for key in ("anyOf", "oneOf"):
        if key in found:
            found[key] = [_each(inner, change) for inner in found[key]]
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _each(found[key], change)
    return change(found)


def _unit(schema: Schema) -> Unit | None:
    return _UNITS.get(schema.get("pattern", ""))


# --- The reference


def reference() -> str:
    """Return the option reference, in Markdown: a table for each section, checks included."""
    pipeline, cluster, platform = _described(Pipeline), _described(Cluster), _described(Platform)
    tests = _described(PipelineTests)
    case = tests["properties"]["cases"]["additionalProperties"]
    keys = _table(_with_shorthands(pipeline))
    pinned = _table_of_reasons("Spark settings", PINNED_SPARK_SETTINGS)
    parts = [
        _INTRODUCTION,
        f"## Pipeline: `config/pipelines/NAME.yaml`\n\n{_SHORTEST}\n{keys}",
        *_sections(pipeline),
        f"### Spark settings that `runner.conf` may not hold\n\n{pinned}",
        f"## Platform: `config/shipper.yaml`\n\n{platform['description']}\n\n{_table(platform)}",
        *_sections(platform),
        f"## Cluster: `config/clusters/NAME.yaml`\n\n{_table(cluster)}",
        *_sections(cluster),
        "### What `properties` may "
        f"hold\n\n{_table_of_reasons('Kafka properties', ALLOWED, 'What for')}",
        "All other Kafka properties are refused: shipper sets them itself, since exactly-once "
        "rests on them.",
        f"## Tests: `config/tests/NAME.yaml`\n\n{tests['description']}\n\n{_table(tests)}",
        *_sections(tests),
        *_sections(case, "cases.NAME."),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _sections(schema: Schema, above: str = "") -> Iterator[str]:
    for name, found in schema["properties"].items():
        key, entry, below = (
            f"{above}{name}",
            found.get("items", {}),
            found.get("additionalProperties", {}),
        )
        if "properties" in found:
            yield f"###{'#' * above.count('.')} `{key}`\n\n{found['title']}\n\n{_table(found)}"
            yield from _sections(found, f"{key}.")
        elif "properties" in entry:
            yield f"### `{key}[]`\n\n{entry['title']}\n\n{_table(entry)}"
            yield from _sections(entry, f"{key}[].")
        elif isinstance(below, dict) and "properties" in below:
            yield f"### `{key}.NAME`\n\n{below['title']}\n\n{_table(below)}"
        for check in entry.get("oneOf", ()):
            title = f"#### `{key}[]`: `check: {check['properties']['check']['const']}`"
            yield f"{title}\n\n{check['title']}\n\n{_table(check, without='check')}"


def _table(schema: Schema, without: str = "") -> str:
    rows = [
        _row(key, _value(found), _default(schema, key), found["description"])
        for key, found in schema["properties"].items()
        if key != without
    ]
    return "\n".join([_HEAD, *rows])


def _with_shorthands(pipeline: Schema) -> Schema:
    """Return the schema of a pipeline with the key `topic`, and with the words of keys that have a
    shorter form."""
    keys: dict[str, Schema] = {}
    for key, found in pipeline["properties"].items():
        if key == "routes":
            topic = found["items"]["properties"]["topic"]
            short = "Short for `routes` with this one topic."
            keys["topic"] = topic | {"description": short, "instead": "this or `routes`"}
            found = found | {"instead": "this or `topic`"}
        words = {**dict.fromkeys(SHORTHANDS, "text or "), "clusters": "list of names, or "}
        keys[key] = found | {"shorter": words.get(key, "")}
    return pipeline | {"properties": keys}


def _row(key: str, *cells: str) -> str:
    return f"| `{key}` | " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _table_of_reasons(what: str, reasons: Mapping[str, str], head: str = "Why") -> str:
    """Return a table with a row for each reason. ``reasons``: name → reason."""
    names: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names.setdefault(why, []).append(f"`{name}`")
    rows = (f"| {', '.join(of_reason)} | {why} |" for why, of_reason in names.items())
    return "\n".join([f"| {what} | {head} |\n|---|---|", *rows])


def _default(schema: Schema, key: str) -> str:
    found = schema["properties"][key]
    if "instead" in found:
        return str(found["instead"])
    if key in schema.get("required", ()):
        return "**required**"
    if "default" not in found:
        return "–"
    default = found["default"]
    if default == {}:
        return "see below"
    if isinstance(default, list):
        entries = [
            "{" + ", ".join(f"{name}: {value}" for name, value in entry.items()) + "}"
            if isinstance(entry, dict)
            else str(entry)
            for entry in default
        ]
        return f"`[{', '.join(entries)}]`"
    text = written(default, _unit(found))
    return (
        f'`"{text}"`' if text.startswith(("*", "{")) else f"`{text}`"
    )  # YAML would not read these as text


def _value(schema: Schema) -> str:
    unit = _unit(schema)
    bounds = [
        f"{words} {written(schema[name], unit)}"
        for name, words in _BOUNDS.items()
        if name in schema
    ]
    kind = unit.name if unit else _kind(schema)
    return ", ".join([schema.get("shorter", "") + kind, *bounds])


def _kind(schema: Schema) -> str:
    if words := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return ", ".join(f"`{written(word)}`" for word in words)
    if "anyOf" in schema:
        return " or ".join(_kind(variant) for variant in schema["anyOf"])
    if "properties" in schema:
        return "section"
    if "items" in schema:
        entry = schema["items"]
        if entry == {"type": "string"}:
            return "list of names"
        return (
            "list of "
            f"{'checks' if 'oneOf' in entry else 'sections' if 'properties' in entry else _kind(entry)}"  # noqa: E501
        )
    if "additionalProperties" in schema:
        below = schema["additionalProperties"]
        return f"map of name to {'anything' if below is True else _kind(below)}"
    if schema["type"] == ["string", "null"]:
        return "text or null"
    if isinstance(schema["type"], list):
        return "text, number, true or false"
    return _SCALARS[schema["type"]]
