"""A token issuer on loopback: signs JWTs (RS256) for clients that know their secret, and shows its
key, as an identity provider does (OIDC)."""

import base64
import json
import time
import urllib.parse
from collections.abc import Mapping

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.doubles.http_double import HttpDouble, QuietHandler

_KEY_ID = "of-the-test"


class OidcIssuer(HttpDouble):
    """::

    with OidcIssuer({"shipper": "secret"}) as issuer:
        issuer.token_url, issuer.jwks_url
    """

    def __init__(self, clients: Mapping[str, str], *, lives_seconds: float = 300.0):
        """``clients``: id → secret. A token's `sub` is the client's id; it lives for
        ``lives_seconds``."""
        self.audience = "kafka"
        self._clients = dict(clients)
        self.lives_seconds = lives_seconds
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.issued = 0
        """Tokens given out so far."""
        issuer = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:  # noqa: N802 - the server's name for it
                self._answer(200, issuer._jwks()) if self.path == "/jwks" else self._answer(404, {})

            def do_POST(self) -> None:  # noqa: N802 - the server's name for it
                authorization = self.headers.get("Authorization")
                self._answer(*issuer._token(authorization, self.body().decode()))

            def _answer(self, code, document):
                self.answer(code, json.dumps(document).encode(), "application/json")

        super().__init__(Handler)

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    def _jwks(self):
        numbers = self._key.public_key().public_numbers()
        exponent, modulus = (
            _base64(n.to_bytes((n.bit_length() + 7) // 8, "big")) for n in (numbers.e, numbers.n)
        )
        return {
            "keys": [
                {
                    "kty": "RSA",
                    "use": "sig",
                    "alg": "RS256",
                    "kid": _KEY_ID,
                    "e": exponent,
                    "n": modulus,
                }
            ]
        }

    def _token(self, authorization, body):
        """By `client_credentials`; who asks says who he is in the header, or in the body."""
        form = dict(urllib.parse.parse_qsl(body))
        if authorization and authorization.startswith("Basic "):
            user, _, secret = (
                base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            )
            user, secret = urllib.parse.unquote(user), urllib.parse.unquote(secret)
        else:
            user, secret = form.get("client_id", ""), form.get("client_secret", "")
        if form.get("grant_type") != "client_credentials" or self._clients.get(user) != secret:
            return 401, {
                "error": "invalid_client",
                "error_description": "no such client, or another secret",
            }
        return 200, {
            "access_token": self.token(user),
            "token_type": "Bearer",
            "expires_in": int(self.lives_seconds),
        }

    def token(self, user: str) -> str:
        """Sign a token for ``user``."""
        self.issued += 1
        now = int(time.time())
        claims = {
            "sub": user,
            "iss": self.url,
            "aud": self.audience,
            "iat": now,
            "exp": now + int(self.lives_seconds),
        }
        text = ".".join(
            _base64(json.dumps(part).encode())
            for part in ({"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}, claims)
        )
        signed = self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_base64(signed)}"


def _base64(content):
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
