"""What is wrong with a command line, in shipper's words."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from shipper.config.rules import suggestion

_KINDS = {"int_parsing": "a whole number", "float_parsing": "a number"}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def usage_text(error: Any) -> str:
    """Return what is wrong, and which command tells what is right. ``error``: typer's."""
    if isinstance(error.__cause__, ValidationError):
        error.message = _why(error, dict(error.__cause__.errors()[0]))
    command = error.ctx.command_path if error.ctx else "shipper"
    return f"{error.format_message().rstrip('.')}. `{command} --help` shows what it takes."


def _why(error: Any, details: dict[str, Any]) -> str:
    """Return why a value is refused: what pydantic says names neither the value nor, of several
    words, the nearest one."""
    value, bound = details["input"], next(iter(details.get("ctx", {}).items()), ("", None))
    words = [word.value for word in error.param.shell_complete(error.ctx, "")]
    if words:
        return f"{value!r} is none of its words{suggestion(str(value), words)}"
    if kind := _KINDS.get(details["type"]):
        return f"{value!r} is not {kind}"
    if known := _BOUNDS.get(bound[0]):
        return f"{value} is not {known} {bound[1]}"
    return str(error.message)
