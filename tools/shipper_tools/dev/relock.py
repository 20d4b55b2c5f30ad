"""Write a lock: resolve a few coordinates with all that they depend on, and pin what came.

For the people who maintain them. ``python -m shipper_tools.dev.relock kafka-4.3.1
GROUP:NAME:VERSION … [--exclude GROUP[:NAME]] … [--alone]`` rewrites ``locks/kafka-4.3.1.txt`` (a
lock that lies in ``shipper/locks`` there), whose head names the call that made it. What depends on
what is found out by Ivy, whose jar ships inside pyspark, so Java and Python are all it needs.
Behind a proxy, Java's options go into JAVA_TOOL_OPTIONS.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from shipper.errors import JarsUnavailable
from shipper.jars import MAVEN_CENTRAL, MIRROR_VARIABLE
from shipper.pins import Pin, read_lock, sha256_of
from shipper_tools.dev.jars import lock_file
from shipper_tools.dev.java import find_java

_SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  <resolvers><ibiblio name="maven" m2compatible="true" root={root}/></resolvers>
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


def relock(
    name: str, roots: Sequence[str], excludes: Sequence[str] = (), *, alone: bool = False
) -> tuple[Pin, ...]:
    """Resolve ``roots`` and everything below them without ``excludes``, and write the lock
    ``name``. ``alone``: with nothing below them.

    Raises:
        JarsUnavailable: something cannot be resolved, or there is no Ivy.
        JavaMissing: there is no Java to run it.
    """
    with tempfile.TemporaryDirectory() as folder:
        pins = _resolve(name, _dependencies(roots, excludes, alone), Path(folder))
    call = " ".join(
        [name, *roots, *(f"--exclude {spec}" for spec in excludes), *(["--alone"] if alone else [])]
    )
    head = f"# Written by: python -m shipper_tools.dev.relock {call}\n"
    lock_file(name).write_text(head + "".join(f"{pin}\n" for pin in pins), encoding="utf-8")
    return read_lock(lock_file(name))


def _dependencies(roots: Sequence[str], excludes: Sequence[str], alone: bool) -> list[str]:
    without = "".join(
        f"<exclude org={quoteattr(group)} module={quoteattr(name or '*')}/>"
        for group, _, name in (spec.partition(":") for spec in excludes)
    )
    below = 'conf="default-&gt;default"' + (' transitive="false"' if alone else "")
    return [
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} "
        f"{below}>{without}</dependency>"
        for group, name, version in (spec.split(":") for spec in roots)
    ]


def _resolve(name: str, dependencies: list[str], work: Path) -> list[Pin]:
    settings, module, jars = work / "settings.xml", work / "module.xml", work / "jars"
    root = os.environ.get(MIRROR_VARIABLE) or MAVEN_CENTRAL
    settings.write_text(_SETTINGS.format(root=quoteattr(f"{root.rstrip('/')}/")), encoding="utf-8")
    module.write_text(
        _MODULE.format(name=quoteattr(name), dependencies="\n    ".join(dependencies)),
        encoding="utf-8",
    )
    # No home folder is needed: settings, cache and Ivy's own "user dir" are all named.
    command = [str(find_java().path), f"-Divy.default.ivy.user.dir={work}", "-jar", str(ivy_jar())]
    command += [
        "-warn",
        "-settings",
        str(settings),
        "-cache",
        str(work / "cache"),
        "-confs",
        "default",
    ]
    command += [
        "-ivy",
        str(module),
        "-types",
        "jar",
        "bundle",
        "-retrieve",
        f"{jars}/[artifact]-[revision].[ext]",
    ]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise JarsUnavailable(
            f"The jars of {name} cannot be resolved. Ivy said: "
            f"{(done.stdout + done.stderr).strip()[-2000:]}"
        )
    return _pins(work / "cache" / f"shipper-{name}-default.xml", jars)


def ivy_jar() -> Path:
    """Ivy's jar inside the installed pyspark, which is looked up and not imported.

    Raises:
        JarsUnavailable: pyspark is not installed, or without Ivy.
    """
    remedy = "Install the wheel of shipper with its extra `spark`, or run `make setup` in a clone."
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarsUnavailable(f"A lock is written with Ivy, which is part of pyspark. {remedy}")
    folder = Path(next(iter(spec.submodule_search_locations))) / "jars"
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise JarsUnavailable(
            f"pyspark is installed without Ivy's jar: there is no {folder}/ivy-*.jar "
            f"(pyspark-client has none). {remedy}"
        )
    return found[-1]


def _pins(report: Path, folder: Path) -> list[Pin]:
    pins = []
    for module in ElementTree.parse(report).iter("module"):
        for revision in module.iter("revision"):
            for _ in revision.iter("artifact"):
                group, name, version = (
                    str(x)
                    for x in (module.get("organisation"), module.get("name"), revision.get("name"))
                )
                jar = folder / f"{name}-{version}.jar"
                pins.append(Pin(group, name, version, jar.stat().st_size, sha256_of(jar)))
    return sorted(pins, key=lambda pin: pin.coordinate)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m shipper_tools.dev.relock", description=__doc__)
    parser.add_argument("name", help="the lock's name, e.g. kafka-4.3.1")
    parser.add_argument("roots", nargs="+", metavar="GROUP:NAME:VERSION")
    parser.add_argument("--exclude", action="append", default=[], metavar="GROUP[:NAME]")
    parser.add_argument("--alone", action="store_true", help="without what they depend on")
    options = parser.parse_args(arguments)
    pins = relock(options.name, options.roots, options.exclude, alone=options.alone)
    print(
        f"{lock_file(options.name)}: {len(pins)} jars, "
        f"{sum(pin.size_bytes for pin in pins) / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
