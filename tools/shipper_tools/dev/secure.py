"""The Kafka of ``shipper dev up kafka --secure``: SASL_SSL with an authority of its own, one user
with ACLs, and the cluster file to use it."""

from __future__ import annotations

import secrets
from pathlib import Path

from shipper.kafka.client import GROUP
from shipper.ledger.rights import Right
from shipper_tools.dev.jars import Say
from shipper_tools.dev.secured_kafka import SecuredKafka

USER, CLUSTER = "shipper", "secure"
#: Any topic and pipeline: who tries things out gives them names as he goes.
RIGHTS = (
    Right("topic", "*", ("Read", "Write", "DescribeConfigs")),
    Right("topic", "_shipper.", ("Create",), prefixed=True),
    Right("group", GROUP, ("Describe",)),
    Right("transactional-id", "*", ("Write",)),
)


class SecureKafka:
    """``launch`` and ``wait_ready`` its ``server``, then :meth:`finish`.

    The open listener beside SECURE is on loopback too, and whoever comes by it may do anything: the
    broker's own, and that of `dev topic` and `dev read`.
    """

    def __init__(self, folder: Path, port: int | None, say: Say) -> None:
        """``port``: of the listener that wants a login; None for a free one."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder.absolute()
        self.password_file = self._folder / "password"
        if not self.password_file.exists():
            self.password_file.touch(mode=0o600)
            self.password_file.write_text(secrets.token_urlsafe(18) + "\n")
        password = self.password_file.read_text().strip()
        ports = {"SECURE": port} if port else {}
        self._kafka = SecuredKafka(
            folder, {USER: password}, ports=ports, acls=True, die_with_parent=False, say=say
        )
        self.server = self._kafka.server

    @property
    def cluster_file(self) -> Path:
        return self._folder / f"{CLUSTER}.yaml"

    @property
    def addresses(self) -> dict[str, str]:
        """Of the open listener first, which the other dev commands use."""
        return {"open": self.server.bootstrap, "secure": self._kafka.bootstrap}

    def finish(self) -> None:
        """Grants, and writes the cluster file."""
        self._kafka.grant(USER, RIGHTS)
        text = f"""\
# Written by `shipper dev up kafka --secure`. Use it: cp {self.cluster_file} config/clusters/
cluster: {CLUSTER}
bootstrap: {self._kafka.bootstrap}
properties:
  security.protocol: SASL_SSL
  sasl.mechanisms: SCRAM-SHA-512
  sasl.username: {USER}
  sasl.password: ${{file:{self.password_file}}}
  ssl.ca.location: {self._kafka.ca.absolute()}
ledger:
  replication_factor: 1     # there is one broker
"""
        self.cluster_file.write_text(text)
