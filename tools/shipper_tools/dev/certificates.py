"""A certificate authority of one's own, for servers on loopback: keys and certificates as PEM files, which Kafka and its clients both read."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from shipper_tools.dev.ports import LOOPBACK

_DAYS = 365
_KEY_BITS = 2048


@dataclass(frozen=True)
class Certified:
    """Somebody's certificate and private key."""

    certificate: Path
    key: Path
    both: Path
    """In one file, as Kafka's PEM key stores want it."""

    def as_pkcs12(self, password: str) -> Path:
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        closed = serialization.BestAvailableEncryption(password.encode())
        store = self.certificate.with_suffix(".p12")
        _write(store, pkcs12.serialize_key_and_certificates(b"own", key, certificate, None, closed))
        return store


class Authority:
    """::

        authority = Authority(tmp_path)
        broker = authority.issue("broker", hosts=["127.0.0.1"])

    Made on first use, and found again in its folder afterwards.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate = folder / "ca.pem"
        self._key_file = folder / "ca.key.pem"
        folder.mkdir(parents=True, exist_ok=True)
        if self.certificate.exists() and self._key_file.exists():
            loaded = serialization.load_pem_private_key(self._key_file.read_bytes(), None)
            assert isinstance(loaded, rsa.RSAPrivateKey)
            self._key = loaded
            self._own = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            return
        self._key = new_key()
        name = _name("authority of shipper dev")
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        self._own = (
            _builder(name, name, self._key.public_key(), _now(), _now() + dt.timedelta(days=10 * _DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        _write(self._key_file, private_pem(self._key))
        self.certificate.write_bytes(self._own.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, name: str, *, hosts: tuple[str, ...] = (LOOPBACK, "localhost"), ends: dt.timedelta = dt.timedelta(days=_DAYS)
    ) -> Certified:
        """For ``name`` (its CN, and the name of its files). ``hosts``: addresses and names that it is good for; ``ends``: from now, and may lie in
        the past."""
        key, now = new_key(), _now()
        names = [x509.IPAddress(ipaddress.ip_address(h)) if _is_address(h) else x509.DNSName(h) for h in hosts]
        builder = _builder(
            _name(name), self._own.subject, key.public_key(), min(now, now + ends - dt.timedelta(days=1)), now + ends
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        found = Certified(*(self._folder / f"{name}{end}" for end in (".pem", ".key.pem", ".both.pem")))
        found.certificate.write_bytes(signed)
        _write(found.key, private_pem(key))
        _write(found.both, private_pem(key) + signed)
        return found


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)


def private_pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey, begins: dt.datetime, ends: dt.datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    # A minute ago: two machines' clocks differ.
    return builder.not_valid_before(begins - dt.timedelta(minutes=1)).not_valid_after(ends)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _write(path: Path, secret: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(secret)
