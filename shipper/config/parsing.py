"""How lines become columns: the part of a pipeline below `records.parse`. What Spark makes of it is spark_jobs.parsing."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from shipper.config.base import Model, refuse
from shipper.config.rules import COLUMN_PATTERN

_GROUP_NAME = re.compile(r"\?<([A-Za-z][A-Za-z0-9]*)>")
_NAMED_AT_ALL = re.compile(r"\?P?<(?![=!])([^>]*)>")
_DDL_NAME = re.compile(r"\s*(`(?:[^`]|``)+`|[^\s:`]+)[\s:]+\S")


class Parse(Model):
    """Makes columns of each line, for `records.columns`, `drop`, `routes`, keys, headers and gates. A line that cannot be parsed is
    `unparseable`: it goes to `quarantine`, or fails the run where there is none. Lines that a rule of `drop` takes are not asked for.
    The value stays the line, byte for byte."""

    regex: str | None = Field(default=None, min_length=1, examples=[r"^(?<client>\S+) \S+ (?<status>\d{3})"])
    """Java regular expression; each named group, `(?<name>…)`, becomes a string column, empty for a group that took no part. A line in
    which it is found nowhere is unparseable; `^` and `$` tie it to the line's ends. Each group that something uses costs one more look
    at the line."""
    json_object: Literal[True] | str | None = Field(default=None, alias="json", examples=["service STRING, status INT"])
    """Each line is a JSON object. Given a schema as in SQL (`service STRING, status INT`), its fields become columns, null where
    the object has none; a line that is no object, or has a value of another type, is unparseable. `true`: no columns; take out what
    you need in `records.columns` with `get_json_object(value, '$.status')`."""

    @field_validator("regex")
    @classmethod
    def _has_named_groups(cls, value: str | None) -> str | None:
        if value is None:
            return None
        groups = regex_groups(value)
        names = [name for name in groups if name is not None]
        wrong = [name for name in _NAMED_AT_ALL.findall(value) if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no name of a group: Java takes letters and digits only, a letter first")
        if "(?P<" in value:
            raise ValueError("a named group is written (?<name>…) here, as in Java, not (?P<name>…)")
        if not names:
            raise ValueError("no named group: write (?<name>…) around each part of the line that is to be a column")
        refuse(((), f"group {name!r} is named twice") for name in dict.fromkeys(names) if names.count(name) > 1)
        return value

    @field_validator("json_object")
    @classmethod
    def _fields_can_be_named(cls, value: Literal[True] | str | None) -> Literal[True] | str | None:
        if isinstance(value, str):
            try:
                names = ddl_names(value)
            except ValueError as error:
                refuse([((), str(error))])
                raise
            refuse(
                ((), f"field {name!r}: a column's name has letters, digits and '_' only, and does not begin with a digit")
                for name in names
                if not re.fullmatch(COLUMN_PATTERN, name)
            )
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Parse:
        given = [name for name, way in (("regex", self.regex), ("json", self.json_object)) if way is not None]
        if len(given) != 1:
            both = "`regex` and `json` contradict each other: a line is parsed in one way; remove one of them"
            raise ValueError(both if given else "`parse` needs `regex` or `json`")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it makes."""
        if self.regex is not None:
            return tuple(name for name in regex_groups(self.regex) if name is not None)
        return tuple(ddl_names(self.json_object)) if isinstance(self.json_object, str) else ()


def regex_groups(pattern: str) -> list[str | None]:
    """The capturing groups of a Java regular expression by number (the first is number 1), with their names. Parentheses in a
    comment of `(?x)` count too, which is wrong; nobody writes those into YAML."""
    groups: list[str | None] = []
    index, in_class = 0, 0
    while index < len(pattern):
        character = pattern[index]
        if pattern.startswith("\\Q", index):
            end = pattern.find("\\E", index)
            index = len(pattern) if end < 0 else end + 2
            continue
        if character == "\\":
            index += 2
            continue
        if character == "[":
            in_class += 1
        elif character == "]" and in_class:
            in_class -= 1
        elif character == "(" and not in_class:
            named = _GROUP_NAME.match(pattern, index + 1)
            if named or not pattern.startswith("?", index + 1):
                groups.append(named[1] if named else None)
        index += 1
    return groups


def ddl_names(schema: str) -> list[str]:
    """Names of the fields of a schema written as in SQL. Raises ValueError for what has no name and type; the rest is Spark's to check."""
    names, part, depth = [], "", 0
    for character in schema + ",":
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            found = _DDL_NAME.match(part)
            if found is None:
                raise ValueError(f"{part.strip()!r} is no field: a schema is written `service STRING, status INT`")
            names.append(found[1].strip("`"))
            part = ""
        else:
            part += character
    twice = [name for index, name in enumerate(names) if name.lower() in (other.lower() for other in names[:index])]
    if twice:
        raise ValueError(f"field {twice[0]!r} is named twice (SQL does not tell upper from lower case)")
    return names
