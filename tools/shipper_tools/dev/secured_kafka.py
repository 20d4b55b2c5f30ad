"""A real broker that wants TLS and a login, with a certificate of an authority of its own; with
every mechanism that clients log in by, and with ACLs if asked for."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from shipper.ledger.rights import Right
from shipper_tools.dev.certificates import Authority
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.server import ServerOptions

T = TypeVar("T")
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
#: Listener → protocol. SECURE wants a login; MUTUAL a client's certificate; TLS nothing; EXPIRED
#: and STRANGER are like TLS, with a certificate of yesterday, and with one for another name.
LISTENERS = {
    "SECURE": "SASL_SSL",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "STRANGER": "SSL",
}
_WORD_END = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SASL = "org.apache.kafka.common.security"


class SecuredKafka(KafkaServer):
    """::

        with SecuredKafka(tmp_path, {"shipper": password}) as kafka:
            kafka.properties("shipper", password)  # for a cluster file, beside kafka.bootstrap

    Its :attr:`address` is the open listener, whose clients are super users; loopback alone can
    reach it.

    Args:
        directory: for the server and the certificates.
        users: their passwords, for PLAIN and SCRAM.
        listeners: which of :data:`LISTENERS`; each gets a free port.
        ports: of listeners that are to have a certain one.
        acls: whoever is not granted something may do nothing; see :meth:`grant`.
        issuer: whose tokens OAUTHBEARER takes; see :class:`tests.doubles.oidc_issuer.OidcIssuer`.
        reauthentication_ms: a connection ends after it, or with its token, unless it logs in again.
    """

    def __init__(
        self,
        directory: Path,
        users: Mapping[str, str],
        *,
        listeners: Iterable[str] = ("SECURE",),
        ports: Mapping[str, int] | None = None,
        acls: bool = False,
        issuer: Any = None,
        reauthentication_ms: int = 0,
        **options: Unpack[ServerOptions],
    ) -> None:
        options.setdefault("die_with_parent", True)
        self._users, self._issuer = dict(users), issuer
        self.authority = Authority(directory / "certificates")
        self.ca = self.authority.certificate.absolute()
        """The authority's certificate."""
        self._ports = {name: (ports or {}).get(name) or free_port() for name in listeners}
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"
        properties = self._certificates() | self._logins()
        if reauthentication_ms:
            properties["connections.max.reauth.ms"] = str(reauthentication_ms)
        if acls:
            properties |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                # Whoever comes by a listener without a login, and so the broker itself.
                "super.users": "User:ANONYMOUS",
            }
        super().__init__(
            directory,
            properties=properties,
            also={name: (number, LISTENERS[name]) for name, number in self._ports.items()},
            scram=users,
            java_options=[f"{allowed}={issuer.jwks_url}"] if issuer else [],
            **options,
        )

    def _certificates(self) -> dict[str, str]:
        ordinary = self.authority.issue("broker")
        certificates = {
            "EXPIRED": lambda: self.authority.issue("expired", ends=dt.timedelta(days=-1)),
            "STRANGER": lambda: self.authority.issue("stranger", hosts=("elsewhere.example",)),
        }
        found = {
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            # CN=shipper → User:shipper, as the other mechanisms name users.
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        }
        for name in self._ports:
            own = certificates[name]() if name in certificates else ordinary
            found[f"listener.name.{name.lower()}.ssl.keystore.location"] = str(own.both)
            found[f"listener.name.{name.lower()}.ssl.client.auth"] = (
                "required" if name == "MUTUAL" else "none"
            )
        return found

    def _logins(self) -> dict[str, str]:
        if "SECURE" not in self._ports:
            return {}
        mechanisms = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" + ",OAUTHBEARER" * bool(self._issuer)
        at = "listener.name.secure"
        plain = "".join(f' user_{user}="{password}"' for user, password in self._users.items())
        found = {
            "sasl.enabled.mechanisms": mechanisms,
            f"{at}.plain.sasl.jaas.config": f"{_SASL}.plain.PlainLoginModule required{plain};",
            f"{at}.scram-sha-256.sasl.jaas.config": f"{_SASL}.scram.ScramLoginModule required;",
            f"{at}.scram-sha-512.sasl.jaas.config": f"{_SASL}.scram.ScramLoginModule required;",
        }
        if self._issuer:
            found |= {
                f"{at}.oauthbearer.sasl.jaas.config": f"{_SASL}.oauthbearer.OAuthBearerLoginModule required;",  # noqa: E501
                f"{at}.oauthbearer.sasl.server.callback.handler.class": f"{_SASL}.oauthbearer.OAuthBearerValidatorCallbackHandler",  # noqa: E501
                "sasl.oauthbearer.jwks.endpoint.url": self._issuer.jwks_url,
                "sasl.oauthbearer.expected.audience": self._issuer.audience,
                "sasl.oauthbearer.expected.issuer": self._issuer.url,
            }
        return found

    @property
    def bootstrap(self) -> str:
        """Address of the listener that wants TLS and a login."""
        return self.at("SECURE")

    def at(self, listener: str) -> str:
        return f"{LOOPBACK}:{self._ports[listener]}"

    def properties(
        self, user: str, password: str, mechanism: Mechanism = "SCRAM-SHA-512"
    ) -> dict[str, str]:
        """For SECURE; with OAUTHBEARER ``user`` and ``password`` are a client of the issuer's and
        its secret."""
        common = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": mechanism,
            "ssl.ca.location": str(self.ca),
        }
        if mechanism != "OAUTHBEARER":
            return {**common, "sasl.username": user, "sasl.password": password}
        assert self._issuer is not None
        return {
            **common,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": user,
            "sasl.oauthbearer.client.secret": password,
            "sasl.oauthbearer.token.endpoint.url": self._issuer.token_url,
        }

    @property
    def tls(self) -> dict[str, str]:
        """Properties for a listener without a login."""
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.ca)}

    def client_certificate(self, user: str) -> dict[str, str]:
        """Beside :attr:`tls`: a certificate for ``user`` that the authority signed."""
        own = self.authority.issue(user, hosts=())
        return {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)}

    def client_keystore(self, user: str, password: str) -> dict[str, str]:
        """As :meth:`client_certificate`, as PKCS#12."""
        own = self.authority.issue(user, hosts=())
        return {
            "ssl.keystore.location": str(own.as_pkcs12(password)),
            "ssl.keystore.password": password,
        }

    def grant(self, user: str, rights: Iterable[Right]) -> None:
        """Allows ``user`` these. The broker must run."""
        self._administer(lambda admin: admin.create_acls(_bindings(user, rights, AclBinding)))

    def revoke(self, user: str, rights: Iterable[Right]) -> None:
        """Takes them away again."""
        self._administer(lambda admin: admin.delete_acls(_bindings(user, rights, AclBindingFilter)))

    def set_password(self, user: str, password: str) -> None:
        """For SCRAM-SHA-512, which reads it at each login; whoever is logged in stays so. The
        broker must run."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        self._administer(lambda admin: admin.alter_user_scram_credentials([change]))

    def _administer(self, ask: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})  # its futures fail when it goes
        for future in ask(admin).values():
            future.result(30)


def _bindings(user: str, rights: Iterable[Right], kind: Callable[..., T]) -> list[T]:
    return [
        kind(
            ResourceType[right.resource.upper().replace("-", "_")],
            right.name,
            ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[_WORD_END.sub("_", operation).upper()],
            AclPermissionType.ALLOW,
        )
        for right in rights
        for operation in right.operations
    ]
