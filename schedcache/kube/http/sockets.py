"""Connections that notice when the other end is gone."""

import socket
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
