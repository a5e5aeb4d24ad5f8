"""The HTTPS port: its certificate, how connections begin, and who they say they are."""

import asyncio
import contextlib
import ssl
import stat
import time
import tracemalloc

import aiohttp
import pytest
from aiohttp import web

from schedcache.app.serving import serve
from schedcache.server.certificates import CertificateError, self_signed, store
from schedcache.server.health import Health
from schedcache.server.limits import ServingSettings
from schedcache.server.secure_settings import CIPHER_SUITES, TLSSettings
from schedcache.server.share import ProcessorShare
from schedcache.server.stats import ServingStats
from schedcache.server.tls import TLSContexts, make_context
from schedcache.server.tls_connection import TLSConnection
from schedcache.testing import wait_until
from tests.server.pki import Authority, trusting

NOW = time.time()
LARGE = b"x" * 3_000_000


class SecurePort:
    """A served port; `/who` says what is known of the client's certificate."""

    def __init__(self, tls=None, authorities="", **settings):
        self.authorities = authorities
        self.contexts = TLSContexts(tls or TLSSettings(), lambda: self.authorities)
        self.settings = ServingSettings(**settings)
        self.stats = ServingStats()
        self.held = asyncio.Event()

    async def __aenter__(self):
        async def who(request):
            client = request.transport.get_extra_info("client_certificate")
            return web.json_response(None if client is None else [client.common_name, *client.organizations])

        async def large(request):
            return web.Response(body=LARGE)

        async def held(request):
            await self.held.wait()
            return web.Response(text="held")

        async def echo(request):
            return web.Response(body=await request.read())

        routes = [web.get("/who", who), web.get("/large", large), web.get("/held", held), web.post("/echo", echo)]
        share = ProcessorShare(lambda: False, 0.05)
        routes += Health([("fine", lambda: "")], []).routes()
        self._serving = serve(
            routes, "127.0.0.1", 0, "--port", settings=self.settings, stats=self.stats, share=share, tls=self.contexts
        )
        self.port = await self._serving.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self._serving.__aexit__(*error)

    @contextlib.asynccontextmanager
    async def session(self, authority=None, client=None):
        connector = aiohttp.TCPConnector(ssl=trusting(authority, client))
        async with aiohttp.ClientSession(f"https://127.0.0.1:{self.port}", connector=connector) as session:
            yield session

    async def text(self, path, authority=None, client=None):
        async with self.session(authority, client) as session, session.get(path) as answer:
            assert answer.status == 200
            return await answer.text()

    async def certificate(self):
        """What the port shows to a new connection, PEM."""
        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", self.port))


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


async def test_without_files_it_has_a_certificate_of_its_own_that_can_be_trusted(tmp_path):
    async with SecurePort() as port:
        shown = tmp_path / "shown.crt"
        shown.write_text(await port.certificate())
        assert await port.text("/livez", authority=shown) == "ok"
        assert port.contexts.expires_at - time.time() > 300 * 86400


async def test_large_answers_and_bodies_go_through(authority):
    async with SecurePort() as port, port.session() as session:
        async with session.get("/large") as answer:
            assert await answer.read() == LARGE
        async with session.post("/echo", data=LARGE[:1_000_000]) as answer:
            assert await answer.read() == LARGE[:1_000_000]


@pytest.mark.parametrize(
    ("first", "second"), [(ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2), (ssl.TLSVersion.TLSv1_3,) * 2]
)
async def test_both_versions_are_spoken(first, second):
    async with SecurePort() as port:
        context = trusting()
        context.minimum_version, context.maximum_version = first, second
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=context)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\nok")
        writer.close()


async def test_older_versions_than_asked_for_are_refused_and_counted():
    async with SecurePort(TLSSettings(min_version="VersionTLS13")) as port:
        context = trusting()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("127.0.0.1", port.port, ssl=context)
        assert port.stats.handshakes_failed["main"] == 1
        assert await port.text("/livez") == "ok"


async def test_http_without_tls_is_told_so():
    async with SecurePort() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: test\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.0 400 Bad Request\r\n")
        assert b"HTTP request to an HTTPS server" in answer
        writer.close()


async def test_who_opens_a_connection_and_shakes_no_hands_is_not_waited_for():
    async with SecurePort(head_seconds=0.5) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
        async with asyncio.timeout(3):
            assert await reader.read() == b""
        writer.close()
        assert port.stats.cut["main", "head"] == 1


async def test_connections_without_a_handshake_take_the_place_of_no_one_at_work():
    async with SecurePort(connections=3) as port, port.session() as session:
        work = asyncio.create_task(session.get("/held"))

        async def at_work():
            return port.stats.connections["main"] == 1

        await wait_until(at_work, 5)
        await asyncio.sleep(0.2)
        idle = [await asyncio.open_connection("127.0.0.1", port.port) for _ in range(20)]
        await asyncio.sleep(0.2)
        assert port.stats.connections["main"] <= 3
        assert await port.text("/livez") == "ok"
        port.held.set()
        async with await work as answer:
            assert await answer.text() == "held"
        for _, writer in idle:
            writer.transport.abort()


async def test_garbage_in_place_of_a_handshake_or_after_it_ends_the_connection():
    async with SecurePort() as port:
        for _ in range(50):
            reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
            writer.write(bytes(range(256)) * 10)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        assert port.stats.handshakes_failed["main"] == 50
        assert await port.text("/livez") == "ok"

        async def closed():
            return port.stats.connections["main"] == 0

        await wait_until(closed, 5)


async def test_another_certificate_is_shown_to_new_connections_and_the_old_ones_go_on(authority, tmp_path):
    files = authority.server()
    tls = TLSSettings(cert_file=files.certificate, private_key_file=files.key)
    async with SecurePort(tls) as port, port.session(authority.file) as session:
        async with session.get("/livez") as answer:
            assert answer.status == 200
        under_way = asyncio.create_task(session.get("/held"))
        before = await port.certificate()
        other = Authority(tmp_path, "other")
        renewed = other.server()
        files.certificate.write_bytes(renewed.certificate.read_bytes())
        port.contexts.refresh()
        # Half a rotation: the key does not belong to the certificate yet.
        assert await port.certificate() == before
        files.key.write_bytes(renewed.key.read_bytes())
        port.contexts.refresh()
        assert await port.certificate() != before
        assert await port.text("/livez", authority=other.file) == "ok"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await port.text("/livez", authority=authority.file)
        port.held.set()
        async with await under_way as answer:
            assert await answer.text() == "held"


async def test_files_are_looked_at_by_themselves(authority, tmp_path):
    files = authority.server()
    tls = TLSSettings(cert_file=files.certificate, private_key_file=files.key, look_seconds=0.05)
    async with SecurePort(tls) as port:
        looking = asyncio.create_task(port.contexts.run())
        before = await port.certificate()
        authority.server()

        async def renewed():
            return await port.certificate() != before

        await wait_until(renewed, 5)
        looking.cancel()


async def test_an_expired_certificate_is_shown_until_there_is_another(authority):
    files = authority.server(days=-1)
    async with SecurePort(TLSSettings(cert_file=files.certificate, private_key_file=files.key)) as port:
        with pytest.raises(aiohttp.ClientConnectorCertificateError, match="expired"):
            await port.text("/livez", authority=authority.file)
        authority.server()
        port.contexts.refresh()
        assert await port.text("/livez", authority=authority.file) == "ok"


def test_our_own_certificate_is_renewed_in_time():
    now = NOW
    contexts = TLSContexts(TLSSettings(self_signed_days=30), str, lambda: now)
    first = contexts.expires_at
    now = NOW + 19 * 86400
    contexts.refresh()
    assert contexts.expires_at == first
    now = NOW + 21 * 86400
    contexts.refresh()
    assert contexts.expires_at == pytest.approx(now + 30 * 86400, abs=2)


def test_a_pair_in_a_folder_is_made_once_and_its_key_is_for_its_owner_alone(tmp_path):
    folder = tmp_path / "certs"
    settings = TLSSettings(cert_dir=folder)
    first = TLSContexts(settings, str).expires_at
    assert stat.S_IMODE((folder / "schedcache.key").stat().st_mode) == 0o600
    time.sleep(1.1)
    assert TLSContexts(settings, str).expires_at == first
    store(self_signed(NOW, 10), folder)
    assert TLSContexts(settings, str).expires_at != first


def test_what_cannot_be_used_is_named(tmp_path, authority):
    files = authority.server()
    (tmp_path / "empty.crt").write_text("")
    der = ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
    version_3, version_18 = (b"\xa0\x03\x02\x01" + bytes([number]) for number in (2, 17))
    (tmp_path / "version.crt").write_text(ssl.DER_cert_to_PEM_cert(der.replace(version_3, version_18, 1)))
    for cert_file, key_file, says in [
        (tmp_path / "none.crt", files.key, "none.crt: No such file"),
        (tmp_path / "empty.crt", files.key, "empty.crt: expected a certificate in PEM"),
        (tmp_path / "version.crt", files.key, "version.crt: expected a certificate in PEM"),
        (files.certificate, authority.server("other").key, "KEY_VALUES_MISMATCH"),
    ]:
        with pytest.raises(CertificateError, match=says):
            TLSContexts(TLSSettings(cert_file=cert_file, private_key_file=key_file), str)


def test_suites_have_the_names_that_openssl_knows():
    names = tuple(CIPHER_SUITES)
    context = make_context(TLSSettings(cipher_suites=names), self_signed(NOW, 1), "")
    offered = {suite["name"] for suite in context.get_ciphers()}
    assert {name for name in CIPHER_SUITES.values() if name} <= offered
    one = make_context(TLSSettings(cipher_suites=(names[4],)), self_signed(NOW, 1), "")
    older = {suite["name"] for suite in one.get_ciphers() if not suite["name"].startswith("TLS_")}
    assert older == {CIPHER_SUITES[names[4]]}


async def test_a_client_certificate_says_who_it_is(authority):
    client = authority.client("jane", "team-a", "team-b")
    async with SecurePort(authorities=authority.pem.decode()) as port:
        assert await port.text("/who", client=client) == '["jane", "team-a", "team-b"]'
        assert await port.text("/who") == "null"


@pytest.mark.parametrize("which", ["unknown", "expired", "a server's"])
async def test_a_certificate_that_is_not_valid_ends_the_handshake(authority, tmp_path, which):
    client = {
        "unknown": lambda: Authority(tmp_path, "unknown").client("jane"),
        "expired": lambda: authority.client("jane", days=-1),
        "a server's": authority.server,
    }[which]()
    async with SecurePort(authorities=authority.pem.decode()) as port:
        with pytest.raises(aiohttp.ClientError):
            await port.text("/who", client=client)
        assert port.stats.handshakes_failed["main"] >= 1
        assert await port.text("/who") == "null"


async def test_authorities_of_clients_change_for_new_connections(authority, tmp_path):
    other = Authority(tmp_path, "other")
    jane, joe = authority.client("jane"), other.client("joe")
    async with SecurePort(authorities=authority.pem.decode()) as port:
        port.authorities = other.pem.decode()
        port.contexts.refresh()
        assert await port.text("/who", client=joe) == '["joe"]'
        with pytest.raises(aiohttp.ClientError):
            await port.text("/who", client=jane)
        port.authorities = "no PEM at all"
        port.contexts.refresh()
        assert await port.text("/who", client=joe) == '["joe"]'


async def test_a_handshake_waits_for_its_turn():
    """It is most of what a connection costs, so it has to come out of the share that answers may take."""
    free, turns = asyncio.Event(), 0

    @contextlib.asynccontextmanager
    async def turn():
        nonlocal turns
        turns += 1
        await free.wait()
        yield

    class Turns:
        def __aenter__(self):
            self.turn = turn()
            return self.turn.__aenter__()

        def __aexit__(self, *error):
            return self.turn.__aexit__(*error)

    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data)

        def connection_lost(self, exc):
            lost.set()

    lost = asyncio.Event()
    context = make_context(TLSSettings(), self_signed(NOW, 1), "")
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: TLSConnection(Echo(), context, Turns(), list), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        opening = asyncio.create_task(asyncio.open_connection("127.0.0.1", port, ssl=trusting()))
        await asyncio.sleep(0.3)
        assert (turns, opening.done()) == (1, False)
        free.set()
        async with asyncio.timeout(5):
            reader, writer = await opening
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            assert turns <= 2
            writer.close()
            await writer.wait_closed()
            await lost.wait()


async def test_who_says_goodbye_is_answered_and_gone():
    async with SecurePort() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=trusting())
        writer.write(b"GET /livez HTTP/1.1\r\nHost: test\r\n\r\n")
        assert (await reader.readuntil(b"ok")).endswith(b"ok")
        writer.close()
        async with asyncio.timeout(3):
            await writer.wait_closed()

        async def gone():
            return port.stats.connections["main"] == 0

        await wait_until(gone, 3)


async def test_many_connections_cost_little_memory_each():
    """asyncio's own TLS holds 256 KiB for each."""
    async with SecurePort(connections_per_address=100) as port:
        context = trusting()
        tracemalloc.start()
        try:
            links = [await asyncio.open_connection("127.0.0.1", port.port, ssl=context) for _ in range(5)]
            before = tracemalloc.take_snapshot()
            links += [await asyncio.open_connection("127.0.0.1", port.port, ssl=context) for _ in range(40)]
            after = tracemalloc.take_snapshot()
        finally:
            tracemalloc.stop()
        grown = after.filter_traces([tracemalloc.Filter(True, "*/schedcache/*")]).compare_to(
            before.filter_traces([tracemalloc.Filter(True, "*/schedcache/*")]), "filename"
        )
        assert sum(stat.size_diff for stat in grown) < 40 * 20_000
        for _, writer in links:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
