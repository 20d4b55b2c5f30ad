"""What Hadoop's servers share here: jars, settings and how Java is started."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from xml.sax.saxutils import escape

from shipper.whole_files import write_whole
from shipper_tools.dev.jars import pyspark_home, resolve_jars
from shipper_tools.dev.java import QUICK_JVM, java_command
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.server import Server

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


class HadoopServer(Server):
    """Several Java processes with one folder of settings."""

    jars: ClassVar[tuple[str, ...]] = (JARS,)
    _web_port = 0

    @property
    def conf_dir(self) -> Path:
        """Folder for HADOOP_CONF_DIR."""
        return self.directory / "conf"

    @property
    def web(self) -> str:
        """Pages and REST API of the first process: ``http://127.0.0.1:PORT``."""
        return f"http://{LOOPBACK}:{self._web_port}"

    def _launch(self) -> None:
        """Write the settings. Raises JarsUnavailable."""
        home = pyspark_home() / "jars"
        client = [jar for name in _OF_PYSPARK for jar in home.glob(f"{name}.jar")]
        servers = [resolve_jars(lock, self._say) / "*" for lock in self.jars]
        self._class_path = ":".join(map(str, [self.conf_dir, *client, *servers]))
        self._web_port = free_port()
        self._folders("conf")
        for name, settings in self._settings().items():
            properties = (
                f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
                for key, value in settings.items()
            )
            text = f"<configuration>\n{''.join(properties)}</configuration>\n"
            write_whole(str(self.conf_dir / f"{name}.xml"), text)

    @abstractmethod
    def _settings(self) -> dict[str, Mapping[str, str]]:
        """Return settings by the name of their file, e.g. ``core-site``."""

    def _command(self, main_class: str, *arguments: str, heap_mb: int = 256) -> list[str]:
        options = [
            *QUICK_JVM,
            "-Djava.net.preferIPv4Stack=true",
            f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
        ]
        return java_command([main_class, *arguments], self._class_path, heap_mb, options)
