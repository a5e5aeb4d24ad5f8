"""Clients that do what they should not: bounded, answered where they can be, and never at the expense of probes."""

import asyncio
import contextlib
import logging
import time
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from schedcache.app.serving import serve
from schedcache.server.dump_serving import DumpReaders, Taken
from schedcache.server.health import Health
from schedcache.server.limits import ServingSettings
from schedcache.server.share import ProcessorShare
from schedcache.server.stats import ServingCollector, ServingStats
from schedcache.testing import VirtualClock, wait_until

BODY = b"x" * 8_000_000
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(200)


class Port:
    """A served port with a large dump; `taken` has what was wanted of each."""

    def __init__(self, **settings):
        self.settings = ServingSettings(**settings)
        self.stats = ServingStats()
        self.taken = []
        self.body = BODY
        self.held = asyncio.Event()
        self.held.set()
        self.port = 0
        self.clients = []

    async def __aenter__(self):
        share = ProcessorShare(lambda: False, 0.05)
        self.readers = DumpReaders(self.take, share, self.settings, self.stats)

        async def dump(request):
            return await self.readers.answer(request, request.query.get("stories"))

        async def held(request):
            await self.held.wait()
            return web.Response(text="held")

        routes = [web.get("/dump", dump), web.get("/held", held), *Health([("fine", lambda: "")], []).routes()]
        self.serving = serve(routes, "127.0.0.1", 0, "--port", settings=self.settings, stats=self.stats, share=share)
        self.port = await self.serving.__aenter__()
        return self

    async def __aexit__(self, *error):
        for writer in self.clients:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await self.serving.__aexit__(*error)

    def take(self, wanted):
        self.taken.append(wanted)
        return Taken('W/"1"', iter([self.body[start : start + 100_000] for start in range(0, len(self.body), 100_000)]))

    async def connect(self, data=b"", **more):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **more)
        self.clients.append(writer)
        writer.write(data)
        return reader, writer

    async def ask(self, data):
        """Everything that is answered until the server closes."""
        reader, writer = await self.connect(data)
        try:
            async with asyncio.timeout(5):
                return await reader.read()
        finally:
            writer.close()

    async def alive(self):
        """Asks `/livez`, which has to be answered soon."""
        async with asyncio.timeout(1):
            return (await self.ask(get("/livez", "Connection: close"))).endswith(b"\r\n\r\nok")


def get(path, *headers, method="GET"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: test", *headers, "", ""]).encode()


async def answer(reader):
    """(status line, headers, body) of one answer with a Content-Length."""
    async with asyncio.timeout(5):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = head.strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return status, headers, await reader.readexactly(int(headers.get("Content-Length", 0)))


async def test_head_of_a_dump_has_no_body_that_the_next_answer_could_be_taken_for():
    async with Port() as port:
        head = await port.ask(get("/dump", method="HEAD") + get("/livez", "Connection: close"))
        assert head.count(b"HTTP/1.1 200 OK") == 2
        assert head.split(b"\r\n\r\n")[1].startswith(b"HTTP/1.1 200 OK")
        assert b"xxx" not in head
        assert head.endswith(b"\r\n\r\nok")
        assert port.taken == []


async def test_a_thousand_bad_requests_are_counted_and_not_logged(caplog):
    caplog.set_level(logging.INFO)
    kinds = [
        b"\x00\x01garbage\r\n\r\n",
        TLS_HELLO,
        get("/livez") + b"not HTTP at all\r\n\r\n",
        get("/livez", "X-Long: " + "x" * 20_000),
        get("/livez", *(f"X-{i}: 1" for i in range(500))),
        get("/" + "y" * 20_000),
        get("/livez", "Content-Length: -1"),
        get("/livez", "Transfer-Encoding: nonsense"),
    ]
    async with Port() as port:
        for number in range(1000):
            said = await port.ask(kinds[number % len(kinds)])
            assert b"HTTP/1." in said
            assert b" 400 " in said, kinds[number % len(kinds)][:40]
        assert await port.alive()
        assert port.stats.bad_requests["main"] == 1000
    assert caplog.records == []


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nX-", b"G"])
async def test_a_head_that_does_not_come_is_not_waited_for(sent):
    async with Port(head_seconds=0.3) as port:
        reader, writer = await port.connect(sent)
        started = time.monotonic()
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        assert time.monotonic() - started < 3
        assert port.stats.cut["main", "head"] == 1
        writer.close()


async def test_nor_is_one_that_comes_byte_by_byte():
    async with Port(head_seconds=0.3) as port:
        reader, writer = await port.connect(b"GET /")

        async def drip():
            while True:
                writer.write(b"a")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                await reader.read()
        dripping.cancel()
        assert port.stats.cut["main", "head"] == 1
        writer.close()


async def test_one_that_was_answered_and_asks_no_more_is_closed_later():
    async with Port(head_seconds=0.2, idle_seconds=1.0) as port:
        reader, writer = await port.connect(get("/livez"))
        await answer(reader)
        await asyncio.sleep(0.5)
        writer.write(get("/livez"))
        assert (await answer(reader))[2] == b"ok"
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_a_thousand_idle_connections_hold_neither_descriptors_nor_up_probes():
    async with Port(connections=50, connections_per_address=40) as port:
        before = descriptors()
        clients = []
        for i in range(1000):
            clients.append((await port.connect(get("/livez")))[1])
            if i >= 60:
                clients[i - 60].close()
            if i % 100 == 0:
                assert await port.alive()
        assert await port.alive()
        assert port.stats.connections["main"] <= 40
        assert port.stats.cut["main", "room"] > 800
        assert descriptors() < before + 60 + 45
        for writer in clients:
            writer.close()
        await wait_until_none(port)
        assert descriptors() <= before + 2


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


async def wait_until_none(port):
    async def none():
        return port.stats.connections["main"] == 0

    await wait_until(none, 5)


@pytest.mark.parametrize(("bound", "reason"), [("connections", "connections"), ("connections_per_address", "address")])
async def test_when_all_are_at_work_one_more_is_told_to_come_again(bound, reason):
    async with Port(**{bound: 3}) as port:
        port.held.clear()
        clients = [await port.connect(get("/held")) for _ in range(3)]
        await asyncio.sleep(0.1)
        status, headers, _ = await answer((await port.connect(get("/livez")))[0])
        assert status == "HTTP/1.1 503 Service Unavailable"
        assert headers["Retry-After"] == "1"
        assert port.stats.refused["main", reason] == 1
        port.held.set()
        for reader, writer in clients:
            assert (await answer(reader))[2] == b"held"
            writer.close()
        assert await port.alive()


async def test_readers_that_do_not_read_share_one_dump_are_bounded_and_cut_off():
    async with Port(dump_readers=20, stalled_seconds=1.0) as port:
        clients = [await port.connect(get("/dump"), limit=1024) for _ in range(30)]
        for _, writer in clients:
            writer.transport.pause_reading()
        await asyncio.sleep(0.5)
        assert await port.alive()
        assert len(port.taken) <= 2
        assert port.stats.refused["main", "readers"] == 10

        async def cut():
            return port.stats.cut["main", "stalled"] == 20

        await wait_until(cut, 5)
        reader, writer = await port.connect(get("/dump", "Connection: close"))
        assert (await answer(reader))[2] == BODY
        for _, other in (*clients, (None, writer)):
            other.transport.abort()
        await wait_until_none(port)


async def test_who_asks_while_a_dump_is_written_shares_the_next_one():
    async with Port() as port:
        first, _ = await port.connect(get("/dump", "Connection: close"))

        async def begun():
            return len(port.taken) == 1

        await wait_until(begun, 5)
        port.body = later_body = b"y" * len(BODY)
        later = [(await port.connect(get("/dump", "Connection: close")))[0] for _ in range(5)]
        other, _ = await port.connect(get("/dump?stories=a", "Connection: close"))
        assert (await answer(first))[2] == BODY
        assert [(await answer(reader))[2] for reader in (*later, other)] == [later_body] * 6
        assert port.taken.count(None) <= 3
        assert port.taken.count("a") == 1


async def test_a_slow_reader_keeps_its_dump_only_until_others_want_one():
    async with Port(dump_bodies=1, dump_reading_seconds=0.5) as port:
        slow, writer = await port.connect(get("/dump"), limit=1024)
        assert (await slow.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
        writer.transport.pause_reading()
        reader, other = await port.connect(get("/dump", "Connection: close"))
        assert (await answer(reader))[2] == BODY
        assert port.stats.cut["main", "reading"] == 1
        writer.transport.abort()
        other.close()


async def test_a_dump_that_nobody_waits_for_any_more_is_not_taken():
    async with Port(dump_bodies=1) as port:
        slow, writer = await port.connect(get("/dump"), limit=1024)
        await slow.readuntil(b"\r\n")
        writer.transport.pause_reading()
        _, gone = await port.connect(get("/dump"))
        await asyncio.sleep(0.1)
        gone.transport.abort()
        await asyncio.sleep(0.1)
        writer.transport.abort()
        await wait_until_none(port)
        assert len(port.taken) == 1


async def test_a_dump_that_has_to_wait_too_long_is_refused():
    async with Port(dump_bodies=1, dump_waiting_seconds=0.3) as port:
        slow, writer = await port.connect(get("/dump"), limit=1024)
        await slow.readuntil(b"\r\n")
        writer.transport.pause_reading()
        reader, other = await port.connect(get("/dump"))
        status, headers, _ = await answer(reader)
        assert (status, headers["Retry-After"]) == ("HTTP/1.1 503 Service Unavailable", "1")
        assert port.stats.refused["main", "waiting"] == 1
        writer.transport.abort()
        other.close()


async def test_a_dump_that_fails_is_an_error_and_the_next_one_is_taken():
    async with Port() as port:

        def pieces():
            yield b"some"
            raise RuntimeError("a fault")

        take, port.readers._take = port.readers._take, lambda wanted: pieces()
        assert (await port.ask(get("/dump", "Connection: close"))).startswith(b"HTTP/1.1 500")
        port.readers._take = take
        assert (await port.ask(get("/dump", "Connection: close"))).endswith(BODY)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
async def test_other_methods_are_refused_with_those_that_there_are(method):
    async with Port() as port:
        reader, writer = await port.connect(get("/livez", method=method))
        status, headers, _ = await answer(reader)
        assert status == "HTTP/1.1 405 Method Not Allowed"
        assert headers["Allow"] == "GET,HEAD"
        writer.write(get("/livez"))
        assert (await answer(reader))[2] == b"ok"
        writer.close()


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (["Content-Length: 5"], b"hello"),
        (["Transfer-Encoding: chunked"], b"5\r\nhello\r\n0\r\n\r\n"),
        (["Expect: 100-continue", "Content-Length: 5"], b"hello"),
        (["Content-Encoding: gzip", "Content-Length: 5"], b"hello"),
        (["Content-Encoding: br", "Content-Length: 5"], b"hello"),
    ],
)
async def test_a_body_that_nobody_asked_for_is_dropped(headers, body, caplog):
    async with Port() as port:
        said = await port.ask(get("/livez", *headers) + body + get("/livez", "Connection: close"))
        assert said.count(b"HTTP/1.1 200 OK") == 2
        assert said.endswith(b"ok")
    assert caplog.records == []


async def test_who_leaves_within_a_body_is_no_error(caplog):
    async with Port() as port:
        reader, writer = await port.connect(get("/livez", "Content-Length: 100") + b"hello")
        assert (await answer(reader))[2] == b"ok"
        writer.transport.abort()
        await asyncio.sleep(0.1)
        assert await port.alive()
    assert caplog.records == []


async def test_nor_is_one_waited_for_that_does_not_end():
    async with Port(body_seconds=0.2) as port:
        reader, writer = await port.connect(get("/livez", "Content-Length: 100000000"))
        assert (await answer(reader))[2] == b"ok"
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_an_unknown_path_is_not_found():
    async with Port() as port:
        assert (await port.ask(get("/nothing", "Connection: close"))).startswith(b"HTTP/1.1 404")


async def test_what_is_counted_are_metrics():
    registry, stats = CollectorRegistry(), ServingStats()
    registry.register(ServingCollector(stats))
    stats.connections["main"] = 3
    stats.bad_requests["probes"] = 1000
    stats.refused["main", "readers"] = 7
    stats.cut["main", "stalled"] = 2
    text = generate_latest(registry).decode()
    assert 'scheduler_http_connections{port="main"} 3.0' in text
    assert 'scheduler_http_bad_requests_total{port="probes"} 1000.0' in text
    assert 'scheduler_http_refused_total{port="main",reason="readers"} 7.0' in text
    assert 'scheduler_http_cut_total{port="main",reason="stalled"} 2.0' in text


class Work:
    """A share in virtual time, where a turn takes what it is told to."""

    def __init__(self, *, busy):
        self.busy, self.used, self.clock = busy, 0.0, VirtualClock()

        async def sleep(seconds):
            await asyncio.sleep(0)
            self.clock.advance(seconds)

        self.share = ProcessorShare(lambda: self.busy, 0.05, clock=self.clock, timer=lambda: self.used, sleep=sleep)

    async def do(self, seconds, times):
        for _ in range(times):
            async with self.share:
                self.used += seconds
                self.clock.advance(seconds)


@pytest.mark.parametrize("workers", [1, 50])
async def test_while_pods_are_scheduled_answers_take_a_twentieth_of_the_time_however_many_there_are(workers):
    work = Work(busy=True)
    started = work.clock.now
    await asyncio.gather(*(work.do(0.001, 100) for _ in range(workers)))
    assert work.used / (work.clock.now - started) <= 0.0501


async def test_when_there_is_nothing_to_schedule_they_do_not_rest():
    work = Work(busy=False)
    started = work.clock.now
    await work.do(0.001, 100)
    assert work.clock.now - started == pytest.approx(work.used)


async def test_a_rest_ends_when_the_work_does():
    work = Work(busy=True)
    await work.do(10.0, 1)
    work.busy = False
    started = work.clock.now
    await work.do(0.001, 1)
    assert work.clock.now - started < 1


async def test_a_probe_is_delayed_by_a_moment_at_most():
    work = Work(busy=True)
    work.share.charge(10.0)
    started = work.clock.now
    await work.share.rest(0.25)
    assert work.clock.now - started == pytest.approx(0.25)
