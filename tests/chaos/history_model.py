"""Files that change, and how often each of their records must be in each topic after a history of
runs. Pure: it knows nothing of shipper.

What the model knows comes from what the history asked for, and from the runs that said they had
succeeded. A record of a file is expected once for each time that the file was shipped to its end.
If a file was replaced, or shipped anew, before a run had shipped all of it, the records of the
unfinished try may be there, once each, and need not be.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.numbered import padded

LINE_BYTES = 256
SPLIT_BYTES = 64 * 2**10
RECORDS_PER_SPLIT = SPLIT_BYTES // LINE_BYTES
#: Indexes into the topics of a history.
FIRST_TOPIC, SECOND_TOPIC, QUARANTINE = 0, 1, 2
_ROOT = "history:///"


class Record(NamedTuple):
    """A line that says which one it is."""

    path: str
    born: int
    """Number of the version of the file that wrote the line. A file that grows keeps its lines."""
    start: int
    """First byte of its split."""
    ordinal: int

    @property
    def value(self) -> bytes:
        return padded(
            b"%s %d %d %d " % (self.path.encode(), self.born, self.start, self.ordinal), LINE_BYTES
        )

    @property
    def has_topic(self) -> bool:
        """True if a route takes the line; else it goes to quarantine."""
        return self.ordinal % 61 != 5 or zlib.crc32(self.path.encode()) % 3 != 0

    @property
    def topic(self) -> int:
        """Index of the topic that a ship sends it to."""
        return (FIRST_TOPIC, SECOND_TOPIC)[self.ordinal % 2] if self.has_topic else QUARANTINE


def record_of(value: bytes) -> Record:
    """Return the record that a value is. Raise ValueError if the value is not a whole line."""
    path, born, start, ordinal, _ = value.split(b" ", 4)
    found = Record(path.decode(), int(born), int(start), int(ordinal))
    if found.value != value:
        raise ValueError(f"not a line of a history: {value[:200]!r}")
    return found


@dataclass(frozen=True)
class FileVersion:
    """A file with the bytes that it had at a time."""

    path: str
    window: int
    """Number of the hour that the file belongs to."""
    modified_ms: int
    born: tuple[int, ...]
    """Number of the version that wrote each split."""

    @property
    def size_bytes(self) -> int:
        return len(self.born) * SPLIT_BYTES

    @property
    def state(self) -> tuple[int, int]:
        """Size and modification time, by which a listing tells versions apart."""
        return self.size_bytes, self.modified_ms

    def split(self, start: int) -> list[Record]:
        """Return the lines of the split that starts at byte ``start``."""
        born = self.born[start // SPLIT_BYTES]
        return [Record(self.path, born, start, ordinal) for ordinal in range(RECORDS_PER_SPLIT)]

    def records(self) -> Iterator[Record]:
        for index in range(len(self.born)):
            yield from self.split(index * SPLIT_BYTES)


@dataclass
class Delivery:
    """One time that a version is shipped from its first record to its last: the first, or one more
    for each reship."""

    asked: bool = False
    """True if a run was started that had to ship it."""
    complete: bool = False
    """True if a run said that all of it is there."""


@dataclass(eq=False)
class Tracked:
    """One version of a file, and what the model knows of its deliveries."""

    file: FileVersion
    number: int
    deliveries: list[Delivery] = field(default_factory=lambda: [Delivery()])
    reships: set[str] = field(default_factory=set)
    """Reships that were asked for, by their ids."""
    pending: str | None = None
    """A reship that no run has finished yet."""

    @property
    def latest(self) -> Delivery:
        return self.deliveries[-1]


class Claim(NamedTuple):
    """A delivery that is complete if a run succeeds."""

    version: Tracked
    delivery: int


class Bounds(NamedTuple):
    """Least and greatest number of copies of a record that a topic may hold."""

    least: int
    most: int


class Place(NamedTuple):
    topic: int
    record: Record


class Difference(NamedTuple):
    place: Place
    expected: Bounds
    found: int


class Model:
    """The files of a history, and what was asked for."""

    def __init__(self) -> None:
        self.versions: dict[str, list[Tracked]] = {}
        self.gone: set[str] = set()
        self._claims: dict[str, list[Claim]] = {}
        """Name of a run that has not ended → what it claims when it succeeds."""

    # What happens to the source

    def write(self, file: FileVersion) -> Tracked:
        """Add a file, or give it other bytes."""
        versions = self.versions.setdefault(file.path, [])
        versions.append(Tracked(file, len(versions)))
        self.gone.discard(file.path)
        return versions[-1]

    def remove(self, path: str) -> None:
        self.gone.add(path)

    def now(self) -> list[Tracked]:
        """Return the files that are there."""
        return [versions[-1] for path, versions in self.versions.items() if path not in self.gone]

    def is_current(self, file: FileVersion) -> bool:
        return file.path not in self.gone and self.versions[file.path][-1].file == file

    def of_windows(self, windows: Container[int]) -> list[Tracked]:
        return [version for version in self.now() if version.file.window in windows]

    # What is asked of runs

    def launched(self, name: str, files: Iterable[FileVersion], reship: str | None) -> None:
        """Note that run ``name`` was started, to ship ``files``; to ship them anew if ``reship``
        names a reship."""
        claims = self._claims[name] = []
        for file in files:
            version = next(each for each in self.versions[file.path] if each.file == file)
            if reship is not None and reship not in version.reships:
                version.reships.add(reship)
                version.pending = reship
                version.deliveries.append(Delivery())
                self._disclaim(version)
            version.latest.asked = True
            if version.pending in (None, reship):
                claims.append(Claim(version, len(version.deliveries) - 1))

    def _disclaim(self, version: Tracked) -> None:
        """Drop the claims of runs that are under way: such a run may see the earlier delivery or
        the new one, so its success proves neither."""
        for claims in self._claims.values():
            claims[:] = [claim for claim in claims if claim.version is not version]

    def ended(self, name: str, *, succeeded: bool, reship: str | None) -> None:
        for version, delivery in self._claims.pop(name, ()):
            if succeeded:
                version.deliveries[delivery].complete = True
                if version.pending == reship:
                    version.pending = None

    # What must be there

    def bounds(self) -> dict[Place, Bounds]:
        """Return how often each record may be where, once a last run has shipped all files that are
        there."""
        least: Counter[Place] = Counter()
        most: Counter[Place] = Counter()
        for path, versions in self.versions.items():
            for version in versions:
                current = version is versions[-1] and path not in self.gone
                for delivery in version.deliveries:
                    if not delivery.asked:
                        continue
                    places = [Place(record.topic, record) for record in version.file.records()]
                    most.update(places)
                    if delivery.complete or (current and delivery is version.latest):
                        least.update(places)
        return {place: Bounds(least[place], times) for place, times in most.items()}

    def differences(self, found: Mapping[Place, int]) -> list[Difference]:
        """Return the records that are too often or not often enough in a topic."""
        nothing, bounds = Bounds(0, 0), self.bounds()
        wrong = [
            Difference(place, expected, times)
            for place in bounds.keys() | found.keys()
            if not (expected := bounds.get(place, nothing)).least
            <= (times := found.get(place, 0))
            <= expected.most
        ]
        return sorted(wrong)
