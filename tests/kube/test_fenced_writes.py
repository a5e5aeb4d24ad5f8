"""Decisive writes are held against a fence when nothing is left to do but to send the bytes, at every attempt, whatever came before."""

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager

import pytest
import yaml
from msgspec.structs import replace

from schedcache.kube.http import write_connections
from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.tls import TLSProtocol
from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import RequestSettings, WriteSettings
from schedcache.kube.write.binder import ApiBinder
from schedcache.kube.write.evictor import ApiEvictor
from schedcache.kube.write.rate import TokenBucket
from schedcache.kube.write.status_writer import ApiStatusWriter
from schedcache.kube.write.volume_writer import ApiVolumeWriter
from schedcache.model import PersistentVolume, PersistentVolumeClaim, PodCondition
from schedcache.ports import FencedError, OutcomeUnknownError
from schedcache.testing import make_pod, wait_until
from schedcache.testing.certificates import make_certificates
from tests.kube.extender_server import Server as ExtenderServer
from tests.kube.extender_server import hang, http
from tests.kube.test_extender import extender

POD = replace(make_pod("p", uid="u"), json=b'{"metadata":{"name":"p"}}')
CONDITION = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler", "preempting", 1)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
THROTTLED = b"HTTP/1.1 429 Too Many\r\nRetry-After: 0\r\nContent-Length: 2\r\n\r\n{}"
UNAUTHORIZED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}"


class Gate:
    """A fence that a test opens and closes."""

    def __init__(self, seconds=100.0):
        self.open = True
        self.seconds = seconds
        self.refused = 0

    def allow(self, seconds):
        if not self.open:
            self.refused += 1
            raise FencedError("not sent")
        return min(seconds, self.seconds)


class Server:
    """An API server that has a list of answers; a callable among them is called, and gives the next."""

    def __init__(self):
        self.answers = []
        self.requests = []
        self.endings = []

    def give(self, url, proxy="", authority=""):
        """What the kubeconfig says from now on."""
        content = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "a", "user": "u"}}],
            "clusters": [
                {"name": "a", "cluster": {"server": url, "proxy-url": proxy, "certificate-authority": authority}}
            ],
            "users": [{"name": "u", "user": {"token": "first"}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(content))

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                self.requests.append((head.split(b"\r\n")[0].decode(), body))
                answer = self.answers.pop(0) if self.answers else OK
                if answer is None:
                    await reader.read()
                    self.endings.append("closed")
                    return
                if callable(answer):
                    answer = answer()
                writer.write(answer)
                await writer.drain()
        except asyncio.IncompleteReadError:
            self.endings.append("closed")
        except ConnectionError:
            self.endings.append("reset")
        finally:
            writer.close()


@asynccontextmanager
async def serving(folder, proxied=False):
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    server.kubeconfig = folder / "kubeconfig"
    server.give("http://api.invalid" if proxied else url, url if proxied else "")
    settings = RequestSettings(request_timeout_seconds=5.0, credentials_reload_seconds=0.0)
    async with listening, Transport(load_credentials(server.kubeconfig), settings) as transport:
        yield server, transport
    await asyncio.sleep(0.02)


@pytest.fixture(params=["direct", "through a proxy"])
async def wire(request, tmp_path):
    async with serving(tmp_path, proxied=request.param != "direct") as found:
        yield found


async def test_an_open_fence_lets_it_through_and_a_closed_one_does_not(wire):
    server, transport = wire
    gate = Gate()
    await transport.send("POST", "/x", b'{"a": 1}', fence=gate)
    assert [body for _, body in server.requests] == [b'{"a": 1}']
    gate.open = False
    with pytest.raises(FencedError):
        await transport.send("POST", "/x", b"{}", fence=gate)
    await transport.send("POST", "/other", b'{"b": 2}')
    await asyncio.sleep(0.05)
    assert [body for _, body in server.requests] == [b'{"a": 1}', b'{"b": 2}'], "only decisive writes are fenced"


@pytest.mark.parametrize("answer", [THROTTLED, UNAUTHORIZED])
async def test_each_attempt_is_checked_again(wire, answer):
    server, transport = wire
    gate = Gate()

    def close():
        gate.open = False
        server.kubeconfig.write_text(server.kubeconfig.read_text().replace("first", "second"))
        return answer

    server.answers.append(close)
    with pytest.raises(FencedError):
        await transport.send("POST", "/x", b"{}", fence=gate)
    assert (len(server.requests), gate.refused) == (1, 1)


async def test_what_is_sent_is_given_up_when_the_fence_says_so(wire):
    server, transport = wire
    server.answers.append(None)
    started = asyncio.get_running_loop().time()
    with pytest.raises(OutcomeUnknownError):
        await transport.send("POST", "/x", b"{}", fence=Gate(0.2))
    assert 0.15 < asyncio.get_running_loop().time() - started < 2


async def test_a_fence_that_closes_while_the_connection_is_opened(tmp_path, monkeypatch):
    async with serving(tmp_path) as (server, transport):
        gate = Gate()
        connect = transport._writes._connect

        async def slowly(*arguments):
            found = await connect(*arguments)
            gate.open = False
            return found

        monkeypatch.setattr(transport._writes, "_connect", slowly)
        with pytest.raises(FencedError):
            await transport.send("POST", "/x", b"{}", fence=gate)
        gate.open = True
        await transport.send("POST", "/x", b"{}", fence=gate)
        assert len(server.requests) == 1


async def test_nothing_is_asked_or_done_between_the_fence_and_the_bytes(tmp_path, monkeypatch):
    async with serving(tmp_path) as (_, transport):
        done = []
        gate = Gate()
        await transport.send("POST", "/x", b"{}", fence=gate)
        [connection] = transport._writes._idle
        monkeypatch.setattr(gate, "allow", lambda seconds: done.append("fence") or seconds)
        real = connection._transport
        connection._transport = type("Spy", (), {"write": lambda _, data: (done.append("bytes"), real.write(data))})()
        await transport.send("POST", "/x", b"{}", fence=gate)
        connection._transport = real
        assert done[-2:] == ["fence", "bytes"]


async def test_a_fence_that_closes_while_the_request_is_sealed(tmp_path, monkeypatch):
    """Sealing lets go of the interpreter's lock, and a thread such as kopf's keeps it for milliseconds; or the process is stopped there."""
    certificates = make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.certificate, certificates.key)
    server, gate = Server(), Gate()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls) as listening:
        server.kubeconfig = tmp_path / "kubeconfig"
        server.give(f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}", authority=str(certificates.authority))
        async with Transport(load_credentials(server.kubeconfig)) as transport:
            await transport.send("POST", "/x", b"{}", fence=gate)
            seal = TLSProtocol.seal

            def slowly(protocol, data):
                sealed = seal(protocol, data)
                gate.open = False
                return sealed

            monkeypatch.setattr(TLSProtocol, "seal", slowly)
            with pytest.raises(FencedError):
                await transport.send("POST", "/x", b"{}", fence=gate)
            monkeypatch.setattr(TLSProtocol, "seal", seal)
            assert transport._writes._idle == [], "what was sealed and not sent is missing in the stream"
            gate.open = True
            await transport.send("POST", "/x", b"{}", fence=gate)
            assert len(server.requests) == 2
        await asyncio.sleep(0.05)


async def test_the_kernel_knows_how_long_it_may_try_before_it_has_the_bytes(tmp_path, monkeypatch):
    """A process that is stopped behind them, and a network that is cut, would otherwise have it try for a quarter of an hour."""
    order = []
    real = write_connections.deliver_within
    monkeypatch.setattr(write_connections, "deliver_within", lambda *given: (order.append("limit"), real(*given)))
    async with serving(tmp_path) as (_, transport):
        await transport.send("POST", "/x", b"{}", fence=Gate())
        [connection] = transport._writes._idle
        real_write = connection._transport.write
        spy = type("Spy", (), {"write": lambda _, data: (order.append("bytes"), real_write(data))})()
        monkeypatch.setattr(connection, "_transport", spy)
        order.clear()
        await transport.send("POST", "/x", b"{}", fence=Gate())
        monkeypatch.undo()
    assert order[:2] == ["limit", "bytes"]


@pytest.mark.parametrize("proxied", [False, True])
async def test_a_request_that_is_given_up_is_withdrawn_and_not_delivered_later(tmp_path, proxied):
    """Closed without more, the kernel would go on trying to deliver it, minutes after the lease has run out."""
    async with serving(tmp_path, proxied=proxied) as (server, transport):
        server.answers.append(None)
        with pytest.raises(OutcomeUnknownError):
            await transport.send("POST", "/x", b"{}", fence=Gate(0.1))

        async def ended():
            return bool(server.endings)

        await wait_until(ended, 2, 0.01)
        assert server.endings == ["reset"]


async def test_what_has_not_arrived_when_a_request_is_given_up_never_does(tmp_path):
    """As where a network holds everything back for a while; here by a window that is smaller than the request."""
    loop = asyncio.get_running_loop()
    body = b"x" * 100_000
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        async with serving(tmp_path) as (server, _):
            server.give(f"http://127.0.0.1:{listening.getsockname()[1]}")
            async with Transport(load_credentials(server.kubeconfig)) as transport:
                sending = asyncio.create_task(transport.send("POST", "/x", body, fence=Gate(0.2)))
                connection, _address = await loop.sock_accept(listening)
                with pytest.raises(OutcomeUnknownError):
                    await sending
            arrived, ending = 0, "closed"
            with connection:
                try:
                    while piece := await loop.sock_recv(connection, 10_000):
                        arrived += len(piece)
                except ConnectionResetError:
                    ending = "reset"
            assert ending == "reset"
            assert arrived < len(body)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="asks Linux's option back")
async def test_the_kernel_delivers_nothing_after_the_time_that_the_fence_gave(tmp_path):
    async with serving(tmp_path) as (_, transport):
        await transport.send("POST", "/x", b"{}", fence=Gate(1.25))
        [connection] = transport._writes._idle
        assert connection._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == pytest.approx(1250, abs=5)
        await transport.send("POST", "/x", b"{}")
        assert connection._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) > 4000


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="asks Linux's option back")
async def test_the_kernel_is_limited_through_a_proxy_and_towards_an_extender_as_well(tmp_path):
    async with serving(tmp_path, proxied=True) as (_, transport):
        await transport.send("POST", "/x", b"{}", fence=Gate(1.25))
        assert_limited(transport._session)
    server = ExtenderServer(http({}))
    async with extender(server, fence=Gate(1.25)) as found:
        await found.bind(POD, "n")
        assert_limited(found._session())


def assert_limited(session):
    [held] = [each for kept in session.connector._conns.values() for each in kept]
    kernel = held[0].transport.get_extra_info("socket")
    assert kernel.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == pytest.approx(1250, abs=5)
    assert kernel.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert kernel.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER) == 0, "nothing is left to be withdrawn"


# Each of the writers.


async def test_a_bind_is_checked_after_it_has_waited_for_its_rate(tmp_path):
    async with serving(tmp_path) as (server, transport):
        gate, turn = Gate(), asyncio.Event()
        binder = ApiBinder(
            transport, TokenBucket(1, 1, clock=lambda: 0.0, sleep=lambda _seconds: turn.wait()), fence=gate
        )
        await binder.bind(POD, "n")
        waiting = asyncio.create_task(binder.bind(POD, "n"))
        await asyncio.sleep(0.02)
        gate.open = False
        turn.set()
        with pytest.raises(FencedError):
            await waiting
        assert len(server.requests) == 1


async def test_a_bind_is_checked_after_it_has_waited_for_its_turn(tmp_path):
    async with serving(tmp_path) as (server, transport):
        gate = Gate(0.3)
        binder = ApiBinder(transport, TokenBucket(-1, 1), WriteSettings(concurrent_binds=1), fence=gate)
        server.answers.append(None)
        first, second = (asyncio.create_task(binder.bind(POD, "n")) for _ in range(2))
        await asyncio.sleep(0.1)
        gate.open = False
        with pytest.raises(OutcomeUnknownError):
            await first
        with pytest.raises(FencedError):
            await second
        assert len(server.requests) == 1
        assert binder.in_flight == 0


async def test_a_bind_that_is_held_back_says_nothing_about_the_server(tmp_path):
    async with serving(tmp_path) as (server, transport):
        gate = Gate(0.05)
        binder = ApiBinder(transport, TokenBucket(-1, 1), fence=gate)
        server.answers.append(None)
        with pytest.raises(OutcomeUnknownError):
            await binder.bind(POD, "n")
        gate.open = False
        with pytest.raises(FencedError):
            await binder.bind(POD, "n")
        assert binder.binds.outage() is not None


async def test_evictions_are_held_back_and_not_tried_again(tmp_path):
    async with serving(tmp_path) as (server, transport):
        gate = Gate()
        evictor = ApiEvictor(transport, TokenBucket(-1, 1), fence=gate)
        assert await evictor.evict(POD, CONDITION)
        assert [line.split()[0] for line, _ in server.requests] == ["PATCH", "DELETE"]
        gate.open = False
        with pytest.raises(FencedError):
            await evictor.evict(POD, CONDITION)
        assert (len(server.requests), gate.refused) == (2, 1)


async def test_the_deletion_of_a_victim_is_checked_after_its_condition(tmp_path):
    async with serving(tmp_path) as (server, transport):
        gate = Gate()
        server.answers.append(lambda: setattr(gate, "open", False) or OK)
        with pytest.raises(FencedError):
            await ApiEvictor(transport, TokenBucket(-1, 1), fence=gate).evict(POD, CONDITION)
        assert [line.split()[0] for line, _ in server.requests] == ["PATCH"]


async def test_writes_about_volumes_are_held_back(tmp_path):
    async with serving(tmp_path) as (server, transport):
        gate = Gate()
        gate.open = False
        writer = ApiVolumeWriter(transport, TokenBucket(-1, 1), gate)
        claim = PersistentVolumeClaim.from_dict({"metadata": {"name": "c", "namespace": "d", "uid": "1"}, "spec": {}})
        volume = PersistentVolume.from_dict({"metadata": {"name": "v", "uid": "2"}, "spec": {}})
        for write in (writer.select_node(claim, "n"), writer.prebind(volume, claim)):
            with pytest.raises(FencedError):
                await write
        assert server.requests == []


async def test_conditions_are_held_back_and_dropped(tmp_path):
    async with serving(tmp_path) as (server, transport):
        gate = Gate()
        gate.open = False
        writer = ApiStatusWriter(transport, TokenBucket(-1, 1), fence=gate)
        running = asyncio.create_task(writer.run())
        writer.patch_status(POD, CONDITION)
        assert await writer.drain(2) == 0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert (server.requests, dict(writer.dropped)) == ([], {"fenced": 1})


async def test_the_bind_of_an_extender_is_held_back_and_its_filter_is_not():
    server = ExtenderServer(http({"NodeNames": []}))
    gate = Gate()
    async with extender(server, fence=gate) as found:
        gate.open = False
        await found.filter(POD, [])
        with pytest.raises(FencedError):
            await found.bind(POD, "n")
        assert len(server.requests) == 1


async def test_the_bind_of_an_extender_is_given_up_when_the_fence_says_so():
    async with asyncio.timeout(2), extender(ExtenderServer(hang), fence=Gate(0.1)) as found:
        with pytest.raises(Exception, match="no answer"):
            await found.bind(POD, "n")


# At the end of a leader.


async def test_a_condition_under_way_ends_before_the_lease_is_released_and_others_are_dropped(tmp_path):
    async with serving(tmp_path) as (server, transport):
        writer = ApiStatusWriter(transport, TokenBucket(-1, 1), WriteSettings(concurrent_patches=1), fence=Gate(0.4))
        running = asyncio.create_task(writer.run())
        server.answers.append(None)
        writer.patch_status(POD, CONDITION)
        await asyncio.sleep(0.05)
        writer.patch_status(replace(POD, uid="another"), CONDITION)
        assert await writer.settle(0.05, 0.1) == 1, "its request may still arrive"
        writer.patch_status(replace(POD, uid="third"), CONDITION)
        assert await writer.settle(0.0, 2.0) == 0
        assert dict(writer.dropped) == {"stopping": 2, "failed": 1}
        assert len(server.requests) == 1, "what is not over is not tried again"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_write_about_a_volume_is_waited_for_though_its_caller_has_given_up(tmp_path):
    async with serving(tmp_path) as (server, transport):
        writer = ApiVolumeWriter(transport, TokenBucket(-1, 1), Gate(0.4))
        claim = PersistentVolumeClaim.from_dict({"metadata": {"name": "c", "namespace": "d", "uid": "1"}, "spec": {}})
        server.answers.append(None)
        asking = asyncio.create_task(writer.select_node(claim, "n"))
        await asyncio.sleep(0.05)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert await writer.settle(0.05) == 1
        assert await writer.settle(2.0) == 0
