"""A certificate authority for servers on loopback, by trustme: keys and certificates as PEM files,
which Kafka and its clients both read."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from trustme import CA, KeyType

from shipper.whole_files import write_whole
from shipper_tools.dev.ports import LOOPBACK

#: Java refuses a certificate with an empty list of names.
_NO_HOST = ("nowhere.invalid",)


@dataclass(frozen=True)
class Certified:
    """Somebody's certificate and private key."""

    certificate: Path
    key: Path
    both: Path
    """In one file, as Kafka's PEM key stores want it."""

    def as_pkcs12(self, password: str) -> Path:
        certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        closed = BestAvailableEncryption(password.encode())
        store = self.certificate.with_suffix(".p12")
        key = _rsa_key(self.key.read_bytes())
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
        self.certificate, key = folder / "ca.pem", folder / "ca.key.pem"
        folder.mkdir(parents=True, exist_ok=True)
        if self.certificate.exists() and key.exists():
            self._ca = CA.from_pem(self.certificate.read_bytes(), key.read_bytes())
            return
        self._ca = CA(organization_unit_name="authority of shipper dev", key_type=KeyType.RSA)
        _write(key, self._ca.private_key_pem.bytes())
        self._ca.cert_pem.write_to_path(self.certificate)

    def issue(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = (LOOPBACK, "localhost"),
        ends: dt.timedelta = dt.timedelta(days=365),
    ) -> Certified:
        """For ``name`` (its CN, and the name of its files). ``hosts``: addresses and names that it
        is good for; ``ends``: from now, and may lie in the past."""
        until = dt.datetime.now(dt.UTC) + ends
        issued = self._ca.issue_cert(
            *(hosts or _NO_HOST),
            common_name=name,
            not_before=until - dt.timedelta(days=366),
            not_after=until,
            key_type=KeyType.RSA,
        )
        # Kafka reads keys as PKCS#8 only.
        key = _rsa_key(issued.private_key_pem.bytes()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        certificate = issued.cert_chain_pems[0].bytes()
        found = Certified(
            *(self._folder / f"{name}{end}" for end in (".pem", ".key.pem", ".both.pem"))
        )
        write_whole(str(found.certificate), certificate)
        _write(found.key, key)
        _write(found.both, key + certificate)
        return found


def _rsa_key(pem: bytes) -> rsa.RSAPrivateKey:
    key = load_pem_private_key(pem, None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


def _write(path: Path, secret: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(secret)
