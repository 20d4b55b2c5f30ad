"""Settings of an S3 server (`source.s3`), and what Hadoop's S3A gets of them."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, Secret, StrictBool, WithJsonSchema, field_validator, model_validator

from shipper.config.rules import Model, password_fault, refuse

SecretText = Annotated[Secret[str], WithJsonSchema({"type": "string"})]
"""Hides from print, log and JSON."""
SECRETS = ("access_key", "secret_key", "session_token")
_PROVIDER = "fs.s3a.aws.credentials.provider"
_OF_SETTINGS = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"  # noqa: E501
_PROVIDERS = {
    # Spark hands the three variables of its driver to its executors as settings.
    "environment": f"{_OF_SETTINGS},software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",  # noqa: E501
    "profile": "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider",
    "instance": "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
    "web_identity": "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",  # noqa: E501
    "anonymous": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    "keys": _OF_SETTINGS,
    "provider": _OF_SETTINGS,
}
#: S3A's defaults would ask an absent server for six minutes, and wait for a slow one 200 s at a
#: time. Its backoff on 503 stays: up to 20 retries, with longer and longer pauses.
DEFAULTS = {
    # Hadoop's default kind of stream reads ahead and keeps what it read, in memory that no limit
    # covers.
    "fs.s3a.input.stream.type": "classic",
    "fs.s3a.connection.establish.timeout": "15s",
    "fs.s3a.connection.timeout": "60s",
    "fs.s3a.attempts.maximum": "3",
    "fs.s3a.retry.limit": "5",
    "fs.s3a.retry.interval": "500ms",
}


class S3(Model):
    """Settings of the S3 server, for a `path` that begins with `s3a://`. Without it: AWS, by the
    credentials that are found."""

    endpoint: str | None = Field(default=None, examples=["https://s3.example:9000"])
    """URL of a server that is not AWS's. `${NAME}` is taken from the environment here, and in all
    keys of `s3`."""
    region: str | None = Field(default=None, examples=["eu-central-1"])
    """Region of the bucket. By default AWS is asked. With `endpoint` the default is `us-east-1`,
    which servers without regions accept."""
    path_style: StrictBool = False
    """True if the bucket is the first part of the path instead of the host's name, for servers that
    have one name only."""
    credentials: Literal[
        "auto",
        "environment",
        "profile",
        "instance",
        "web_identity",
        "keys",
        "provider",
        "anonymous",
    ] = "auto"
    """Source of the credentials. `auto`: `keys` or `provider` if those are given, else wherever S3A
    looks for them: Spark's settings, the environment, the machine's role. `environment`:
    `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`. `profile`: a profile of the
    AWS CLI. `instance`: the role of the machine or container. `web_identity`: the token file of a
    Kubernetes service account. `keys`: the keys below. `provider`: `credential_provider`.
    `anonymous`: none, for a public bucket."""
    profile: str | None = None
    """Name of the profile, with `credentials: profile`; `default` if not given."""
    access_key: SecretText | None = Field(
        default=None, repr=False, examples=["${airflow:logs_s3.login}"]
    )
    """Access key as a reference: `${NAME}`, `${file:/path}` or `${airflow:CONNECTION.login}`. Java
    gets the key in memory. No command line, Spark setting, result or log contains it."""
    secret_key: SecretText | None = Field(
        default=None, repr=False, examples=["${file:/run/secrets/s3}"]
    )
    """Secret key, as `access_key`."""
    session_token: SecretText | None = Field(default=None, repr=False)
    """Session token, as `access_key`; for temporary credentials."""
    credential_provider: str | None = Field(
        default=None, examples=["jceks://hdfs@namenode/keys/s3.jceks"]
    )
    """Hadoop credential provider that holds `fs.s3a.access.key` and `fs.s3a.secret.key`."""
    role: str | None = Field(default=None, examples=["arn:aws:iam::123456789012:role/log-reader"])
    """ARN of a role that is assumed with these credentials."""
    requester_pays: StrictBool = False
    """True if the reader pays, for a bucket that requires that."""

    @field_validator("endpoint")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        refuse([((), why)] if value is not None and (why := password_fault(value)) else [])
        if (
            value is not None
            and "${" not in value
            and not re.fullmatch(r"https?://[^/\s]+/?", value)
        ):
            raise ValueError("an endpoint is written https://HOST:PORT, without a path")
        return value

    @field_validator("region")
    @classmethod
    def _name(cls, value: str | None) -> str | None:
        if (
            value is not None and "${" not in value and not re.fullmatch("[a-z0-9-]+", value)
        ):  # it becomes a part of a host's name
            raise ValueError(f"found {value!r}; a region is written like eu-central-1")
        return value

    @model_validator(mode="after")
    def _one_kind_of_credentials(self) -> S3:
        keys = [
            name for name in SECRETS if name in self.model_fields_set
        ]  # None: given, as a reference that is not known here
        if keys and not {"access_key", "secret_key"} <= set(keys):
            raise ValueError("`access_key` and `secret_key` need each other")
        if keys and self.credentials not in ("auto", "keys"):
            raise ValueError(
                f"`credentials: {self.credentials}` and `{keys[0]}` contradict each other"
            )
        if self.credentials == "keys" and not keys:
            raise ValueError("`credentials: keys` needs `access_key` and `secret_key`")
        if self.credential_provider is not None and (
            keys or self.credentials not in ("auto", "provider")
        ):
            raise ValueError("`credential_provider` and other credentials contradict each other")
        if self.credentials == "provider" and self.credential_provider is None:
            raise ValueError("`credentials: provider` needs `credential_provider`")
        if self.profile is not None and self.credentials != "profile":
            raise ValueError("`profile` needs `credentials: profile`")
        if self.role is not None and self.credentials == "anonymous":
            raise ValueError("`role` needs credentials; `anonymous` has none")
        return self

    def settings(self) -> dict[str, str]:
        """Return the settings for Hadoop, without the secrets."""
        kind = self.credentials
        if kind == "auto" and "access_key" in self.model_fields_set:
            kind = "keys"
        elif kind == "auto" and self.credential_provider is not None:
            kind = "provider"
        provider = _PROVIDERS.get(kind)
        found = {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": self.region or ("us-east-1" if self.endpoint else None),
            "fs.s3a.path.style.access": "true" if self.path_style else None,
            "fs.s3a.connection.ssl.enabled": "false"
            if (self.endpoint or "").startswith("http:")
            else None,
            "fs.s3a.requester.pays.enabled": "true" if self.requester_pays else None,
            "fs.s3a.auth.profile.name": self.profile,
            "fs.s3a.security.credential.provider.path": self.credential_provider,
            _PROVIDER: provider,
        }
        if self.role is not None:
            found |= {
                _PROVIDER: "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
                "fs.s3a.assumed.role.arn": self.role,
                "fs.s3a.assumed.role.credentials.provider": provider,
                "fs.s3a.assumed.role.sts.endpoint.region": self.region,
            }
        return {name: value for name, value in found.items() if value is not None}

    def secrets(self) -> dict[str, str]:
        """Return the settings that Hadoop gets in memory alone: the keys, in the clear."""
        values = {name: getattr(self, name) for name in SECRETS}
        return {
            f"fs.s3a.{name.replace('_', '.')}": value.get_secret_value()
            for name, value in values.items()
            if value is not None
        }
