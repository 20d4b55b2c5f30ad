"""A real broker that wants TLS and a password: SASL_SSL with SCRAM-SHA-512, and a certificate of an authority of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from shipper_tools.dev.errors import ServerDied
from shipper_tools.dev.java import find_java
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.ports import LOOPBACK, free_port

_STORE_PASSWORD = "of-the-test-store"
_RSA = ("-keyalg", "RSA", "-keysize", "2048", "-validity", "30")


class SecuredKafka:
    """::

        with SecuredKafka(tmp_path, {"shipper": password}) as kafka:
            kafka.properties("shipper", password)  # for a cluster file, beside kafka.bootstrap

    Args:
        directory: for the server and the certificates.
        users: SCRAM users and their passwords.
        certified: clients must show a certificate of the authority too (mTLS); `client_certificate` is one.
        expired: the broker's certificate is yesterday's.
    """

    def __init__(self, directory: Path, users: Mapping[str, str], *, certified: bool = False, expired: bool = False) -> None:
        self._folder = directory
        self._certified, self._expired = certified, expired
        self.ca = directory / "ca.pem"
        """The authority's certificate."""
        store = directory / "broker.p12"
        properties = {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": _STORE_PASSWORD,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.secure.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        }
        if certified:
            properties |= {
                "listener.name.secure.ssl.client.auth": "required",
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.location": str(directory / "trusted.p12"),
                "ssl.truststore.password": _STORE_PASSWORD,
            }
        self.server = KafkaServer(
            directory / "server", properties=properties, secure_port=free_port(), scram=users, die_with_parent=True
        )

    @property
    def bootstrap(self) -> str:
        """Of the listener that wants TLS and a password; ``server.bootstrap`` is that of the open one."""
        return f"{LOOPBACK}:{self.server.secure_port}"

    def properties(self, user: str, password: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.ca),
        }

    def client_certificate(self, user: str) -> dict[str, str]:
        """Beside :meth:`properties`: a certificate for ``user`` that the authority signed."""
        self._signed(user, f"CN={user}")
        return {"ssl.keystore.location": str(self._folder / f"{user}.p12"), "ssl.keystore.password": _STORE_PASSWORD}

    def __enter__(self) -> SecuredKafka:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._make_certificates()
        self.server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.server.stop()

    def _make_certificates(self) -> None:
        """An authority, and a certificate for 127.0.0.1 that it signed."""
        self._keytool("authority", "-genkeypair", "-alias", "ca", *_RSA, "-dname", "CN=authority of a test", "-ext", "bc:c")
        self._keytool("authority", "-exportcert", "-alias", "ca", "-rfc", "-file", "ca.pem")
        if self._certified:
            self._keytool("trusted", "-importcert", "-alias", "ca", "-file", "ca.pem", "-noprompt")
        validity = ("-startdate", "-2d", "-validity", "1") if self._expired else ("-validity", "30")
        self._signed("broker", f"CN={LOOPBACK}", "-ext", f"san=ip:{LOOPBACK}", *validity)

    def _signed(self, name: str, subject: str, *options: str) -> None:
        """A key in a store of its own, with a certificate that the authority signed."""
        self._keytool(name, "-genkeypair", "-alias", name, *_RSA, "-dname", subject)
        self._keytool(name, "-certreq", "-alias", name, "-file", f"{name}.csr")
        self._keytool(
            "authority", "-gencert", "-alias", "ca", "-infile", f"{name}.csr", "-outfile", f"{name}.pem", "-rfc", *options
        )
        self._keytool(name, "-importcert", "-alias", "ca", "-file", "ca.pem", "-noprompt")
        self._keytool(name, "-importcert", "-alias", name, "-file", f"{name}.pem", "-noprompt")

    def _keytool(self, store: str, *arguments: str) -> None:
        tool = find_java().path.with_name("keytool")
        common = ("-keystore", f"{store}.p12", "-storetype", "PKCS12", "-storepass", _STORE_PASSWORD)
        done = subprocess.run([str(tool), *arguments, *common], cwd=self._folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerDied(f"keytool {arguments[0]} failed: {(done.stdout + done.stderr).strip()[-500:]}")
