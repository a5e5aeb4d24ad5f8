"""The certificate of the HTTPS port: from files, or made by this process."""

import ipaddress
import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CERTIFICATE_FILE, KEY_FILE = "schedcache.crt", "schedcache.key"
_CLOCK_SKEW = timedelta(hours=1)


class CertificateError(ValueError):
    """A certificate, key or authority that cannot be used; the message names the file."""


class KeyPair(NamedTuple):
    """PEM. `expires_at` is in seconds since 1970."""

    certificate: bytes
    key: bytes
    expires_at: float


def read_pair(certificate_file: Path, key_file: Path) -> KeyPair:
    """Raises CertificateError; that the two belong together shows when they are used."""
    certificate, key = read_file(certificate_file), read_file(key_file)
    try:
        leaf = x509.load_pem_x509_certificate(certificate)
    except (ValueError, x509.InvalidVersion) as error:
        raise CertificateError(f"{certificate_file}: expected a certificate in PEM: {error}") from error
    return KeyPair(certificate, key, leaf.not_valid_after_utc.timestamp())


def read_file(path: Path) -> bytes:
    """Raises CertificateError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from error


def self_signed(now: float, days: float) -> KeyPair:
    """For this host by its name and for loopback, valid from an hour before `now` (seconds since 1970)."""
    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname()
    begin = datetime.fromtimestamp(now, UTC)
    end = begin + timedelta(days=days)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"schedcache@{int(now)}")])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    if host.isascii() and host != "localhost":
        names.append(x509.DNSName(host))
    names += [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "::1")]
    usage = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - _CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # An authority, so that whoever has it can trust it as one: curl --cacert, and Prometheus' ca_file.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        end.timestamp(),
    )


def stored_pair(folder: Path) -> tuple[Path, Path]:
    """Where a pair is in a folder: certificate, key."""
    return folder / CERTIFICATE_FILE, folder / KEY_FILE


def store(pair: KeyPair, folder: Path) -> None:
    """Write a pair where `stored_pair` looks for it, the key for this user only. Raises CertificateError."""
    certificate, key = stored_pair(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pair.key)
        certificate.write_bytes(pair.certificate)
    except OSError as error:
        raise CertificateError(f"{folder}: {error.strerror}") from error
