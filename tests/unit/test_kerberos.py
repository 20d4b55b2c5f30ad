"""Kerberos: how a login that is refused is told, and what is refused before it is tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from shipper.config.cluster import Cluster
from shipper.config.runner_options import Runner
from shipper.driver.checks.catalogue import CheckTarget
from shipper.driver.checks.machine import spark_and_source
from shipper.driver.kerberos import logged_in, refuse_executors_without_login
from shipper.driver.unreadable import cannot_be_read, cannot_list
from shipper.errors import UsageError
from shipper.kafka.connection import refusal
from shipper.report.plan_result import PlannedFile
from tests.samples.config import pipeline_of

KLIST = """#!/bin/sh
cat <<END
Ticket cache: FILE:/tmp/krb5cc_0
Default principal: alice@EXAMPLE.COM

Valid starting       Expires              Service principal
11/27/26 00:00:00  11/27/26 10:00:00  krbtgt/EXAMPLE.COM@EXAMPLE.COM
END
"""
SECURE = "spark.hadoop.hadoop.security.authentication"


@pytest.fixture
def klist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program = tmp_path / "klist"
    program.write_text(KLIST)
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    "why",
    [
        "AccessControlException: Client cannot authenticate via:[TOKEN, KERBEROS]",
        "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]",
        "org.apache.hadoop.security.KerberosAuthException: failure to login",
        "GSSException: No valid credentials provided",
    ],
)
def test_a_refused_login_has_a_code_of_its_own_and_names_the_ticket(klist: Path, why: str) -> None:
    error = cannot_list("web", ["hdfs://nn:8020/logs"], why)
    assert (error.code, error.retriable) == ("SHIP-313", True)
    assert "alice@EXAMPLE.COM ends 11/27/26 10:00:00" in error.message
    assert cannot_list("web", ["hdfs://nn:8020/logs"], "Permission denied").code == "SHIP-302"


def test_a_token_that_ends_in_a_ship_is_told_as_the_login_that_it_is(klist: Path) -> None:
    def file(problem: str) -> PlannedFile:
        return PlannedFile(
            path="/l/a", size_bytes=1, modified_ms=0, splits=1, problem=problem, passing=True
        )

    ended = "HDFS refuses the Kerberos login: Token has expired"
    error = cannot_be_read([file(ended)] * 2, "Everything else was sent.")
    assert (error.code, error.retriable) == ("SHIP-313", True)
    assert "alice@EXAMPLE.COM ends" in error.message
    assert cannot_be_read([file(ended), file("it is gone")], "").code == "SHIP-302"


def test_who_has_no_ticket_is_told_so(klist: Path) -> None:
    klist.write_text("#!/bin/sh\necho 'klist: No credentials cache found' >&2; exit 1\n")
    assert logged_in() == "There is no Kerberos ticket"


@pytest.mark.parametrize(
    ("kind", "conf", "is_right"),
    [
        ("standalone", {SECURE: "kerberos"}, False),
        ("standalone", {"spark.kerberos.keytab": "/k"}, False),
        ("standalone", {}, True),
        ("local", {SECURE: "kerberos", "spark.kerberos.keytab": "/k"}, False),
        ("local", {SECURE: "kerberos"}, True),
        ("local", {"spark.kerberos.keytab": "/k"}, True),
    ],
)
def test_what_cannot_log_in_is_refused_with_the_configuration(
    kind: str, conf: dict[str, str], is_right: bool
) -> None:
    given = {"kind": kind, "conf": conf}
    if kind == "standalone":
        given |= {"master": "spark://m:7077"}
    if is_right:
        assert Runner.model_validate(given).kind == kind
    else:
        with pytest.raises(ValidationError, match=r"(?i)kerberos"):
            Runner.model_validate(given)


def test_a_standalone_cluster_is_refused_before_anything_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    runner = Runner.model_validate({"kind": "standalone", "master": "spark://m:7077"})
    refuse_executors_without_login(runner)
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>hadoop.security.authentication</name>"
        "<value>kerberos</value></property></configuration>"
    )
    refuse_executors_without_login(Runner())
    with pytest.raises(UsageError) as refused:
        refuse_executors_without_login(runner)
    assert refused.value.code == "SHIP-313"
    pipeline = pipeline_of(runner={"kind": "standalone", "master": "spark://m:7077"})
    [found] = spark_and_source(CheckTarget(tmp_path, pipeline, 1))
    assert (found.severity, "kind: local" in found.remedy) == ("fail", True)


def test_gssapi_without_libsasl2_is_refused_with_what_helps() -> None:
    cluster = Cluster.model_validate(
        {
            "cluster": "c",
            "bootstrap": "127.0.0.1:9",
            "properties": {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "GSSAPI"},
        }
    )
    why = refusal(cluster)
    assert why is not None
    assert "libsasl2" in why
