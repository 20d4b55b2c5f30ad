"""What Hadoop's servers share here: jars, settings and how Java is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from shipper.jars import Say
from shipper.java import find_java
from shipper.whole_files import write_whole
from shipper_tools.dev.jars import pyspark_home, resolve_jars
from shipper_tools.dev.java import QUICK_JVM

#: The lock that names the jars of the servers; the client's classes, on which they stand, come with
#: pyspark and are of the same Hadoop.
JARS = "hdfs-3.5.0"
_OF_PYSPARK = (
    "hadoop-client-api-3.5.0",
    "hadoop-client-runtime-3.5.0",
    "slf4j-api-*",
    "jcl-over-slf4j-*",
    "log4j-slf4j2-impl-*",
    "log4j-api-*",
    "log4j-core-*",
    "log4j-1.2-api-*",
)
_LOG_SETTINGS = Path(__file__).with_suffix(".xml")


def class_path(conf_dir: Path, say: Say) -> str:
    """Raises JarsUnavailable."""
    jars = pyspark_home() / "jars"
    client = [jar for name in _OF_PYSPARK for jar in jars.glob(f"{name}.jar")]
    return ":".join(map(str, [conf_dir, *client, resolve_jars(JARS, say) / "*"]))


def java_command(main_class: str, class_path: str, heap_mb: int, *arguments: str) -> list[str]:
    """Return argv of one of its servers."""
    options = [
        f"-Xmx{heap_mb}m",
        *QUICK_JVM,
        "-Djava.net.preferIPv4Stack=true",
        f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
    ]
    return [str(find_java().path), *options, "-cp", class_path, main_class, *arguments]


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """As Hadoop's configuration files are written."""
    properties = (
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    text = f"<configuration>\n{''.join(properties)}</configuration>\n"
    write_whole(str(file), text)
