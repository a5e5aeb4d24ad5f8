"""Connections that notice when the other end is gone."""

import socket
import struct
from typing import Any

PROBES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds of silence before the kernel probes, seconds between probes, and how many may go unanswered: 25 s in all."""


def probing_socket(address: tuple[Any, ...]) -> socket.socket:
    """A TCP socket with keepalive, for `aiohttp.TCPConnector`'s `socket_factory`; `address` as from getaddrinfo.

    A watch may be silent for a minute although all is well. If the network drops everything, or the machine at the other end
    disappears, nothing else would show it before that minute is over.
    """
    family, kind, protocol, *_ = address
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        # Not every system supports all of them.
        if (option := getattr(socket, name, None)) is not None:
            found.setsockopt(socket.IPPROTO_TCP, option, value)
    return found


_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)
_AT_ONCE, _IN_ITS_TIME = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)


def deliver_within(connection: socket.socket | None, seconds: float) -> None:
    """Give up the connection if what was written to it has not arrived by then, which the kernel sees to by itself.

    A network that is cut and comes back would have it deliver a request minutes later, even for a process that is stopped.
    """
    if connection is not None and _USER_TIMEOUT is not None:
        connection.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, max(1, round(seconds * 1000)))


def withdraw_on_close(connection: socket.socket | None, *, wanted: bool = True) -> None:
    """When the connection is closed, what has not arrived is dropped. Otherwise the kernel would go on trying to deliver it.

    `wanted=False` takes that back.
    """
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE if wanted else _IN_ITS_TIME)
