"""What may be written in one value: cron expressions, topic names, and the guess at what was meant. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,63}$"
COLUMN_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
MEMORY_PATTERN = r"^[0-9]+[gm]$"
CLASS_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$"
#: What each pattern of a field means, for people.
PATTERN_MEANINGS = {
    NAME_PATTERN: "a name has lower-case letters, digits, '_' and '-' only, begins with a letter and has 64 characters at most",
    COLUMN_PATTERN: "a name has letters, digits and '_' only, and does not begin with a digit",
    CLASS_PATTERN: "write the full name of a class: airflow.providers.slack.notifications.slack.SlackNotifier",
    MEMORY_PATTERN: "write gigabytes or megabytes as Spark does: 2g, 512m",
}
#: `{column}` in a topic.
TOPIC_COLUMN = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SOURCE_PLACEHOLDER = re.compile(r"\{(\w+)(?::([^}]*))?\}")
_MOST_NAMES_SHOWN = 20

# The presets that Airflow's cron timetables know, and the ranges of the five fields.
CRON_PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_CRON_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_CRON_PART = re.compile(r"(?:\*|\?|l|(\w+)(?:-(\w+))?(?:#[1-5])?)(?:/([1-9]\d*))?", re.ASCII)


def suggestion(word: str, allowed: Collection[str], label: str = "allowed") -> str:
    """``"; did you mean 'chunk_size'? allowed: batch_size, chunk_size"``, to be put after what was found."""
    by_lower = {name.lower(): name for name in allowed}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    guess = f"; did you mean {by_lower[close[0]]!r}?" if close else ";"
    names = list(allowed)
    more = f", … ({len(names) - _MOST_NAMES_SHOWN} more)" if len(names) > _MOST_NAMES_SHOWN else ""
    return f"{guess} {label}: {', '.join(names[:_MOST_NAMES_SHOWN])}{more}" if names else ""


def legal_topic(name: str) -> bool:
    """Whether Kafka takes ``name`` as a topic's."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def check_cron(expression: str) -> None:
    """Raises ValueError for what no scheduler would take, so that it shows with file and line not as a broken DAG.

    croniter, which reads the expression in Airflow, has the last word on what is accepted here: five fields of ``*``,
    numbers, names, ranges, steps, ``L`` and ``#n``, or one of Airflow's presets.
    """
    if expression.startswith("@"):
        if expression not in CRON_PRESETS:
            raise ValueError(f"not a preset{suggestion(expression, CRON_PRESETS)}")
        return
    fields = expression.split()
    if len(fields) != len(_CRON_FIELDS):
        names = ", ".join(name for name, *_ in _CRON_FIELDS)
        raise ValueError(f"{len(fields)} fields; a cron expression has five: {names}; or it is one of {', '.join(CRON_PRESETS)}")
    for text, (name, low, high, words) in zip(fields, _CRON_FIELDS, strict=True):
        for part in text.lower().split(","):
            match = _CRON_PART.fullmatch(part)
            if match is None or not all(_in_range(value, low, high, words) for value in match.group(1, 2) if value):
                raise ValueError(f"{part!r} is no {name}: {low}–{high}{' or ' + ', '.join(words) if words else ''}, *, */n, a-b")


def _in_range(value: str, low: int, high: int, words: Collection[str]) -> bool:
    return value in words or (value.isdigit() and low <= int(value) <= high)


def check_timezone(name: str) -> None:
    """Raises ValueError if ``name`` is no IANA time zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # OSError: "Europe" is a folder of time zones
        close = difflib.get_close_matches(name, available_timezones(), n=1)
        guess = f"; did you mean {close[0]!r}?" if close else "; use an IANA name such as UTC or Europe/Berlin"
        raise ValueError(f"not a time zone{guess}") from error


def check_source_placeholders(path: str) -> None:
    """Raises ValueError unless every ``{…}`` that looks like a placeholder is ``{window_start:…}`` or ``{window_end:…}``.

    Braces with a comma in them are left alone: ``{a,b}`` is an alternative in a glob.
    """
    for name, pattern in _SOURCE_PLACEHOLDER.findall(path):
        if name not in ("window_start", "window_end"):
            raise ValueError(f"unknown placeholder {{{name}}}; allowed: {{window_start:%Y-%m-%d}}, {{window_end:…}}")
        if "%" not in pattern:
            raise ValueError(f"{{{name}}} needs a date pattern, for example {{{name}:%Y-%m-%d}}")
    if re.search(r"\{\W*window", _SOURCE_PLACEHOLDER.sub("", path)):
        raise ValueError("a placeholder is written {window_start:%Y-%m-%d}: a name, a colon, a date pattern, braces around")
