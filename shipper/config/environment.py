"""``${NAME}`` and ``${NAME:-default}`` in configuration, filled in from the environment.

As in a shell, the default is taken for a variable that is unset or empty. What is filled in is not looked at again, so
a password may hold any character.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from shipper.config.yaml_file import KeyPath, Problem

_REFERENCE = re.compile(r"\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\})?")


def fill_in(
    data: Any, environment: Mapping[str, str], wanted: Callable[[KeyPath], bool], path: KeyPath = ()
) -> tuple[Any, list[Problem]]:
    """``data`` with every reference in the strings at ``wanted`` paths replaced, and a problem for each that cannot be.
    A string with a problem stays as it is."""
    problems: list[Problem] = []
    if isinstance(data, dict | list):
        filled: dict[Any, Any] = {}
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            filled[key], more = fill_in(value, environment, wanted, (*path, key))
            problems += more
        return (filled if isinstance(data, dict) else list(filled.values())), problems
    if not isinstance(data, str) or not wanted(path):
        return data, []

    def replace(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if name is None:
            message = "`${` begins a reference to the environment; write ${NAME} or ${NAME:-default}"
            problems.append(Problem(path, message))
        elif default is not None:
            return environment.get(name) or default.removeprefix(":-")
        elif name not in environment:
            message = f"the environment variable {name} is not set; set it, or write a default: ${{{name}:-…}}"
            problems.append(Problem(path, message))
        return environment.get(name or "", "")

    filled_in = _REFERENCE.sub(replace, data)
    return (data if problems else filled_in), problems
