"""Explanation of pydantic's errors in a user's words, at the user's own paths.

pydantic describes places by the models' structure: shorthands written out, the `check` of a gate as
one more step. A user sees the path that is in the file. The allowed values at a path are read from
the models' annotations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Secret, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from shipper.config import retired
from shipper.config.pipeline import Pipeline
from shipper.config.rules import PATTERN_MEANINGS, THE_KEY, Fault, suggestion
from shipper.config.units import Unit, written
from shipper.config.yaml_file import ConfigFault, KeyPath, YamlFile, value_at

M = TypeVar("M", bound=BaseModel)
_LONGEST_QUOTE = 60
_KINDS = {"int_type": "a whole number", "float_type": "a number", "bool_type": "true or false"}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def validated(
    model: type[M], file: YamlFile, faults: Collection[ConfigFault] = ()
) -> tuple[M | None, list[ConfigFault]]:
    """Return what the file says as ``model``, and the faults besides ``faults``: a value that is
    known to be wrong needs no second complaint from pydantic."""
    try:
        # Only keys of the YAML are allowed here: `chunk_size_bytes`, a name in the code, is an
        # unknown key.
        return model.model_validate(file.data, by_alias=True, by_name=False), []
    except ValidationError as error:
        known = {(fault.file, fault.field) for fault in faults}
        found = _faults_of(error, model, file)
        return None, [fault for fault in found if (fault.file, fault.field) not in known]


def _faults_of(error: ValidationError, model: type[BaseModel], file: YamlFile) -> list[ConfigFault]:
    """Return all errors about ``file.data``, which was validated as ``model``; in pydantic's order,
    each once."""
    found = []
    for details in error.errors():
        location = details["loc"]
        of_key = location[-1:] == (THE_KEY,)
        spot = _spot(location[:-1] if of_key else location, model, file.data)
        if fault := _fault(details, spot, file):
            path, why = fault
            unknown = details["type"] == "extra_forbidden"
            of_key = of_key or unknown
            position = file.position(path, of_key=True) if of_key and file.is_own(path) else None
            code = None
            if unknown and (instead := retired.instead_of_key(path)):
                why, code = f"this key no longer exists. {instead}", retired.CODE
            found.append(file.fault(path, why, position, code=code))
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class _Spot:
    """Place of an error, in the file and in the models."""

    path: KeyPath
    owner: type[BaseModel] | None
    """Model of the section that holds the path's last key; None below lists and maps."""
    annotation: Any
    """Type of what belongs at the path, None if nothing does."""
    field: FieldInfo | None
    """The field that the path lies in."""


def _spot(location: tuple[str | int, ...], model: type[BaseModel], data: Any) -> _Spot:
    """Follow pydantic's ``location`` through the models and the user's ``data`` in parallel."""
    spot = _Spot((), None, model, None)
    if model is Pipeline and location[:2] == ("routes", 0) and "routes" not in data:
        location = location[2:]  # `topic: x`: the file itself is the one route
        spot = _Spot((), None, item(Pipeline.model_fields["routes"].annotation), None)
    for step in location:
        here = bare(spot.annotation)
        if is_model(here):
            field = yaml_keys(here).get(str(step))
            # A shorthand, such as `source: PATH`: the text stands for one of the section's fields.
            path = spot.path if isinstance(data, str) else (*spot.path, step)
            spot = _Spot(path, here, field.annotation if field else None, field)
        elif str(step) in variants(here):
            spot = _Spot(spot.path, spot.owner, variants(here)[str(step)], None)
            continue  # the value of `check` is no step in the file
        elif item(here) is not None:
            spot = _Spot((*spot.path, step), None, item(here), spot.field)
        else:
            continue  # one of several scalar types; pydantic reports each of them
        data = data if isinstance(data, str) else value_at(data, (step,))
    return spot


def _fault(error: ErrorDetails, spot: _Spot, file: YamlFile) -> Fault | None:
    """Return ``error`` in a user's words; None if it only repeats others."""
    kind, context, path = error["type"], error.get("ctx", {}), spot.path
    if kind == "fault":
        return path, str(context["why"])
    if kind == "extra_forbidden":
        return path, _unknown_key(spot)
    if kind == "missing":
        if spot.owner is Pipeline and path == ("routes",):
            return ("topic",), (
                "missing: every record needs a topic; write `topic: NAME`, or a table under "
                "`routes`"
            )
        return path, "missing; it has no default"
    if kind.startswith("union_tag_"):
        known, tag = list(variants(spot.annotation)), context.get("tag")
        if tag is None:
            return path, f"`check` is missing{suggestion('', known)}"
        return (*path, "check"), f"unknown check {tag!r}{suggestion(str(tag), known)}"
    value = value_at(file.data, path)
    if kind == "too_short" and value not in ([], {}):
        # pydantic counts the entries without an error only; the others are reported by themselves
        return None
    found = _found(kind, spot, value, file)
    if enumerated := words(bare(spot.annotation)):
        return path, f"{found}{suggestion(file.text(path) or '', enumerated)}"
    allowed = _allowed(kind, context, spot, value) or error["msg"]
    return path, f"{found}; {allowed}" if found else allowed


def _unknown_key(spot: _Spot) -> str:
    key, owner = str(spot.path[-1]), spot.owner
    assert owner is not None  # only models have keys that may be unknown
    if owner is Pipeline and key == "topic":
        return "`topic` and `routes` contradict each other; keep one of them"
    keys = [*yaml_keys(owner), *(["topic"] if owner is Pipeline else [])]
    in_code = owner.model_fields.get(key)
    if in_code is not None and in_code.alias:
        return f"unknown key; did you mean {in_code.alias!r}? allowed: {', '.join(keys)}"
    if owner is Pipeline:
        sections = {name: bare(field.annotation) for name, field in yaml_keys(Pipeline).items()}
        homes = [
            f"`{name}`"
            for name, model in sections.items()
            if is_model(model) and key in yaml_keys(model)
        ]
        if homes:
            return (
                f"unknown key at the top; it belongs into {' or '.join(homes)}; check the "
                "indentation"
            )
    return f"unknown key{suggestion(key, keys)}"


def _found(kind: str, spot: _Spot, value: Any, file: YamlFile) -> str:
    """Return the value in the file; empty if the model keeps it out of its own repr, as it does
    with secrets."""
    if isinstance(value, dict | list):
        what = "a section" if isinstance(value, dict) else "a list"
        return f"found {what}" if kind.endswith("_type") else ""
    if value is None or (spot.field is not None and not spot.field.repr):
        return ""
    text = file.text(spot.path) or ""
    if len(text) > _LONGEST_QUOTE:
        text = text[: _LONGEST_QUOTE - 1] + "…"
    return f"found {text!r}" if isinstance(value, str) else f"found {text}"


def _allowed(kind: str, context: Mapping[str, Any], spot: _Spot, value: Any) -> str | None:
    """Return the allowed values. None for a kind of error that no field has so far."""
    if is_scalar_union(bare(spot.annotation)):
        return "expected text, a number, true or false"
    match kind:
        case "value_error":
            return str(context["error"])
        case "string_type":
            return (
                "expected one text"
                if isinstance(value, dict | list)
                else "expected text; put it into quotes"
            )
        case "string_too_short":
            return "it must not be empty"
        case "string_pattern_mismatch":
            return PATTERN_MEANINGS.get(context["pattern"], f"it must match {context['pattern']}")
        case "int_type" | "float_type" | "bool_type":  # text, for instance a number in quotes
            return f"expected {_KINDS[kind]}, without quotes"
        case "int_parsing" | "int_from_float" | "float_parsing" | "bool_parsing":
            return f"expected {_KINDS[kind.split('_')[0] + '_type']}"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "expected a section of keys and values"
        case "tuple_type":
            return "expected a list, such as [a, b]"
        case "too_short":
            what = "section" if isinstance(value, dict) else "list"
            return f"the {what} is empty; it needs an entry at least"
        case "greater_than_equal" | "greater_than" | "less_than_equal" | "less_than":
            unit = unit_of(spot.field) if spot.field else None
            bound, value = next(iter(context.items()))
            return f"it must be {_BOUNDS[bound]} {written(value, unit)}"
    return (
        "expected a date or time, such as 2026-11-01 or 2026-11-01T06:00+01:00"
        if kind.startswith("date")
        else None
    )


# --- What the models' annotations say


def bare(annotation: Any) -> Any:
    """Return what a user may write: ``annotation`` without ``Annotated``, ``Secret`` and ``|
    None``."""
    if get_origin(annotation) in (Annotated, Secret):
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        rest = [variant for variant in get_args(annotation) if variant is not NoneType]
        return bare(rest[0]) if len(rest) == 1 else annotation
    return annotation


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def item(annotation: Any) -> Any:
    """Return X of ``tuple[X, ...]`` and of ``dict[str, X]``, else None."""
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0]
    return get_args(annotation)[1] if get_origin(annotation) is dict else None


def variants(annotation: Any) -> dict[str, type[BaseModel]]:
    """Return the models of a union that are told apart by `check`, by its value; also of a single
    such model. Else empty."""
    annotation = bare(annotation)
    models = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return {
        name: model
        for model in models
        if is_model(model) and "check" in model.model_fields
        for name in get_args(model.model_fields["check"].annotation)
    }


def is_scalar_union(annotation: Any) -> bool:
    """Return True if the field takes several kinds of values, none of which is a check."""
    return get_origin(annotation) in (Union, UnionType) and not variants(annotation)


def words(annotation: Any) -> tuple[str, ...]:
    """Return the words that an enumeration allows, else empty."""
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def yaml_keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields by the key that a user writes; `check` first, since it says what the others
    mean."""
    by_key = {field.alias or name: field for name, field in model.model_fields.items()}
    return {"check": by_key.pop("check"), **by_key} if "check" in by_key else by_key


def unit_of(field: FieldInfo) -> Unit | None:
    """Return the unit of a field that is a number with one, else None."""
    return next(
        (
            mark
            for mark in (*field.metadata, *_metadata(field.annotation))
            if isinstance(mark, Unit)
        ),
        None,
    )


def _metadata(annotation: Any) -> Iterator[Any]:
    """Yield what ``Annotated`` adds, also in ``… | None``."""
    if get_origin(annotation) is Annotated:
        yield from get_args(annotation)[1:]
    elif get_origin(annotation) in (Union, UnionType):
        for variant in get_args(annotation):
            yield from _metadata(variant)
