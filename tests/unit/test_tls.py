"""Why a TLS handshake would be refused, by listeners of Python's own;
tests/integration/test_security.py has a broker's."""

import datetime as dt
import socket
import ssl
import threading
from contextlib import contextmanager

import pytest
from shipper_tools.dev.certificates import Authority

from shipper.kafka.tls import HandshakeFailed, handshake, login_remedy, why_refused


@contextmanager
def listener(certificate, client_ca=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                raw, _ = server.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(raw, server_side=True) as tls:
                    tls.recv(1)
            except OSError:
                raw.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(server.getsockname()[1])
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def settings(authority, **more):
    return {"security.protocol": "ssl", "ssl.ca.location": str(authority.certificate), **more}


def test_each_wrong_certificate_is_named_with_what_to_do(authority, tmp_path):
    expired = authority.issue("expired", ends=dt.timedelta(days=-1))
    with listener(expired) as port, pytest.raises(HandshakeFailed, match="has expired") as caught:
        handshake(settings(authority), "127.0.0.1", port, 10)
    assert caught.value.final
    with listener(authority.issue("stranger", hosts=("elsewhere.example",))) as port:
        with pytest.raises(
            HandshakeFailed, match=r"is not for 127\.0\.0\.1: name the brokers in `bootstrap`"
        ):
            handshake(settings(authority), "127.0.0.1", port, 10)
        nameless = {**settings(authority), "ssl.endpoint.identification.algorithm": "none"}
        assert handshake(nameless, "127.0.0.1", port, 10) is not None
    other = Authority(tmp_path / "other")
    with listener(authority.issue("broker")) as port:
        with pytest.raises(HandshakeFailed, match=r"`ssl\.ca\.location`"):
            handshake(settings(other), "127.0.0.1", port, 10)
        assert "`ssl.ca.location`" in str(why_refused(settings(other), f"127.0.0.1:{port}", 10))
        assert why_refused(settings(authority), f"127.0.0.1:1,127.0.0.1:{port}", 10) is None
    with pytest.raises(HandshakeFailed, match=r"`ssl\.ca\.location`.* cannot be used"):
        handshake(
            settings(authority, **{"ssl.ca.location": "/nowhere/ca.pem"}), "127.0.0.1", port, 10
        )


def test_a_port_without_tls_is_told_and_is_not_for_ever(authority):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(HandshakeFailed, match="does not answer a TLS handshake") as caught:
            handshake(settings(authority), "127.0.0.1", port, 0.2)
        assert not caught.value.final
        assert why_refused(settings(authority), f"127.0.0.1:{port}", 0.2) is None


def test_a_listener_that_takes_another_mechanism_or_none_is_told_from_a_wrong_password():
    said = (
        "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's "
        "supported mechanisms: {} (after 2ms in state X)"
    )
    settings = {"sasl.mechanisms": "PLAIN", "security.protocol": "SASL_SSL"}
    assert "SCRAM-SHA-256,SCRAM-SHA-512." in login_remedy(
        settings, said.format("SCRAM-SHA-256,SCRAM-SHA-512")
    )
    assert "`SSL`" in login_remedy(settings, said.format(""))
