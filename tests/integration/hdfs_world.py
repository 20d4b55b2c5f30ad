"""Files on a real HDFS, as its writers write them: with Hadoop's own client, in a JVM of its own
that shares nothing with shipper's."""

import base64
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyspark.find_spark_home import _find_spark_home
from shipper_tools.dev.hdfs import HdfsServer

#: The client's patience with DataNodes that do not answer: by default it waits three times, for
#: seconds.
IMPATIENT = {
    "spark.hadoop.dfs.client.retry.window.base": "10",
    "spark.hadoop.ipc.client.connect.max.retries": "1",
}


class OpenFile:
    """A file of which somebody writes more."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, content: bytes):
        """So that readers see it."""
        self._stream.write(bytearray(content))
        self._stream.hflush()

    def close(self):
        self._stream.close()


class HdfsFiles:
    """The files of a server. Paths are absolute, without the server."""

    def __init__(self, server: HdfsServer, gateway: JavaGateway):
        self.server = server
        self._jvm: Any = gateway.jvm
        self._conf = self._jvm.org.apache.hadoop.conf.Configuration()
        self._conf.set("fs.defaultFS", server.uri)
        self._fs = self._jvm.org.apache.hadoop.fs.FileSystem.get(self._conf)

    def _path(self, path):
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def uri(self, path: str) -> str:
        return f"{self.server.uri}{path}"

    def create(self, path: str, block_bytes: int = 1 << 20) -> OpenFile:
        return OpenFile(self._fs.create(self._path(path), True, 4096, 1, block_bytes))

    def append(self, path: str) -> OpenFile:
        return OpenFile(self._fs.append(self._path(path)))

    def write(
        self,
        path: str,
        content: bytes,
        *,
        block_bytes: int = 1 << 20,
        modified: float | None = None,
    ):
        """``modified``: seconds since the epoch; an hour ago, if nothing is said."""
        stream = self._fs.create(self._path(path), True, 4096, 1, block_bytes)
        self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(self._bytes(content), stream, 65536, True)
        self.set_modified(path, time.time() - 3600 if modified is None else modified)

    def _bytes(self, content):
        decoded = self._jvm.java.util.Base64.getDecoder().decode(base64.b64encode(content).decode())
        return self._jvm.java.io.ByteArrayInputStream(decoded)

    def put(self, folder: Path, path: str):
        """A local file, or a folder with all that is in it, in one call."""
        self._fs.copyFromLocalFile(self._path(folder.as_uri()), self._path(path))

    def set_modified(self, path: str, seconds: float):
        self._fs.setTimes(self._path(path), round(seconds * 1000), -1)

    def allow(self, path: str, mode: int):
        self._fs.setPermission(
            self._path(path),
            self._jvm.org.apache.hadoop.fs.permission.FsPermission(str(oct(mode)[2:])),
        )

    def rename(self, path: str, to: str):
        self._fs.mkdirs(self._path(to).getParent())
        assert self._fs.rename(self._path(path), self._path(to)), f"{path} was not renamed to {to}"

    def delete(self, path: str):
        self._fs.delete(self._path(path), True)

    @contextmanager
    def safe_mode(self) -> Iterator[None]:
        """HDFS can be read and not written to."""
        action = self._jvm.org.apache.hadoop.fs.SafeModeAction
        self._fs.setSafeMode(action.ENTER)
        try:
            yield
        finally:
            self._fs.setSafeMode(action.LEAVE)


@contextmanager
def hdfs_files(server: HdfsServer) -> Iterator[HdfsFiles]:
    jars = Path(_find_spark_home()) / "jars"
    port, secret = launch_gateway(
        jarpath=str(next(jars.glob("py4j-*.jar"), "")),
        classpath=str(jars / "*"),
        javaopts=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF"],
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True)
    )
    try:
        yield HdfsFiles(server, gateway)
    finally:
        gateway.shutdown()


def runner(settings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Of a pipeline that reads from it."""
    return {"driver_memory": "1g", "conf": {**IMPATIENT, **(settings or {})}}
