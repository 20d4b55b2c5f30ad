"""The Kafka of ``shipper dev up kafka --secure``: SASL_SSL with an authority of its own, one user
with ACLs, and the cluster file to use it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from shipper.kafka.client import GROUP
from shipper.ledger.rights import Right
from shipper.whole_files import write_whole
from shipper_tools.dev.jars import Say
from shipper_tools.dev.process import write_for_us_alone
from shipper_tools.dev.secured_kafka import SecuredKafka

USER = "shipper"
#: Any topic and pipeline: who tries things out gives them names as he goes.
RIGHTS = (
    Right("topic", "*", ("Read", "Write", "DescribeConfigs")),
    Right("topic", "_shipper.", ("Create",), prefixed=True),
    Right("group", GROUP, ("Describe",)),
    Right("transactional-id", "*", ("Write",)),
)


class SecureKafka(SecuredKafka):
    """The open listener beside SECURE is on loopback too, and whoever comes by it may do anything:
    the broker's own, and that of `dev topic` and `dev read`.

    Args:
        port: of the listener that wants a login; None for a free one.
    """

    def __init__(self, directory: Path, port: int | None, say: Say) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._password_file = directory.absolute() / "password"
        if not self._password_file.exists():
            write_for_us_alone(self._password_file, secrets.token_urlsafe(18) + "\n")
        users = {USER: self._password_file.read_text().strip()}
        ports = {"SECURE": port} if port else {}
        super().__init__(directory, users, ports=ports, acls=True, die_with_parent=False, say=say)

    @property
    def addresses(self) -> Mapping[str, str]:
        """Of the open listener first, which the other dev commands use."""
        return {"open": self.address, "secure": self.bootstrap}

    def wait_ready(self) -> None:
        """Grant the user's rights too, and write the cluster file."""
        super().wait_ready()
        self.grant(USER, RIGHTS)
        cluster_file = self.directory / "secure.yaml"
        text = f"""\
# Written by `shipper dev up kafka --secure`. Use it: cp {cluster_file} config/clusters/
cluster: secure
bootstrap: {self.bootstrap}
properties:
  security.protocol: SASL_SSL
  sasl.mechanisms: SCRAM-SHA-512
  sasl.username: {USER}
  sasl.password: ${{file:{self._password_file}}}
  ssl.ca.location: {self.ca}
ledger:
  replication_factor: 1     # there is one broker
"""
        write_whole(str(cluster_file), text)
