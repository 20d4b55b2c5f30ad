"""Properties of librdkafka that a cluster file may set, each with its reason, and Spark's settings
that `runner.conf` may not hold.

Shipper's promises depend on its clients' settings, so a user may set only the properties in this
list. A test compares the list with the properties of the installed librdkafka. Source: its
CONFIGURATION.md (2.16) and, where that does not say enough, its code.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from shipper.config.rules import THE_KEY, Fault

#: What for → properties that are allowed: settings that find, reach and convince the brokers. None
#: decides what is written or read, or how lost connections are detected.
_WHAT_FOR = {
    "`ssl` or `sasl_ssl` in production; the others send passwords and records in the clear": (
        "security.protocol"
    ),
    "how to log in: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `GSSAPI`; both names "
    "are one": "sasl.mechanisms sasl.mechanism",
    "for `PLAIN` and `SCRAM`; a password as a reference": "sasl.username sasl.password",
    "for `GSSAPI`; letters, digits and `. _ - / @ :` only, since librdkafka hands it to a shell": (
        "sasl.kerberos.service.name sasl.kerberos.principal sasl.kerberos.keytab"
    ),
    "how often the Kerberos ticket is renewed": "sasl.kerberos.min.time.before.relogin",
    "`oidc`: get tokens from `sasl.oauthbearer.token.endpoint.url`": "sasl.oauthbearer.method",
    "for `oidc`: every client asks there for its token": "sasl.oauthbearer.token.endpoint.url",
    "for `OAUTHBEARER` with the identity that a cloud gives the process: `aws_msk_iam`, `aws_iam`, "
    "or `azure_imds` (with `oidc`)": "sasl.oauthbearer.metadata.authentication.type",
    "of such a login, as `region=eu-central-1`; for `azure_imds` as `query=…`": (
        "sasl.oauthbearer.config"
    ),
    "for `oidc`; a secret as a reference": (
        "sasl.oauthbearer.client.id sasl.oauthbearer.client.credentials.client.id "
        "sasl.oauthbearer.client.secret sasl.oauthbearer.client.credentials.client.secret "
        "sasl.oauthbearer.scope sasl.oauthbearer.extensions sasl.oauthbearer.sub.claim.name "
        "sasl.oauthbearer.grant.type"
    ),
    "for `oidc` with an assertion; a key and its passphrase as references": (
        "sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.private.key.file "
        "sasl.oauthbearer.assertion.private.key.passphrase "
        "sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.assertion.file "
        "sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds "
        "sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include "
        "sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub "
        "sasl.oauthbearer.assertion.jwt.template.file"
    ),
    "authorities that sign the brokers' certificates: a file or folder, or as text": (
        "ssl.ca.location ssl.ca.pem"
    ),
    "this client's certificate: a file, or as text": (
        "ssl.certificate.location ssl.certificate.pem"
    ),
    "this client's private key: a file, or as text (a reference); and its password (a reference)": (
        "ssl.key.location ssl.key.pem ssl.key.password"
    ),
    "this client's certificate and key as PKCS#12, and its password (a reference)": (
        "ssl.keystore.location ssl.keystore.password"
    ),
    "revoked certificates": "ssl.crl.location",
    "what the client is willing to use (cipher suites: up to TLS 1.2)": (
        "ssl.cipher.suites ssl.curves.list ssl.sigalgs.list"
    ),
    "`https` by default: the broker's name must be in its certificate; `none` is warned of": (
        "ssl.endpoint.identification.algorithm"
    ),
    "`true` by default: the broker's certificate is verified; `false` is warned of": (
        "enable.ssl.certificate.verification"
    ),
    "authorities for the token endpoint: a file, or as text": "https.ca.location https.ca.pem",
    "`shipper` by default; brokers' quotas and logs go by it": "client.id",
    "how a broker's name becomes an address, which kind, and how long it is remembered": (
        "client.dns.lookup broker.address.family broker.address.ttl"
    ),
    "when a request counts as lost; shipper hears of it and begins a new epoch": (
        "socket.timeout.ms"
    ),
    "how long a connection may take to come up": "socket.connection.setup.timeout.ms",
    "when bytes leave, not which": "socket.keepalive.enable socket.nagle.disable",
    "for long fat links": "socket.send.buffer.bytes socket.receive.buffer.bytes",
    "0 or at least 310000: a shorter one closes connections that wait for an answer, and nobody "
    "hears of it": "connections.max.idle.ms",
    "20 to 2000 by default": "reconnect.backoff.ms reconnect.backoff.max.ms",
    "how soon a request is repeated; the broker knows a repeated batch by its number": (
        "retry.backoff.ms retry.backoff.max.ms"
    ),
    "how often leaders are asked for, unprompted or while one is missing, and for which topics": (
        "topic.metadata.refresh.interval.ms topic.metadata.refresh.fast.interval.ms "
        "topic.metadata.refresh.sparse"
    ),
    "how long a new topic may be unknown to some broker": "topic.metadata.propagation.max.ms",
    "how long what is known of topics counts": "metadata.max.age.ms",
    "what to do when no broker that is known answers": (
        "metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms"
    ),
    "how long a broker may take to say what it can do": "api.version.request.timeout.ms",
    "of the pipeline's `delivery.compression`": "compression.level",
    "whether the brokers may ask for this client's metrics": "enable.metrics.push",
}
#: Property → what it is for.
ALLOWED = {name: why for why, names in _WHAT_FOR.items() for name in names.split()}

LOGIN, LOGIN_CONFIG = "sasl.oauthbearer.metadata.authentication.type", "sasl.oauthbearer.config"
LOGIN_EXTENSIONS = "sasl.oauthbearer.extensions"
#: Logins whose tokens shipper fetches; see :mod:`shipper.cloud_login`.
AWS_LOGINS = ("aws_msk_iam", "aws_iam")

_HARMLESS_TO_A_SHELL = re.compile(r"[\w./@:-]+", re.ASCII)
#: Properties whose value counts as well; the reason in `ALLOWED` says which are taken.
_VALUES: dict[str, Callable[[str], bool]] = {
    # librdkafka also closes an idle connection while a request waits there for its answer, and
    # reports nothing. A request waits for `socket.timeout.ms` at most, which is 300,000 at most; up
    # to 2 s are subtracted for jitter.
    "connections.max.idle.ms": lambda value: value.isdecimal() and not 0 < int(value) < 310_000,
    **dict.fromkeys(
        ("sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab"),
        lambda value: _HARMLESS_TO_A_SHELL.fullmatch(value) is not None,
    ),
    LOGIN: lambda value: value in (*AWS_LOGINS, "azure_imds"),
}


def property_faults(properties: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults of `properties`, at the name or at its value. A value that is unknown for
    now is None."""
    for name, value in properties.items():
        if name not in ALLOWED:
            meant = difflib.get_close_matches(name, ALLOWED, n=1)
            guess = (
                f"did you mean {meant[0]!r}?"
                if meant
                else "shipper sets the others itself, since exactly-once rests on them"
            )
            yield (name, THE_KEY), f"no property that a cluster file may set; {guess}"
        elif name in _VALUES and value is not None and not _VALUES[name](str(value)):
            yield (name,), ALLOWED[name]
    if LOGIN in properties:
        yield from _login_faults(properties)


def _login_faults(properties: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what would leave a cloud's login unused, in silence."""
    names = [name for name in ("sasl.mechanisms", "sasl.mechanism") if name in properties]
    if str(properties[names[0]] if names else "").upper() not in ("OAUTHBEARER", "NONE"):
        yield (names[0] if names else LOGIN,), f"`{LOGIN}` needs `sasl.mechanisms: OAUTHBEARER`"
    if properties[LOGIN] == "azure_imds" and properties.get("sasl.oauthbearer.method") != "oidc":
        yield (LOGIN,), "`azure_imds` needs `sasl.oauthbearer.method: oidc`"


_CUT = "it decides where files are cut"
_READER = (
    "it decides what the reader takes for a line or a file, and what it leaves out is counted by "
    "nobody"
)
#: Setting, or a pattern of several → why it may not be set.
PINNED_SPARK_SETTINGS = {
    "spark.sql.files.maxPartitionBytes": f"{_CUT}; set `source.split_size`",
    "spark.sql.files.openCostInBytes": _CUT,
    "spark.sql.files.minPartitionNum": _CUT,
    "spark.sql.files.maxPartitionNum": _CUT,
    "spark.sql.files.ignoreCorruptFiles": "a corrupt file would be shipped in part, silently",
    "spark.sql.files.ignoreMissingFiles": "a missing file would be left out, silently",
    "spark.files.ignoreCorruptFiles": "a corrupt file would be shipped in part, silently",
    "spark.files.ignoreMissingFiles": "a missing file would be left out, silently",
    "spark.sql.variable.substitute": "SQL could read the environment, passwords included",
    "spark.sql.session.timeZone": "windows and timestamps are UTC",
    "spark.speculation": "two attempts of one task would fence each other",
    "spark.hadoop.mapreduce.input.*": _READER,
    "spark.hadoop.mapred.input.*": _READER,
    "spark.hadoop.mapred.linerecordreader.*": _READER,
    "spark.hadoop.textinputformat.*": _READER,
    "spark.hadoop.io.compression.codecs": "it decides which files are unpacked, and by what",
    "spark.pyspark.python": "set `runner.python`",
    "spark.pyspark.driver.python": "set `runner.python`",
    "spark.master": "set `runner.kind`, `runner.cores` and `runner.master`",
    "spark.driver.memory": "set `runner.driver_memory`",
}

#: Regular expression of their names, for the schema.
PINNED_PATTERN = (
    f"^({'|'.join('.*'.join(map(re.escape, name.split('*'))) for name in PINNED_SPARK_SETTINGS)})$"
)
#: Spark SQL's settings that say how work is done and not what comes out of it. All others count for
#: the transform.
_HARMLESS = re.compile(
    r"spark\.sql\.(adaptive|shuffle|execution|codegen|ui|debug|inMemoryColumnarStorage|redaction"
    r"|streaming|sources\.parallelPartitionDiscovery|event|parquet|orc|hive|thriftServer"
    r"|statistics|cbo)\..*"
    r"|spark\.sql\.(autoBroadcastJoinThreshold|broadcastTimeout|warehouse\.dir"
    r"|catalogImplementation|maxPlanStringLength)"
)
#: Spark 4.2's own defaults: written out they change nothing. They are set for every session, so
#: that no `spark-defaults.conf` decides.
SQL_DEFAULTS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
}


def fault_of_setting(key: str) -> str | None:
    """Return why ``key`` may not stand in `runner.conf`, or None."""
    if not key.startswith("spark."):
        return "not a Spark setting; they begin with 'spark.'"
    why = next(
        (why for pattern, why in PINNED_SPARK_SETTINGS.items() if fnmatchcase(key, pattern)), None
    )
    return why and f"pinned by shipper: {why}"


def deciding(conf: Mapping[str, str]) -> dict[str, str]:
    """Return setting → value, in lower case, of those in ``conf`` that may change what a line
    becomes, such as `spark.sql.ansi.enabled`, and are not Spark's defaults. They are part of the
    transform: a file that was begun under others cannot be finished under these."""
    return {
        key: value.strip().lower()
        for key, value in sorted(conf.items())
        if key.startswith("spark.sql.")
        and not _HARMLESS.fullmatch(key)
        and SQL_DEFAULTS.get(key, "").lower() != value.strip().lower()
    }
