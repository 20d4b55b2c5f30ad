"""Foundation of the models: their base class, the way in which a validator refuses, and the rules
for single values.

No file, environment or network is touched here. Cron expressions, dates in paths, names of topics
and hosts, and URIs are judged by their text.
"""

from __future__ import annotations

import datetime as dt
import difflib
import ipaddress
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

#: pydantic's own last step to a key of a map.
THE_KEY = "[key]"
Fault = tuple[tuple[str | int, ...], str]
"""Place below the validated value, and the fault there: ``((0, "when"), "why")``. A fault of a
map's key, not of its value, is at ``(key, THE_KEY)``."""


class Model(BaseModel):
    """Frozen, no unknown keys, and loadable by field name as well as by YAML key."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def refuse(faults: Iterable[Fault]) -> None:
    """Raise ValidationError with all faults of a validator at once, each at its own place; return
    if there are none.

    pydantic merges a ValidationError that a validator raises into its own, so the places survive.
    """
    details = [
        InitErrorDetails(
            type=PydanticCustomError("fault", "{why}", {"why": why}), loc=place, input=None
        )
        for place, why in faults
    ]
    if details:
        raise ValidationError.from_exception_data("", details)


def named_twice(values: Sequence[str | int]) -> Iterator[Fault]:
    """Yield a fault for each value that stands further up as well."""
    for index, value in enumerate(values):
        if value in values[:index]:
            yield (index,), f"{value!r} is named twice"


def check_ascending(bounds: Mapping[str, float | None], shown: Callable[[Any], str] = str) -> None:
    """Raise ValueError if there is no bound, or one is larger than a later one. ``bounds``: key →
    bound, smallest first."""
    given = [(name, value) for name, value in bounds.items() if value is not None]
    keys = ", ".join(f"`{name}`" for name in bounds)
    if not given:
        raise ValueError(f"without any of {keys} everything passes; give one of them")
    for (low, small), (high, large) in pairwise(given):
        if small > large:
            raise ValueError(
                f"`{low}` ({shown(small)}) is larger than `{high}` ({shown(large)}), so nothing "
                "passes"
            )


NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,63}$"
COLUMN_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
MEMORY_PATTERN = r"^[0-9]+[gm]$"
ARCHIVE_PATTERN = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:/)[^,#\s]*\.(tar\.gz|tgz|zip)$"
CLASS_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$"
#: Description of each field's pattern, for people.
PATTERN_MEANINGS = {
    NAME_PATTERN: (
        "a name has lower-case letters, digits, '_' and '-' only, begins with a letter "
        "and has 64 characters at most"
    ),
    COLUMN_PATTERN: "a name has letters, digits and '_' only, and does not begin with a digit",
    CLASS_PATTERN: (
        "write the full name of a class: airflow.providers.slack.notifications.slack.SlackNotifier"
    ),
    ARCHIVE_PATTERN: (
        "write an absolute path or a URI that ends in .tar.gz, .tgz or .zip, and has "
        "no ',' and no '#'"
    ),
    MEMORY_PATTERN: "write gigabytes or megabytes as Spark does: 2g, 512m",
}
#: A glob on names of tar archives, packed or not.
TAR = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|txz)$")
_MOST_NAMES_SHOWN = 20
#: In the name of a replay (:mod:`shipper.config.replay_request`), between the pipeline's name and
#: the replay's id; no pipeline's own has a dot.
REPLAY_INFIX = ".replay."


def original(pipeline: str) -> str:
    """Return the pipeline in whose file a replay is written, by the replay's name; any other name
    is its own."""
    return pipeline.partition(REPLAY_INFIX)[0]


def suggestion(word: str, allowed: Collection[str], label: str = "allowed") -> str:
    """Return ``"; did you mean 'chunk_size'? allowed: batch_size, chunk_size"``, to be appended to
    a fault."""
    by_lower = {name.lower(): name for name in allowed}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    guess = f"; did you mean {by_lower[close[0]]!r}?" if close else ";"
    names = list(allowed)
    more = f", … ({len(names) - _MOST_NAMES_SHOWN} more)" if len(names) > _MOST_NAMES_SHOWN else ""
    return f"{guess} {label}: {', '.join(names[:_MOST_NAMES_SHOWN])}{more}" if names else ""


# --- Topics and SQL

#: `{column}` in a topic.
TOPIC_COLUMN = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_GROUP_NAME = re.compile(r"\?<([A-Za-z][A-Za-z0-9]*)>")


def legal_topic(name: str) -> bool:
    """Return True if Kafka accepts ``name`` as a topic's."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def reserved_topics(*ledgers: str) -> str:
    """Return a regular expression, for Python and Java, of topics that are not for records: Kafka's
    and shipper's own, and the ledgers of any pipeline by these names (as in a cluster's
    `ledger.topic`)."""
    names = [
        re.escape(ledger).replace(re.escape("{pipeline}"), "[a-z][a-z0-9_-]{0,63}")
        for ledger in ledgers
    ]
    return "|".join([r"__.*", r"_shipper\..*", *names])


def check_topic(name: str, *ledgers: str) -> None:
    """Raise ValueError for a topic that no record may be sent to."""
    if not legal_topic(name):
        raise ValueError(
            "a topic name has letters, digits, '.', '_' and '-' only, and at most 249 characters"
        )
    if re.fullmatch(reserved_topics(*ledgers), name):
        raise ValueError(
            f"{name!r} cannot hold records: topics that begin with '__' are Kafka's own, and "
            "'_shipper.…' or a cluster's `ledger.topic` are ledgers, which a foreign record "
            "would block; name another topic"
        )


def regex_groups(pattern: str) -> list[str | None]:
    """Return the capturing groups of a Java regular expression by number (the first is number 1),
    with their names. Parentheses in a comment of `(?x)` count too, which is wrong; such comments
    are not expected in YAML."""
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


def sql_literal(text: str) -> str:
    """Write ``text`` as a string literal in Spark SQL, with its backslashes and quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def sql_column(name: str) -> str:
    """Write ``name`` as a column in Spark SQL, also where it is a word of SQL."""
    return f"`{name}`"


def sql_time(name: str) -> str:
    """Write a column, of whatever type, as a time in Spark SQL; null if it is none."""
    return f"try_cast({sql_column(name)} AS TIMESTAMP)"


def sql_array(texts: tuple[str, ...]) -> str:
    """Write ``texts`` as an array of string literals."""
    return f"array({', '.join(sql_literal(text) for text in texts)})"


# --- Schedules

#: The presets that Airflow's cron timetables know.
CRON_PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}


_CRON_FIELDS = (
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31"),
    ("month", "1 to 12, or JAN to DEC"),
    ("day of the week", "0 to 7, or SUN to SAT"),
)


def check_cron(expression: str) -> None:
    """Raise ValueError for what croniter, which reads the expression here and in Airflow, does not
    take, and for what never comes."""
    if expression.startswith("@"):
        if expression not in CRON_PRESETS:
            raise ValueError(f"not a preset{suggestion(expression, CRON_PRESETS)}")
        return
    if (count := len(expression.split())) != 5:
        raise ValueError(
            f"{count} fields; a cron expression has five, or is one of {', '.join(CRON_PRESETS)}"
        )
    if re.search(r"\b[hr]\b", expression, re.IGNORECASE):
        raise ValueError("`H` and `R` are random at each reading; write the number")
    # Imported late: most pipelines have a preset, and the library takes 0.2 s to import.
    from croniter import CroniterBadDateError, CroniterError, croniter

    try:
        croniter(expression, dt.datetime(2024, 1, 1)).get_next()
    except CroniterBadDateError:
        raise ValueError("the schedule never fires: no month has such a day") from None
    except CroniterError:
        fields = zip(_CRON_FIELDS, expression.split(), strict=True)
        for place, ((name, allowed), field) in enumerate(fields):
            alone = " ".join([*["*"] * place, field, *["*"] * (4 - place)])
            if not croniter.is_valid(alone):
                raise ValueError(f"{field!r} is no {name}, which is {allowed}") from None
        raise ValueError("not a cron expression") from None


def check_timezone(name: str) -> None:
    """Raise ValueError if ``name`` is no IANA time zone."""
    try:
        ZoneInfo(name)
    except (
        ZoneInfoNotFoundError,
        ValueError,
        OSError,
    ) as error:  # OSError: "Europe" is a folder of time zones
        near = difflib.get_close_matches(name, available_timezones(), n=1, cutoff=0.8)
        close = near or ["Europe/Berlin"]
        raise ValueError(f"not the IANA name of a time zone, such as {close[0]!r}") from error


# --- Dates in paths

_SOURCE_PLACEHOLDER = re.compile(r"\{(\w+)(?::([^}]*))?\}")
# Directive → regex, and its length in seconds (a year and a month alone are never fine enough to be
# asked for). This is the only list of what a pattern may have: for any other directive it is
# unknown how often the name changes, and folders would be left out silently.
_DIRECTIVES = {
    "Y": (r"\d{4}", 366 * 86_400),
    "m": (r"\d{2}", 31 * 86_400),
    "d": (r"\d{2}", 86_400),
    "j": (r"\d{3}", 86_400),
    "H": (r"\d{2}", 3600),
    "M": (r"\d{2}", 60),
    "S": (r"\d{2}", 1),
    "-m": (r"\d{1,2}", 31 * 86_400),
    "-d": (r"\d{1,2}", 86_400),
    "-j": (r"\d{1,3}", 86_400),
    "-H": (r"\d{1,2}", 3600),
    "-M": (r"\d{1,2}", 60),
    "-S": (r"\d{1,2}", 1),
}
_INSTEAD = {
    "F": "%Y-%m-%d",
    "T": "%H:%M:%S",
    "R": "%H:%M",
    "D": "%m/%d/%Y",
    "y": "%Y",
    "k": "%-H",
    "e": "%-d",
    "s": "%H, %M and %S",
}
_DIRECTIVE = re.compile(r"%([-_0^#EO]*.?)", re.DOTALL)
_IN_SPARK = {"Y": "yyyy", "m": "M", "d": "d", "j": "D", "H": "H", "M": "m", "S": "s"}
_PLAIN_IN_URIS = "/:@&=+$,!~*'()-._;"
_WHOLE_DATES = ({"Y", "m", "d"}, {"Y", "j"})
_PLACEHOLDER = re.compile(r"\{window_start:([^}]*)\}")
_GLOB = re.compile(r"[*?\[\]{}]")
_WRITTEN_SO = "a placeholder is written {window_start:%Y-%m-%d} or {window_end:…}"


def check_source_placeholders(path: str) -> None:
    """Raise ValueError unless every ``{…}`` that looks like a placeholder is ``{window_start:…}``
    or ``{window_end:…}``, with directives whose step is known.

    Braces with a comma in them are left alone: ``{a,b}`` is an alternative in a glob.
    """
    for name, pattern in _SOURCE_PLACEHOLDER.findall(path):
        if name not in ("window_start", "window_end") or "%" not in pattern:
            raise ValueError(f"{{{name}…}} is no placeholder; {_WRITTEN_SO}")
        directives(pattern)
    if re.search(r"\{[^\w{]*+window", _SOURCE_PLACEHOLDER.sub("", path)):
        raise ValueError(_WRITTEN_SO)


def directives(pattern: str) -> list[str]:
    """Return the directives: ``%Y/%-H`` → ``["Y", "-H"]``. Raises ValueError for one that is not in
    the list."""
    found = _DIRECTIVE.findall(pattern)
    for directive in found:
        if directive not in _DIRECTIVES:
            instead = f"; write {_INSTEAD[directive]}" if directive in _INSTEAD else ""
            known = " ".join(f"%{name}" for name in _DIRECTIVES)
            raise ValueError(f"%{directive} is not known here{instead}; there are {known}")
    return found


def step_seconds(pattern: str) -> int:
    """Return how often the name changes, by its finest directive; a day at the most, since a month
    has no fixed length. Raises ValueError as ``directives`` does."""
    return min([86_400, *(_DIRECTIVES[directive][1] for directive in directives(pattern))])


#: Part of a date or time → the parts that it needs beside it; otherwise the name repeats.
_BELOW = {"m": "Y", "d": "m", "j": "Y", "H": "d", "M": "H", "S": "M"}


def missing_date_parts(path: str) -> list[str]:
    """Return the directives without which the folders that ``path`` names have the same name at
    several times: ``{window_start:%Y/%d}`` → ``["%m"]``."""
    used = {
        directive.removeprefix("-")
        for name, pattern in _SOURCE_PLACEHOLDER.findall(path)
        for directive in directives(pattern)
    }
    if "j" in used:  # the day of the year stands for month and day
        used |= {"m", "d"}
    missing = set[str]()
    for part in used:
        while part := _BELOW.get(part, ""):
            missing |= {part} - used
    return [f"%{part}" for part in "YmdHM" if part in missing]


def pattern_of_source(path: str) -> str | None:
    """Return the pattern of the time: ``s3a://logs/{window_start:%Y/%m/%d/%H}/`` →
    ``/%Y/%m/%d/%H/``; None if the path names no time, or has a glob amid it."""
    found = list(_PLACEHOLDER.finditer(path))
    if not found:
        return None
    around = path[max(found[0].start() - 1, 0) : found[-1].end() + 1]
    pattern = _PLACEHOLDER.sub(lambda match: match[1], around)
    pattern = pattern.strip("*?[]{}")  # a glob right beside it says nothing about the time
    return None if _GLOB.search(pattern) else pattern


@dataclass(frozen=True)
class PathTime:
    """A pattern such as ``/%Y/%m/%d/%H/``. Raises ValueError for one that names no full date, or
    that holds another directive."""

    pattern: str

    def __post_init__(self) -> None:
        used = self._used
        if len(used) != len(set(used)):
            raise ValueError("a directive stands twice in it; name each part of the time once")
        if run_on := re.search(r"%-.(?=%|\d)", self.pattern):
            raise ValueError(
                f"{run_on[0]} must be followed by a character that is not a digit, so that its "
                "end is clear"
            )
        if not any(date <= set(used) for date in _WHOLE_DATES):
            raise ValueError(
                "it names no full date; it needs %Y, %m and %d (or %Y and %j), such as "
                "/%Y/%m/%d/%H/"
            )
        if ("M" in used and "H" not in used) or ("S" in used and "M" not in used):
            raise ValueError("it has minutes without hours, or seconds without minutes")

    @property
    def _used(self) -> list[str]:
        """The directives in it, without the sign for unpadded ones."""
        return [directive.removeprefix("-") for directive in directives(self.pattern)]

    @property
    def finest_seconds(self) -> int:
        """Seconds after which the name changes."""
        return step_seconds(self.pattern)

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile(self._written(str), re.ASCII)

    @property
    def in_spark(self) -> tuple[str, str]:
        """The same for Spark: a Java regular expression over a percent-encoded path, with a group
        for each directive; and how the groups, joined by ``-``, are read as a timestamp."""
        regex = self._written(lambda text: quote(text, safe=_PLAIN_IN_URIS))
        return regex, "-".join(_IN_SPARK[name] for name in self._used)

    def _written(self, text: Callable[[str], str]) -> str:
        """Return a regular expression with a group for each directive. Without a digit before or
        after it: 20261101 is no time in 12026110123."""
        parts = _DIRECTIVE.split(self.pattern)
        groups = (
            f"({_DIRECTIVES[part][0]})" if i % 2 else re.escape(text(part))
            for i, part in enumerate(parts)
        )
        return ("" if parts[0] else r"(?<!\d)") + "".join(groups) + ("" if parts[-1] else r"(?!\d)")

    def find(self, path: str) -> dt.datetime | None:
        """Return the last time in the path, UTC; None if there is none, or if it is no date (a 13th
        month)."""
        matches = list(self._regex.finditer(path))
        if not matches:
            return None
        pattern = "-".join(f"%{name}" for name in self._used)
        try:
            found = dt.datetime.strptime("-".join(matches[-1].groups()), pattern)
        except ValueError:
            return None
        return found.replace(tzinfo=dt.UTC)


# --- Addresses

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def is_this_machine(host: str) -> bool:
    """Return True for loopback, and for a reference, which is not known yet."""
    if host == "localhost" or "${" in host:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def bootstrap_fault(bootstrap: str) -> str | None:
    """Return the fault of a list of host:port, or None."""
    for server in bootstrap.split(","):
        text = server.strip()
        if "${" in text:  # not filled in yet
            continue
        if "://" in text:
            return f"{text!r} is a URL; write host:port, and `security.protocol` in `properties`"
        found = re.fullmatch(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]@]+):(\d{1,5})", text)
        if found is None or not 0 < int(found[1]) < 65_536:
            return f"{text!r} is no host:port, with a port between 1 and 65535"
    return None


def password_fault(uri: str) -> str | None:
    """Return the fault of an address that contains a password: paths of files are in the ledger, in
    reports and in logs. Quotes no part of it."""
    if re.search(r"://[^/@]*:[^/@]*@", uri) is None:
        return None
    return "the address contains a password, and is shown; give it to Hadoop or fsspec instead"


#: Schemes of `source` that tests cover. For others it is unknown what their listing leaves out.
_SOURCE_SCHEMES = ("file", "hdfs", "viewfs", "s3a")
#: Java takes the bucket for a host. The last part of a name with dots must begin with a letter.
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_S3A_BUCKET = re.compile(rf"{_LABEL}|(?:{_LABEL}\.)+(?=[A-Za-z]){_LABEL}")
_SCHEME_INSTEAD = {"s3": "s3a", "s3n": "s3a", "webhdfs": "hdfs", "swebhdfs": "hdfs"}


def source_fault(path: str) -> str | None:
    """Return the fault of the file system of `source.path`, or None."""
    if path.startswith("~"):
        return "`~` is not expanded here; write the whole path"
    if re.search(r"\{\{\s*\w+\s*\}\}", path):
        return "Airflow's templates are not filled in here; write {window_start:%Y-%m-%d}"
    scheme = path.partition(":")[0] if SCHEME.match(path) else "file"
    if scheme in _SOURCE_SCHEMES:
        filled_in = _SOURCE_PLACEHOLDER.sub("2026", path)
        return None if "${" in path else store_fault(filled_in) or glob_fault(filled_in)
    like = _SCHEME_INSTEAD.get(scheme.lower(), scheme.lower())
    port = ", with the NameNode's RPC port (8020), not that of HTTP" if "webhdfs" in scheme else ""
    return (
        f"write `{like}://` instead of `{scheme}`{port}"
        if like in _SOURCE_SCHEMES
        else f"files are not read from `{scheme}`; copy the files to {', '.join(_SOURCE_SCHEMES)}"
    )


def store_fault(path: str) -> str | None:
    """Return why the file system of a path has nothing there that can be shipped, or None."""
    scheme, _, below = path.partition("://")
    names = re.split(r"[/,{}]", below)
    if scheme in ("hdfs", "viewfs") and ".snapshot" in names:
        return (
            "HDFS does not say which files of a snapshot were open when it was taken, so their "
            "last lines may be torn; name the folder itself"
        )
    if scheme == "s3a":
        bucket, _, key = below.partition("/")
        if re.search(r"[*?\[\]{}\\]", bucket):
            return f"{bucket!r} is a pattern, and a bucket takes none; write a pipeline for each"
        if not _S3A_BUCKET.fullmatch(bucket):
            return (
                f"S3A cannot read a bucket whose name is no host name, such as {bucket!r} (with "
                "`_`, or with a last part behind a dot that begins with a digit); copy the objects "
                "to another bucket"
            )
        if "//" in f"/{key}" or {".", ".."} & set(names):
            return "no path leads to keys with `//`, `/./` or `/../`; write the key without them"
    return None


def glob_fault(glob: str, *, braces: bool = True) -> str | None:
    """Return the fault of a glob that does not parse, or None. ``braces``: True for a pattern of
    paths, as Hadoop reads it; False for one of names, in which a backslash is no escape."""
    left = re.sub(r"\\.", "", glob) if braces else glob
    left = re.sub(r"\[!?\]?[^\]]*\]", "", left)
    if "[" in left:
        return f"{glob!r} has a `[` without its `]`"
    if braces and (left.count("{") != left.count("}") or left.endswith("\\")):
        return f"{glob!r} has a brace without its other one, or ends in a backslash"
    return None


def resolve_uri(config_dir: Path, uri: str) -> str:
    """Resolve a path that is neither absolute nor has a scheme below the folder above
    ``config_dir``; others stay as they are, but for the slash that a whole bucket or file system
    needs.

    Globs, placeholders and a ``/`` at the end survive. Symbolic links are not followed: a file's
    path is its identity.
    """
    if SCHEME.match(uri) or uri.startswith("/"):
        return f"{uri}/" if re.fullmatch(r"(s3a|hdfs|viewfs)://[^/]+", uri) else uri
    path = os.path.normpath(Path.cwd() / config_dir / ".." / uri)
    return path + "/" if uri.endswith("/") else path


def lies_below(uri: str, root: str) -> bool:
    """Return True if everything that ``uri``, a path or a pattern of paths, can name lies in the
    folder ``root``.

    A backslash, and a brace that holds a slash, become other text when Hadoop expands the pattern.
    So nothing with them counts as below. Symbolic links are not looked at."""
    filled_in = re.sub(r"\{window_(?:start|end):([^}]*)\}", r"\1", uri)
    plain, top = _without_file_scheme(filled_in), _without_file_scheme(root).rstrip("/")
    if ".." in re.split(r"[/,{}|]", plain) or "\\" in plain or _slash_in_braces(plain):
        return False
    return plain == top or plain.startswith(top + "/")


def _slash_in_braces(pattern: str) -> bool:
    depth = 0
    for character in pattern:
        depth = max(0, depth + (character == "{") - (character == "}"))
        if character == "/" and depth:
            return True
    return False


def _without_file_scheme(uri: str) -> str:
    found = re.match(r"file:/+", uri)
    return "/" + uri[found.end() :] if found else uri
