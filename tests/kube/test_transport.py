"""What answers mean, and who we are when we are refused."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
import yaml
from aiohttp import web

from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import RequestSettings
from schedcache.kube.sockets import probing_socket
from schedcache.ports import RefusedError, UnavailableError

PATH = "/api/v1/x"


class Guarded:
    """Answers 200 to whoever has the token of the hour, and 401 to all others; or what `status` says."""

    def __init__(self, folder):
        self.kubeconfig = folder / "kubeconfig"
        self.token = "first"
        self.proxy = ""
        self.status = 200
        self.answered = []

    @asynccontextmanager
    async def serving(self):
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self.give(self.token)
        try:
            async with Transport(load_credentials(self.kubeconfig)) as transport:
                yield transport
        finally:
            await runner.cleanup()

    def give(self, token):
        """What is in the kubeconfig from now on."""
        content = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "a", "user": "u"}}],
            "clusters": [{"name": "a", "cluster": {"server": self.url, "proxy-url": self.proxy}}],
            "users": [{"name": "u", "user": {"token": token}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(content))

    async def answer(self, request):
        await request.read()
        await asyncio.sleep(0.02)  # so that several are refused at a time
        status = self.status if request.headers["Authorization"] == f"Bearer {self.token}" else 401
        self.answered.append(status)
        return web.json_response({}, status=status, headers={"Location": "/elsewhere"} if status == 302 else {})


@pytest.fixture
def server(tmp_path):
    return Guarded(tmp_path)


async def ask(transport, method):
    return await (transport.get(PATH) if method == "GET" else transport.send(method, PATH, b"{}"))


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
@pytest.mark.parametrize("status", [302, 304])
async def test_a_redirection_is_no_success(server, method, status):
    """Nobody follows it, so what was asked for has not been done: a pod would be taken for bound."""
    async with server.serving() as transport:
        server.status = status
        with pytest.raises(RefusedError, match=str(status)) as caught:
            await ask(transport, method)
        assert caught.value.status == status


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_all_who_are_refused_at_a_time_wait_for_the_new_token(server, method):
    async with server.serving() as transport:
        server.token = "second"
        server.give("second")
        await asyncio.gather(*(ask(transport, method) for _ in range(20)))
        assert server.answered == [401] * 20 + [200] * 20
        assert not transport.unauthorized


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_it_is_known_that_nobody_lets_us_in(server, method):
    async with server.serving() as transport:
        assert not transport.unauthorized
        server.token = "second"
        with pytest.raises(RefusedError, match="401"):
            await ask(transport, method)
        assert transport.unauthorized
        server.token = "first"
        await ask(transport, method)
        assert not transport.unauthorized


async def watch(transport):
    async with transport.stream(PATH, {}, 5.0) as body:
        return await body.read()


@pytest.mark.parametrize("method", ["GET", "POST", "WATCH"])
async def test_a_proxy_that_opens_no_way_is_given_up_in_time(tmp_path, method):
    """Such a watch would have waited for ever. Nothing was sent, so that a write is not in doubt."""

    async def say_nothing(reader, writer):
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as proxy:
        server = Guarded(tmp_path)
        server.url = "https://api.invalid"
        server.proxy = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        server.give("t")
        async with (
            asyncio.timeout(10),
            Transport(load_credentials(server.kubeconfig), RequestSettings(connect_timeout_seconds=0.2)) as transport,
        ):
            with pytest.raises(UnavailableError, match="Connection timeout"):
                await (watch(transport) if method == "WATCH" else ask(transport, method))
        await asyncio.sleep(0.05)  # until both ends are closed


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="asks Linux's options back")
async def test_a_connection_asks_for_a_sign_of_life_before_a_minute_is_over(server, monkeypatch):
    """A watch whose other end is gone without a word would else be taken for a silent one."""
    made = []
    monkeypatch.setattr(
        "schedcache.kube.http.transport.probing_socket",
        lambda address: made.append(probing_socket(address)) or made[-1],
    )
    async with server.serving() as transport:
        await watch(transport)
        (found,) = made
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        idle, interval, count = (found.getsockopt(socket.IPPROTO_TCP, option) for option in options)
        assert idle + interval * count == 25
