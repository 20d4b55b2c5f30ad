"""`records.avro` and `schema_registry` as far as the configuration goes, and the registry's client
against a double of its HTTP interface."""

import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from shipper_tools.dev.certificates import Authority

from shipper.config.avro import Avro
from shipper.config.load import load_all
from shipper.config.pipeline import Pipeline
from shipper.driver.checks.remote import ClusterTarget
from shipper.driver.schemas import refused_schemas, schema_ids
from shipper.errors import ClusterError, ClusterRefuses
from shipper.kafka import schema_registry
from shipper.kafka.schema_registry import RegistryClient
from tests.doubles.schema_registry import RegistryDouble
from tests.samples.config import cluster_of, write_config

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
RECORDS = (
    "records:\n  avro:\n    schema: {type: record, name: Order, fields: [{name: id, type: long}]}\n"
)
RIGHT = f"pipeline: web\nsource: /logs/\ntopic: logs.web\nclusters: [local]\n{RECORDS}"
CLUSTER = "cluster: local\nbootstrap: 127.0.0.1:9092\n"
REGISTRY = "schema_registry: {url: 'http://127.0.0.1:8081'}\n"
SECRET = "never-to-be-seen"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(schema_registry, "_PAUSES_SECONDS", (0.0, 0.0))


def with_field(**field):
    return {**SCHEMA, "fields": [*SCHEMA["fields"], field]}


def avro(schema=SCHEMA, **more):
    return Avro.model_validate({"schema": schema, **more})


def pipeline(schema=SCHEMA, topics=("orders",), **more):
    routes = [{"topic": topic, "when": f"value = '{topic}'"} for topic in topics[:-1]] + [
        {"topic": topics[-1]}
    ]
    spec = {"pipeline": "web", "source": "/logs/", "clusters": ["local"], "routes": routes}
    return Pipeline.model_validate({**spec, "records": {"avro": {"schema": schema, **more}}})


def cluster(url, **more):
    return cluster_of("local", schema_registry={"url": url, **more})


def faults_of(tmp_path, monkeypatch, of_pipeline, of_cluster, **leave):
    monkeypatch.chdir(tmp_path)
    files = {"pipelines/web": of_pipeline, "clusters/local": of_cluster}
    write_config(tmp_path / "config", files)
    loaded = load_all(Path("config"), **leave)
    return [str(fault) for fault in (*loaded.faults, *loaded.warnings)]


@pytest.mark.parametrize(
    ("of_pipeline", "of_cluster", "expected"),
    [
        (RIGHT, CLUSTER + REGISTRY, ""),
        (RIGHT, CLUSTER, "web.yaml:6:3: records.avro: cluster 'local' has no `schema_registry`"),
        (RIGHT.replace("type: record", "type: long"), CLUSTER + REGISTRY, "the schema must be a record's"),  # noqa: E501
        (RIGHT + "    subject: '{name}'\n", CLUSTER + REGISTRY, "{name} is not known; {topic} is "
            "the only placeholder"),
        (
            RIGHT.replace("topic: logs.web", "routes: [{topic: 'logs.{file_name}', matching: "
                "'logs.a'}]"),
            CLUSTER + REGISTRY,
            "`records.avro.subject` is '{topic}-value', and `matching` leaves the topics open",
        ),
        (RIGHT, CLUSTER + "schema_registry: {url: 'ftp://x'}\n", "schema_registry.url: found 'ftp://x'; an address is written https://HOST:PORT"),  # noqa: E501
        (RIGHT, CLUSTER + f"schema_registry: {{url: 'https://a:{SECRET}@x'}}\n", "contains a password"),  # noqa: E501
        (RIGHT, CLUSTER + "schema_registry: {url: 'https://x', password: a}\n", "`password` needs `username`"),  # noqa: E501
        (RIGHT, CLUSTER + ("schema_registry: {url: 'https://x', token: a, username: b, password: "
            "c}\n"), "`token` and `username` contra"),
        (RIGHT, CLUSTER + "schema_registry: {url: 'http://x', token: a}\n", "travels unencrypted to another machine"),  # noqa: E501
        (RIGHT, CLUSTER + "schema_registry: {url: 'https://x', token: '${NOT_THERE_AT_ALL}'}\n", "NOT_THERE_AT_ALL is not set"),  # noqa: E501
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_where_it_stands(
    tmp_path, monkeypatch, of_pipeline, of_cluster, expected
):
    found = faults_of(tmp_path, monkeypatch, of_pipeline, of_cluster)
    assert expected in "\n".join(found), found
    assert bool(found) == bool(expected)
    assert SECRET not in "\n".join(found)


def test_a_schema_is_registered_once_and_the_plan_only_asks():
    with RegistryDouble(user="shipper", password=SECRET) as registry:
        at = cluster(registry.url, username="shipper", password=SECRET)
        assert not list(refused_schemas(at, pipeline(topics=("a", "b"))))
        assert registry.subjects == {}
        assert schema_ids(at, pipeline(topics=("a", "b"))) == {"a-value": 1, "b-value": 1}
        assert registry.subjects == {"a-value": [1], "b-value": [1]}
        asked = len(registry.asked)
        assert schema_ids(at, pipeline(topics=("a", "b"))) == {"a-value": 1, "b-value": 1}
        assert registry.asked[asked:] == ["POST /subjects/a-value", "POST /subjects/b-value"]
        newer = with_field(name="note", type="string", default="")
        assert not list(refused_schemas(at, pipeline(newer, topics=("a",))))
        assert schema_ids(at, pipeline(newer, topics=("a",))) == {"a-value": 2}
        assert schema_ids(at, pipeline(subject="of/one record")) == {"of/one record": 1}
        assert SECRET not in repr(at) + at.model_dump_json() + str(registry.asked)


def test_a_schema_that_readers_cannot_follow_fails_the_plan_and_the_ship():
    with RegistryDouble() as registry:
        at = cluster(registry.url)
        schema_ids(at, pipeline())
        newer = with_field(name="at", type="long")
        says = (
            r"has an earlier schema under the subject orders-value, and `records.avro.schema` of "
            r"pipelines/web.yaml is not compatible with it: .*at.*SHIP-409"
        )
        (found,) = refused_schemas(at, pipeline(newer))
        assert (found.code, found.cluster, found.passing) == ("SHIP-409", "local", False)
        with pytest.raises(ClusterRefuses, match=says):
            schema_ids(at, pipeline(newer))
        assert registry.subjects == {"orders-value": [1]}


def test_who_may_not_register_needs_it_to_be_there():
    with RegistryDouble() as registry:
        at = cluster(registry.url)
        (found,) = refused_schemas(at, pipeline(register=False))
        assert "forbids a run to register it" in found.text
        with pytest.raises(
            ClusterRefuses, match=r"does not have the schema .* under the subject orders-value"
        ):
            schema_ids(at, pipeline(register=False))
        schema_ids(at, pipeline())
        assert schema_ids(at, pipeline(register=False)) == {"orders-value": 1}


@pytest.mark.parametrize("wrong", [{"username": "shipper", "password": "x"}, {"token": "x"}, {}])
def test_a_wrong_password_is_said_with_its_setting_and_without_itself(wrong):
    with RegistryDouble(user="shipper", password=SECRET) as registry:
        wrong = {name: value.replace("x", "another-secret") for name, value in wrong.items()}
        with pytest.raises(
            ClusterRefuses,
            match=r"refuses the request \(401\).*`schema_registry.username` and `password`",
        ) as caught:
            schema_ids(cluster(registry.url, **wrong), pipeline())
        assert not caught.value.retriable
        assert "another-secret" not in str(caught.value)


def test_a_registry_that_is_not_well_is_asked_again_and_then_another_run_may():
    with RegistryDouble() as registry:
        registry.broken = 2
        assert schema_ids(cluster(registry.url), pipeline()) == {"orders-value": 1}
        registry.broken = 3
        with pytest.raises(ClusterError, match="answers 503: not now") as caught:
            schema_ids(cluster(registry.url), pipeline())
        assert caught.value.retriable
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(ClusterError, match=r"cannot be reached: .*refused.*SHIP-408") as caught:
        schema_ids(cluster(f"http://127.0.0.1:{port}"), pipeline())
    assert caught.value.retriable


class _Elsewhere(BaseHTTPRequestHandler):
    """A server that is no registry: it answers ``code``, and says where to go."""

    code, seen = 200, list[str]()

    def do_POST(self):
        self.seen.append(self.path)
        self.send_response(self.code)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"hi")

    def log_message(self, format, *arguments):
        pass


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (200, "answers without a schema's `id`"),
        (404, "answers 404 where"),
        (307, "answers 307 where"),
    ],
)
def test_what_is_no_registry_is_said_and_nobody_is_sent_elsewhere(code, says):
    _Elsewhere.code, _Elsewhere.seen = code, []
    with HTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            with pytest.raises(ClusterRefuses, match=f"{says}.*schema_registry.url"):
                schema_ids(
                    cluster(f"http://127.0.0.1:{server.server_address[1]}", token="t"), pipeline()
                )
        finally:
            server.shutdown()
    assert _Elsewhere.seen == ["/subjects/orders-value"]


def test_a_file_that_is_not_there_and_an_unknown_reference_are_named(tmp_path):
    for name in ("ca_location", "certificate_location"):
        with pytest.raises(
            ClusterRefuses, match=rf"`schema_registry.{name}` in clusters/local.yaml .*no such file"
        ):
            RegistryClient(
                cluster("https://127.0.0.1:1", **{name: str(tmp_path / "none.pem")}), "web"
            )
    unknown = cluster("http://127.0.0.1:1", token=None)
    with pytest.raises(ClusterRefuses, match=r"schema_registry.token: .*SHIP-206"):
        schema_ids(unknown, pipeline())


def test_tls_is_verified_and_a_client_may_show_its_certificate(tmp_path):
    authority = Authority(tmp_path)
    server, client = authority.issue("registry", hosts=["127.0.0.1"]), authority.issue("shipper")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with RegistryDouble(tls=context) as registry:
        with pytest.raises(
            ClusterRefuses, match=r"cannot be verified: .*`schema_registry.ca_location`"
        ):
            schema_ids(cluster(registry.url), pipeline())
        ca = {"ca_location": str(authority.certificate)}
        own = {"certificate_location": str(client.certificate), "key_location": str(client.key)}
        assert schema_ids(cluster(registry.url, **ca, **own), pipeline()) == {"orders-value": 1}
        with pytest.raises(ClusterError):
            schema_ids(cluster(registry.url, **ca), pipeline(subject="other"))
        assert registry.subjects == {"orders-value": [1]}


def test_doctor_says_what_is_wrong_with_the_registry(tmp_path):
    examination = ClusterTarget(tmp_path, pipeline(register=False), 5.0, "local")
    with RegistryDouble() as registry:
        examination._cluster = cluster(registry.url)
        (found,) = examination.schema_registry()
        assert (found.severity, found.code) == ("fail", "SHIP-409")
        schema_ids(examination.cluster, pipeline())
        (found,) = examination.schema_registry()
        assert found.severity == "ok"
