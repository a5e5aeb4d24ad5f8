"""A port of a pod, reached through the API server: over a WebSocket with one channel for data and one for errors."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp
from yarl import URL

from schedcache import __version__
from schedcache.kube.http.credentials import Access

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_PORT_BYTES = 2
"""The first message of each channel is the port, in two bytes."""
_READ_BYTES = 65536
_OPEN_SECONDS = 15.0


class PortForwardError(Exception):
    """The way to the pod could not be opened, or was lost; the message says why."""


class PortForward:
    """The way to a port of a pod, as a port of loopback: `port`, for as long as the block of `port_forward` lasts.

    Attributes:
        port: on 127.0.0.1. Each connection to it becomes one to the pod.
        error: what the pod's node said last, "" for nothing.
    """

    def __init__(self, session: aiohttp.ClientSession, access: Access, path: str) -> None:
        self.port = 0
        self.error = ""
        self._session = session
        self._access = access
        self._url = URL(access.server + path, encoded=True)

    async def open(self) -> aiohttp.ClientWebSocketResponse:
        """A new connection to the pod. Raises PortForwardError."""
        access = self._access
        headers = {"Authorization": access.authorization} if access.authorization else {}
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                return await self._session.ws_connect(
                    self._url,
                    protocols=(_PROTOCOL,),
                    headers=headers,
                    ssl=access.ssl_context or True,
                    server_hostname=access.server_hostname,
                    proxy=access.proxy,
                    max_msg_size=0,
                )
        except aiohttp.WSServerHandshakeError as error:
            raise PortForwardError(f"the API server answers {error.status} to the port-forward") from error
        except (aiohttp.ClientError, OSError) as error:
            raise PortForwardError(f"no port-forward: {str(error) or type(error).__name__}") from error

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection to the local port, until either side ends it."""
        try:
            socket = await self.open()
        except PortForwardError as error:
            self.error = str(error)
            writer.transport.abort()
            return
        async with socket:
            sending = asyncio.create_task(_send(reader, socket))
            try:
                await self._receive(socket, writer)
            finally:
                sending.cancel()
                await asyncio.wait([sending])
                writer.close()

    async def _receive(self, socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
        begun: set[int] = set()
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel not in begun:
                begun.add(channel)
                data = data[_PORT_BYTES:]
            if not data:
                continue
            if channel == _ERROR:
                self.error = data.decode("utf-8", "replace").strip()
            elif channel == _DATA:
                writer.write(data)
                with suppress(ConnectionError):
                    await writer.drain()


async def _send(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    with suppress(ConnectionError, aiohttp.ClientError):
        while data := await reader.read(_READ_BYTES):
            await socket.send_bytes(bytes([_DATA]) + data)


@asynccontextmanager
async def port_forward(access: Access, namespace: str, pod: str, port: int) -> AsyncIterator[PortForward]:
    """Forward a port of a pod. Raises PortForwardError if there is no way.

    Needs the right to get `pods/portforward`, as a WebSocket begins with a GET, and from Kubernetes 1.35 that to create it.
    """
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward?ports={port}"
    async with AsyncExitStack() as stack:
        headers = {"User-Agent": f"schedcache/{__version__}"}
        session = await stack.enter_async_context(aiohttp.ClientSession(headers=headers))
        forward = PortForward(session, access, path)
        # Whether there is a way shows now, and not in the middle of something else.
        await (await forward.open()).close()
        server = await asyncio.start_server(forward.serve, "127.0.0.1", 0)
        stack.callback(server.close)
        forward.port = server.sockets[0].getsockname()[1]
        yield forward
