"""The time that a file's path names."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from functools import cached_property

# Directive → regex, and its length in seconds (a year and a month alone are never fine enough to be asked for).
_DIRECTIVES = {
    "Y": (r"\d{4}", 366 * 86_400),
    "m": (r"\d{2}", 31 * 86_400),
    "d": (r"\d{2}", 86_400),
    "j": (r"\d{3}", 86_400),
    "H": (r"\d{2}", 3600),
    "M": (r"\d{2}", 60),
    "S": (r"\d{2}", 1),
}
_WHOLE_DATES = ({"Y", "m", "d"}, {"Y", "j"})


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
        for directive in used:
            if directive not in _DIRECTIVES:
                raise ValueError(f"%{directive} is not known here; there are {' '.join(f'%{name}' for name in _DIRECTIVES)}")
        if len(used) != len(set(used)):
            raise ValueError("a directive stands twice in it; name each part of the time once")
        if not any(date <= set(used) for date in _WHOLE_DATES):
            raise ValueError("it names no full date; it needs %Y, %m and %d (or %Y and %j), such as /%Y/%m/%d/%H/")
        if ("M" in used and "H" not in used) or ("S" in used and "M" not in used):
            raise ValueError("it has minutes without hours, or seconds without minutes")

    @property
    def _used(self) -> list[str]:
        return re.findall(r"%(.?)", self.pattern, re.DOTALL)

    @property
    def finest_seconds(self) -> int:
        return min(_DIRECTIVES[directive][1] for directive in self._used)

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        parts = re.split(r"%(.)", self.pattern)
        regex = "".join(f"(?P<{part}>{_DIRECTIVES[part][0]})" if i % 2 else re.escape(part) for i, part in enumerate(parts))
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
