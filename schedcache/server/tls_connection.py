"""TLS of one connection as a server, without asyncio's: that admits nobody before the handshake, and holds 256 KiB for each."""

import asyncio
import hashlib
import ssl
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from itertools import chain
from typing import Any, NamedTuple, cast

_READ_BYTES = 65536
_PLAIN = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
"""As Go's server answers."""


class ClientCertificate(NamedTuple):
    """A certificate that was verified when the connection was opened.

    Attributes:
        common_name: of its subject, "" for none.
        organizations: of its subject.
        fingerprint: SHA-256 of its DER, in hex.
        not_after: seconds since 1970.
        authority: the certificate, in DER, that it was verified with.
    """

    common_name: str
    organizations: tuple[str, ...]
    fingerprint: str
    not_after: float
    authority: bytes


class TLSConnection(asyncio.Transport, asyncio.Protocol):
    """The protocol of a TCP connection, and the transport of the protocol that talks over it.

    The inner protocol meets its transport at once, so that it counts the connection and ends one whose handshake takes too long.

    Args:
        inner: what talks over it.
        context: decides about certificates and versions.
        turn: a handshake is done inside this, since that is most of what a connection costs.
        failed: called when a handshake fails.
    """

    def __init__(
        self,
        inner: asyncio.Protocol,
        context: ssl.SSLContext,
        turn: AbstractAsyncContextManager[Any],
        failed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._inner = inner
        self._context = context
        self._turn = turn
        self._failed = failed
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._tcp: asyncio.Transport | None = None
        self._shaken = False
        self._shaking: asyncio.Task[None] | None = None
        self._client: ClientCertificate | None = None
        self._inner_reads = True

    # The protocol of the TCP connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tcp = transport  # type: ignore[assignment]  # a stream's transport is an asyncio.Transport
        self._inner.connection_made(self)

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if self._shaken:
            self._pass_on()
        elif self._shaking is None:
            self._shaking = asyncio.create_task(self._shake_hands(), name="TLS handshake")

    def eof_received(self) -> None:
        """The TCP connection is closed then, as for every protocol that says nothing."""
        self._incoming.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tcp = None
        if self._shaking is not None:
            self._shaking.cancel()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    async def _shake_hands(self) -> None:
        if self._tcp is not None:
            self._tcp.pause_reading()
        async with self._turn:
            if self._tcp is not None:
                self._step()
        self._shaking = None
        if self._tcp is not None and self._inner_reads:
            self._tcp.resume_reading()

    def _step(self) -> None:
        try:
            self._tls.do_handshake()
            self._client = _client_of(self._tls)
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._failed()
            if error.reason == "HTTP_REQUEST" and self._tcp is not None:
                self._tcp.write(_PLAIN)
            else:
                self._flush()  # the alert, which says to the client what is wrong
            if self._tcp is not None:
                self._tcp.close()
        else:
            self._shaken = True
            self._flush()
            self._pass_on()

    def _pass_on(self) -> None:
        try:
            while self._tcp is not None:
                data = self._tls.read(_READ_BYTES)
                if not data:
                    # The client is done, and waits for us to close as well.
                    self.close()
                    break
                self._inner.data_received(data)
        except ssl.SSLWantReadError:
            # Reading may have to be answered, as a change of keys is.
            self._flush()
        except ssl.SSLError:
            # What came is not TLS.
            self.abort()

    # The transport of the inner protocol.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._shaken or self._tcp is None:
            return
        left = memoryview(data)
        try:
            while left:
                left = left[self._tls.write(left) :]
        except ssl.SSLError:
            self.abort()
        self._flush()

    def close(self) -> None:
        if self._tcp is None or self._tcp.is_closing():
            return
        if self._shaken:
            # An error says that the client has not said goodbye as well, which nobody waits for.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        self._tcp.close()

    def abort(self) -> None:
        if self._tcp is not None:
            self._tcp.abort()

    def is_closing(self) -> bool:
        return self._tcp is None or self._tcp.is_closing()

    def pause_reading(self) -> None:
        self._inner_reads = False
        if self._tcp is not None:
            self._tcp.pause_reading()

    def resume_reading(self) -> None:
        self._inner_reads = True
        # A handshake that waits for its turn has enough to work on.
        if self._tcp is not None and self._shaking is None:
            self._tcp.resume_reading()

    def get_write_buffer_size(self) -> int:
        return 0 if self._tcp is None else self._tcp.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the TCP connection, and besides `sslcontext`, `ssl_object` and `client_certificate` (a ClientCertificate or None)."""
        if name == "client_certificate":
            return self._client
        if name == "sslcontext":
            return self._context
        if name == "ssl_object":
            return self._tls
        return default if self._tcp is None else self._tcp.get_extra_info(name, default)

    def _flush(self) -> None:
        if self._outgoing.pending and self._tcp is not None:
            self._tcp.write(self._outgoing.read())


def _client_of(tls: ssl.SSLObject) -> ClientCertificate | None:
    """Who the client is; only what OpenSSL has verified is looked at."""
    der, found = tls.getpeercert(binary_form=True), tls.getpeercert()
    if not der or not found:
        return None
    subject: dict[str, list[str]] = {}
    parts = cast("Iterable[Iterable[tuple[str, str]]]", found["subject"])
    for name, value in chain.from_iterable(parts):
        subject.setdefault(name, []).append(value)
    return ClientCertificate(
        common_name=(subject.get("commonName") or [""])[-1],
        organizations=tuple(subject.get("organizationName", ())),
        fingerprint=hashlib.sha256(der).hexdigest(),
        not_after=ssl.cert_time_to_seconds(str(found["notAfter"])),
        authority=_verified_chain(tls)[-1],
    )


def _verified_chain(tls: ssl.SSLObject) -> list[bytes]:
    """From the client's certificate to the authority's, DER."""
    if sys.version_info >= (3, 13):
        return tls.get_verified_chain()
    # Before, only the object behind it has the method.
    verified = tls._sslobj.get_verified_chain()  # type: ignore[attr-defined]  # noqa: SLF001  likewise
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in verified]
