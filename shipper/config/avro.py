"""`records.avro` of a pipeline, and `schema_registry` of a cluster. jvm/shipper/avro makes the
values, shipper.kafka.schema_registry asks who numbers their schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, StrictBool, field_validator, model_validator

from shipper.config.rules import Fault, Model, is_this_machine, password_fault, refuse
from shipper.config.s3 import SecretText

TOPIC = "{topic}"
_PLACEHOLDER = re.compile(r"\{[^}]*\}")


class Avro(Model):
    """Avro encoding of values in Confluent's wire format: a zero byte, the schema's number in the
    cluster's Schema Registry as four bytes, the binary encoding. `records.value` must give a JSON
    object or a struct with the schema's fields. An unknown field, a value of another type, or a
    missing field that may not be null makes the record `unencodable`: it goes to `quarantine`, or
    fails the run without one. A null value stays null. Each cluster's file names its registry in
    `schema_registry`."""

    schema_: dict[str, Any] = Field(
        alias="schema",
        examples=[{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}],
    )
    """The Avro schema, a record, as YAML or as the JSON of an `.avsc` file (JSON is YAML). It
    decides what records are: a file that was begun under another is finished under that, or shipped
    again with `reship`."""
    subject: str = Field(default="{topic}-value", min_length=1, examples=["com.example.Order"])
    """Name under which the registry keeps the schema. `{topic}` is the topic's name."""
    register_: StrictBool = Field(default=True, alias="register")
    """True if a run may register the schema, if the subject lacks it and it is compatible with the
    earlier one. If false, the schema must be registered already."""

    @field_validator("schema_")
    @classmethod
    def _is_a_record(cls, value: dict[str, Any]) -> dict[str, Any]:
        if (
            value.get("type") != "record"
            or not value.get("name")
            or not isinstance(value.get("fields"), list)
        ):
            raise ValueError("the schema must be a record's: {type: record, name: …, fields: […]}")
        return value

    @field_validator("subject")
    @classmethod
    def _one_placeholder(cls, value: str) -> str:
        if value.count(TOPIC) > 1:
            raise ValueError(f"{TOPIC} stands twice in it. Write it once")
        unknown = [found for found in _PLACEHOLDER.findall(value) if found != TOPIC]
        if unknown:
            raise ValueError(f"{unknown[0]} is not known; {TOPIC} is the only placeholder")
        return value

    @property
    def text(self) -> str:
        """The schema as JSON, the same each time."""
        return json.dumps(self.schema_, ensure_ascii=False, separators=(",", ":"))

    def subject_of(self, topic: str) -> str:
        return self.subject.replace(TOPIC, topic)

    def subjects(self, topics: Sequence[str]) -> list[str]:
        """Return the subjects of these topics, each once."""
        return list(dict.fromkeys(map(self.subject_of, topics or ("",))))

    def open_topics_fault(self) -> str:
        """Return why it does not go with a route whose topic depends on the records; empty if it
        does."""
        if TOPIC not in self.subject:
            return ""
        return (
            f"`records.avro.subject` is {self.subject!r}, and `matching` leaves the topics open. "
            "List them in `topics`, or name a subject without {topic}"
        )


class SchemaRegistry(Model):
    """Address of the cluster's Schema Registry, and the credentials for it. Any registry with
    Confluent's HTTP interface works (Karapace, Apicurio's `/apis/ccompat/v7`, Redpanda)."""

    url: str = Field(min_length=1, examples=["https://registry.example:8081"])
    """Address of the registry; a path is kept."""
    username: SecretText | None = Field(default=None, repr=False)
    """User name for HTTP's basic authentication, with `password`; a reference, as everything here
    may be."""
    password: SecretText | None = Field(
        default=None, repr=False, examples=["${file:/run/secrets/registry}"]
    )
    """No plan, log or report shows it."""
    token: SecretText | None = Field(default=None, repr=False)
    """Bearer token, instead of `username` and `password`."""
    ca_location: str | None = None
    """PEM file with the authorities that may have signed its certificate; by default those of the
    system."""
    certificate_location: str | None = None
    """PEM file with this client's certificate, for mutual TLS, and its key unless `key_location`
    has it."""
    key_location: str | None = None
    """PEM file with the certificate's key, not encrypted."""

    @field_validator("url")
    @classmethod
    def _an_address(cls, value: str) -> str:
        if password_fault(value):
            why = "the address contains a password, and is shown; use `username` and `password`"
            refuse([((), why)])
        if "${" not in value and not re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#]*)?", value):
            raise ValueError("an address is written https://HOST:PORT")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _one_way_in(self) -> SchemaRegistry:
        given = self.model_fields_set
        if "token" in given and {"username", "password"} & given:
            raise ValueError("`token` and `username` contradict each other; keep one")
        for name, other in (
            ("username", "password"),
            ("password", "username"),
            ("key_location", "certificate_location"),
        ):
            if name in given and other not in given:
                raise ValueError(f"`{name}` needs `{other}`")
        return self

    def credentials(self) -> dict[str, str | None]:
        """Return `username` and `password`, or `token`, in the clear, for a request alone; None: a
        reference that is not known here."""
        return {
            name: None if (value := getattr(self, name)) is None else value.get_secret_value()
            for name in ("username", "password", "token")
            if name in self.model_fields_set
        }

    def warnings(self) -> Iterator[Fault]:
        """Yield warnings about settings that are allowed and may be mistakes."""
        address = urlsplit(self.url)
        if (
            address.scheme == "http"
            and not is_this_machine(address.hostname or "")
            and {"password", "token"} & self.model_fields_set
        ):
            yield (
                ("url",),
                "the password, or token, travels unencrypted to another machine; use https",
            )
