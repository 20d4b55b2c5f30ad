"""Files that are written whole or not at all: those beside the runs, and those that a command
writes for a person. Those beside the runs are read and removed here, too.

Nothing else in shipper opens a file to write to it (`tests/unit/test_house.py`).
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shipper import runtime
from shipper.errors import UsageError, why_system

if TYPE_CHECKING:
    import fsspec


_SAYS_WHAT_LIES_THERE = FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError


class StorageError(OSError):
    """The library of a storage is not installed, or the storage cannot be reached, or it refuses a
    request."""


def file_system(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the URL's file system, and the path there. Its methods raise StorageError, or an
    OSError that says what lies there, such as FileNotFoundError. fsspec is imported with the first:
    a run starts Java before. Raises StorageError."""
    import fsspec

    with _told_as_storage_error():
        fs, path = fsspec.core.url_to_fs(url)
    return _Storage(fs), path


def is_local(fs: fsspec.AbstractFileSystem) -> bool:
    return _has(fs, "file")


def _has(fs: fsspec.AbstractFileSystem, protocol: str) -> bool:
    return protocol in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


class _Storage:
    """A file system of fsspec. Some libraries have errors of their own, as botocore has for S3."""

    def __init__(self, fs: fsspec.AbstractFileSystem) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._fs, name)
        told = _told_as_storage_error(*_SAYS_WHAT_LIES_THERE)
        return told(found) if callable(found) else found


@contextlib.contextmanager
def _told_as_storage_error(*but: type[OSError]) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except but:
        raise
    except Exception as error:
        told: tuple[Any, ...] = (str(error) or type(error).__name__,)
        if isinstance(error, OSError) and error.errno is not None:
            told = (error.errno, error.strerror, error.filename)
        raise StorageError(*told) from error


@_told_as_storage_error()
def write_whole(target: str, content: str | bytes, *, durable: bool = False) -> None:
    """Write a file to any URL that fsspec knows. If writing fails, the file is as before. Raises
    StorageError.

    The content goes into a part with a name of its own, which is then renamed; on S3 a request puts
    it there as a whole. ``durable``: on a local disk the file also survives a power failure.
    """
    fs, path = file_system(target)
    data = content.encode() if isinstance(content, str) else content
    if _has(fs, "s3"):
        fs.pipe_file(path, data)
        return
    fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
    part = _part_of(path)
    try:
        if is_local(fs):
            _write_local(Path(path), Path(part), data, durable=durable)
        else:
            fs.pipe_file(part, data)
            _rename(fs, part, path)
    except BaseException:
        with contextlib.suppress(Exception):
            fs.rm_file(part)
        raise


def read_text(url: str) -> str | None:
    """Read a file; None if there is no such file. Raises OSError."""
    fs, path = file_system(url)
    try:
        return bytes(fs.cat_file(path)).decode()
    except FileNotFoundError:
        return None


def remove(url: str) -> None:
    """Remove a file. Nothing happens if there is no such file. Raises OSError."""
    fs, path = file_system(url)
    with contextlib.suppress(FileNotFoundError):
        fs.rm_file(path)


def _part_of(path: str) -> str:
    """Return a name for the part: two that write the same file at once must not share one."""
    return f"{path}.{runtime.token_hex(4)}.part"


def _write_local(path: Path, part: Path, data: bytes, *, durable: bool) -> None:
    with part.open("xb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)
    for folder in (path.parent, path.parent.parent) if durable else ():  # or the name may be lost
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _rename(fs: fsspec.AbstractFileSystem, part: str, path: str) -> None:
    """Rename the part. Some file systems do not rename over an existing file, and some of them
    report no error (WebHDFS answers false, which fsspec ignores). So the part must be gone
    afterwards. If it is not, the target is removed first, and for a moment there is no file."""
    try:
        fs.mv(part, path)
    except OSError:
        if not fs.exists(path):
            raise
    fs.invalidate_cache()
    if not fs.exists(part):
        return
    fs.rm_file(path)
    fs.mv(part, path)
    fs.invalidate_cache()
    if fs.exists(part):
        raise OSError(errno.EIO, "it is there already and cannot be replaced", path)


@contextlib.contextmanager
def output_file(path: Path, *, force: bool | None = None) -> Iterator[Path]:
    """Yield where a command writes its output ``path`` to: a part beside it, which gets its name at
    the end of the block, or what is no regular file itself (a device, a pipe). A folder that is
    missing is made.

    ``force``: the command's option; None: it has none. Without it nothing that exists is replaced.
    A link is never replaced, but the file that it leads to. Raises UsageError, before the block if
    it can.
    """
    if not force:
        refuse_existing(path, force=force)
    try:
        if path.exists() and not path.is_file():
            yield path
            return
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(_part_of(str(target)))
        try:
            yield part
            if not force:
                refuse_existing(path, force=force)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {why_system(error)}. Nothing was written.",
            code="SHIP-104",
        ) from error


def refuse_existing(path: Path, *, force: bool | None = None) -> None:
    """Raise UsageError if there is a regular file, or a link that leads to one or to nothing."""
    if path.is_file() or (path.is_symlink() and not path.exists()):
        raise UsageError(
            f"{path} exists already. Nothing was written. Choose another name, or "
            + ("move the file away." if force is None else "replace the file with --force."),
            code="SHIP-103",
        )
