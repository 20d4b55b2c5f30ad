"""What a cluster file may set of librdkafka, and that none of it weakens what shipper promises."""

import ctypes
import json
import socket
import threading
from pathlib import Path

import confluent_kafka
import pytest
from pydantic import ValidationError

from shipper.complaints import Complaints
from shipper.config.cluster import Cluster
from shipper.config.properties import ALLOWED, LOGIN
from shipper.errors import ClusterError, ClusterRefuses
from shipper.kafka import admin, client, producer, topics
from shipper.kafka.batch_call import library
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import connection, refusal
from shipper.kafka.producer import LaneProducer, LaneSettings
from shipper.kafka.topics import TopicLookup
from shipper.kafka.transaction import _TransactionalProducer
from shipper.verify import readback
from shipper.verify.readback import ReadBack
from tests.waiting import wait_until

#: Set by shipper's clients, and what exactly-once and the noticing of lost connections rest on.
OWNED = (
    "bootstrap.servers",
    "transactional.id",
    "enable.idempotence",
    "acks",
    "isolation.level",
    "batch.size",
    "compression.type",
    "transaction.timeout.ms",
    "message.timeout.ms",
    "partitioner",
    "linger.ms",
    "batch.num.messages",
    "queue.buffering.max.messages",
    "queue.buffering.max.kbytes",
    "retries",
    "max.in.flight",
    "allow.auto.create.topics",
    "log_level",
    "log.connection.close",
    "log.queue",
    "statistics.interval.ms",
    "enable.auto.commit",
    "auto.offset.reset",
    "enable.partition.eof",
    "check.crcs",
)
#: A value for each that librdkafka takes; others are text, of which it takes any.
SAMPLES = {
    "security.protocol": "plaintext",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.kerberos.min.time.before.relogin": 1000,
    "sasl.oauthbearer.method": "oidc",
    LOGIN: "azure_imds",
    "sasl.oauthbearer.grant.type": "client_credentials",
    "sasl.oauthbearer.assertion.algorithm": "RS256",
    "sasl.oauthbearer.assertion.claim.exp.seconds": 10,
    "sasl.oauthbearer.assertion.claim.nbf.seconds": 10,
    "sasl.oauthbearer.assertion.claim.jti.include": True,
    "ssl.endpoint.identification.algorithm": "https",
    "enable.ssl.certificate.verification": True,
    "https.ca.location": "/dev/null",
    "client.dns.lookup": "use_all_dns_ips",
    "broker.address.family": "v4",
    "broker.address.ttl": 10,
    "socket.timeout.ms": 1000,
    "socket.connection.setup.timeout.ms": 1000,
    "socket.keepalive.enable": False,
    "socket.nagle.disable": False,
    "socket.send.buffer.bytes": 100_000,
    "socket.receive.buffer.bytes": 100_000,
    "connections.max.idle.ms": 310_000,
    "reconnect.backoff.ms": 1000,
    "reconnect.backoff.max.ms": 5000,
    "retry.backoff.ms": 300,
    "retry.backoff.max.ms": 2000,
    "topic.metadata.refresh.interval.ms": -1,
    "topic.metadata.refresh.fast.interval.ms": 10,
    "topic.metadata.refresh.sparse": False,
    "topic.metadata.propagation.max.ms": 0,
    "metadata.max.age.ms": 1000,
    "metadata.recovery.strategy": "none",
    "metadata.recovery.rebootstrap.trigger.ms": 1000,
    "api.version.request.timeout.ms": 1000,
    "compression.level": 3,
    "enable.metrics.push": False,
}


def cluster(bootstrap="127.0.0.1:1", **properties):
    return Cluster.model_validate(
        {"cluster": "far", "bootstrap": bootstrap, "properties": properties}
    )


def why_not(name, value="x"):
    with pytest.raises(ValidationError) as found:
        cluster(**{name: value})
    return str(found.value.errors()[0]["msg"])


# --- The list


def test_each_property_that_may_be_set_is_one_of_the_installed_librdkafka(tmp_path):
    """A newer librdkafka may drop some; those that it brings are refused until somebody puts them
    on the list."""
    found = library(
        Path(confluent_kafka.__file__).parents[1],
        confluent_kafka.libversion()[1],
        confluent_kafka.__version__,
    )
    if found is None:
        pytest.skip("librdkafka is not the one that comes with confluent-kafka")
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    libc.fclose.argtypes = found.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    file = libc.fopen(str(tmp_path / "shown").encode(), b"w")
    found.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    rows = [
        line.split("|")[0].strip()
        for line in (tmp_path / "shown").read_text().splitlines()
        if "|" in line
    ]
    known = {name for name in rows if name and not name.startswith(("Property", "---"))}
    assert len(known) > 150
    assert ALLOWED.keys() - known == set()
    assert set(SAMPLES) <= set(ALLOWED)


@pytest.mark.parametrize(
    "name",
    [
        *OWNED,
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "group.id",
        "ssl.engine.location",
        "dr_cb",
        "debug",
    ],
)
def test_what_shipper_owns_and_what_loads_code_is_refused(name):
    assert "no property that a cluster file may set" in why_not(name)


def test_a_connection_may_not_be_closed_while_a_request_waits_for_its_answer():
    assert why_not("connections.max.idle.ms", 60_000) == ALLOWED["connections.max.idle.ms"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.endpoint.identification.algorithm", "none"),
        ("enable.ssl.certificate.verification", False),
    ],
)
def test_a_broker_that_is_not_verified_is_warned_of_unless_it_is_on_this_machine(name, value):
    tls = {"security.protocol": "ssl", name: value}
    assert [place for place, _ in cluster("kafka.example:9092", **tls).warnings()] == [
        ("properties", name)
    ]
    assert name in cluster("kafka.example:9092", **tls).in_the_clear
    assert not cluster("127.0.0.1:9092", **tls).in_the_clear
    assert not cluster("kafka.example:9092", **tls | {name: SAMPLES[name]}).in_the_clear


def test_no_shell_command_hides_in_a_kerberos_name():
    """librdkafka puts these into `kinit …` and gives that to a shell."""
    for name in ("sasl.kerberos.principal", "sasl.kerberos.keytab", "sasl.kerberos.service.name"):
        assert why_not(name, 'x"; touch /tmp/owned; "')
        assert cluster(**{name: "shipper/host.example@EXAMPLE.COM"})


# --- What clients are made with


@pytest.fixture
def given(monkeypatch):
    """(client, settings) for each client that is made. None is: what is looked at is what it would
    have been given."""
    found = []

    def of(kind):
        def make(settings, logger=None):
            found.append((kind, settings))
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(-186, "not made"))

        return make

    for module, names in (
        (admin, ("AdminClient",)),
        (client, ("Consumer", "Producer")),
        (readback, ("AdminClient", "Consumer")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, of(f"{module.__name__}.{name}"))
    monkeypatch.setattr(topics, "AdminClient", of("topics"))
    monkeypatch.setattr(producer, "Producer", of("lane"))
    return found


def test_no_property_of_a_cluster_file_reaches_what_shipper_owns(given, monkeypatch):
    """Compared with clients of a cluster that sets nothing; the user's sets all that it may."""

    def make_all(of):
        given.clear()
        settings = LaneSettings(connection(of), 1000, "zstd", 30_000, cluster="far")
        monkeypatch.setattr(ReadBack, "__init__", lambda self, cluster: None)
        judge = ReadBack(of)
        judge._complaints = Complaints()
        judge._name, judge._connection = (
            "far",
            {"client.id": "shipper-readback", **readback.client_settings(of)},
        )
        asked = [
            lambda: LaneProducer(settings, "lane"),
            lambda: LaneProducer(
                LaneSettings(connection(of), 1000, "zstd", 30_000, transactional=False), "lane"
            ),
            lambda: TopicLookup(settings),
            lambda: ClusterClient(of),
            lambda: client._Reader("far", connection(of), {}),
            lambda: judge._made(readback.AdminClient),
            lambda: judge._made(readback.Consumer, readback._SETTINGS),
        ]
        for make in asked:
            with pytest.raises(ClusterRefuses):
                make()
        assert len(given) == len(asked)
        return {f"{index} {kind}": settings for index, (kind, settings) in enumerate(given)}

    everything = {name: SAMPLES.get(name, "x") for name in ALLOWED}
    plain, full = make_all(cluster()), make_all(cluster(**everything))
    for kind, settings in plain.items():
        owned = {
            name: value for name, value in settings.items() if name in OWNED and not callable(value)
        }
        assert {name: full[kind].get(name) for name in owned} == owned, kind
        assert set(full[kind]) & set(OWNED) == set(settings) & set(OWNED), kind
        assert everything.items() <= full[kind].items(), kind
    lane = full["0 lane"]
    assert (
        lane["acks"],
        lane["transactional.id"],
        lane["log_level"],
        lane["log.connection.close"],
    ) == ("all", "lane", 7, True)
    assert lane["debug"] == "broker"


# --- A lost connection is heard


@pytest.fixture
def hangs_up():
    """The address of a server that ends every connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:

        def serve():
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_lane_hears_that_its_connection_was_lost_whatever_a_cluster_file_sets(hangs_up):
    # librdkafka reads a keystore even when it speaks no TLS, so that one needs a file. A cloud's
    # login is refused without its mechanism.
    names = [name for name in ALLOWED if name not in ("ssl.keystore.location", LOGIN)]
    settings = {
        name: connection(cluster(hangs_up, **{name: SAMPLES.get(name, "x")})) for name in names
    }
    deaf = {
        name: _TransactionalProducer(LaneSettings(each, 1000, "none", 10_000), "lane")
        for name, each in settings.items()
    }

    def all_heard():
        for name in [name for name, lane in deaf.items() if lane.lost_connection()]:
            deaf.pop(name).discard()
        return not deaf

    wait_until(all_heard)


# --- What librdkafka refuses


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        (
            {"security.protocol": "bogus"},
            'Invalid value "bogus" for configuration property "security.protocol"',
        ),
        (
            {"security.protocol": "ssl", "ssl.ca.location": "/nowhere/ca.pem"},
            "ssl.ca.location: there is no file /nowhere/ca.pem",
        ),
        ({"socket.timeout.ms": -1}, "socket.timeout.ms"),
        (
            {"security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN"},
            "sasl.username and sasl.password must be set",
        ),
        ({"security.protocol": "ssl", "ssl.key.pem": "hunter2"}, "ssl.key.pem"),
    ],
)
def test_a_value_that_librdkafka_does_not_take_is_that_clusters_fault_and_says_why(
    properties, says
):
    refused = cluster(**properties)
    assert says in str(refusal(refused))
    for make in (
        ClusterClient,
        ReadBack,
        lambda of: LaneProducer(
            LaneSettings(connection(of), 1, "none", 10_000, cluster="far"), "x"
        ),
    ):
        with pytest.raises(ClusterError) as found:
            make(refused)
        assert says in found.value.message
        assert found.value.message.startswith("cluster far: ")
        assert "hunter2" not in found.value.message
        assert not found.value.retriable


def test_checking_properties_asks_no_server_and_needs_no_secret():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        oidc = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "a",
            "sasl.oauthbearer.client.secret": None,
        }
        url = {"sasl.oauthbearer.token.endpoint.url": f"http://{address}/"}
        login = {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "OAUTHBEARER",
            **oidc,
            **url,
        }
        assert refusal(cluster(address, **login)) is None
        scram = {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "ssl.ca.pem": None,
        }
        assert (
            refusal(cluster(address, **scram, **{"sasl.username": None, "sasl.password": None}))
            is None
        )
        with pytest.raises(TimeoutError):
            server.accept()


def test_validate_says_where_a_property_is_wrong_and_warns_of_the_risky_ones(
    tmp_path, monkeypatch, shipper
):
    """As a user meets it: file, line, column; no value that may be a secret."""
    (tmp_path / "config" / "pipelines").mkdir(parents=True)
    (tmp_path / "config" / "clusters").mkdir()
    pipeline = "pipeline: web\nsource: logs\ntopic: logs\nclusters: [safe]\n"
    (tmp_path / "config" / "pipelines" / "web.yaml").write_text(pipeline)
    clusters = {
        "safe": "bootstrap: 127.0.0.1:9092\n",
        "misspelt": "bootstrap: 127.0.0.1:1\nproperties:\n  security.protocl: ssl\n",
        "wrong": "bootstrap: 127.0.0.1:1\nproperties:\n  client.id: x\n  security.protocol: tls\n",
        "no-ca": (
            "bootstrap: 127.0.0.1:1\nproperties: {security.protocol: ssl, ssl.ca.location: "
            "/nowhere.pem}\n"
        ),
        "code": "bootstrap: 127.0.0.1:1\nproperties:\n  plugin.library.paths: /x.so\n",
        "clear": "bootstrap: kafka.example:9092\n"
        "properties:\n  security.protocol: ssl\n  ssl.endpoint.identification.algorithm: none\n  "
        "sasl.password: hunter2\n",
        "absent": "bootstrap: 127.0.0.1:1\nproperties:\n  sasl.password: ${SHIPPER_NOWHERE}\n",
    }
    for name, text in clusters.items():
        (tmp_path / "config" / "clusters" / f"{name}.yaml").write_text(f"cluster: {name}\n{text}")

    monkeypatch.chdir(tmp_path)

    def validate(*options):
        done = shipper("validate", "--no-sql", "--json", *options)
        assert done.returncode == 2, done.stderr
        assert "hunter2" not in done.stdout + done.stderr
        return dict(json.loads(done.stdout))

    said = validate()
    found = {fault.partition(": ")[0]: fault for fault in said["faults"]}
    assert "did you mean 'security.protocol'?" in found["config/clusters/misspelt.yaml:4:3"]
    assert 'Invalid value "tls"' in found["config/clusters/wrong.yaml:5:22"]
    assert "there is no file /nowhere.pem" in found["config/clusters/no-ca.yaml:3:55"]
    assert "no property that a cluster file may set" in found["config/clusters/code.yaml:4:3"]
    assert "SHIPPER_NOWHERE is not set" in found["config/clusters/absent.yaml:4:18"]
    assert len(found) == 5
    assert [warning.partition(": ")[0] for warning in said["warnings"]] == [
        "config/clusters/clear.yaml:5:42",
        "config/clusters/clear.yaml:6:18",
    ]
    assert len(validate("--no-secrets")["faults"]) == 4


# --- What others can read on its way


@pytest.mark.parametrize(
    ("bootstrap", "protocol", "warns"),
    [
        ("kafka.example:9092", None, "records travel"),
        ("kafka.example:9092", "PLAINTEXT", "records travel"),
        ("127.0.0.1:9092,kafka.example:9092", "plaintext", "records travel"),
        ("kafka.example:9092", "SASL_PLAINTEXT", "passwords and records travel"),
        ("kafka.example:9092", "SASL_SSL", ""),
        ("kafka.example:9092", "ssl", ""),
        ("127.0.0.1:9092,[::1]:9092,localhost:9092", "PLAINTEXT", ""),
        ("127.0.0.1.example:9092", "PLAINTEXT", "records travel"),
        ("localhost.example:9092", "PLAINTEXT", "records travel"),
    ],
)
def test_plaintext_to_anything_but_this_machine_is_warned_of(bootstrap, protocol, warns):
    found = cluster(bootstrap, **({"security.protocol": protocol} if protocol else {}))
    assert found.in_the_clear.startswith(warns)
    assert bool(found.in_the_clear) == bool(warns)
    assert [why for _, why in found.warnings()] == ([found.in_the_clear] if warns else [])
