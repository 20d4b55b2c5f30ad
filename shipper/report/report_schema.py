"""The JSON Schema (2020-12) of `report.json`, generated from its model: what programs that read it
may rely on."""

from __future__ import annotations

import json
from typing import Any

from shipper import request
from shipper.config import replay_request
from shipper.config.schema import generated_files
from shipper.docstrings import docstring_of
from shipper.report import plan_result, results, run_folder

NAME = "report.json"
_HOMES = (request, replay_request, run_folder, plan_result, results)
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PROMISE = (
    "Everything about one run of shipper. Within a `version` fields may be added; none is taken "
    "away, renamed or given another meaning or unit. So do not refuse fields that you do not "
    "know."
)


def report_schema() -> dict[str, Any]:
    """Return the schema of the file as it is written."""
    schema = results.RunReport.model_json_schema(mode="serialization")
    models = {name: model for home in _HOMES for name, model in vars(home).items()}
    sections = {**schema["$defs"], schema.pop("title"): schema}
    for name, section in sections.items():
        section.pop(
            "additionalProperties", None
        )  # shipper refuses what it does not know; a reader must not
        for key, field in section["properties"].items():
            field.pop("title", None)
            if text := docstring_of(models[name], key):
                section["properties"][key] = {"description": text, **field}
    return {"$schema": _DIALECT, "title": "shipper run report", **schema, "description": _PROMISE}


def report_schema_text() -> str:
    return json.dumps(report_schema(), indent=1, ensure_ascii=False) + "\n"


def schema_texts() -> dict[str, str]:
    """Return name in ``config/schema/`` → text: the schemas of the configuration and of the report,
    and the reference of options."""
    return {**generated_files(), NAME: report_schema_text()}
