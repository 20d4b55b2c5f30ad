"""Whether librdkafka takes a cluster's properties, found out without asking any server."""

from __future__ import annotations

import logging
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from pydantic import Secret

from shipper.config.cluster import Cluster, revealed, without_secrets
from shipper.kafka.connection import connection

_NOBODY = "127.0.0.1:1"
_SILENT = logging.getLogger("shipper.kafka.offline")
_SILENT.disabled = True
#: With one of these a client would ask a server for a token, and not the one that `token.endpoint.url` names.
_ASKS_ELSEWHERE = "sasl.oauthbearer.metadata.authentication.type"
_OWN_CERTIFICATE = ("ssl.key.", "ssl.certificate.", "ssl.keystore.")


def refusal(cluster: Cluster) -> str | None:
    """Why no client can be made, None if one can: a wrong value, a file that is missing or unreadable. Holds no secret.

    The client that is made for this looks for a broker at a closed port of this machine, asks no server for a token, and runs no
    `kinit`. Of references that are not known here nothing is checked.
    """
    settings = {**_without_unknown(connection(cluster)), "bootstrap.servers": _NOBODY}
    if _ASKS_ELSEWHERE in settings:
        return None
    if "sasl.oauthbearer.token.endpoint.url" in settings:
        settings["sasl.oauthbearer.token.endpoint.url"] = f"http://{_NOBODY}/"
    settings["sasl.kerberos.min.time.before.relogin"] = 0  # librdkafka then leaves Kerberos tickets to others
    try:
        Producer(revealed(settings), logger=_SILENT)
    except (KafkaException, TypeError, ValueError) as error:
        fault = error.args[0] if error.args else error
        return without_secrets(settings, fault.str() if isinstance(fault, KafkaError) else str(fault))
    return None


def _without_unknown(settings: dict[str, Any]) -> dict[str, Any]:
    """Text in the place of a login that is not known; files that are not known, and what belongs to them, are left out."""
    unknown = {name for name, value in settings.items() if isinstance(value, Secret) and value.get_secret_value() is None}
    own = any(name.startswith(_OWN_CERTIFICATE) for name in unknown)
    return {
        name: "unknown" if name in unknown else value
        for name, value in settings.items()
        if not (own and name.startswith(_OWN_CERTIFICATE)) and (name not in unknown or name.startswith("sasl."))
    }
