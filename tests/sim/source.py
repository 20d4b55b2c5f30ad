"""A source whose files appear, grow, and are renamed or replaced at any moment.

Every line that was ever written says which it is, so that it can be told where it arrives.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.sim.world import EPOCH, Process, World

LINE_BYTES = 4096
SPLIT_BYTES = 16 * LINE_BYTES  # 64 KiB, the least that a pipeline takes
#: Of which a head is made: one line alone is as short as a header.
HEAD_LINES = 2
ROOT = "file:///logs/"
_HEADER = b"time,service,status".ljust(LINE_BYTES - 1, b".")


@dataclass
class SourceFile:
    """A file. ``number`` tells it from every other one that was ever written."""

    number: int
    lines: int
    modified_ms: int
    headed: bool = False
    """True if the first line is a header, which each file with one begins with."""
    moved: bool = False
    """True if a run may leave it out by name: it was ever renamed, has grown, or is like others."""
    packed: bool = False
    """True if it was compressed."""
    etag: str = ""
    since: float = 0.0
    """Virtual time since which it is as it is."""
    gone: bool = False
    """True if another one was written over it."""
    skipped: bool = False
    """True if it took the place of one that was delivered, and is to be left alone."""

    @property
    def size_bytes(self) -> int:
        return 100 + 50 * self.lines if self.packed else self.lines * LINE_BYTES

    def line(self, index: int) -> bytes:
        return _HEADER if self.headed and index == 0 else _line(self.number, index)

    def all_lines(self) -> list[bytes]:
        return [self.line(index) for index in range(self.lines)]

    def lines_of(self, start: int, first: int, end: int) -> list[bytes]:
        """Return the lines [first, end) of the split that begins at byte ``start``."""
        before = start // LINE_BYTES
        return [self.line(before + index) for index in range(first, end)]


@functools.lru_cache(4096)
def _line(number, index):
    return f"file {number} line {index}".encode().ljust(LINE_BYTES - 1, b".")


def topic_of(line: bytes) -> int:
    """Return the index of the topic that a line goes to."""
    return line[line.index(b".") - 1] % 2


@dataclass
class SimSource:
    """One folder."""

    world: World
    files: dict[str, SourceFile] = field(default_factory=dict)
    written: list[SourceFile] = field(default_factory=list)
    """Every file that ever was: the truth."""
    listed_by: list[Process] = field(default_factory=list)
    """Processes that list the folder now."""
    has_etags: bool = False
    breaks: bool = False
    """True if listings and streams of lines may break off."""
    is_misread: bool = False
    """True if a task was told of an end that came too early."""
    root: str = ROOT

    def _now_ms(self):
        return int((EPOCH + self.world.seconds) * 1000)

    def write(self, path: str, lines: int, *, headed: bool = False) -> SourceFile:
        """Write a new file at ``path``."""
        file = SourceFile(len(self.written), lines, self._now_ms(), headed)
        file.since = self.world.seconds
        self.world.tell(f"{path} is written: file {file.number}, {lines} lines")
        if path in self.files:
            self.files[path].gone = True
        self.files[path] = file
        self.written.append(file)
        if self.has_etags:
            file.etag = f"etag {file.number}"
        return file

    def overwrite(self, path: str):
        """Write another content of the same size over a file, within the same moment."""
        before = self.files[path]
        self.write(path, before.lines).modified_ms = before.modified_ms

    def pack(self, path: str):
        """Compress a file, which keeps its time."""
        self.rename(path, f"{path}.gz")
        self.files[f"{path}.gz"].packed = True

    def move(self, root: str):
        """Let the folder lie elsewhere from now on."""
        self.world.tell(f"the folder is {root} from now on")
        self.files = {root + path.removeprefix(self.root): f for path, f in self.files.items()}
        self.root = root

    def grow(self, path: str, lines: int):
        file = self.files[path]
        file.lines += lines
        file.moved, file.since = True, self.world.seconds
        file.modified_ms = max(self._now_ms(), file.modified_ms + 1)
        self.world.tell(f"{path} grows to {file.lines} lines")

    def rename(self, path: str, to: str):
        self.world.tell(f"{path} is renamed to {to}")
        self.files[to] = self.files.pop(path)
        self.files[to].moved, self.files[to].since = True, self.world.seconds

    def copy(self, path: str, to: str):
        """Write the content of ``path`` to ``to`` as well, with its time (``cp -p``)."""
        self.world.tell(f"{path} is copied to {to}")
        self.files[to] = replace(self.files[path], moved=True)
        self.written.append(self.files[to])

    def remove(self, path: str):
        self.world.tell(f"{path} is removed")
        del self.files[path]

    def truth(self) -> Iterator[bytes]:
        """Yield every line that was ever written and is to be sent, each as often as it was."""
        for file in self.written:
            yield from () if file.skipped else file.all_lines()
