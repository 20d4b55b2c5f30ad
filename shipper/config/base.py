"""The model that all of the configuration's models are, and how their validators refuse."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

#: pydantic's own last step to a key of a map.
THE_KEY = "[key]"


class Model(BaseModel):
    """Frozen, no unknown keys, and loadable by field name as well as by YAML key."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, use_attribute_docstrings=True)


def refuse(faults: Iterable[tuple[tuple[str | int, ...], str]]) -> None:
    """Raises all faults of a validator at once, each at its own place below what is validated: ``((0, "when"), "why")``.
    A fault of a map's key, not of its value, is at ``(key, THE_KEY)``.

    pydantic merges a ValidationError that a validator raises into its own, so the places survive.
    """
    details = [
        InitErrorDetails(type=PydanticCustomError("fault", "{why}", {"why": why}), loc=place, input=None) for place, why in faults
    ]
    if details:
        raise ValidationError.from_exception_data("", details)
