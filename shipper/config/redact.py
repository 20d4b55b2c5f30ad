"""Model of `records.redact`: rules that remove text from a record before it leaves.
jvm/shipper/redact applies them, spark_jobs.redact_column calls it."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, Secret, WithJsonSchema, field_validator, model_validator

from shipper.config.rules import Fault, Model, regex_groups

SHORTEST_KEY = 16
#: Default replacement for a match of a regular expression.
REDACTED = "[redacted]"
_KEY = re.compile(r"\$\{(?:[^}:]+|(?:file|airflow):[^}]+)\}")
_TOKEN = re.compile(r"\$(.?)", re.DOTALL)


class KeyedHash(Model):
    """Keyed hash that replaces the matched text. The same text gives the same hash, so records can
    still be joined and counted, and without the key the text cannot be found by trying. The hash is
    the first 32 hex digits of HMAC-SHA256 over the unchanged text."""

    key: Annotated[Secret[str | None], WithJsonSchema({"type": "string", "pattern": r"\$\{.+\}"})]
    """A reference, `${NAME}`, `${file:/path}` or `${airflow:CONNECTION.password}`, to 16 characters
    at least; make them by chance (`openssl rand -hex 32`). No plan, log or report shows it. Another
    key makes other records: it is part of the transform."""

    @field_validator("key")
    @classmethod
    def _hard_to_guess(cls, value: Secret[str | None]) -> Secret[str | None]:
        text = value.get_secret_value()
        if text is not None and len(text) < SHORTEST_KEY:
            raise ValueError(f"the key has fewer than {SHORTEST_KEY} characters; use a random one")
        return value

    @property
    def fingerprint(self) -> str:
        """Tells keys apart, and says nothing about them."""
        return hmac.new(
            (self.key.get_secret_value() or "").encode(), b"shipper: which key", hashlib.sha256
        ).hexdigest()[:12]


class Redaction(Model):
    """One rule. Text alone is short for `rule`."""

    rule: Literal["email", "ipv4", "ipv6", "card", "bearer"] | None = None
    """`email`: addresses, `%40` for `@` too. `ipv4`. `ipv6`: in every spelling, with eight groups
    or a `::`. `card`: 13 to 19 digits, together or in the groups that cards show, whose last is the
    right check digit (Luhn), with neither a letter nor `_` beside them. `bearer`: what follows the
    word Bearer."""
    regex: str | None = Field(default=None, min_length=1, examples=[r"(?<=session=)\w+"])
    """Java regular expression, instead of `rule`. All matches in the text are replaced, except
    empty ones."""
    with_: str | None = Field(default=None, alias="with", examples=["***"])
    """Replacement: by default `[email]`, `[card]` and so on, and `[redacted]` for a `regex`. With
    `regex`, `$1` to `$9` are its groups and `$$` is a dollar sign."""
    hash_: KeyedHash | None = Field(default=None, alias="hash")
    """Keyed hash of the matched text, instead of `with`."""

    @model_validator(mode="before")
    @classmethod
    def _text_is_a_rule(cls, data: Any) -> Any:
        return {"rule": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _one_of_each(self) -> Redaction:
        if (self.rule is None) == (self.regex is None):
            raise ValueError("a rule has either `rule` or `regex`")
        if self.with_ is not None and self.hash_ is not None:
            raise ValueError("`with` and `hash` contradict each other: keep one replacement")
        if self.regex is not None and self.with_ is not None:
            list(self.replacement())
        return self

    def replacement(self) -> Iterator[str | int]:
        """Yield texts and numbers of groups, in order. Raises ValueError for a group that is not
        there."""
        if self.regex is None or self.with_ is None:
            default = f"[{self.rule}]" if self.rule else REDACTED
            yield default if self.with_ is None else self.with_
            return
        groups, at = len(regex_groups(self.regex)), 0
        for found in _TOKEN.finditer(self.with_):
            yield self.with_[at : found.start()]
            at = found.end()
            if found[1] == "$":
                yield "$"
            elif found[1].isdigit() and found[1].isascii() and 1 <= int(found[1]) <= groups:
                yield int(found[1])
            else:
                raise ValueError(
                    f"`with`: ${found[1]} is not a group of `regex`, which has {groups}; write a "
                    "dollar sign as $$"
                )
        yield self.with_[at:]

    def decides(self) -> dict[str, Any]:
        """Return the part that the transform's digest includes; of a key its fingerprint."""
        return {
            **self.model_dump(exclude={"hash_"}, exclude_none=True),
            **({"hash": self.hash_.fingerprint} if self.hash_ else {}),
        }


def unnamed_keys(records: Any) -> Iterator[Fault]:
    """Yield faults of keys that are written out in `records`, as YAML has it, where they must be
    references."""
    rules = records.get("redact") if isinstance(records, dict) else None
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        hashed = rule.get("hash") if isinstance(rule, dict) else None
        key = hashed.get("key") if isinstance(hashed, dict) else None
        if key is not None and not (isinstance(key, str) and _KEY.fullmatch(key)):
            why = "a key must not stand in the configuration; refer to it: ${NAME}, ${file:/path}"
            yield ("records", "redact", index, "hash", "key"), why
