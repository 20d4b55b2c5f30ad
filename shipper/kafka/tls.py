"""TLS handshakes with a broker's listener, and why its certificate would be rejected."""

from __future__ import annotations

import datetime as dt
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Secret

from shipper import runtime
from shipper.config.cluster import reveal
from shipper.config.properties import LOGIN, LOGIN_CONFIG

_ALERT_SECONDS = 0.5
_NAMED_OTHERWISE = (
    "the broker's certificate is not for {host}: name the brokers in `bootstrap` (and in their "
    "advertised.listeners) as the certificate does, or give them one with that name"
)
_UNKNOWN_AUTHORITY = (
    "the authority of the broker's certificate is not known here: set `ssl.ca.location` to that "
    "authority's certificate"
)
#: OpenSSL's numbers (x509_vfy.h) → what they mean.
_WHY = {
    9: "the broker's certificate is not valid yet: check this machine's clock",
    10: (
        "the broker's certificate, or one of its authorities', has expired: the brokers need a new "
        "one, or this machine's clock is wrong"
    ),
    **dict.fromkeys((62, 64), _NAMED_OTHERWISE),
    **dict.fromkeys((2, 7, 18, 19, 20, 21), _UNKNOWN_AUTHORITY),
}
_OWN_AS_FILES = ("ssl.certificate.location", "ssl.key.location")
#: librdkafka 2.16 (rdkafka_sasl.c), of a broker that does not take the mechanism; a broker without
#: SASL names none.
_OFFERED = re.compile(r"broker's supported mechanisms: *([\w, -]*?) *(?:\(|$)")
_OWN_OTHERWISE = ("ssl.certificate.pem", "ssl.key.pem", "ssl.keystore.location")


class HandshakeFailed(Exception):
    """The handshake failed. The text says why, names the setting, and holds no secret."""

    def __init__(self, text: str, *, final: bool = False) -> None:
        """Make the error. ``final``: the certificates are at fault, which waiting does not
        change."""
        super().__init__(text)
        self.final = final


@dataclass(frozen=True)
class Certificate:
    """The certificate of a listener, verified."""

    subject: str
    ends: dt.datetime
    """UTC."""


def is_tls(settings: Mapping[str, Any]) -> bool:
    """Return True if the listener uses TLS. ``settings``: of a client, as
    :func:`shipper.kafka.connection.connection` returns them."""
    return _text(settings, "security.protocol").lower() in ("ssl", "sasl_ssl")


class HostPort(NamedTuple):
    """Address at which a broker listens."""

    host: str
    port: int


def hosts_and_ports(bootstrap: str) -> list[HostPort]:
    """Parse ``host:port,[::1]:9092``; a listener's scheme in front is left out."""
    found = []
    for each in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, _, port = each.rpartition("://")[2].rpartition(":")
        found.append(HostPort(host.strip("[]"), int(port)))
    return found


def handshake(
    settings: Mapping[str, Any], host: str, port: int, timeout_seconds: float
) -> Certificate | None:
    """Return the certificate that ``host`` shows; None if verification is switched off. Raises
    HandshakeFailed, and OSError if the host cannot be reached."""
    deadline = runtime.monotonic() + timeout_seconds
    context = _context(settings)
    with socket.create_connection((host, port), timeout_seconds) as raw:
        raw.settimeout(max(0.1, deadline - runtime.monotonic()))
        try:
            with context.wrap_socket(raw, server_hostname=host) as tls:
                found = _certificate(tls)
                _hear_alert(tls, settings)
                return found
        except ssl.SSLCertVerificationError as error:
            raise HandshakeFailed(f"{host}:{port}: {_why(error, host)}", final=True) from None
        except ssl.SSLError as error:
            raise HandshakeFailed(
                f"{host}:{port}: no TLS handshake ({error.reason or error.args[-1]}); check that "
                "the listener's protocol is the `security.protocol` of the cluster's file"
            ) from None
        except TimeoutError:
            raise HandshakeFailed(
                f"{host}:{port} accepts the connection but does not answer a TLS handshake; "
                "check that the port belongs to a TLS listener"
            ) from None
        except ConnectionError as error:
            raise HandshakeFailed(
                f"{host}:{port} breaks the TLS handshake off ({error.strerror}); check that the "
                "port belongs to a TLS listener"
            ) from None


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the client's TLS context. Raises HandshakeFailed for files that cannot be used."""
    known = reveal(
        {name: value for name, value in settings.items() if name.startswith(("ssl.", "enable.ssl"))}
    )
    location, text = known.get("ssl.ca.location"), known.get("ssl.ca.pem")
    try:
        if location and Path(str(location)).is_dir():
            context = ssl.create_default_context(capath=str(location))
        else:
            context = ssl.create_default_context(
                cafile=str(location) if location else None, cadata=str(text) if text else None
            )
    except (OSError, ssl.SSLError, ValueError) as error:
        raise HandshakeFailed(
            f"`ssl.ca.location` ({location or 'as text'}) cannot be used: {error}"
        ) from None
    if str(known.get("ssl.endpoint.identification.algorithm", "https")).lower() != "https":
        context.check_hostname = False
    if str(known.get("enable.ssl.certificate.verification", True)).lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = (known.get(name) for name in _OWN_AS_FILES)
    if certificate and key:
        password = known.get("ssl.key.password")
        try:
            context.load_cert_chain(str(certificate), str(key), str(password) if password else "")
        except (OSError, ssl.SSLError):
            raise HandshakeFailed(
                "the client's own certificate cannot be used: check that "
                f"`ssl.certificate.location` ({certificate}), `ssl.key.location` ({key}) and "
                "`ssl.key.password` belong together"
            ) from None
    return context


def _certificate(tls: ssl.SSLSocket) -> Certificate | None:
    certificate: Any = tls.getpeercert()
    if not certificate:
        return None
    subject = ", ".join(
        f"{name}={value}" for part in certificate.get("subject", ()) for name, value in part
    )
    ends = dt.datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), dt.UTC)
    return Certificate(subject or "(no subject)", ends)


def _hear_alert(tls: ssl.SSLSocket, settings: Mapping[str, Any]) -> None:
    """Wait for an alert: with TLS 1.3 a broker that requires a certificate says so after the
    handshake. Skipped for a client's certificate in a form that Python does not read."""
    if any(name in settings for name in _OWN_OTHERWISE):
        return
    tls.settimeout(_ALERT_SECONDS)
    try:
        tls.recv(1)
    except ssl.SSLError as error:
        own = "is not accepted" if _OWN_AS_FILES[0] in settings else "is wanted"
        raise HandshakeFailed(
            f"a client's certificate {own} ({error.reason}): set `ssl.certificate.location` and "
            "`ssl.key.location`, or `ssl.keystore.location`, to one of an authority that the "
            "brokers trust",
            final=True,
        ) from None
    except OSError:  # it waits for a request, as it should
        pass


def _why(error: ssl.SSLCertVerificationError, host: str) -> str:
    otherwise = f"the broker's certificate is refused: {error.verify_message}"
    return _WHY.get(error.verify_code, otherwise).replace("{host}", host)


def _text(settings: Mapping[str, Any], name: str) -> str:
    found = settings.get(name)
    value = found.get_secret_value() if isinstance(found, Secret) else found
    return "" if value is None else str(value)


def login_remedy(settings: Mapping[str, Any], said: str) -> str:
    """Return what to do about a login that a broker refused; ``said``: librdkafka's words."""
    offered = _OFFERED.search(said)
    if offered is not None and not offered[1]:
        without = "SSL" if is_tls(settings) else "PLAINTEXT"
        return (
            "The listener offers no SASL, so the credentials were not checked. Name a listener "
            f"with SASL in `bootstrap`, or set `security.protocol` to `{without}` and remove the "
            "`sasl.` settings."
        )
    if offered is not None:
        return f"Set `sasl.mechanisms` to one that the listener offers: {offered[1]}."
    mechanism = (_text(settings, "sasl.mechanisms") or _text(settings, "sasl.mechanism")).upper()
    if login := _text(settings, LOGIN):
        return (
            f"Allow the identity that the cloud gives this process (`{login}`) to connect, and "
            f"correct `{LOGIN_CONFIG}`."
        )
    if mechanism == "OAUTHBEARER":
        return (
            "Correct `sasl.oauthbearer.client.id`, `sasl.oauthbearer.client.secret` and "
            "`sasl.oauthbearer.token.endpoint.url`."
        )
    if mechanism in ("", "GSSAPI"):
        return "Correct `sasl.kerberos.principal` and `sasl.kerberos.keytab`."
    return (
        "Correct `sasl.username` and `sasl.password`, and check that the brokers know that user "
        "for `sasl.mechanisms`."
    )


def why_refused(settings: Mapping[str, Any], bootstrap: str, timeout_seconds: float) -> str | None:
    """Return what is wrong with the brokers' certificates in ``bootstrap`` and stays wrong; None if
    one broker's are right, or no broker can be asked."""
    why = None
    for host, port in hosts_and_ports(bootstrap):
        try:
            handshake(settings, host, port, timeout_seconds)
            return None
        except HandshakeFailed as refused:
            why = why or (str(refused) if refused.final else None)
        except OSError:
            continue
    return why
