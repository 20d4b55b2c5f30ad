"""Ivy, which fetches jars by coordinate. Its own jar ships inside pyspark, so Java and Python are all it needs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.sax.saxutils import quoteattr

from shipper_tools.dev.errors import JarsUnavailable
from shipper_tools.dev.java import Java

#: Called with one line for people, now and then.
Progress = Callable[[str], None]

#: Without a new byte for so long, a fetch is given up. Ivy itself would wait for every jar in turn.
STALL_SECONDS = 45.0
#: Another root than Maven Central's, for machines that reach only a mirror.
MIRROR_VARIABLE = "SHIPPER_MAVEN_ROOT"

_SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  {properties}
  <timeout-constraints>
    <timeout-constraint name="impatient" connectionTimeout="10000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="maven" m2compatible="true" {resolver} timeoutConstraint="impatient"/>
  </resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="shipper" module={name}/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    {dependencies}
  </dependencies>
</ivy-module>
"""
_UNREACHABLE = re.compile(r"Server access error.*|Host \S+ not found\.|.*\b(?:Connect|UnknownHost|SSL\w*)Exception.*")
_NOT_FOUND = re.compile(r":: (\S+): not found")


def ivy_jar() -> Path:
    """Ivy's jar inside the installed pyspark, which is looked up and not imported.

    Raises:
        JarsUnavailable: pyspark is not installed, or without Ivy.
    """
    remedy = "Install shipper with its Spark part: `pip install 'shipper[spark]'` (or `uv sync --all-extras`)."
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarsUnavailable(f"The dev servers' jars are fetched with Ivy, which is part of pyspark. {remedy}")
    folder = Path(next(iter(spec.submodule_search_locations))) / "jars"
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise JarsUnavailable(
            f"pyspark is installed without Ivy's jar: there is no {folder}/ivy-*.jar (pyspark-client has none). {remedy}"
        )
    return found[-1]


def dependency(group: str, name: str, version: str, attributes: str = "", body: str = "") -> str:
    """A ``<dependency>`` element of an Ivy module."""
    return (
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} "
        f'conf="default-&gt;default" {attributes}>{body}</dependency>'
    )


def locked_dependency(group: str, name: str, version: str) -> str:
    """One that is fetched as it is: no POM is read and nothing that it depends on is looked at."""
    return dependency(group, name, version, 'transitive="false"', f'<artifact name={quoteattr(name)} type="jar" ext="jar"/>')


def fetch(
    java: Java,
    name: str,
    dependencies: list[str],
    *,
    work: Path,
    into: Path,
    locked: bool,
    progress: Progress,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Bring the jars of ``dependencies`` into the folder ``into``, called ``artifact-revision.jar``.

    Everything that Ivy writes lies in ``work``; running again with the same folder goes on where it stopped.
    ``locked`` means that versions, sizes and hashes are the caller's business: one request per jar is enough.

    Raises:
        JarsUnavailable: the repository cannot be reached, stopped answering, or lacks a jar.
    """
    work.mkdir(parents=True, exist_ok=True)
    log = work / "ivy.log"
    command = _command(java, name, dependencies, work, into, locked, environ)
    with log.open("wb") as output:
        # A session of its own: Ctrl-C reaches this process, which ends Ivy in an orderly way below.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        expected = f" of {len(dependencies)}" if locked else ""
        stalled = _watch(process, work / "cache", expected, progress)
    finally:
        process.kill()
        process.wait()
    if stalled or process.returncode != 0:
        raise JarsUnavailable(_what_went_wrong(name, log.read_text(errors="replace"), stalled, work))


def _command(
    java: Java, name: str, dependencies: list[str], work: Path, into: Path, locked: bool, environ: Mapping[str, str]
) -> list[str]:
    settings, module = work / "settings.xml", work / "module.xml"
    root = environ.get(MIRROR_VARIABLE)
    resolver = f"root={quoteattr(root)}" if root else ""
    properties = ""
    if locked:
        resolver += ' usepoms="false" useMavenMetadata="false"'
        # The lock's SHA-256 says more than the repository's own SHA-1, which costs a request per jar.
        properties = '<property name="ivy.checksums" value=""/>'
    settings.write_text(_SETTINGS.format(properties=properties, resolver=resolver), encoding="utf-8")
    module.write_text(_MODULE.format(name=quoteattr(name), dependencies="\n    ".join(dependencies)), encoding="utf-8")
    # No home folder is needed: settings, cache and Ivy's own "user dir" are all named.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Divy.default.ivy.user.dir={work}"]
    arguments = ["-warn", "-settings", str(settings), "-cache", str(work / "cache"), "-confs", "default"]
    arguments += ["-ivy", str(module), "-types", "jar", "bundle"]
    arguments += ["-retrieve", f"{into}/[artifact]-[revision].[ext]"]
    return [str(java.path), *options, "-jar", str(ivy_jar()), *arguments]


def _watch(process: subprocess.Popen[bytes], cache: Path, expected: str, progress: Progress) -> bool:
    """Wait for Ivy's end, telling how far it is. True if it stopped getting anything and should be ended."""
    last_bytes, last_change, last_told = -1, time.monotonic(), time.monotonic()
    while process.poll() is None:
        time.sleep(0.2)
        now = time.monotonic()
        files = [path for path in cache.rglob("*") if path.is_file()]
        total = sum(_size(path) for path in files)
        if total != last_bytes:
            last_bytes, last_change = total, now
        elif now - last_change > STALL_SECONDS:
            return True
        if now - last_told > 3:
            jars = sum(path.suffix == ".jar" for path in files)
            progress(f"… {jars}{expected} jars, {total / 1e6:.0f} MB")
            last_told = now
    return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # renamed since it was listed: a .part that is complete now
        return 0


def _what_went_wrong(name: str, log: str, stalled: bool, work: Path) -> str:
    unreachable, missing = _UNREACHABLE.search(log), _NOT_FOUND.findall(log)
    if stalled or unreachable:
        reason = unreachable[0].strip() if unreachable else f"no byte arrived for {STALL_SECONDS:.0f} seconds"
        return (
            f"The jars of {name} could not be fetched: the Maven repository cannot be reached ({reason}). Check the "
            f"network. Behind a proxy set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT', with a "
            f"mirror set {MIRROR_VARIABLE}=URL, or copy the cache folder from a machine where it worked and name it in "
            "SHIPPER_CACHE. What did arrive is kept for the next attempt."
        )
    if missing:
        listed = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        return (
            f"The jars of {name} could not be fetched: the Maven repository has no {listed}. If {MIRROR_VARIABLE} "
            "names a mirror, it may lack them; without it Maven Central is asked."
        )
    last = next((line for line in reversed(log.splitlines()) if line.strip()), "nothing")
    return f"The jars of {name} could not be fetched: Ivy failed and said {last.strip()!r}. Its log: {work / 'ivy.log'}"
