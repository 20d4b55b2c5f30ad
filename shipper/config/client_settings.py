"""What a Kafka client of a cluster is given, and what may be said when it refuses it. Shared by all who make clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Secret

from shipper.config.models import Cluster
from shipper.errors import WrongProperties

_SECRET_WORDS = ("password", "passphrase", "secret", "pem", "username", "oauthbearer.config", "oauthbearer.extensions")


def client_settings(cluster: Cluster) -> dict[str, Any]:
    """Where the cluster is and what the user set; values that may be secrets are still hidden in ``pydantic.Secret``."""
    return {"bootstrap.servers": cluster.bootstrap, **cluster.properties, **cluster.unsafe_properties}


def revealed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """For the constructor of a client alone. Raises WrongProperties for a reference that nobody has looked up."""
    found = {name: value.get_secret_value() if isinstance(value, Secret) else value for name, value in settings.items()}
    unknown = [name for name, value in found.items() if value is None]
    if unknown:
        raise WrongProperties(f"{', '.join(unknown)}: what the reference stands for is not known in this process")
    return found


def refused(cluster: str, settings: Mapping[str, Any], why: str) -> WrongProperties:
    """For what librdkafka said when it refused to make a client. It quotes values; those that may be secrets are taken out."""
    return WrongProperties(
        f"cluster {cluster}: no client can be made with its `properties`: {without_secrets(settings, why)}. "
        f"Correct them in clusters/{cluster}.yaml; `shipper validate` checks them."
    )


def without_secrets(settings: Mapping[str, Any], text: str) -> str:
    """librdkafka's words without values that may be secrets; a file that is not there is named, since OpenSSL does not."""
    for name, value in settings.items():
        path = str(value.get_secret_value() if isinstance(value, Secret) else value)
        if name in text and name.endswith((".location", ".file", ".keytab")) and not Path(path).exists():
            return f"{name}: there is no file {path}"
    text = " ".join(text.removeprefix("Failed to create producer: ").removeprefix("Failed to create consumer: ").split())
    for name, value in settings.items():
        if any(word in name for word in _SECRET_WORDS):
            shown = str(value.get_secret_value() if isinstance(value, Secret) else value)
            text = text.replace(shown, "…") if shown else text
    return text
