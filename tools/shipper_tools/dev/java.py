"""The Java that runs the dev servers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from shipper.java import find_java

#: For a JVM that lives for a test: without the compiler that makes fast code after minutes (1.6 CPU
#: s for a broker's start in place of 2.6).
SHORT_LIVED = ("-XX:TieredStopAtLevel=1",)
#: The compiler and the collector that start fastest.
QUICK_JVM = (*SHORT_LIVED, "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true")


def java_command(
    main: Sequence[str], class_path: str, heap_mb: int, options: Sequence[str] = QUICK_JVM
) -> list[str]:
    """Return argv of a program: its main class, and that one's arguments. Raises
    JavaUnavailable."""
    return [str(find_java().path), f"-Xmx{heap_mb}m", *options, "-cp", class_path, *main]


def properties_text(properties: Mapping[str, str]) -> str:
    r"""Return a properties file as Java reads it: backslashes doubled, what is not ASCII as
    \uXXXX, which JSON writes alike."""
    return "".join(f"{name}={json.dumps(value)[1:-1]}\n" for name, value in properties.items())
