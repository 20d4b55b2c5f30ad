"""Kerberos: how a login that is refused is told, and what is refused before it is tried."""

import pytest
from pydantic import ValidationError

from shipper.config.cluster import Cluster
from shipper.config.runner_options import Runner
from shipper.driver.kerberos import logged_in
from shipper.driver.unreadable import cannot_be_read, cannot_list
from shipper.kafka.connection import refusal
from shipper.report.plan_result import PlannedFile
from spark_jobs.settings import spark_settings
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
LOGIN = {"spark.kerberos.principal": "a@B", "spark.kerberos.keytab": "/k"}
STANDALONE = {"kind": "standalone", "master": "spark://m:7077"}


@pytest.fixture
def klist(tmp_path, monkeypatch):
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
def test_a_refused_login_has_a_code_of_its_own_and_names_the_ticket(klist, why):
    error = cannot_list("web", ["hdfs://nn:8020/logs"], why)
    assert (error.code, error.retriable) == ("SHIP-313", True)
    assert "alice@EXAMPLE.COM ends 11/27/26 10:00:00" in error.message
    assert cannot_list("web", ["hdfs://nn:8020/logs"], "Permission denied").code == "SHIP-302"


def test_a_token_that_ends_in_a_ship_is_told_as_the_login_that_it_is(klist):
    def file(problem):
        return PlannedFile(
            path="/l/a", size_bytes=1, modified_ms=0, splits=1, problem=problem, passing=True
        )

    ended = "HDFS refuses the Kerberos login: Token has expired"
    error = cannot_be_read([file(ended)] * 2, "Everything else was sent.")
    assert (error.code, error.retriable) == ("SHIP-313", True)
    assert "alice@EXAMPLE.COM ends" in error.message
    assert cannot_be_read([file(ended), file("it is gone")], "").code == "SHIP-302"


def test_who_has_no_ticket_is_told_so(klist):
    klist.write_text("#!/bin/sh\necho 'klist: No credentials cache found' >&2; exit 1\n")
    assert logged_in() == "There is no Kerberos ticket"


@pytest.mark.parametrize(
    ("runner", "is_right"),
    [
        ({"conf": {SECURE: "kerberos", **LOGIN}}, False),
        ({"conf": {SECURE: "kerberos"}}, True),
        ({"conf": LOGIN}, True),
        ({**STANDALONE, "conf": {SECURE: "kerberos", **LOGIN}}, False),
        ({**STANDALONE, "conf": {SECURE: "kerberos"}}, True),
        ({**STANDALONE, "conf": LOGIN}, True),
        ({**STANDALONE, "conf": LOGIN, "spark_submit": "spark-submit"}, False),
    ],
)
def test_what_cannot_log_in_is_refused_with_the_configuration(runner, is_right):
    if is_right:
        Runner.model_validate(runner)
    else:
        with pytest.raises(ValidationError, match=r"(?i)log ?in"):
            Runner.model_validate(runner)


ACCESS, MASTER = "spark.kerberos.access.hadoopFileSystems", "spark.master"


@pytest.mark.parametrize(
    ("path", "runner", "expected"),
    [
        ("hdfs://nn:8020/logs", {}, {ACCESS: "hdfs://nn:8020"}),
        ("viewfs://all/{window_start:%d}", {"kind": "yarn"}, {ACCESS: "viewfs://all"}),
        ("hdfs:///logs", {"kind": "yarn"}, {ACCESS: None}),
        ("s3a://logs/web", STANDALONE, {MASTER: "spark://m:7077", ACCESS: None, SECURE: None}),
        (
            "hdfs://nn/logs",
            {**STANDALONE, "conf": {ACCESS: "hdfs://nn,hdfs://other"}},
            {
                MASTER: "kerberized:spark://m:7077",
                ACCESS: "hdfs://nn,hdfs://other",
                SECURE: "kerberos",
            },
        ),
    ],
)
def test_executors_get_tokens_of_the_source(tmp_path, monkeypatch, path, runner, expected):
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    pipeline = pipeline_of(source=path, runner=runner)
    assert not spark_settings(pipeline)[MASTER].startswith("kerberized")
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>hadoop.security.authentication</name>"
        "<value>kerberos</value></property></configuration>"
    )
    settings = spark_settings(pipeline)
    assert {name: settings.get(name) for name in expected} == expected


def test_gssapi_without_libsasl2_is_refused_with_what_helps():
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
