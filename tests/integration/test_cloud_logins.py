"""Logins by a cloud's identity, through every client: tokens of some seconds are renewed in a ship
that is killed in the middle, and show nowhere."""

import os
import signal
import time

import pytest
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.ports import free_port
from shipper_tools.dev.secured_kafka import SecuredKafka

from shipper.config.cluster import Cluster
from shipper.errors import ClusterRefuses
from shipper.kafka.client import ClusterClient
from tests.doubles.broker_double import BrokerDouble
from tests.doubles.clouds import REGION, WEB_IDENTITY, Clouds, MskLogin
from tests.doubles.oidc_issuer import OidcIssuer

from .test_secured_cluster import Watched
from .world import World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

KIND, CONFIG = "sasl.oauthbearer.metadata.authentication.type", "sasl.oauthbearer.config"
LIVES_SECONDS = 20
MSK = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanisms": "OAUTHBEARER",
    KIND: "aws_msk_iam",
    CONFIG: f"region={REGION}",
}


@pytest.fixture(scope="module")
def issuer():
    with OidcIssuer({}, lives_seconds=LIVES_SECONDS) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def clouds(issuer):
    with Clouds(issuer) as clouds:
        yield clouds


@pytest.fixture(scope="module")
def web_identity(tmp_path_factory):
    file = tmp_path_factory.mktemp("identity") / "token"
    file.write_text(WEB_IDENTITY)
    return str(file)


@pytest.fixture(scope="module")
def jwt_kafka(tmp_path_factory, issuer):
    """Takes signed tokens, and closes what is not logged in again when they end."""
    with SecuredKafka(
        tmp_path_factory.mktemp("jwt"), {}, issuer=issuer, reauthentication_ms=3_600_000
    ) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def msk(tmp_path_factory, clouds):
    login = MskLogin(clouds)
    with (
        KafkaServer(tmp_path_factory.mktemp("msk"), far_port=free_port()) as kafka,
        BrokerDouble(kafka.far_listener, kafka.far_port or 0, login),
    ):
        yield kafka, login


class _Ship:
    """A ship that lasts for several lives of a token, with canaries in all that is secret."""

    def __init__(self, root, at, bootstrap, properties):
        self.world = World(root / "world", at)
        self.watched = Watched(self.world)
        self.watched.write_cluster("local", bootstrap, **properties)
        gates = {"delivery": [{"check": "sum_closes"}, {"check": "read_back", "mode": "full"}]}
        self.world.write_pipeline(gates=gates, delivery={"rate_limit": "40kB/s", "lease": "2s"})
        self.content = os.urandom(1_600_000).hex(" ", -60).replace(" ", "\n").encode()
        self.world.write_log("a.log", self.content)

    def killed_and_run_again(self, environment):
        self.watched.environment |= environment
        run = self.watched.start()
        began = time.monotonic()
        while time.monotonic() < began + 2.5 * LIVES_SECONDS or not self._has_records():
            assert run.poll() is None, run.communicate()[1].decode()[-4000:]
            time.sleep(0.1)
        for pid in self.watched.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        out, err = run.communicate()
        assert b"canary-" not in out + err
        again = self.watched.start("--json")
        out, err = again.communicate()
        assert again.returncode == 0, err.decode()[-6000:]
        assert b"canary-" not in out + err
        assert self.world.read() == lines_of(self.content)
        assert self.watched.files_with_canaries() == []

    def _has_records(self):
        return any(
            self.world.client.end_offset(self.world.topic(), number) > 0 for number in range(3)
        )


@pytest.mark.long
@pytest.mark.parametrize("identity", ["web identity", "instance"])
def test_a_ship_to_msk_outlasts_its_tokens_and_a_kill(
    tmp_path, msk, clouds, web_identity, identity
):
    kafka, login = msk
    login.logins.clear()
    clouds.given.clear()
    ship = _Ship(tmp_path, kafka.bootstrap, kafka.far_bootstrap, MSK)
    ship.killed_and_run_again(clouds.environment(identity, web_identity))
    if identity == "instance":  # its tokens live for a quarter of an hour
        assert clouds.given[identity] >= 2
    else:
        assert clouds.given[identity] > 4, "more than one for a driver and a worker, twice"
        assert max(login.logins.values()) >= 3, "open connections were logged in again"
    assert login.refused == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", ["aws_iam", "azure_imds"])
def test_a_ship_with_a_signed_token_outlasts_it_and_a_kill(
    tmp_path, jwt_kafka, clouds, web_identity, kind
):
    own = {
        "aws_iam": {CONFIG: f"region={REGION},audience=kafka,duration_seconds=60"},
        "azure_imds": {
            CONFIG: "query=resource=kafka",
            "sasl.oauthbearer.token.endpoint.url": f"{clouds.url}/metadata/identity/oauth2/token",
        },
    }[kind]
    clouds.given.clear()
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "ssl.ca.location": str(jwt_kafka.ca),
        KIND: kind,
        **own,
    }
    ship = _Ship(tmp_path, jwt_kafka.address, jwt_kafka.bootstrap, properties)
    ship.killed_and_run_again(clouds.environment("web identity", web_identity))
    assert clouds.given[kind.removesuffix("_imds")] >= 4


@pytest.mark.long
def test_brokers_that_refuse_the_identity_are_told_with_the_remedy(msk, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"canary-{name}")
    kafka, _ = msk
    cluster = Cluster.model_validate(
        {"cluster": "far", "bootstrap": kafka.far_bootstrap, "properties": MSK}
    )
    with pytest.raises(ClusterRefuses, match="Allow the identity that the cloud gives") as told:
        ClusterClient(cluster).topics()
    assert "canary" not in told.value.message
