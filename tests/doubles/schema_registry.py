"""A test double of a Schema Registry: what shipper asks of Confluent's HTTP interface, in memory,
on loopback; no real one can be had as a jar here. It numbers schemas as the real one does (the same
schema has one number under all subjects), and knows one rule of compatibility: a new field has a
default, and an old one keeps its type."""

import base64
import json
import re
import ssl
from urllib.parse import unquote, urlsplit

from tests.doubles.http_double import HttpDouble, QuietHandler

_PATH = re.compile(r"(/compatibility)?/subjects/([^/]+)(/versions(?:/latest)?)?")


class RegistryDouble(HttpDouble):
    """::

    with RegistryDouble(user="shipper", password="secret") as registry:
        registry.url, registry.schemas
    """

    def __init__(
        self,
        *,
        user: str = "",
        password: str = "",
        one_number_each: bool = False,
        tls: ssl.SSLContext | None = None,
    ):
        """``user``: the only one who may ask; nobody in particular if empty. ``one_number_each``: a
        schema has another number under each subject. ``tls``: it speaks HTTPS."""
        self.schemas: dict[int, str] = {}
        """Number → schema, as it was registered."""
        self.subjects: dict[str, list[int]] = {}
        """Subject → numbers of its versions."""
        self.asked: list[str] = []
        """Method and path of each request."""
        self.broken = 0
        """So many of the next requests are answered with 503."""
        self._authorization = (
            "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
        )
        self._apart = one_number_each
        double = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:  # noqa: N802 - the server's name for it
                double.asked.append(f"POST {self.path}")
                code, document = double._answer(
                    self.path, self.body(), self.headers.get("Authorization") or ""
                )
                content = json.dumps(document).encode()
                self.answer(code, content, "application/vnd.schemaregistry.v1+json")

        super().__init__(Handler, tls)

    def _answer(self, path, body, authorization):
        if self.broken:
            self.broken -= 1
            return 503, {"error_code": 50301, "message": "not now"}
        if self._authorization and authorization != self._authorization:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        asked = _PATH.fullmatch(urlsplit(path).path)
        if asked is None:
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        compatibility, subject, versions = asked[1], unquote(asked[2]), asked[3]
        try:
            schema = json.loads(json.loads(body)["schema"])
            fields = _fields(schema)
        except (ValueError, KeyError, TypeError):
            return 422, {"error_code": 42201, "message": "Invalid schema"}
        there = self.subjects.get(subject, [])
        if compatibility:
            if not there:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            why = self._why_incompatible(there, fields)
            return 200, {"is_compatible": not why, "messages": why}
        known = next(
            (number for number in there if json.loads(self.schemas[number]) == schema), None
        )
        if known is not None:
            return 200, {
                "subject": subject,
                "id": known,
                "version": there.index(known) + 1,
                "schema": self.schemas[known],
            }
        if not versions:
            code, what = (
                (40403, "Schema not found") if there else (40401, f"Subject '{subject}' not found.")
            )
            return 404, {"error_code": code, "message": what}
        if why := self._why_incompatible(there, fields):
            return 409, {"error_code": 409, "message": "; ".join(why)}
        number = next(
            (
                n
                for n, text in self.schemas.items()
                if json.loads(text) == schema and not self._apart
            ),
            len(self.schemas) + 1,
        )
        self.schemas[number] = json.dumps(schema)
        self.subjects.setdefault(subject, []).append(number)
        return 200, {"id": number}

    def _why_incompatible(self, there, fields):
        before = _fields(json.loads(self.schemas[there[-1]])) if there else fields
        changed = [
            name
            for name in before
            if name in fields and fields[name]["type"] != before[name]["type"]
        ]
        new = [
            name for name, field in fields.items() if name not in before and "default" not in field
        ]
        return [f"TYPE_MISMATCH at {name}" for name in changed] + [
            f"READER_FIELD_MISSING_DEFAULT_VALUE at {name}" for name in new
        ]


def _fields(schema):
    return {field["name"]: {"type": field["type"], **field} for field in schema["fields"]}
