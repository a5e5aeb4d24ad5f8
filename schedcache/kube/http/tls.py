"""TLS for one connection without asyncio's, which holds a buffer of 256 KiB for each: 32 MiB for the connections of a burst."""

import asyncio
import ssl
from typing import Any

_READ_BYTES = 65536


class TLSProtocol(asyncio.Protocol):
    """TLS as a client, between a TCP connection and the protocol that talks over it.

    Args:
        inner: meets this object as its transport, which has `seal`, `write`, `abort` and `get_extra_info`, once the server's
            certificate is accepted.
        context: decides about certificates and versions.
        server_hostname: the name that the certificate must have.

    Attributes:
        shaken: done when the handshake is. Ends with ssl.SSLError if the certificate is refused, and with OSError if the
            connection is lost before.
    """

    def __init__(self, inner: asyncio.Protocol, context: ssl.SSLContext, server_hostname: str) -> None:
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        self._transport: asyncio.Transport | None = None
        self.shaken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Whoever has given up waiting does not care how it ends.
        self.shaken.add_done_callback(lambda shaken: shaken.cancelled() or shaken.exception())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's transport is an asyncio.Transport
        self._shake_hands()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if not self.shaken.done():
            self._shake_hands()
        if self._is_open():
            self._pass_on()

    def eof_received(self) -> None:
        self._incoming.write_eof()
        if self._is_open():
            self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._is_open():
            self._inner.connection_lost(exc)
        elif not self.shaken.done():
            self.shaken.set_exception(
                exc or ConnectionResetError("the server closed the connection during the handshake")
            )

    def seal(self, data: bytes) -> bytes:
        """What to `write` for it, at once and before anything else; if it is not written, the connection is of no use any more.

        Apart from `write`, since it takes time and gives other threads their turn.
        """
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left) :]
        return self._outgoing.read()

    def write(self, sealed: bytes) -> None:
        """Send what `seal` has made; what is lost with the connection is told by `connection_lost`."""
        if self._transport is not None:
            self._transport.write(sealed)

    def get_extra_info(self, name: str) -> Any:
        """Of the connection, such as its socket; None for what there is not."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    def abort(self) -> None:
        """End the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def _is_open(self) -> bool:
        return self.shaken.done() and not self.shaken.cancelled() and self.shaken.exception() is None

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # the alert, which says to the server what is wrong
            self.shaken.set_exception(error)
            self.abort()
        else:
            self._flush()
            self._inner.connection_made(self)  # type: ignore[arg-type]  # as much of a transport as it uses
            self.shaken.set_result(None)

    def _pass_on(self) -> None:
        try:
            while self._transport is not None:
                data = self._tls.read(_READ_BYTES)
                if not data:
                    # The server is done, and waits for us to close as well.
                    self._transport.close()
                    self._inner.eof_received()
                    break
                self._inner.data_received(data)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self.abort()
        # Reading may have to be answered, as a change of keys is.
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())
