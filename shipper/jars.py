"""The cache of jars: each lock's jars in one folder, fetched once, whole or not at all.

The lock has coordinate, size and hash of each jar, so one GET per jar is all it takes: no Java, no
Maven, no POM.
"""

from __future__ import annotations

import os
import re
import shutil
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError

from shipper import runtime
from shipper.cache import cache_folder
from shipper.config.units import plural
from shipper.errors import JarsUnavailable
from shipper.pins import Pin, digest, read_lock
from shipper.processes import exclusive

#: Called with one line for people, now and then.
Say = Callable[[str], None]

#: Jars that a pipeline may need.
LOCKS = Path(__file__).parent / "locks"
MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
#: Another root than Maven Central's, for machines that reach only a mirror.
MIRROR_VARIABLE = "SHIPPER_MAVEN_ROOT"
#: Time without a new byte after which a fetch is given up.
STALL_SECONDS = 45.0
_AT_ONCE = 8
_TELL_EVERY_SECONDS = 3.0
_JAVAS_PROXY = re.compile(r"-D(https?)\.proxy(Host|Port)=(\S+)")


def resolve_jars(lock: Path, say: Say = lambda line: None) -> Path:
    """Return the folder with exactly the jars of the lock, for ``java -cp 'FOLDER/*'``. It is named
    for the lock and what is in it.

    Warm, this looks at sizes only (a millisecond). Cold, it fetches them: other processes that want
    the same jars wait. The folder gets its name by one rename after every jar was compared with its
    hash, so what a killed process leaves never counts as done. ``say`` gets a line now and then,
    and none when everything is there.

    Raises:
        JarsUnavailable: a jar cannot be had, the cache cannot be written, or there is no such lock.
    """
    name, pins = lock.stem, read_lock(lock)
    cache = cache_folder()
    folder = cache / "jars" / f"{name}-{digest(pins)}"
    if _complete(folder, pins):
        return folder
    try:
        with exclusive(
            cache / "jars" / f"{name}.lock", lambda: say(f"waiting for another process: {name}")
        ):
            if not _complete(folder, pins):
                _fetch(name, pins, folder, say)
    except OSError as problem:
        raise JarsUnavailable(
            f"The jars of {name} cannot be kept in {cache}: {problem}. Nothing was sent. Name "
            f"a writable folder with room for {sum(pin.size_bytes for pin in pins) / 1e6:.0f} "
            "MB in SHIPPER_CACHE."
        ) from problem
    return folder


def _complete(folder: Path, pins: tuple[Pin, ...]) -> bool:
    return all(pin.has_arrived(folder) for pin in pins)


def _fetch(name: str, pins: tuple[Pin, ...], folder: Path, say: Say) -> None:
    """Fetch the jars into a folder beside it, then rename that. What has arrived there is kept for
    the next attempt, should this one fail."""
    say(
        f"fetching {plural(len(pins), 'jar')} of {name} "
        f"({sum(pin.size_bytes for pin in pins) / 1e6:.0f} "
        f"MB) into {folder}"
    )
    arriving = folder.with_name(f"{folder.name}.partial")
    arriving.mkdir(exist_ok=True)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies()))
    pool = runtime.ThreadPoolExecutor(_AT_ONCE)
    try:
        told = runtime.monotonic()
        fetched = [pool.submit(_download, pin, arriving, opener) for pin in pins]
        for count, future in enumerate(runtime.as_completed(fetched), start=1):
            future.result()
            if runtime.monotonic() - told > _TELL_EVERY_SECONDS:
                say(f"… {count} of {plural(len(pins), 'jar')}")
                told = runtime.monotonic()
    finally:
        pool.shutdown(cancel_futures=True)
    shutil.rmtree(folder, ignore_errors=True)
    arriving.rename(folder)


def _download(pin: Pin, folder: Path, opener: urllib.request.OpenerDirector) -> None:
    """Download a jar, and write it only if it is the locked one. Raises JarsUnavailable; OSError if
    it cannot be written."""
    if pin.has_arrived(folder):
        return
    root = os.environ.get(MIRROR_VARIABLE) or MAVEN_CENTRAL
    url = (
        f"{root.rstrip('/')}/{pin.group.replace('.', '/')}/{pin.name}/{pin.version}/{pin.file_name}"
    )
    try:
        with opener.open(url, timeout=STALL_SECONDS) as answer:
            content = answer.read()
    except HTTPError as error:
        raise _unreachable(pin, f"it answers {error.code} {error.reason} for {url}") from error
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        said = (
            f"no byte arrived for {STALL_SECONDS:.0f} seconds"
            if isinstance(reason, TimeoutError)
            else str(reason)
        )
        raise _unreachable(pin, said) from error
    pin.verify(content)
    part = folder / f"{pin.file_name}.part"
    part.write_bytes(content)
    part.rename(folder / pin.file_name)


def _unreachable(pin: Pin, reason: str) -> JarsUnavailable:
    return JarsUnavailable(
        f"{pin.coordinate} could not be fetched: the Maven repository cannot be reached "
        f"({reason}). What did arrive is kept for the next attempt. Check the network. Behind "
        f"a proxy, set HTTPS_PROXY=http://HOST:PORT. With a mirror, set {MIRROR_VARIABLE}=URL. "
        "With an authority of your own, set SSL_CERT_FILE. Or copy the cache folder from a "
        "machine where it worked, and name the copy in SHIPPER_CACHE."
    )


def proxies(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return scheme → proxy: from the environment (or macOS), and from JAVA_TOOL_OPTIONS, because a
    machine that runs Spark may configure its proxy only there."""
    said: dict[str, dict[str, str]] = {}
    for scheme, what, value in _JAVAS_PROXY.findall(environ.get("JAVA_TOOL_OPTIONS", "")):
        said.setdefault(scheme, {})[what] = value
    usual = {"http": "80", "https": "443"}
    javas = {
        scheme: f"http://{to['Host']}:{to.get('Port', usual[scheme])}"
        for scheme, to in said.items()
        if "Host" in to
    }
    return javas | urllib.request.getproxies()
