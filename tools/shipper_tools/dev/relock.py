"""Write a lock: resolve a few coordinates with all that they depend on, and pin what came.

For the people who maintain them. ``python -m shipper_tools.dev.relock kafka-4.3.1
GROUP:NAME:VERSION … [--exclude GROUP[:NAME]] … [--alone]`` rewrites ``locks/kafka-4.3.1.txt`` (a
lock that lies in ``shipper/locks`` there), whose head names the call that made it. Ivy, whose jar
ships inside pyspark, resolves, so Java and Python are all it needs. Behind a proxy, Java's options
go into JAVA_TOOL_OPTIONS.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import quoteattr

from shipper.errors import JarsUnavailable
from shipper.jars import MAVEN_CENTRAL, MIRROR_VARIABLE
from shipper.java import find_java
from shipper.pins import Pin, sha256_of
from shipper.whole_files import write_whole
from shipper_tools.dev.jars import lock_file, pyspark_home

_SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  <resolvers><ibiblio name="maven" m2compatible="true" root={root}/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="shipper" module="lock"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""


def resolve(
    roots: Iterable[str], into: Path, *, excludes: Iterable[str] = (), alone: bool = False
) -> list[Path]:
    """Download the jars of coordinates and of all that these depend on, and return their paths:
    ``GROUP/NAME/VERSION/NAME-VERSION.jar`` below ``into``. ``alone``: without what they depend on.

    Raises:
        JarsUnavailable: something cannot be resolved.
        JavaUnavailable: there is no Java to run Ivy.
    """
    without = "".join(
        f"<exclude org={quoteattr(group)} module={quoteattr(name or '*')}/>"
        for group, _, name in (spec.partition(":") for spec in excludes)
    )
    dependencies = "".join(
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} "
        f'conf="default-&gt;default" transitive="{str(not alone).lower()}">{without}</dependency>'
        for group, name, version in (spec.split(":") for spec in roots)
    )
    root = os.environ.get(MIRROR_VARIABLE) or MAVEN_CENTRAL
    (ivy,) = (pyspark_home() / "jars").glob("ivy-*.jar")
    with tempfile.TemporaryDirectory() as folder:
        settings, module = Path(folder, "settings.xml"), Path(folder, "module.xml")
        settings.write_text(_SETTINGS.format(root=quoteattr(f"{root.rstrip('/')}/")))
        module.write_text(_MODULE.format(dependencies=dependencies))
        # No home folder is needed: settings, cache and Ivy's own "user dir" are all named.
        words = f"-Divy.default.ivy.user.dir={folder} -jar {ivy} -warn -settings {settings}"
        words += f" -cache {folder}/cache -confs default -ivy {module} -types jar bundle -retrieve"
        pattern = f"{into}/[organisation]/[module]/[revision]/[module]-[revision].[ext]"
        done = subprocess.run(
            [str(find_java().path), *words.split(), pattern],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        raise JarsUnavailable(
            f"The jars cannot be resolved. Ivy said: {(done.stdout + done.stderr).strip()[-2000:]}"
        )
    return sorted(into.rglob("*.jar"))


def _pin(jar: Path) -> Pin:
    group, name, version = (folder.name for folder in (jar.parents[2], jar.parents[1], jar.parent))
    return Pin(group, name, version, jar.stat().st_size, sha256_of(jar))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m shipper_tools.dev.relock", description=__doc__)
    parser.add_argument("name", help="the lock's name, e.g. kafka-4.3.1")
    parser.add_argument("roots", nargs="+", metavar="GROUP:NAME:VERSION")
    parser.add_argument("--exclude", action="append", default=[], metavar="GROUP[:NAME]")
    parser.add_argument("--alone", action="store_true", help="without what they depend on")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        jars = resolve(asked.roots, Path(folder), excludes=asked.exclude, alone=asked.alone)
        pins = sorted(map(_pin, jars), key=lambda pin: pin.coordinate)
    lock = lock_file(asked.name)
    head = f"# Written by: python -m shipper_tools.dev.relock {' '.join(arguments)}\n"
    write_whole(str(lock), head + "".join(f"{pin}\n" for pin in pins))
    print(f"{lock}: {len(pins)} jars, {sum(pin.size_bytes for pin in pins) / 1e6:.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
