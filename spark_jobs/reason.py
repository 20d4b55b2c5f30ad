"""Why reading or checking data failed, in words that hold no log content.

Spark quotes the value at fault ("The value 'x' of the type STRING cannot be cast …"), a Python function quotes what it likes,
and Great Expectations passes both on with a traceback. A step's result goes to the report and to messages, so only what is
known to be harmless is taken from an error that came while data was read: Spark's name for it, and the file it could not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from pyspark.errors import AnalysisException

from shipper.errors import ShipperError

_LONGEST = 300
# At the very beginning, where the text is Spark's own; further on it may be a log line that looks like it.
_CONDITION = re.compile(r"(?:An error occurred while calling [\w.$]+\s*: [\w.$]+: )?\[([A-Z][A-Z0-9_.]*)\]")
_UNREADABLE = re.compile(r" Encountered error while reading file (\S+?)\.(?:\s|$)")
_JAVA_CLASS = re.compile(r"An error occurred while calling [\w.$]+\s*: ([\w.$]+)")


def of_building(error: Exception) -> str:
    """For an error from before any data was looked at: its own text."""
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    return _shortened(" ".join(str(message).split()))


def of_exception(error: Exception) -> str:
    """For an error from while data was read."""
    if isinstance(error, ShipperError | AnalysisException):  # written for people; raised before any data is read
        return of_building(error) if isinstance(error, ShipperError) else _shortened(str(error).splitlines()[0])
    return _of_text(str(error), type(error).__name__)


def is_unreadable_file(error: Exception) -> bool:
    """Whether it is a file that Spark could not read, and nothing that an expression does to its lines."""
    condition = _CONDITION.match(str(error))
    return condition is not None and condition[1].startswith("FAILED_READ_FILE")


def of_exception_info(info: Mapping[str, Any]) -> str | None:
    """For the ``exception_info`` of a result of Great Expectations; None if there was no exception.

    It is ``{"raised_exception": …}``, or one such mapping per metric that failed.
    """
    raised = [part for part in _parts(info) if part.get("raised_exception")]
    return _of_text(str(raised[0].get("exception_message")), "an error") if raised else None


def _parts(info: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield info
    yield from (part for part in info.values() if isinstance(part, Mapping))


def _of_text(text: str, kind: str) -> str:
    if condition := _CONDITION.match(text):
        if condition[1].startswith("FAILED_READ_FILE") and (file := _UNREADABLE.match(text, condition.end())):
            return _shortened(
                f"{unquote(file[1])} cannot be read: gone, not permitted, or corrupt ({condition[1]}; Spark's log has the cause)"
            )
        return f"Spark stopped with {condition[1]}; its text may quote log lines, so it is in Spark's log only"
    java = _JAVA_CLASS.match(text)
    return f"it raised {java[1] if java else kind}; the text may quote log lines, so it is left out"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
