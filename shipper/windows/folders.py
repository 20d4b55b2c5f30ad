"""The folders that a run looks into, by the tick of the schedule that they belong to. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from shipper.errors import WindowError
from shipper.types import FileId
from shipper.windows.ticks import Ticks
from shipper.windows.window import MAX_FOLDERS, Window, source_paths, to_ms


class Found(Protocol):
    """A file that a listing found, and the folder that was asked for."""

    @property
    def id(self) -> FileId: ...

    @property
    def under(self) -> str: ...


@dataclass(frozen=True)
class TickFolders:
    """Ticks of a schedule, or the parts of them that a run is about, oldest first, each with the
    folders that a source's pattern names for it.

    Completeness is known tick by tick, so each file belongs to one tick: the last one that names
    its folder or, where the time of modification decides, the one in which the file was last
    modified.
    """

    of: Mapping[Window, Sequence[str]]
    by_modified: bool = False

    @classmethod
    def named(
        cls, pattern: str, window: Window, ticks: Ticks | None, *, by_modified: bool = False
    ) -> TickFolders:
        """Return the folders of the ticks that ``window`` touches; without a schedule the window is
        the one tick.

        `{window_end:…}` is the tick's end, also of a tick that ``window`` cuts. Raises WindowError
        beyond 100,000 folders."""
        if ticks is None:
            return cls({window: source_paths(pattern, window)}, by_modified)
        found: dict[Window, list[str]] = {}
        names = set[str]()
        for tick in ticks.windows(window.start, window.end):
            part = Window(max(tick.start, window.start), min(tick.end, window.end))
            found[part] = source_paths(pattern, part, tick.end)
            names.update(found[part])
            if len(names) > MAX_FOLDERS:
                raise WindowError(
                    f"window {window} names more than {MAX_FOLDERS} folders of {pattern}. Use "
                    "a shorter window.",
                    code="SHIP-223",
                )
        return cls(found, by_modified)

    @cached_property
    def paths(self) -> list[str]:
        """The folders, in time order, each once."""
        return list(dict.fromkeys(path for paths in self.of.values() for path in paths))

    @cached_property
    def _ticks(self) -> list[Window]:
        return list(self.of)

    @cached_property
    def _starts_ms(self) -> list[int]:
        return [to_ms(tick.start) for tick in self.of]

    @cached_property
    def _last(self) -> dict[str, Window]:
        return {path: tick for tick, paths in self.of.items() for path in paths}

    def tick_of(self, file: Found) -> Window | None:
        """Return the file's tick; None if it belongs to none of these ticks."""
        if not self.by_modified:
            return self._last.get(file.under)
        place = bisect_right(self._starts_ms, file.id.modified_ms)
        return (
            self._ticks[place - 1]
            if place and file.id.modified_ms < to_ms(self._ticks[place - 1].end)
            else None
        )

    def naming(self, path: str) -> list[Window]:
        return [tick for tick, paths in self.of.items() if path in paths]

    def with_a_file(self, files: Iterable[Found]) -> set[Window]:
        """Return the ticks that hold one of ``files``: each tick that names its folder."""
        if self.by_modified:
            return {tick for file in files if (tick := self.tick_of(file))}
        under = {file.under for file in files}
        return {tick for tick, paths in self.of.items() if not under.isdisjoint(paths)}
