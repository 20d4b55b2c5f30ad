"""The cache of jars: each lock's jars in one folder, fetched once, whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

from shipper.cache import cache_folder
from shipper_tools.dev import ivy
from shipper_tools.dev.errors import JarsUnavailable
from shipper_tools.dev.flock import exclusive
from shipper_tools.dev.java import Java
from shipper_tools.dev.pins import Pin, digest, lock_file, read_lock


def resolve_jars(name: str, java: Java, progress: ivy.Progress = lambda line: None) -> Path:
    """The folder with exactly the jars of the lock ``name``, for ``java -cp 'FOLDER/*'``.

    Warm, this looks at sizes only (a millisecond). Cold, it fetches them: other processes that want the same jars wait.
    The folder gets its name by one rename after every jar was compared with its hash, so what a killed process leaves
    never counts as done. ``progress`` gets a line now and then, and none when everything is there.

    Raises:
        JarsUnavailable: a jar cannot be had, or the cache cannot be written.
        DevServerError: there is no such lock.
    """
    pins = read_lock(lock_file(name))
    cache = cache_folder()
    folder = cache / "jars" / f"{name}-{digest(pins)}"
    if _complete(folder, pins):
        return folder
    try:
        with exclusive(cache / "jars" / f"{name}.lock", lambda: progress(f"waiting for another process: {name}")):
            if not _complete(folder, pins):
                _fetch(name, pins, java, folder, progress)
    except OSError as problem:
        raise JarsUnavailable(
            f"The jars of {name} cannot be kept in {cache}: {problem}. Name a folder that can be written, with room for "
            f"{sum(pin.size_bytes for pin in pins) / 5e5:.0f} MB, in SHIPPER_CACHE."
        ) from problem
    return folder


def _complete(folder: Path, pins: tuple[Pin, ...]) -> bool:
    return all(pin.has_arrived(folder) for pin in pins)


def _fetch(name: str, pins: tuple[Pin, ...], java: Java, folder: Path, progress: ivy.Progress) -> None:
    progress(f"resolving {len(pins)} jars of {name} ({sum(pin.size_bytes for pin in pins) / 1e6:.0f} MB) into {folder}")
    work, arriving = folder.parent / f"{name}.ivy", folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(arriving, ignore_errors=True)
    dependencies = [ivy.locked_dependency(pin.group, pin.name, pin.version) for pin in pins]
    ivy.fetch(java, name, dependencies, work=work, into=arriving, locked=True, progress=progress)
    try:
        for pin in pins:
            pin.verify(arriving)
    finally:
        # Right or wrong, Ivy's own copies have done their duty: wrong ones must not be believed next time.
        shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    arriving.rename(folder)
