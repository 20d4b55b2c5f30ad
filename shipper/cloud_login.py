"""Logins by the identity that AWS gives a process: tokens that are fetched and renewed here.

`aws_msk_iam` is signed by AWS's signer library, `aws_iam` is got by confluent-kafka's extra. Both
look for the identity as every AWS program does: environment, web identity, profile, instance.
(`azure_imds` is librdkafka's own.) All clients use this module, also the consumer that judges a
delivery.

All clients of a process share a token. confluent-kafka asks for one in a thread of its own when a
client is made, and again after 80 % of the token's life; the brokers then log the open connections
in again. While AWS does not answer, the token in use is given once more, as long as it is valid.
"""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from shipper import runtime
from shipper.config.properties import AWS_LOGINS, LOGIN, LOGIN_CONFIG, LOGIN_EXTENSIONS
from shipper.errors import ClusterError

log = logging.getLogger("shipper.kafka")

#: For how long AWS is asked for the first token, since it may not answer for a moment.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 30.0, 1.0
#: Rest of a token's life with which no client begins any more.
_TOO_LATE_SECONDS = 3.0


class Token(NamedTuple):
    """A token, as confluent-kafka's `oauth_cb` returns it."""

    text: str
    ends_at: float
    """Unix time."""
    principal: str = ""
    extensions: dict[str, str] = {}  # noqa: RUF012


class _Tokens:
    """The token of a login, for all clients of this process."""

    def __init__(self, fetch: Callable[[], Token]) -> None:
        self._fetch = fetch
        self._lock = runtime.Lock()
        self._token: Token | None = None
        self._half = 0.0
        """Unix time from which on a client gets another token."""

    def take(self, _config: str = "") -> Token:
        """Return a token that is valid for some time (`oauth_cb`). Raises what AWS's libraries
        raise, if there is none."""
        with self._lock:
            if self._token is None or runtime.time() >= self._half:
                self._renew()
            assert self._token is not None
            return self._token

    def _renew(self) -> None:
        give_up_at = runtime.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                self._token = self._fetch()
                self._half = (runtime.time() + self._token.ends_at) / 2
                return
            except Exception as error:
                left = self._token.ends_at - runtime.time() if self._token else -math.inf
                log.info("no new token: %s; the one in use is valid for %.0f s", error, left)
                if left > _TOO_LATE_SECONDS:
                    return
                if runtime.monotonic() > give_up_at:
                    raise
            runtime.sleep(_PAUSE_SECONDS)


_shared: dict[tuple[str, ...], _Tokens] = {}
_shared_lock = runtime.Lock()


def with_login(cluster: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``settings`` as a client takes them: those of an AWS login are replaced by a callback,
    whose first token is there. Raises ValueError for settings that cannot be right, ClusterError if
    AWS gives no token."""
    found = without_login(settings)
    kind, config, extensions = (
        str(settings.get(name, "")) for name in (LOGIN, LOGIN_CONFIG, LOGIN_EXTENSIONS)
    )
    if kind not in AWS_LOGINS:
        return found
    with _shared_lock:
        tokens = _shared.setdefault(
            (kind, config, extensions), _Tokens(_FETCHERS[kind](config, extensions))
        )
    try:
        tokens.take()
    except Exception as error:
        raise ClusterError(
            f"cluster {cluster}: AWS gives this process no token for `{kind}`: {error}. Nothing "
            "more was sent. Give the process an identity (variables, web identity, profile or "
            "instance role), on every executor too, and allow it what the login needs.",
            code="SHIP-412",
        ) from None
    return {**found, "oauth_cb": tokens.take}


def without_login(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``settings`` without those of an AWS login, which librdkafka does not know. Raises
    ValueError if they cannot be right, or a library is missing. Asks no server."""
    kind = settings.get(LOGIN)
    if kind not in AWS_LOGINS:
        return dict(settings)
    needed = _KEYS[kind]
    given = _parsed(str(settings.get(LOGIN_CONFIG, "")))
    if missing := [key for key in needed if not given.get(key)]:
        raise ValueError(
            f"{LOGIN_CONFIG}: `{kind}` needs {' and '.join(f'`{key}`' for key in missing)}, "
            f"as in `{','.join(f'{key}=…' for key in needed)}`"
        )
    unknown = [key for key in given if key not in (*needed, "profile")]
    if kind == "aws_msk_iam" and unknown:
        raise ValueError(f"{LOGIN_CONFIG}: `{kind}` takes `region` and `profile`; not {unknown[0]}")
    if given.get("aws_debug", "none") != "none":
        raise ValueError(f"{LOGIN_CONFIG}: `aws_debug` would write tokens to a log; remove it")
    if importlib.util.find_spec(_LIBRARIES[kind]) is None:
        raise ValueError(
            f"{LOGIN}: `{kind}` needs libraries of AWS. Install `shipper[aws]` for the driver and "
            "all executors"
        )
    own = (LOGIN, LOGIN_CONFIG, LOGIN_EXTENSIONS, "sasl.oauthbearer.method")
    return {name: value for name, value in settings.items() if name not in own}


_KEYS = {"aws_msk_iam": ("region",), "aws_iam": ("region", "audience")}
_LIBRARIES = {"aws_msk_iam": "aws_msk_iam_sasl_signer", "aws_iam": "boto3"}


def _parsed(config: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in config.split(",") if pair.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _msk_iam(config: str, _extensions: str) -> Callable[[], Token]:
    """Return what signs a token for MSK. The session is kept, so that AWS is asked for credentials
    only when they are about to end."""
    given = _parsed(config)
    sessions: list[Any] = []

    def fetch() -> Token:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore.credentials import CredentialProvider
        from botocore.session import Session

        if not sessions:
            sessions.append(Session(profile=given.get("profile")))
        credentials = sessions[0].get_credentials()
        if credentials is None:
            raise ValueError("no identity is found: no variables, web identity, profile or role")
        # At one moment: else key and session token may be of two renewals.
        frozen = credentials.get_frozen_credentials()

        class FrozenProvider(CredentialProvider):  # type: ignore[misc]
            def load(self) -> Any:
                return frozen

        text, ends_ms = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(
            given["region"], FrozenProvider()
        )
        # A token is no longer valid than the credentials that signed it.
        credentials_end = getattr(credentials, "_expiry_time", None)
        ends_at = credentials_end.timestamp() if credentials_end else math.inf
        return Token(text, min(ends_ms / 1000, ends_at))

    return fetch


def _confluent_iam(config: str, extensions: str) -> Callable[[], Token]:
    """Return what asks AWS for a token for Confluent Cloud."""
    handlers: list[Any] = []

    def fetch() -> Token:
        from confluent_kafka._oauthbearer.aws.aws_autowire import create_handler

        if not handlers:
            handlers.append(create_handler(config, extensions or None))
        return Token(*handlers[0](""))

    return fetch


_FETCHERS = {"aws_msk_iam": _msk_iam, "aws_iam": _confluent_iam}
