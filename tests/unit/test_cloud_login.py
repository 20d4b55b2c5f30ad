"""Logins by a cloud's identity: what is refused offline, and how tokens are shared and renewed."""

import pytest
from pydantic import ValidationError

from shipper import cloud_login
from shipper.cloud_login import Token, with_login, without_login
from shipper.config.cluster import Cluster
from shipper.errors import ClusterError
from shipper.kafka.connection import connection, refusal
from tests.doubles.runtime import runtime_with

KIND, CONFIG = "sasl.oauthbearer.metadata.authentication.type", "sasl.oauthbearer.config"
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "OAUTHBEARER"}


def cluster(**properties):
    return Cluster.model_validate(
        {"cluster": "far", "bootstrap": "127.0.0.1:1", "properties": {**SASL, **properties}}
    )


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({KIND: "aws_msk_iam", CONFIG: "region=eu-central-1"}, None),
        ({KIND: "aws_msk_iam", CONFIG: "region=eu-central-1,profile=logs"}, None),
        ({KIND: "aws_msk_iam"}, "needs `region`"),
        ({KIND: "aws_msk_iam", CONFIG: "region=x,role=y"}, "takes `region` and `profile`"),
        ({KIND: "aws_iam", CONFIG: "region=x,audience=y", "sasl.oauthbearer.method": "oidc"}, None),
        ({KIND: "aws_iam", CONFIG: "region=x"}, "needs `audience`"),
        ({KIND: "aws_iam", CONFIG: "region=x,audience=y,aws_debug=console"}, "remove it"),
        ({KIND: "aws_msk_iam", CONFIG: None}, None),
        ({KIND: "azure_imds", CONFIG: "query=resource=x", "sasl.oauthbearer.method": "oidc"}, None),
    ],
)
def test_validate_says_what_a_login_lacks_and_asks_no_cloud(properties, says):
    why = refusal(cluster(**properties))
    assert says in why if says and why else why == says


@pytest.mark.parametrize(
    "properties",
    [{KIND: "aws_msk"}, {KIND: "aws_msk_iam", "sasl.mechanisms": "PLAIN"}, {KIND: "azure_imds"}],
)
def test_a_login_that_would_not_be_used_is_refused_with_the_file(properties):
    with pytest.raises(ValidationError):
        cluster(**properties)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"Install `shipper\[aws\]`"):
        without_login({KIND: "aws_msk_iam", CONFIG: "region=x"})


class Clock:
    now = 1e9

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    stopped = runtime_with(time=clock.time, monotonic=clock.time, sleep=clock.sleep)
    monkeypatch.setattr(cloud_login, "runtime", stopped)
    return clock


@pytest.fixture
def fetches(monkeypatch):
    """What the next attempts to get a token do; the last one is repeated."""
    found = []
    monkeypatch.setattr(cloud_login, "_shared", {})
    monkeypatch.setitem(
        cloud_login._FETCHERS,
        "aws_msk_iam",
        lambda *_: lambda: (found.pop(0) if len(found) > 1 else found[0])(),
    )
    return found


def give(text, clock, seconds):
    return lambda: Token(text, clock.now + seconds)


def fail():
    raise OSError("no answer")


def client_of(name="far"):
    settings = with_login(name, {KIND: "aws_msk_iam", CONFIG: "region=x", "client.id": "c"})
    assert settings.keys() == {"client.id", "oauth_cb"}
    take = settings["oauth_cb"]
    return take


def test_clients_of_a_process_share_a_token_until_half_of_its_life_is_over(fetches, clock):
    fetches += [give("first", clock, 40), give("second", clock, 60)]
    assert [client_of()().text, client_of("near")().text] == ["first", "first"]
    clock.sleep(19)
    assert client_of()().text == "first"
    clock.sleep(1)
    assert client_of()().text == "second"


def test_while_the_cloud_is_away_the_token_in_use_is_given_again(fetches, clock):
    fetches += [give("first", clock, 7), fail]
    take = client_of()
    clock.sleep(3.6)
    assert take().text == "first"
    clock.sleep(1)
    with pytest.raises(OSError, match="no answer"):
        take()


def test_the_first_token_is_waited_for_and_its_absence_told(fetches, clock, monkeypatch):
    fetches += [fail, fail, give("late", clock, 60)]
    assert client_of()().text == "late"
    monkeypatch.setattr(cloud_login, "_shared", {})
    fetches[:] = [fail]
    with pytest.raises(ClusterError, match="no token for `aws_msk_iam`: no answer") as found:
        client_of()
    assert (found.value.code, found.value.retriable) == ("SHIP-412", True)


def test_a_login_travels_to_executors_as_settings_alone():
    sent = connection(cluster(**{KIND: "aws_msk_iam", CONFIG: "region=x"}))
    assert not any(callable(value) for value in sent.values())
    assert "region" not in str(sent)
