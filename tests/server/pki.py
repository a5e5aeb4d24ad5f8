"""Certificates for tests: authorities, clients, servers, expired ones."""

import datetime as dt
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Signed(NamedTuple):
    """A certificate and its key, as files in PEM."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that keeps its files in a folder."""

    def __init__(self, folder, name="authority"):
        self.folder = folder
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = subject_of(name)
        certificate = self._sign(self._subject, self._key.public_key(), days=30, authority=True)
        self.file = folder / f"{name}.crt"
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)
        self.file.write_bytes(self.pem)

    def client(self, name, *organizations, days=30):
        return self._issue(subject_of(name, *organizations), name, days, ExtendedKeyUsageOID.CLIENT_AUTH)

    def server(self, name="server", days=30):
        return self._issue(subject_of(name), name, days, ExtendedKeyUsageOID.SERVER_AUTH)

    def _issue(self, subject, name, days, usage):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(subject, key.public_key(), days=days, usage=usage)
        stem = self.folder / f"{self.name}-{name.replace(':', '-')}"
        files = Signed(stem.with_suffix(".crt"), stem.with_suffix(".key"))
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        files.key.write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
        return files

    def _sign(self, subject, public_key, *, days, usage=None, authority=False):
        now = dt.datetime.now(dt.UTC)
        begin = now - dt.timedelta(days=max(1, 1 - days))
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(now + dt.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if usage is not None:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def subject_of(name, *organizations):
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def trusting(authority=None, client=None):
    """What a client connects with; without an authority it takes any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(authority)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    return context
