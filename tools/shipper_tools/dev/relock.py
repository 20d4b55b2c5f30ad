"""Write a lock: resolve a few coordinates with all that they depend on, and pin what came.

For the people who maintain the dev servers. ``python -m shipper_tools.dev.relock kafka-4.3.1 GROUP:NAME:VERSION …
[--exclude GROUP[:NAME]] …`` rewrites ``locks/kafka-4.3.1.txt``, whose head names the call that made it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from shipper_tools.dev import ivy
from shipper_tools.dev.java import find_java
from shipper_tools.dev.pins import Pin, lock_file, read_lock, sha256_of


def relock(name: str, roots: Sequence[str], excludes: Sequence[str] = ()) -> tuple[Pin, ...]:
    """Resolve ``roots`` and everything below them without ``excludes``, and write the lock ``name``.

    Raises:
        JarsUnavailable: something cannot be resolved.
    """
    body = "".join(_exclude(spec) for spec in excludes)
    dependencies = [_root(spec, body) for spec in roots]
    with tempfile.TemporaryDirectory() as folder:
        work, into = Path(folder) / "work", Path(folder) / "jars"
        ivy.fetch(find_java(), name, dependencies, work=work, into=into, locked=False, progress=lambda line: print(line))
        pins = _pins(work / "cache" / f"shipper-{name}-default.xml", into)
    call = " ".join([name, *roots, *(f"--exclude {spec}" for spec in excludes)])
    head = f"# Written by: python -m shipper_tools.dev.relock {call}\n"
    lock_file(name).write_text(head + "".join(f"{pin}\n" for pin in pins), encoding="utf-8")
    return read_lock(lock_file(name))


def _root(spec: str, body: str) -> str:
    group, name, version = spec.split(":")
    return ivy.dependency(group, name, version, body=body)


def _exclude(spec: str) -> str:
    group, _, name = spec.partition(":")
    return f'<exclude org="{group}" module="{name or "*"}"/>'


def _pins(report: Path, folder: Path) -> list[Pin]:
    pins = []
    for module in ElementTree.parse(report).iter("module"):
        for revision in module.iter("revision"):
            for _ in revision.iter("artifact"):
                group, name, version = (str(x) for x in (module.get("organisation"), module.get("name"), revision.get("name")))
                jar = folder / f"{name}-{version}.jar"
                pins.append(Pin(group, name, version, jar.stat().st_size, sha256_of(jar)))
    return sorted(pins, key=lambda pin: pin.coordinate)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m shipper_tools.dev.relock", description=__doc__)
    parser.add_argument("name", help="the lock's name, e.g. kafka-4.3.1")
    parser.add_argument("roots", nargs="+", metavar="GROUP:NAME:VERSION")
    parser.add_argument("--exclude", action="append", default=[], metavar="GROUP[:NAME]")
    options = parser.parse_args(arguments)
    pins = relock(options.name, options.roots, options.exclude)
    print(f"{lock_file(options.name)}: {len(pins)} jars, {sum(pin.size_bytes for pin in pins) / 1e6:.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
