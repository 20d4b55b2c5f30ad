"""A connection to Kafka: its settings, how a fault of librdkafka leaves it, what can be heard of it
besides, and whether librdkafka takes its settings, found out without asking any server.

Everything that goes wrong in this package is a KafkaFault that carries librdkafka's name of the
error; what a fault means is decided in one table, :mod:`shipper.kafka.outcomes`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer
from pydantic import Secret

from shipper import runtime
from shipper.cloud_login import with_login, without_login
from shipper.complaints import ClientLog, Complaints, weakly
from shipper.config.cluster import Cluster, client_settings, refused, reveal, without_secrets
from shipper.config.properties import LOGIN, LOGIN_CONFIG

Client = TypeVar("Client")

SLICE_SECONDS = 1.0

#: Deadline of a call (monotonic seconds). It is asked again and again, since the caller may want to
#: stop meanwhile.
Until = Callable[[], float]


def slice_of(until: Until) -> float:
    return max(0.05, min(SLICE_SECONDS, until() - runtime.monotonic()))


class KafkaFault(Exception):
    """An error of librdkafka or of the broker, by its name in librdkafka (``_TIMED_OUT``,
    ``UNKNOWN_TOPIC_OR_PART``)."""

    def __init__(
        self,
        name: str,
        text: str,
        *,
        retriable: bool = False,
        topic: str | None = None,
        value: bytes | None = None,
    ) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text
        self.retriable = retriable
        self.topic = topic
        self.value = value
        """The value of the record that failed, if one did."""


def to_fault(error: KafkaError, topic: str | None = None, value: bytes | None = None) -> KafkaFault:
    return KafkaFault(
        error.name(), error.str(), retriable=error.retriable(), topic=topic, value=value
    )


def call(operation: Any, *arguments: Any) -> Any:
    try:
        return operation(*arguments)
    except KafkaException as error:
        raise to_fault(error.args[0]) from error
    # The rest is how confluent-kafka reports a fatal error that comes together with a delivery
    # report or a log line.
    except KafkaError as error:  # type: ignore[misc]  # no exception by its bases, and raised all the same
        raise to_fault(error) from None
    except SystemError as error:  # now and then it loses which
        fatal = error.__cause__
        raise (
            to_fault(fatal.args[0])
            if isinstance(fatal, KafkaException)
            else KafkaFault("_FATAL", str(error))
        ) from error


#: shipper detects lost connections through these log settings, so users cannot override them. They
#: are librdkafka's defaults. See also ``HEARD_ALWAYS``.
_HEARD = {"log_level": 6, "log.connection.close": True, "log.queue": False}


def connection(cluster: Cluster) -> dict[str, Any]:
    """Return the settings that every client of the cluster shares. Secrets in it are hidden;
    :func:`make_client` reveals them to the client alone."""
    return {
        "client.id": "shipper",
        "socket.keepalive.enable": True,
        # The default of 100 ms also delays a client's very first connection to a newly discovered
        # broker.
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 2000,
        **client_settings(cluster),
    }


def make_client(
    kind: Callable[..., Client],
    cluster: str,
    settings: Mapping[str, Any],
    ours: Mapping[str, Any],
    logger: ClientLog | None = None,
) -> Client:
    """Make a client with ``settings`` from :func:`connection`, and with ``ours``, which override
    those. Bound methods in ``ours`` are held :func:`~shipper.complaints.weakly`. Raises
    ClusterRefuses, and ClusterError if a cloud gives no token."""
    ours = {**_HEARD, **{name: weakly(value) for name, value in ours.items()}}
    logger = logger or ClientLog()
    try:
        # Ours are set last: librdkafka has several names for some settings, and the last one
        # counts.
        theirs = with_login(cluster, reveal(settings))
        theirs = {name: value for name, value in theirs.items() if name not in ours}
        return kind({**theirs, **ours}, logger=logger)
    except (KafkaException, TypeError, ValueError) as error:
        # The original exception holds values, and a traceback would show it.
        raise refused(cluster, settings, _reason(error)) from None


def _reason(error: Exception) -> str:
    fault = error.args[0] if error.args else error
    return fault.str() if isinstance(fault, KafkaError) else str(fault)


#: Settings that let an :class:`LogListener` hear every connection that breaks. librdkafka (2.16,
#: rdkafka_broker.c, `rd_kafka_broker_set_error`): the FAIL line of the log is left out below
#: `log_level`, without `log.connection.close`, for a connection that librdkafka closes itself (the
#: coordinator moved), and when a broker's last error was the same and not 30 s ago. Its twin for
#: `debug=broker` is written always. Such a producer writes some two lines more per request.
HEARD_ALWAYS = {"debug": "broker", "log_level": 7}


class LogListener(ClientLog):
    """Hears in a client's log what no callback tells: that a connection broke, or that a request
    got no answer."""

    _LOST = ("FAIL", "REQTMOUT")

    def __init__(self) -> None:
        super().__init__()
        self.lost = False

    def log(self, level: int, text: str, *arguments: Any) -> None:
        self.lost |= bool(arguments) and arguments[0] in self._LOST
        super().log(level, text, *arguments)


class RefusedId(ClientLog):
    """Hears that brokers give an idempotent producer no id. librdkafka (2.16,
    rdkafka_idempotence.c) asks again without end, and tells its log alone."""

    def __init__(self) -> None:
        super().__init__()
        self.why = ""

    def log(self, level: int, text: str, *arguments: Any) -> None:
        if level >= logging.WARNING and arguments and arguments[0] == "GETPID":
            self.why = str(arguments[-1]).removesuffix(": retrying").partition("]: ")[2]
        super().log(level, text, *arguments)


class ClientErrors(Complaints):
    """The complaints of a client, as faults."""

    @property
    def refusal(self) -> KafkaFault | None:
        """Reason why waiting for a connection is useless."""
        return KafkaFault(*found) if (found := self.final) else None

    def explained(self, fault: KafkaFault) -> KafkaFault:
        """Return ``fault``; if it says only that no answer came, with the reason that was heard."""
        text = self.explain(fault.name, fault.text)
        return (
            fault
            if text == fault.text
            else KafkaFault(fault.name, text, retriable=fault.retriable, topic=fault.topic)
        )


class ClientOwner:
    """A client, and its complaints."""

    def __init__(
        self,
        kind: Callable[..., Any],
        cluster: str,
        settings: Mapping[str, Any],
        ours: Mapping[str, Any] = MappingProxyType({}),
        logger: ClientLog | None = None,
    ) -> None:
        """Make the client as :func:`make_client` does. Raises ClusterRefuses."""
        self._client_errors = ClientErrors(self._serve)
        self._client = make_client(
            kind, cluster, settings, {"error_cb": self._client_errors.hear, **ours}, logger
        )

    def _serve(self) -> object:
        return self._client.poll(0)


# Offline.

_NOBODY = "127.0.0.1:1"
_SILENT = logging.getLogger("shipper.kafka.offline")
_SILENT.disabled = True
_OWN_CERTIFICATE = ("ssl.key.", "ssl.certificate.", "ssl.keystore.")


def refusal(cluster: Cluster) -> str | None:
    """Return why no client can be made: a wrong value, a file that is missing or unreadable. None
    if one can be made. Holds no secret.

    The client that is made for this looks for a broker at a closed port of this machine, asks no
    server for a token, and runs no `kinit`. Of references that are not known here nothing is
    checked.
    """
    settings = {**_without_unknown(connection(cluster)), "bootstrap.servers": _NOBODY}
    if "sasl.oauthbearer.token.endpoint.url" in settings or LOGIN in settings:
        settings["sasl.oauthbearer.token.endpoint.url"] = f"http://{_NOBODY}/"
    settings["sasl.kerberos.min.time.before.relogin"] = (
        0  # librdkafka then leaves Kerberos tickets to others
    )
    try:
        Producer(without_login(reveal(settings)), logger=_SILENT)
    except (KafkaException, TypeError, ValueError) as error:
        return without_secrets(settings, _without_gssapi(_reason(error)))
    return None


def _without_gssapi(why: str) -> str:
    """Say what helps where librdkafka was built without Kerberos."""
    if "GSSAPI" not in why or "No provider" not in why:
        return why
    return (
        "this confluent-kafka is built without Kerberos, as its wheels are. Use SCRAM or mutual "
        "TLS, or install one that is built against a librdkafka with libsasl2 "
        "(`pip install --no-binary confluent-kafka`), for the driver and all executors"
    )


def _without_unknown(settings: dict[str, Any]) -> dict[str, Any]:
    """Replace a login that is not known by a placeholder; leave out unknown files and the settings
    that belong to them."""
    unknown = {
        name
        for name, value in settings.items()
        if isinstance(value, Secret) and value.get_secret_value() is None
    }
    own = any(name.startswith(_OWN_CERTIFICATE) for name in unknown)
    login = not unknown.isdisjoint((LOGIN, LOGIN_CONFIG))
    return {
        name: "unknown" if name in unknown else value
        for name, value in settings.items()
        if not (own and name.startswith(_OWN_CERTIFICATE))
        and not (login and name.startswith("sasl.oauthbearer."))
        and (name not in unknown or name.startswith("sasl."))
    }
