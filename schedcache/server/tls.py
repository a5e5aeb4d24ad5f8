"""What a TLS connection is opened with: the certificate and the authorities of clients, as they are at that moment."""

import asyncio
import hashlib
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from schedcache.server.certificates import (
    CertificateError,
    KeyPair,
    read_pair,
    self_signed,
    store,
    stored_pair,
)
from schedcache.server.secure_settings import CIPHER_SUITES, TLSSettings

_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
_RENEWED_AFTER = 2 / 3
_DAY = 86400.0
log = structlog.get_logger(__name__)


class TLSContexts:
    """The context for the next connection; those that are open keep theirs.

    Args:
        settings: the certificate, and how connections are encrypted.
        authorities: of client certificates, as PEM, as they are now; "" for none, and then no client is asked for one.
        wall_clock: seconds since 1970.

    Attributes:
        current: the context.
        expires_at: when the certificate does, in seconds since 1970.

    Raises CertificateError if there is no certificate to begin with.
    """

    def __init__(
        self, settings: TLSSettings, authorities: Callable[[], str], wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._authorities = authorities
        self._wall_clock = wall_clock
        self._own: KeyPair | None = None
        self._digest = b""
        self._warned = 0.0
        self.expires_at = 0.0
        self._files = self._files_of(settings)
        self.current = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load()

    def refresh(self) -> None:
        """Look whether anything has changed. What cannot be used changes nothing, and is told in the log."""
        try:
            self._load()
        except CertificateError as error:
            log.warning(
                "the certificate or an authority of clients cannot be used, keeping the last ones", error=str(error)
            )
        left = self.expires_at - self._wall_clock()
        if left < self._settings.warning_days * _DAY and self._wall_clock() - self._warned > _DAY:
            self._warned = self._wall_clock()
            log.warning("the certificate of the HTTPS port expires", days=round(left / _DAY, 1))

    async def run(self) -> None:
        """Look from time to time, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.look_seconds)
            await asyncio.to_thread(self.refresh)

    def _load(self) -> None:
        pair, authorities = self._pair(), self._authorities()
        digest = hashlib.sha256(repr((pair, authorities)).encode()).digest()
        if digest == self._digest:
            return
        self.current = make_context(self._settings, pair, authorities)
        if self._digest and pair.expires_at != self.expires_at:
            log.info("serving with another certificate")
        self._digest, self.expires_at = digest, pair.expires_at

    def _pair(self) -> KeyPair:
        if self._files is not None:
            return read_pair(*self._files)
        now, days = self._wall_clock(), self._settings.self_signed_days
        if self._own is None or now > self._own.expires_at - (1 - _RENEWED_AFTER) * days * _DAY:
            self._own = self_signed(now, days)
        return self._own

    def _files_of(self, settings: TLSSettings) -> tuple[Path, Path] | None:
        if settings.cert_file is not None and settings.private_key_file is not None:
            return settings.cert_file, settings.private_key_file
        if settings.cert_dir is None:
            return None
        files = stored_pair(settings.cert_dir)
        if not any(file.exists() for file in files):
            store(self_signed(self._wall_clock(), settings.self_signed_days), settings.cert_dir)
        return files


def make_context(settings: TLSSettings, pair: KeyPair, authorities: str) -> ssl.SSLContext:
    """Raises CertificateError for what OpenSSL does not take."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    # Every connection says anew who it is: the chain of a resumed session is not known any more.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    suites = [name for name in map(CIPHER_SUITES.__getitem__, settings.cipher_suites) if name]
    if suites:
        context.set_ciphers(":".join(suites))
    try:
        with _as_file(pair.certificate + b"\n" + pair.key) as path:
            # Without the last argument, OpenSSL would ask the terminal for the password of a key that has one.
            context.load_cert_chain(path, password=str)
        if authorities:
            context.load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"not usable: {getattr(error, 'reason', None) or error}") from error
    # As Go has it: each authority in the list is trusted, be it a root or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = ssl.CERT_OPTIONAL if authorities else ssl.CERT_NONE
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """OpenSSL reads keys from files only; where the system can, this one is on no disk, as the root of a pod may be read-only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        path = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield path
    finally:
        if not hasattr(os, "memfd_create"):
            Path(path).unlink()
