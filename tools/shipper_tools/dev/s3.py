"""A real S3 server on loopback: S3Proxy, which keeps objects as files and checks signatures, in one
Java process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from shipper.whole_files import write_whole
from shipper_tools.dev import http
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.java import QUICK_JVM, java_command, properties_text
from shipper_tools.dev.s3_client import S3Client
from shipper_tools.dev.server import Server, ServerOptions

#: The lock that names S3Proxy's jars.
JARS = "s3proxy-4.1.0"
#: Whoever reaches the port is the administrator; they are the same everywhere, so that an example
#: can name them.
ACCESS_KEY, SECRET_KEY = "shipper", "shipper-development-only"

_LOG_SETTINGS = Path(__file__).with_suffix(".xml")


class S3Server(Server):
    """An S3 server, up within a second.

    Args:
        anonymous: anybody may do anything, and no signature is looked at.
        secret_key: what clients sign with.
    """

    title = "S3Proxy"

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        anonymous: bool = False,
        secret_key: str = SECRET_KEY,
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(directory, port, **options)
        self._anonymous = anonymous
        self._secret_key = secret_key

    @property
    def endpoint(self) -> str:
        """``http://127.0.0.1:PORT``."""
        return f"http://{self.address}"

    @property
    def client(self) -> S3Client:
        return S3Client(self.endpoint, ACCESS_KEY, self._secret_key)

    @property
    def addresses(self) -> Mapping[str, str]:
        return {"endpoint": self.endpoint}

    def _launch(self) -> None:
        jars = resolve_jars(JARS, self._say)
        self._folders("data")
        credentials = {"s3proxy.identity": ACCESS_KEY, "s3proxy.credential": self._secret_key}
        properties = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "none" if self._anonymous else "aws-v2-or-v4",
            **({} if self._anonymous else credentials),
            "jclouds.provider": "filesystem-nio2",
            # Relative to its working directory, it lists nothing.
            "jclouds.filesystem.basedir": str(self.directory / "data"),
        }
        write_whole(str(self.directory / "s3proxy.properties"), properties_text(properties))
        options = [*QUICK_JVM, f"-Dlogback.configurationFile={_LOG_SETTINGS}"]
        main = ["org.gaul.s3proxy.Main", "--properties", "s3proxy.properties"]
        self._spawn("console", java_command(main, f"{jars}/*", 256, options))

    def _answers(self) -> bool:
        return http.answers(self.endpoint)
