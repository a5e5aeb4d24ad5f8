"""Connections that find out by themselves when nobody is at the other end any more."""

import socket
from typing import Any

PROBES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds of silence before the kernel asks, seconds between its questions, and how many may go unanswered: 25 s in all."""


def probing_socket(address: tuple[Any, ...]) -> socket.socket:
    """A TCP socket with keepalive, for `aiohttp.TCPConnector`'s `socket_factory`; `address` as from getaddrinfo.

    A watch may be silent for a minute although all is well. Where the network swallows everything, or the machine at the other
    end is gone without a word, nothing else would tell the difference before that minute is over.
    """
    family, kind, protocol, *_ = address
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        # Not every system lets each of them be set.
        if (option := getattr(socket, name, None)) is not None:
            found.setsockopt(socket.IPPROTO_TCP, option, value)
    return found
