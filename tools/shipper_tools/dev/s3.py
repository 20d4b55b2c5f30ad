"""A real S3 server on loopback: S3Proxy, which keeps objects as files and checks signatures, in one Java process."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from shipper.jars import Say
from shipper.processes import ProcessId
from shipper_tools.dev.errors import PortTaken, ServerDied
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.java import find_java
from shipper_tools.dev.kafka import escaped
from shipper_tools.dev.ports import LOOPBACK, free_port, why_unusable
from shipper_tools.dev.process import ServerProcess, spawn
from shipper_tools.dev.s3_client import S3Client

#: The lock that names S3Proxy's jars.
JARS = "s3proxy-4.1.0"
#: Whoever reaches the port is the administrator; they are the same everywhere, so that an example can name them.
ACCESS_KEY, SECRET_KEY = "shipper", "shipper-development-only"

READY_WITHIN_SECONDS = 60.0
STOP_WITHIN_SECONDS = 10.0
_JAVA_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dlogback.configurationFile=logback.xml",
)
_LOGBACK = """<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d %level %logger{0}: %msg%n</pattern></encoder></appender>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"""


class S3Server:
    """A server whose objects live in ``directory`` and are there again after the next start.

    ::

        with S3Server(tmp_path, die_with_parent=True) as s3:
            s3.client.make_bucket("logs")

    Args:
        directory: made if it is not there. One server at a time may use it.
        port: where clients connect. None takes a free one at the first start and keeps it for the later ones.
        secret_key: what clients sign with.
        anonymous: anybody may do anything, and no signature is looked at.
        die_with_parent: the server ends when this process does, even by kill -9. For tests.
        say: gets a line for people when jars have to be fetched.
    """

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        anonymous: bool = False,
        secret_key: str = SECRET_KEY,
        die_with_parent: bool = False,
        say: Say = lambda line: None,
    ) -> None:
        self.directory = directory.absolute()
        self.port = port
        self._anonymous = anonymous
        self._secret_key = secret_key
        self._die_with_parent = die_with_parent
        self._say = say
        self._process: ServerProcess | None = None

    @property
    def endpoint(self) -> str:
        """``http://127.0.0.1:PORT``. Raises ServerDied before the first start."""
        if self.port is None:
            raise ServerDied(f"The S3 server in {self.directory} has no port before its first start.")
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def client(self) -> S3Client:
        return S3Client(self.endpoint, ACCESS_KEY, self._secret_key)

    @property
    def addresses(self) -> Mapping[str, str]:
        """:attr:`endpoint`, as the dev commands remember it."""
        return {"endpoint": self.endpoint}

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        """The Java process, known by number and start; none if it was not started."""
        return (self._process.id,) if self._process is not None else ()

    @property
    def log(self) -> Path:
        """What it says: warnings and worse."""
        return self.directory / "logs" / "console.log"

    def start(self) -> None:
        """Start and wait until it answers: a second. Does nothing if it runs.

        Raises:
            PortTaken: somebody else listens on the port; nothing was started.
            ServerDied: it stopped or did not answer in time; the message ends with its last lines.
            JavaMissing, JarsUnavailable: what it needs is not there.
        """
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """The first half of :meth:`start`: the process is there, the server does not answer yet."""
        if self._process is not None and self._process.id.alive():
            return
        self.stop()
        if self.port is None:
            self.port = free_port()
        if reason := why_unusable(self.port):
            raise PortTaken(f"S3 cannot listen: port {self.port} on {LOOPBACK} {reason}.")
        java, jars = find_java(), resolve_jars(JARS, self._say)
        for folder in ("logs", "data"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        (self.directory / "s3proxy.properties").write_text(self._properties(), encoding="ascii")
        (self.directory / "logback.xml").write_text(_LOGBACK, encoding="ascii")
        command = [str(java.path), *_JAVA_OPTIONS, "-cp", f"{jars}/*", "org.gaul.s3proxy.Main"]
        self._process = spawn(
            [*command, "--properties", "s3proxy.properties"],
            cwd=self.directory,
            output=self.log,
            die_with_parent=self._die_with_parent,
        )

    def _properties(self) -> str:
        access = (
            {"s3proxy.authorization": "none"}
            if self._anonymous
            else {"s3proxy.authorization": "aws-v2-or-v4", "s3proxy.identity": ACCESS_KEY, "s3proxy.credential": self._secret_key}
        )
        found = {
            "s3proxy.endpoint": self.endpoint,
            **access,
            "s3proxy.v4-max-non-chunked-request-size": str(128 << 20),
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self.directory / "data"),  # relative to its working directory, it lists nothing
        }
        return "".join(f"{name}={escaped(value)}\n" for name, value in found.items())

    def wait_ready(self, within_seconds: float = READY_WITHIN_SECONDS) -> None:
        """The second half of :meth:`start`. Stops the process if it does not answer in time, or on Ctrl-C."""
        if self._process is None:
            raise ServerDied(f"The S3 server in {self.directory} was not launched.")
        deadline = time.monotonic() + within_seconds
        try:
            while not answers(self.endpoint):
                if (code := self._process.exit_code()) is not None:
                    raise ServerDied(f"S3Proxy stopped while starting (exit code {code}).{self._last_words()}")
                if time.monotonic() > deadline:
                    raise ServerDied(f"S3Proxy did not answer within {within_seconds:.0f} seconds.{self._last_words()}")
                time.sleep(0.05)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """TERM, and KILL if that takes longer than :data:`STOP_WITHIN_SECONDS`. Does nothing if it does not run."""
        if self._process is not None:
            self._process.stop(STOP_WITHIN_SECONDS)
            self._process = None

    def __enter__(self) -> S3Server:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def _last_words(self) -> str:
        said = self.log.read_text(errors="replace").splitlines()[-25:] if self.log.exists() else []
        return "\n".join([" Its last words:", *said, f"(all of them: {self.log})"])


def answers(endpoint: str, timeout_seconds: float = 2.0) -> bool:
    """Whether an HTTP server answers there, if only that one may not come in."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(endpoint, timeout=timeout_seconds).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
