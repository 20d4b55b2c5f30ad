"""The JSON Schema (2020-12) of `report.json`, generated from its model: what programs that read it may rely on."""

from __future__ import annotations

import json
from typing import Any

from shipper.report.results import RunReport

NAME = "report.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PROMISE = (
    "Everything about one run of shipper. Within a `version` fields may be added; none is taken away, renamed or given another "
    "meaning or unit. So do not refuse fields that you do not know."
)


def report_schema() -> dict[str, Any]:
    """Of the file as it is written."""
    schema = RunReport.model_json_schema(mode="serialization")
    schema.pop("title")
    for section in (schema, *schema["$defs"].values()):
        section.pop("additionalProperties", None)  # shipper refuses what it does not know; a reader must not
        for field in section["properties"].values():
            field.pop("title", None)
    return {"$schema": _DIALECT, "title": "shipper run report", **schema, "description": _PROMISE}


def report_schema_text() -> str:
    return json.dumps(report_schema(), indent=2, ensure_ascii=False) + "\n"
