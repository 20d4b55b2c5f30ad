"""What the models' type annotations say, for error messages and for the generated documents."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Secret
from pydantic.fields import FieldInfo

from shipper.config.units import Unit


def bare(annotation: Any) -> Any:
    """Without ``Annotated``, ``Secret`` and ``| None``: what a user may write."""
    if get_origin(annotation) in (Annotated, Secret):
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        rest = [variant for variant in get_args(annotation) if variant is not NoneType]
        return bare(rest[0]) if len(rest) == 1 else annotation
    return annotation


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def item(annotation: Any) -> Any:
    """X of ``tuple[X, ...]`` and of ``dict[str, X]``, else None."""
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0]
    return get_args(annotation)[1] if get_origin(annotation) is dict else None


def is_list(annotation: Any) -> bool:
    return get_origin(annotation) is tuple


def is_map(annotation: Any) -> bool:
    return get_origin(annotation) is dict


def variants(annotation: Any) -> dict[str, type[BaseModel]]:
    """The models of a union that are told apart by `check`, by its value; also of a single such model. Else empty."""
    annotation = bare(annotation)
    models = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return {
        name: model
        for model in models
        if is_model(model) and "check" in model.model_fields
        for name in get_args(model.model_fields["check"].annotation)
    }


def is_scalar_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType) and not variants(annotation)


def words(annotation: Any) -> tuple[str, ...]:
    """The words that an enumeration allows, else empty."""
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def yaml_keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Fields by the key that a user writes; `check` first, since it says what the others mean."""
    by_key = {field.alias or name: field for name, field in model.model_fields.items()}
    return {"check": by_key.pop("check"), **by_key} if "check" in by_key else by_key


def unit(model: type[BaseModel], key: str) -> Unit | None:
    """Of a field that is a number with a unit."""
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            marks = (*field.metadata, *_metadata(field.annotation))
            return next((mark for mark in marks if isinstance(mark, Unit)), None)
    return None


def _metadata(annotation: Any) -> Iterator[Any]:
    """Of ``Annotated``, also in ``… | None``."""
    if get_origin(annotation) is Annotated:
        yield from get_args(annotation)[1:]
    elif get_origin(annotation) in (Union, UnionType):
        for variant in get_args(annotation):
            yield from _metadata(variant)


def written(value: Any, unit_of_value: Unit | None) -> str:
    """``value`` as a user writes it in YAML: ``10m``, ``8MB``, ``true``."""
    if unit_of_value is not None:
        return unit_of_value.write(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def constraints(field: FieldInfo) -> dict[str, Any]:
    """What the field adds to its type: any of ``ge``, ``gt``, ``le``, ``lt``, ``min_length``, ``pattern``."""
    names = ("ge", "gt", "le", "lt", "min_length", "pattern")
    found = {name: getattr(metadata, name, None) for name in names for metadata in field.metadata if hasattr(metadata, name)}
    return {name: value for name, value in found.items() if value is not None}


def default(field: FieldInfo) -> Any:
    """The default if there is one to show: not that of a section, whose keys have theirs."""
    value = None if field.is_required() or field.default_factory is not None else field.default
    if isinstance(value, BaseModel) or value == "":
        return None
    if isinstance(value, tuple):
        return [
            entry.model_dump(by_alias=True, exclude_defaults=True) if isinstance(entry, BaseModel) else entry for entry in value
        ]
    return value


def one_line(text: str | None) -> str:
    """A docstring without its line breaks."""
    return " ".join((text or "").split())


def description(field: FieldInfo) -> str:
    """The field's own; of a section without one, the section's."""
    section = bare(field.annotation)
    return one_line(field.description or (section.__doc__ if is_model(section) else ""))
