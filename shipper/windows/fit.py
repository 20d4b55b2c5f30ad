"""Check that the folders of a source's pattern fit the windows of the schedule. Pure."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from itertools import islice, pairwise

from shipper.config.pipeline import Pipeline
from shipper.config.rules import missing_date_parts
from shipper.errors import WindowError
from shipper.windows.ticks import Ticks
from shipper.windows.window import source_paths

_LOOKED_AT = 8
"""Windows, from the beginning of a month on: as many as a schedule with two windows a day needs."""
_WINDOWS_PATH = re.compile(r"[A-Za-z]:\\")
_FROM = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def misfits(pipeline: Pipeline) -> Iterator[str]:
    """Yield what is allowed in `source.path`, and most likely a mistake."""
    path = pipeline.source.path
    if "$(" in path or "`" in path:
        yield (
            "no shell reads the path, so what looks like a command is the name of a folder; write "
            "the time as in {window_start:%Y-%m-%d}"
        )
    if _WINDOWS_PATH.match(path):
        yield "a backslash parts no folders; write slashes"
    if missing := missing_date_parts(path):
        yield (
            f"the folder's name repeats, because {', '.join(missing)} is not in it: a window "
            "also reads the files of other times. Write the whole date, as in "
            "{window_start:%Y/%m/%d}"
        )
        return
    if pipeline.source.shared_folders or pipeline.schedule is None:
        return
    if "{window_start:" not in path:
        return
    windows = islice(
        Ticks(pipeline.schedule).windows(_FROM, _FROM + dt.timedelta(days=3660)), _LOOKED_AT
    )
    for window, following in pairwise(windows):
        try:
            shared = set(source_paths(path, window)) & set(source_paths(path, following))
        except WindowError:
            return
        if shared:
            yield (
                f"windows of the schedule share folders: {window} and {following} both have "
                f"{min(shared)}. Each run lists the whole folder, and its gates judge all files "
                "in it. Name folders as fine as the schedule, or close windows when the "
                "folder's name changes (placeholders are UTC). If the windows share folders by "
                "intent, write `shared_folders: true`"
            )
            return
