"""The time that a path names: which directives a date pattern may have, and the way back from a path to its time."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from functools import cached_property

# Directive → regex, and its length in seconds (a year and a month alone are never fine enough to be asked for). The one list of what a
# pattern may have: of anything else nobody knows how often the name changes, and folders would be left out without a word.
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
_WHOLE_DATES = ({"Y", "m", "d"}, {"Y", "j"})


def directives(pattern: str) -> list[str]:
    """``%Y/%-H`` → ``["Y", "-H"]``. Raises ValueError for one that is not in the list."""
    found = _DIRECTIVE.findall(pattern)
    for directive in found:
        if directive not in _DIRECTIVES:
            instead = f"; write {_INSTEAD[directive]}" if directive in _INSTEAD else ""
            known = " ".join(f"%{name}" for name in _DIRECTIVES)
            raise ValueError(f"%{directive} is not known here{instead}; there are {known}")
    return found


def step_seconds(pattern: str) -> int:
    """How often the name changes, by its finest directive; a day at the most, since a month has no fixed length. Raises ValueError as
    ``directives`` does."""
    return min([86_400, *(_DIRECTIVES[directive][1] for directive in directives(pattern))])


_PLACEHOLDER = re.compile(r"\{window_start:([^}]*)\}")
_GLOB = re.compile(r"[*?\[\]{}]")


def pattern_of_source(path: str) -> str | None:
    """``s3a://logs/{window_start:%Y/%m/%d/%H}/`` → ``/%Y/%m/%d/%H/``; None if the path names no time, or has a glob amid it."""
    found = list(_PLACEHOLDER.finditer(path))
    if not found:
        return None
    around = path[max(found[0].start() - 1, 0) : found[-1].end() + 1]
    pattern = _PLACEHOLDER.sub(lambda match: match[1], around)
    pattern = pattern.strip("*?[]{}")  # a glob right beside it says nothing about the time
    return None if _GLOB.search(pattern) else pattern


@dataclass(frozen=True)
class PathTime:
    """A pattern such as ``/%Y/%m/%d/%H/``. Raises ValueError for one that names no full date, or that holds another directive."""

    pattern: str

    def __post_init__(self) -> None:
        used = self._used
        if len(used) != len(set(used)):
            raise ValueError("a directive stands twice in it; name each part of the time once")
        if run_on := re.search(r"%-.(?=%|\d)", self.pattern):
            raise ValueError(f"{run_on[0]} must be followed by something that is no digit, or nobody knows where it ends")
        if not any(date <= set(used) for date in _WHOLE_DATES):
            raise ValueError("it names no full date; it needs %Y, %m and %d (or %Y and %j), such as /%Y/%m/%d/%H/")
        if ("M" in used and "H" not in used) or ("S" in used and "M" not in used):
            raise ValueError("it has minutes without hours, or seconds without minutes")

    @property
    def _used(self) -> list[str]:
        """Without the sign for unpadded ones."""
        return [directive.removeprefix("-") for directive in directives(self.pattern)]

    @property
    def finest_seconds(self) -> int:
        return step_seconds(self.pattern)

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        parts = _DIRECTIVE.split(self.pattern)
        regex = "".join(
            f"(?P<{part.removeprefix('-')}>{_DIRECTIVES[part][0]})" if i % 2 else re.escape(part) for i, part in enumerate(parts)
        )
        # Without a digit before or after it: 20261101 is no time in 12026110123.
        return re.compile(("" if parts[0] else r"(?<!\d)") + regex + ("" if parts[-1] else r"(?!\d)"), re.ASCII)

    def find(self, path: str) -> dt.datetime | None:
        """The last time in the path, UTC; None if there is none, or if it is no date (a 13th month)."""
        matches = list(self._regex.finditer(path))
        if not matches:
            return None
        used = self._used
        text, pattern = "-".join(matches[-1][name] for name in used), "-".join(f"%{name}" for name in used)
        try:
            return dt.datetime.strptime(text, pattern).replace(tzinfo=dt.UTC)
        except ValueError:
            return None
