"""JSON Schemas (2020-12) of the YAML files, for editors: `# yaml-language-server: $schema=../schema/pipeline.json`.

They describe what a user writes: the keys of the YAML, the shorthands, durations and sizes with their units. They cannot
say all that the loader checks, such as contradictions between keys.
Written out section by section, without `$ref`: an editor then shows a key's own description.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from shipper.config import annotations as types
from shipper.config.kafka_properties import ALLOWED, UNSAFE, otherwise_unsafe
from shipper.config.mapping import LINES_HEADER
from shipper.config.models import Cluster, Pipeline
from shipper.config.platform import Platform
from shipper.config.route import Route
from shipper.config.rules import COLUMN_PATTERN
from shipper.config.spark_settings import PINNED_SPARK_SETTINGS, glob_pattern

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FROM_ENVIRONMENT = {"type": "string", "pattern": r"\$\{.+\}"}
_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    dt.datetime: {"type": "string", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}", "examples": ["2026-11-01", "2026-11-01T06:00Z"]},
}
_CONSTRAINTS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
    "pattern": "pattern",
}


def pipeline_schema() -> Schema:
    """Schema of ``config/pipelines/*.yaml``."""
    schema = _section(Pipeline)
    keys = schema["properties"]
    for name, stands_for in (("schedule", "cron"), ("source", "path")):
        section = keys[name]
        text = {k: v for k, v in section["properties"][stands_for].items() if k != "description"}
        keys[name] = {"description": section.pop("description"), "anyOf": [text, section]}
    topic = _field(Route, "topic", Route.model_fields["topic"])
    schema["properties"] = {}
    for name, found in keys.items():
        schema["properties"] |= {"topic": topic, name: found} if name == "routes" else {name: found}
    schema["required"].remove("routes")
    schema["oneOf"] = [{"required": ["topic"]}, {"required": ["routes"]}]
    keys["records"]["properties"]["columns"]["propertyNames"] = {"pattern": COLUMN_PATTERN}
    keys["records"]["properties"]["headers"]["propertyNames"] = {"not": {"enum": [LINES_HEADER]}}
    pinned = {"not": {"pattern": f"^({'|'.join(glob_pattern(name) for name in PINNED_SPARK_SETTINGS)})$"}, "pattern": r"^spark\."}
    keys["runner"]["properties"]["conf"]["propertyNames"] = pinned
    return {"$schema": _DIALECT, "title": "shipper pipeline", **schema}


def cluster_schema() -> Schema:
    """Schema of ``config/clusters/*.yaml``. Any text may refer to the environment; so may what is a number in the end."""
    schema = _section(Cluster)
    schema["properties"]["properties"]["propertyNames"] = {"enum": list(ALLOWED)}
    schema["properties"]["unsafe_properties"]["propertyNames"] = {"enum": [*UNSAFE, *otherwise_unsafe()]}
    ledger = schema["properties"]["ledger"]["properties"]
    for name, found in ledger.items():
        if found["type"] != "string":
            value = {key: found.pop(key) for key in ("type", "minimum") if key in found}
            ledger[name] = {**found, "anyOf": [value, _FROM_ENVIRONMENT]}
    for name in ("bandwidth", "rate_limit"):
        found = schema["properties"][name]
        value = {key: found.pop(key) for key in ("type", "pattern")}
        schema["properties"][name] = {**found, "anyOf": [value, _FROM_ENVIRONMENT]}
    return {"$schema": _DIALECT, "title": "shipper cluster", **schema}


def platform_schema() -> Schema:
    """Schema of ``config/shipper.yaml``."""
    schema, defaults = _section(Platform), pipeline_schema()
    keys = {name: _partly(found) for name, found in defaults["properties"].items() if name != "pipeline"}
    schema["properties"]["defaults"] |= {"additionalProperties": False, "properties": keys}
    return {"$schema": _DIALECT, "title": "shipper platform", **schema}


def _partly(section: Schema) -> Schema:
    """A section of which any keys may be written; what a list holds is whole."""
    found = {name: value for name, value in section.items() if name != "required"}
    if "anyOf" in found:
        found["anyOf"] = [_partly(variant) for variant in found["anyOf"]]
    return found


def _section(model: type[BaseModel]) -> Schema:
    fields = types.yaml_keys(model)
    return {
        "description": types.one_line(model.__doc__),
        "type": "object",
        "additionalProperties": False,
        "properties": {key: _field(model, key, field) for key, field in fields.items()},
        "required": [key for key, field in fields.items() if field.is_required()],
    }


def _field(model: type[BaseModel], key: str, field: FieldInfo) -> Schema:
    unit = types.unit(model, key)
    found = {"type": "string", "pattern": unit.pattern, "examples": list(unit.examples)} if unit else _value(field.annotation)
    if not unit:  # bounds are numbers; of a text with a unit, an editor can check the pattern only
        names = {**_CONSTRAINTS, **({"min_length": "minItems"} if found.get("type") == "array" else {})}
        found |= {names[name]: value for name, value in types.constraints(field).items()}
    if field.examples:
        found["examples"] = field.examples
    default = types.default(field)
    if default is not None:
        found["default"] = types.written(default, unit) if unit else default
    found.pop("description", None)
    return {"description": types.description(field), **found}


def _value(annotation: Any) -> Schema:
    annotation = types.bare(annotation)
    if types.is_model(annotation):
        return _section(annotation)
    if words := types.words(annotation):
        return {"type": "string", "enum": list(words)}
    if types.is_list(annotation):
        return {"type": "array", "items": _value(types.item(annotation))}
    if types.is_map(annotation):
        return {"type": "object", "additionalProperties": _value(types.item(annotation))}
    if checks := types.variants(annotation):
        return {"type": "object", "required": ["check"], "oneOf": [_section(model) for model in checks.values()]}
    if types.is_scalar_union(annotation):
        return {"type": ["string", "number", "boolean"]}
    if annotation is Any:
        return {}
    return dict(_SCALARS[annotation])
