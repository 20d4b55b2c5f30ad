"""The HDFS of ``shipper dev up hdfs --kerberos``: with a KDC of its own (Hadoop's MiniKdc), and
nothing is read or written without Kerberos."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from shipper.whole_files import write_whole
from shipper_tools.dev.hdfs import HdfsServer
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.java import QUICK_JVM, java_command, properties_text
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.server import ServerOptions

JARS = "minikdc-3.5.0"
_REALM = "SHIPPER.TEST"
#: Of the servers, who may do everything; and of who ships. Their keys are random, new with each
#: start, and in the keytab alone.
SERVER, USER = f"hdfs/localhost@{_REALM}", f"shipper@{_REALM}"
#: For clients too.
_CLIENT = {
    "hadoop.security.authentication": "kerberos",
    "dfs.namenode.kerberos.principal": SERVER,
    "dfs.datanode.kerberos.principal": SERVER,
    "dfs.data.transfer.protection": "privacy",
}


class KerberizedHdfs(HdfsServer):
    """A file system and a KDC, up after some 10 seconds. ``ticket_seconds``: longest life of a
    ticket, and of a delegation token."""

    title = "HDFS with Kerberos"

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        ticket_seconds: int = 86_400,
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(directory, port, **options)
        self._kdc_port, self._ticket_seconds = free_port(), ticket_seconds

    @property
    def keytab(self) -> Path:
        """Keys of :data:`SERVER` and :data:`USER`."""
        return self.directory / "all.keytab"

    @property
    def krb5_conf(self) -> Path:
        return self.directory / "krb5.conf"

    @property
    def addresses(self) -> Mapping[str, str]:
        return {**super().addresses, "keytab": str(self.keytab)}

    @property
    def java_options(self) -> str:
        """Options by which Java finds the KDC."""
        return f"-Djava.security.krb5.conf={self.krb5_conf}"

    def _launch(self) -> None:
        self._folders()
        for old in (self.keytab, self.krb5_conf):
            old.unlink(missing_ok=True)
        name, domain = _REALM.split(".")
        settings = {
            "org.name": name,
            "org.domain": domain,
            "instance": "kdc",
            "transport": "TCP",
            "kdc.bind.address": "localhost",
            "kdc.port": str(self._kdc_port),
            # Milliseconds by MiniKdc's page; its KDC takes seconds.
            "max.ticket.lifetime": str(self._ticket_seconds),
            "max.renewable.lifetime": str(7 * 86_400),
        }
        written = self.directory / "kdc.properties"
        write_whole(str(written), properties_text(settings))
        kdc = ["org.apache.hadoop.minikdc.MiniKdc", str(self.directory), str(written)]
        options = [*QUICK_JVM, "-Djava.net.preferIPv4Stack=true"]
        jars = f"{resolve_jars(JARS, self._say)}/*"
        main = [*kdc, str(self.keytab), SERVER, USER]
        self._spawn("kdc", java_command(main, jars, 64, options))
        self.wait("give tickets", self._gives_tickets)
        super()._launch()

    def _gives_tickets(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self._kdc_port), 1):
            # The keytab is written last.
            return (
                self.krb5_conf.exists() and self.keytab.exists() and bool(self.keytab.read_bytes())
            )
        return False

    def _settings(self) -> dict[str, Mapping[str, str]]:
        found = super()._settings()
        keytab = str(self.keytab)
        servers = {
            "hadoop.security.authorization": "true",
            "dfs.block.access.token.enable": "true",
            "dfs.namenode.delegation.token.renew-interval": str(1000 * self._ticket_seconds),
            "dfs.namenode.delegation.token.max-lifetime": str(1000 * self._ticket_seconds),
            "dfs.namenode.keytab.file": keytab,
            "dfs.datanode.keytab.file": keytab,
            # Or the NameNode's web server refuses to start.
            "dfs.web.authentication.kerberos.principal": SERVER,
            "dfs.web.authentication.kerberos.keytab": keytab,
            # Ports above 1024 and no HTTPS, as Hadoop's own tests do.
            "ignore.secure.ports.for.testing": "true",
        }
        return {
            "core-site": {**found["core-site"], **_CLIENT},
            "hdfs-site": {**found["hdfs-site"], **_CLIENT, **servers},
        }

    def _command(self, main_class: str, *arguments: str, heap_mb: int = 256) -> list[str]:
        java, *rest = super()._command(main_class, *arguments, heap_mb=heap_mb)
        return [java, self.java_options, *rest]
