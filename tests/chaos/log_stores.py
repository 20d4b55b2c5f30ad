"""The files of a day, and where they lie: here, in HDFS or in S3. Names are relative to a
pipeline's source folder."""

from __future__ import annotations

import contextlib
import gzip
import os
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from shipper_tools.dev.hdfs import HdfsServer
from shipper_tools.dev.s3 import ACCESS_KEY, SECRET_KEY, S3Server

from shipper.ledger.heads import HEAD_BYTES
from tests.integration.hdfs_world import OpenFile, hdfs_files, runner

DAY_SECONDS = 86_400


@dataclass
class LogFile:
    """A file whose lines must arrive once. A copy is a file of its own."""

    name: str
    lines: list[bytes]
    modified: float
    hour: int = 0
    state: str = "done"
    """``done``, or why a plan leaves it out: ``unfinished``, ``unsettled``, ``open``."""
    packed: bool = False
    doubtful: bool = False
    """True if the last run that looked left it out, since nobody can tell whether it was
    shipped."""
    sent: int = 0
    """Number of lines that a run has shipped."""
    sent_as: set[str] = field(default_factory=set)
    """Names that it had when a run shipped lines of it."""
    changed: bool = False
    """Since a run has seen it. Until the next one nothing tells a copy from the file itself:
    content is what a file is known by."""
    copy: LogFile | None = None
    """A second file of the same content, which may be this one. Until that was shipped nothing
    tells a copy from a file that was renamed."""
    stream: OpenFile | None = None

    @property
    def code(self):
        """Why a plan leaves it out; ``done`` if it does not."""
        return "doubtful" if self.doubtful and self.state == "done" else self.state

    @property
    def is_short(self):
        """True if so little of it was sent that nothing would tell it from another file, if it grew
        and lay in another folder as well when the next run sees it."""
        sent = sum(len(line) + 1 for line in self.lines[: self.sent])
        return self.changed and 0 < sent < HEAD_BYTES

    @property
    def content(self):
        return b"".join(line + b"\n" for line in self.lines)

    @property
    def stored(self):
        """Bytes of the file as an object store copies them."""
        return gzip.compress(self.content) if self.packed else self.content

    @property
    def shown_time(self):
        return time.time() if self.state == "unsettled" else self.modified

    @property
    def pinned(self):
        return self.copy is not None and not self.copy.sent


@dataclass
class Entry:
    """What is no file of logs, or none yet."""

    name: str
    state: str
    hour: int
    target: str = ""
    """Name of what a link leads to."""

    @property
    def code(self):
        return self.state


class Store:
    states: tuple[str, ...] = ("hidden", "hidden-folder", "future")
    """Reasons for which a plan leaves an entry out that is no log, and of which there can be some
    here."""
    odd_names: tuple[str, ...] = (
        "a b.log",
        "100%25.log",
        "x[1]{2}.log",
        "straße-日本.log",
        "a+b&c=d,e;f'g.log",
    )
    """Names that are awkward, and allowed."""
    knows_open_files = False
    hidden_folder = "hidden-folder"
    """Code of what lies in a folder with a hidden name."""
    uri: str
    settings: dict[str, Any]
    """Keys of the pipeline's `source`."""
    runner: dict[str, Any]

    def write(self, name, content, modified):
        raise NotImplementedError

    def append(self, name, content, more, modified):
        """Append ``more`` to a file that holds ``content``."""
        self.write(name, content + more, modified)

    def delete(self, name):
        raise NotImplementedError

    def rename(self, name, to, content, modified):
        """An object store copies and deletes."""
        self.write(to, content, modified)
        self.delete(name)

    def compress(self, name, to, content, modified):
        self.write(to, gzip.compress(content), modified)
        self.delete(name)

    def touch(self, name, modified):
        raise NotImplementedError

    def plant(self, state, name, target, content):
        """Make an entry that is no log. ``target``: what a link leads to, beside it."""
        self.write(
            name,
            content,
            time.time() + 10 * DAY_SECONDS if state == "future" else time.time() - DAY_SECONDS,
        )

    def open(self, name, content):
        """Write a file and leave it open. Only where the file system knows such things."""
        raise NotImplementedError


class LocalStore(Store):
    states = (*Store.states, "link", "special", "undecodable-name")
    odd_names = (
        *Store.odd_names,
        "10:30:00.log",
        "back\\slash.log",
        "*?.log",
        "tab\tname.log",
        " leading.log",
    )

    def __init__(self, folder):
        self.folder, self.uri, self.settings, self.runner = (
            folder,
            str(folder),
            {},
            {"driver_memory": "1g"},
        )

    def write(self, name, content, modified):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.touch(name, modified)

    def append(self, name, content, more, modified):
        with (self.folder / name).open("ab") as file:
            file.write(more)
        self.touch(name, modified)

    def delete(self, name):
        (self.folder / name).unlink()

    def rename(self, name, to, content, modified):
        (self.folder / to).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).rename(self.folder / to)

    def compress(self, name, to, content, modified):
        subprocess.run(["gzip", "--force", "--", str(self.folder / name)], check=True)
        if to != f"{name}.gz":
            (self.folder / f"{name}.gz").rename(self.folder / to)

    def touch(self, name, modified):
        os.utime(self.folder / name, (modified, modified))

    def plant(self, state, name, target, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if state == "special":
            os.mkfifo(path)
        elif state == "link":
            path.symlink_to(target)
        else:
            super().plant(state, name, target, content)


class HdfsStore(Store):
    knows_open_files = True

    def __init__(self, files, folder):
        self._files, self._folder = files, folder
        self.uri, self.settings, self.runner = files.uri(folder), {}, runner()

    def _path(self, name):
        return f"{self._folder}/{name}"

    def write(self, name, content, modified):
        self._files.write(self._path(name), content, modified=modified)

    def append(self, name, content, more, modified):
        stream = self._files.append(self._path(name))
        stream.write(more)
        stream.close()
        self.touch(name, modified)

    def delete(self, name):
        self._files.delete(self._path(name))

    def rename(self, name, to, content, modified):
        self._files.rename(self._path(name), self._path(to))

    def touch(self, name, modified):
        self._files.set_modified(self._path(name), modified)

    def open(self, name, content):
        stream = self._files.create(self._path(name))
        stream.write(content)
        return stream


class S3Store(Store):
    """The server keeps an object as a file, and takes the object's time of modification
    from that."""

    hidden_folder = "hidden"  # a bucket has no folders, only objects whose keys have a hidden part

    def __init__(self, server, bucket, secret):
        self._server, self._bucket = server, bucket
        secret.write_text(SECRET_KEY)
        secret.chmod(0o600)
        server.client.make_bucket(bucket)
        keys = {"access_key": ACCESS_KEY, "secret_key": f"${{file:{secret}}}"}
        self.uri, self.runner = f"s3a://{bucket}", {"driver_memory": "1g"}
        self.settings = {"s3": {"endpoint": server.endpoint, "path_style": True, **keys}}

    def write(self, name, content, modified):
        self._server.client.put(self._bucket, name, content)
        self.touch(name, modified)

    def delete(self, name):
        self._server.client.delete(self._bucket, name)

    def rename(self, name, to, content, modified):
        """A copy has a time of its own; it is as new as what is still being written, or an hour
        old."""
        super().rename(name, to, content, max(modified, time.time() - 3_600))

    def touch(self, name, modified):
        os.utime(self._server.directory / "data" / self._bucket / name, (modified, modified))


@contextlib.contextmanager
def stores(kind, folder):
    """Two stores, one for each pipeline."""
    names = ("hourly", "rotated")
    if kind == "hdfs":
        with (
            HdfsServer(folder / "hdfs", die_with_parent=True) as server,
            hdfs_files(server) as files,
        ):
            yield [HdfsStore(files, f"/logs/{name}") for name in names]
    elif kind == "s3":
        with S3Server(folder / "s3", die_with_parent=True) as server:
            yield [S3Store(server, name, folder / f"secret-{name}") for name in names]
    else:
        yield [LocalStore(folder / "logs" / name) for name in names]
