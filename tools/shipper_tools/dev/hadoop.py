"""What Hadoop's servers share here: jars, settings and how Java is started."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from shipper.errors import JarsUnavailable
from shipper.jars import Say
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.java import QUICK_JVM, find_java

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
_LOG4J = """<Configuration status="ERROR">
  <Appenders><Console name="console"><PatternLayout pattern="%d{ISO8601} %p %c{1}: %m%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="console"/></Root></Loggers>
</Configuration>
"""  # noqa: E501


def class_path(conf_dir: Path, say: Say) -> str:
    """Raises JarsUnavailable."""
    return ":".join(map(str, [conf_dir, *_jars_of_pyspark(), resolve_jars(JARS, say) / "*"]))


def java_command(main_class: str, class_path: str, heap_mb: int, *arguments: str) -> list[str]:
    """Return argv of one of its servers, which logs by the ``log4j2.xml`` of its folder."""
    options = [
        f"-Xmx{heap_mb}m",
        *QUICK_JVM,
        "-Djava.net.preferIPv4Stack=true",
        "-Dlog4j2.configurationFile=log4j2.xml",
    ]
    return [str(find_java().path), *options, "-cp", class_path, main_class, *arguments]


def write_settings(directory: Path, files: Mapping[str, Mapping[str, str]]) -> None:
    """Write ``conf/NAME.xml`` for each name, and the settings of the logs, below a server's
    folder."""
    for name, settings in files.items():
        properties = (
            f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
            for key, value in settings.items()
        )
        text = f"<configuration>\n{''.join(properties)}</configuration>\n"
        (directory / "conf" / f"{name}.xml").write_text(text, encoding="utf-8")
    (directory / "log4j2.xml").write_text(_LOG4J, encoding="utf-8")


def _jars_of_pyspark() -> list[Path]:
    """Raises JarsUnavailable."""
    spec = importlib.util.find_spec("pyspark")  # looked up, not imported
    folders = [Path(place) / "jars" for place in (spec and spec.submodule_search_locations) or ()]
    found = [
        jar
        for folder in folders
        for name in _OF_PYSPARK
        for jar in sorted(folder.glob(f"{name}.jar"))[-1:]
    ]
    if len(found) < len(_OF_PYSPARK):
        raise JarsUnavailable(
            "Hadoop runs on jars of pyspark 4.2, with Hadoop 3.5.0, and this environment does not "
            "have them all. Install shipper with its Spark part: `pip install 'shipper[spark]'` "
            "(or `uv sync --all-extras`)."
        )
    return found
