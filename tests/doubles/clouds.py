"""What AWS and Azure give a machine, on loopback: STS, the instance's metadata of both, and brokers
that take MSK's tokens. Requests and signatures are checked, so that a wrong one is refused."""

import base64
import datetime as dt
import json
import secrets
import struct
import time
import urllib.parse
from collections import Counter

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.doubles.http_double import HttpDouble, QuietHandler
from tests.doubles.oidc_issuer import OidcIssuer

REGION, ROLE = "eu-central-1", "arn:aws:iam::111122223333:role/shipper"
WEB_IDENTITY = "canary-web-identity"
_AUTHENTICATION_FAILED = 58


class Clouds(HttpDouble):
    """::

    with OidcIssuer({}, lives_seconds=20) as issuer, Clouds(issuer) as clouds:
        clouds.environment("web identity")  # for the process that logs in
    """

    def __init__(self, issuer: OidcIssuer):
        """Credentials of STS, and what they sign, live as long as the issuer's tokens; those of an
        instance an hour, since AWS's library would go on using shorter ones after their end."""
        self._issuer = issuer
        self.given: Counter[str] = Counter()
        """Kind of credentials or token → how many were given out."""
        self.is_silent = False
        """True: answers 503, as a service that is away."""
        self._secrets: dict[str, tuple[str, str, float]] = {}
        """Access key → secret, session token, and end of them."""
        clouds = self

        class Handler(QuietHandler):
            def do_PUT(self) -> None:  # noqa: N802 - the server's name for it
                self._answer(200, "canary-imds", "text/plain")

            def do_GET(self) -> None:  # noqa: N802 - the server's name for it
                path = urllib.parse.urlsplit(self.path)
                found = None if clouds.is_silent else clouds._metadata(path.path, self.headers)
                self._answer(*(found or (503, "", "text/plain")))

            def do_POST(self) -> None:  # noqa: N802 - the server's name for it
                form = dict(urllib.parse.parse_qsl(self.body().decode()))
                found = None if clouds.is_silent else clouds._sts(form, self.headers)
                self._answer(*(found or (503, "", "text/plain")))

            def _answer(self, code, text, kind):
                lives = {"X_aws_ec2_metadata_token_ttl_seconds": "21600"}
                self.answer(code, text.encode(), kind, **lives)

        super().__init__(Handler)

    def environment(self, identity: str, web_identity_file: str = "") -> dict[str, str]:
        """Return the variables by which AWS's libraries find this double; ``identity``: `instance`,
        or `web identity`, whose token is in the file."""
        found = {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url,
            "AWS_ENDPOINT_URL_STS": self.url,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_REGION": REGION,
        }
        if identity == "instance":
            return found
        return found | {
            "AWS_ROLE_ARN": ROLE,
            "AWS_WEB_IDENTITY_TOKEN_FILE": web_identity_file,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def _credentials(self, lives_seconds):
        key, secret, session = (f"canary-{secrets.token_hex(8)}" for _ in range(3))
        ends = time.time() + lives_seconds
        self._secrets[key] = secret, session, ends
        return {
            "AccessKeyId": key,
            "SecretAccessKey": secret,
            "SessionToken": session,
            "Expiration": dt.datetime.fromtimestamp(ends, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def _metadata(self, path, headers):
        role = "/latest/meta-data/iam/security-credentials/"
        if path == "/metadata/identity/oauth2/token" and headers.get("Metadata") == "true":
            self.given["azure"] += 1
            lives = str(int(self._issuer.lives_seconds))
            token = {"access_token": self._issuer.token("shipper"), "expires_in": lives}
            return 200, json.dumps(token), "application/json"
        if headers.get("X-aws-ec2-metadata-token") != "canary-imds":
            return 401, "", "text/plain"
        if path == role:
            return 200, "shipper", "text/plain"
        if path == f"{role}shipper":
            self.given["instance"] += 1
            found = self._credentials(3600)
            found = {"Code": "Success", **found, "Token": found["SessionToken"]}
            return 200, json.dumps(found), "application/json"
        return 404, "", "text/plain"

    def _sts(self, form, headers):
        action = form.get("Action", "")
        if action == "AssumeRoleWithWebIdentity" and form["WebIdentityToken"] == WEB_IDENTITY:
            self.given["web identity"] += 1
            fields = "".join(
                f"<{k}>{v}</{k}>" for k, v in self._credentials(self._issuer.lives_seconds).items()
            )
            return _xml(action, f"<Credentials>{fields}</Credentials>")
        signed_by = headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        if action == "GetWebIdentityToken" and self._secrets.get(signed_by, ("", "", 0.0))[2] > 0:
            self.given["aws_iam"] += 1
            ends = dt.datetime.fromtimestamp(time.time() + self._issuer.lives_seconds, dt.UTC)
            fields = f"<WebIdentityToken>{self._issuer.token('shipper')}</WebIdentityToken>"
            return _xml(action, f"{fields}<Expiration>{ends:%Y-%m-%dT%H:%M:%SZ}</Expiration>")
        error = "<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error>"
        return 403, f"<ErrorResponse>{error}</ErrorResponse>", "text/xml"

    def ends_at(self, token: str) -> float:
        """Return the end of a token for MSK, in Unix time; 0 if the signature is wrong, or was made
        with credentials that are over."""
        url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        given = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
        key = given["X-Amz-Credential"].partition("/")[0]
        secret, session, ends = self._secrets.get(key, ("", "", 0.0))
        if time.time() > ends or given["X-Amz-Security-Token"] != session:
            return 0.0
        params = {"Action": given["Action"]}
        again = AWSRequest("GET", f"https://kafka.{REGION}.amazonaws.com/", params=params)
        again.context["timestamp"] = given["X-Amz-Date"]
        signer = SigV4QueryAuth(
            Credentials(key, secret, session), "kafka-cluster", REGION, int(given["X-Amz-Expires"])
        )
        # botocore's `add_auth`, at the time that the token says.
        signer._modify_request_before_signing(again)
        text = signer.string_to_sign(again, signer.canonical_request(again))
        is_right = given["Action"] == "kafka-cluster:Connect"
        return (
            ends if is_right and signer.signature(text, again) == given["X-Amz-Signature"] else 0.0
        )


def _xml(action, fields):
    result = f"<{action}Result>{fields}</{action}Result>"
    text = f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{result}'
    return 200, f"{text}</{action}Response>", "text/xml"


class MskLogin:
    """Answers to logins as brokers of MSK give them. A connection whose session is over, and was
    not renewed, is closed."""

    def __init__(self, clouds: Clouds):
        self._clouds = clouds
        self._ends: dict[int, float] = {}
        """Connection → end of its session."""
        self.logins: Counter[int] = Counter()
        """Connection → how often it logged in."""
        self.refused = 0

    def __call__(self, request):
        if request.api_key == 18:  # ApiVersions comes before the login
            return None
        if request.api_key == 17:  # SaslHandshake
            name = b"OAUTHBEARER"
            return struct.pack(">hih", 0, 1, len(name)) + name
        if request.api_key == 36:  # SaslAuthenticate
            return self._log_in(request)
        if time.time() > self._ends.get(request.connection, 0.0):
            raise ConnectionError("the session is over")
        return None

    def _log_in(self, request):
        _, _, text = request.body.partition(b"auth=Bearer ")
        ends = self._clouds.ends_at(text.partition(b"\x01")[0].decode())
        left = ends - time.time()
        if left <= 0:
            self.refused += 1
            why = b"Access denied"
            return struct.pack(f">hh{len(why)}siq", _AUTHENTICATION_FAILED, len(why), why, 0, 0)
        self._ends[request.connection] = ends
        self.logins[request.connection] += 1
        return struct.pack(">hhiq", 0, -1, 0, int(left * 1000))
