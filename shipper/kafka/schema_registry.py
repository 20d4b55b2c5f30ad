"""A cluster's Schema Registry: which number a schema has there. Three requests of Confluent's HTTP
interface, by Python's own client: that of confluent-kafka brings five packages into every job's
environment (docs/adr/0024)."""

from __future__ import annotations

import base64
import json
import ssl
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from shipper import runtime
from shipper.config.avro import Avro, SchemaRegistry
from shipper.config.cluster import Cluster
from shipper.config.rules import original
from shipper.errors import ClusterError, ClusterRefuses

_TIMEOUT_SECONDS = 8.0
#: Pauses before the second and the third try.
_PAUSES_SECONDS = (0.5, 1.0)
_TYPE = "application/vnd.schemaregistry.v1+json"
#: Of the registry's own `error_code`: no such subject, version or schema.
_UNKNOWN = (40401, 40402, 40403)
_MOST_SAID = 400
_LARGEST_ID = 2**31 - 1


class _Answer(Exception):
    """One that is no success, and is for the caller to judge."""

    def __init__(self, status: int, code: int, said: str) -> None:
        super().__init__(said)
        self.status, self.code, self.said = status, code, said


class _NoRedirect(HTTPRedirectHandler):
    """Handler that follows no redirect, so that no other server gets the password."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


class RegistryClient:
    """Client of the Schema Registry for one pipeline on one cluster. Raises ClusterError, and for
    what waiting does not change ClusterRefuses; each names the setting."""

    def __init__(self, cluster: Cluster, pipeline: str) -> None:
        self._of_cluster = f"clusters/{cluster.name}.yaml"
        self._of_pipeline = f"pipelines/{original(pipeline)}.yaml"
        if cluster.schema_registry is None:
            raise ClusterRefuses(
                f"cluster {cluster.name}: {self._of_cluster} has no `schema_registry`, and "
                "`records.avro` needs one. Nothing was sent. Add it to the cluster's file.",
                code="SHIP-207",
            )
        self._registry: SchemaRegistry = cluster.schema_registry
        self._where = f"cluster {cluster.name}: the Schema Registry at {self._registry.url}"
        self._opener: OpenerDirector = build_opener(
            _NoRedirect(), HTTPSHandler(context=self._tls())
        )

    def check(self, subject: str, avro: Avro) -> None:
        """Check that :meth:`number` will return a number, as far as this can be told without
        changing anything. Raises what :meth:`number` raises."""
        if self._known(subject, avro) or not avro.register_:
            return
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        try:
            found = self._ask(path, avro)
        except _Answer as answer:
            if answer.status == 404:  # there is no earlier version
                return
            raise self._refused(subject, answer) from None
        if found.get("is_compatible") is False:
            said = "; ".join(map(str, found.get("messages") or ()))
            raise self._incompatible(subject, said)

    def number(self, subject: str, avro: Avro) -> int:
        """Return the schema's number. The schema is registered if it has none yet and the pipeline
        allows that."""
        if found := self._known(subject, avro):
            return found
        try:
            return self._id(self._ask(f"/subjects/{quote(subject, safe='')}/versions", avro))
        except _Answer as answer:
            raise self._refused(subject, answer) from None

    def _known(self, subject: str, avro: Avro) -> int:
        """Return the schema's number; 0 if the schema is not registered."""
        try:
            return self._id(self._ask(f"/subjects/{quote(subject, safe='')}", avro))
        except _Answer as answer:
            if answer.status != 404 or answer.code not in _UNKNOWN:
                raise self._refused(subject, answer) from None
            if avro.register_:
                return 0
            raise self._wrong_schema(
                f"does not have the schema of `records.avro` under the subject {subject}, and "
                f"`register: false` in {self._of_pipeline} forbids a run to register it",
                "Register the schema, or set `register: true`.",
            ) from None

    def _id(self, answer: dict[str, Any]) -> int:
        found = answer.get("id")
        if not isinstance(found, int) or not 0 < found <= _LARGEST_ID:
            raise self._refuses(
                "answers without a schema's `id`, so it may not be a Schema Registry",
                f"Correct `schema_registry.url` in {self._of_cluster}.",
            )
        return found

    def _refused(self, subject: str, answer: _Answer) -> ClusterError:
        if answer.status == 409:
            return self._incompatible(subject, answer.said)
        if answer.status == 422:
            return self._wrong_schema(
                f"does not accept `records.avro.schema` of {self._of_pipeline} for the subject "
                f"{subject}: {answer.said or 'it is not valid'}",
                "Correct the schema.",
            )
        if answer.status == 404 or 300 <= answer.status < 400:
            return self._refuses(
                f"answers {answer.status} where a Schema Registry lists its subjects",
                f"Correct `schema_registry.url` in {self._of_cluster}.",
            )
        return ClusterError(
            f"{self._where} answers {answer.status}{': ' if answer.said else ''}{answer.said}. "
            "Nothing was sent. Run again when the registry is well.",
            code="SHIP-408",
        )

    def _incompatible(self, subject: str, said: str) -> ClusterRefuses:
        return self._wrong_schema(
            f"has an earlier schema under the subject {subject}, and `records.avro.schema` of "
            f"{self._of_pipeline} is not compatible with it{': ' if said else ''}"
            f"{said[:_MOST_SAID]}",
            "Give new fields a default and keep the types of old fields. Or name another "
            "`records.avro.subject`, or change the subject's compatibility.",
        )

    def _refuses(self, what: str, remedy: str, code: str = "SHIP-408") -> ClusterRefuses:
        return ClusterRefuses(f"{self._where} {what}. Nothing was sent. {remedy}", code=code)

    def _wrong_schema(self, what: str, remedy: str) -> ClusterRefuses:
        return self._refuses(what, remedy, "SHIP-409")

    def _ask(self, path: str, avro: Avro) -> dict[str, Any]:
        """Send the schema to ``path`` and return the registry's answer. Raises _Answer."""
        request = Request(
            self._registry.url + path,
            json.dumps({"schema": avro.text}).encode(),
            {"Content-Type": _TYPE, "Accept": _TYPE},
        )
        if credentials := self._credentials():
            request.add_unredirected_header("Authorization", credentials)
        for pause in (*_PAUSES_SECONDS, None):
            try:
                with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                    return self._document(answer.read())
            except HTTPError as error:
                if error.code < 500 or pause is None:
                    raise self._answer(error) from None
            except (OSError, HTTPException) as error:
                if (refused := self._of_tls(error)) or pause is None:
                    raise refused or self._unreachable(error) from None
            runtime.sleep(pause)
        raise AssertionError("the last try has ended")

    def _answer(self, error: HTTPError) -> Exception:
        if error.code in (401, 403):
            return self._refuses(
                f"refuses the request ({error.code}): the registry does not know this user, or "
                "the user lacks a right",
                "Correct `schema_registry.username` and `password`, or `token`, in "
                f"{self._of_cluster}, or grant the right on the subject.",
            )
        try:
            found = json.loads(error.read())
            return _Answer(
                error.code,
                int(found.get("error_code", 0)),
                " ".join(str(found.get("message", "")).split())[:_MOST_SAID],
            )
        except (OSError, HTTPException, ValueError, TypeError, AttributeError):
            return _Answer(error.code, 0, "")

    def _document(self, content: bytes) -> dict[str, Any]:
        try:
            found = json.loads(content)
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {}

    def _of_tls(self, error: Exception) -> ClusterError | None:
        reason = error.reason if isinstance(error, URLError) else error
        if not isinstance(reason, ssl.SSLCertVerificationError):
            return None
        return self._refuses(
            f"shows a certificate that cannot be verified: {reason.verify_message}",
            "Name the authority that signed it in `schema_registry.ca_location` of "
            f"{self._of_cluster}, or correct `url`.",
        )

    def _unreachable(self, error: Exception) -> ClusterError:
        reason = error.reason if isinstance(error, URLError) else error
        said = (
            f"no answer in {_TIMEOUT_SECONDS:.0f} s"
            if isinstance(reason, TimeoutError)
            else str(reason) or type(reason).__name__
        )
        return ClusterError(
            f"{self._where} cannot be reached: {said}. Nothing was sent. Check that the "
            f"registry is up and that `schema_registry.url` in {self._of_cluster} is right.",
            code="SHIP-408",
        )

    def _credentials(self) -> str:
        """Return the Authorization header. Raises ClusterRefuses for an unknown reference."""
        found = self._registry.credentials()
        if unknown := [name for name, value in found.items() if value is None]:
            raise ClusterRefuses(
                f"schema_registry.{unknown[0]}: the value that the setting refers to is not "
                "known in this process. Nothing was sent. Make the variable, file or "
                "connection available to it.",
                code="SHIP-206",
            )
        if "token" in found:
            return f"Bearer {found['token']}"
        pair = f"{found.get('username')}:{found.get('password')}".encode()
        return f"Basic {base64.b64encode(pair).decode()}" if found else ""

    def _tls(self) -> ssl.SSLContext:
        registry, name = self._registry, "ca_location"
        try:
            found = ssl.create_default_context(cafile=registry.ca_location)
            if registry.certificate_location:
                name = "certificate_location"
                found.load_cert_chain(registry.certificate_location, registry.key_location)
        except OSError as error:  # so are those of ssl
            why = (
                "there is no such file"
                if isinstance(error, FileNotFoundError)
                else "it holds no certificate, or not its key"
            )
            raise ClusterRefuses(
                f"{self._where}: `schema_registry.{name}` in {self._of_cluster} cannot be "
                f"used: {why}. Nothing was sent.",
                code="SHIP-207",
            ) from None
        return found
