"""Writes over connections of their own: the answer is read whatever way it comes, and doubt is never taken for success."""

import asyncio
import dataclasses
import ssl
import tracemalloc
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedcache.kube.http.credentials import Access
from schedcache.kube.http.http_answer import LARGEST_BODY, LARGEST_HEAD, AnswerReader, NoAnswerError
from schedcache.kube.http.write_connections import NotSentError, WriteConnections, _Connection
from schedcache.testing import wait_until
from schedcache.testing.certificates import make_certificates

CREATED = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n" + b'{"a":1}'
CHUNKED = (
    b"HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nTransfer-Encoding: Chunked\r\nRetry-After:  3 \r\n\r\n"
    b"4\r\nabcd\r\n1;x=y\r\ne\r\n0\r\nTrailer: x\r\n\r\n"
)
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + CREATED


@pytest.mark.parametrize(
    ("data", "status", "body"),
    [(CREATED, 201, b'{"a":1}'), (CHUNKED, 409, b"abcde"), (CONTINUED, 201, b'{"a":1}')],
)
@given(cuts=st.lists(st.integers(0, 200), max_size=6))
def test_an_answer_is_the_same_however_it_is_cut(data, status, body, cuts):
    reader, answer, start = AnswerReader(), None, 0
    for end in [*sorted({cut for cut in cuts if cut < len(data)}), len(data)]:
        assert answer is None
        answer = reader.feed(data[start:end])
        start = end
    assert answer is not None
    assert (answer.status, answer.body) == (status, body)
    assert answer.reason == {201: "Created", 409: "Conflict"}[status]
    assert answer.headers["content-type"] == "application/json"
    assert reader.reusable


def test_one_reader_puts_one_answer_after_the_other_together():
    reader = AnswerReader()
    for data, body in ((CREATED, b'{"a":1}'), (CHUNKED, b"abcde"), (NO_CONTENT, b""), (CONTINUED, b'{"a":1}')) * 2:
        assert reader.feed(data[:-1]) is None
        answer = reader.feed(data[-1:])
        assert answer.body == body
        assert answer.headers.get("retry-after") == ("3" if data is CHUNKED else None), "not those of another answer"
        assert reader.reusable
    with pytest.raises(NoAnswerError):
        reader.end()


def test_headers_are_found_in_lower_case():
    answer = AnswerReader().feed(CHUNKED)
    assert answer.headers["retry-after"] == "3"
    assert answer.reason == "Conflict"


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 201 Created\r\nContent-Length: 0\r\n\r\n",
        CREATED + b"HTTP/1.1 200 OK",
        CREATED + b"HTTP/1.1 500 Internal Server Error\r\nRetry-After: 9\r\nContent-Length: 3\r\n\r\nabc",
        CREATED + b"\x00garbage\r\n\r\n",
        b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" + CREATED,
    ],
)
def test_connections_that_end_or_say_more_than_was_asked_are_not_used_again(data):
    reader = AnswerReader()
    answer = reader.feed(data)
    assert (answer.status, answer.reason) == (201, "Created")
    assert answer.body in (b"", b'{"a":1}')
    assert "retry-after" not in answer.headers
    assert not reader.reusable


def test_a_body_without_length_ends_with_the_connection():
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.1 200 OK\r\n\r\nhel") is None
    assert reader.feed(b"lo") is None
    assert reader.end().body == b"hello"
    assert not reader.reusable


def test_no_content_has_no_body():
    assert AnswerReader().feed(b"HTTP/1.1 204 No Content\r\n\r\n").body == b""


@pytest.mark.parametrize("cut", range(0, len(CREATED), 7))
def test_an_answer_that_is_cut_off_is_none(cut):
    reader = AnswerReader()
    assert reader.feed(CREATED[:cut]) is None
    with pytest.raises(NoAnswerError):
        reader.end()


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: seven\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-4\r\nabcd\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        b"x" * (LARGEST_HEAD + 1),
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * LARGEST_HEAD,
    ],
)
def test_what_is_no_answer_is_no_answer(data):
    with pytest.raises(NoAnswerError):
        AnswerReader().feed(data)


def test_a_body_is_not_collected_without_end():
    head = b"HTTP/1.1 200 OK\r\n"
    piece = b"x" * 2**20
    for way, frame in ((b"Transfer-Encoding: chunked\r\n", (b"100000\r\n", b"\r\n")), (b"", (b"", b""))):
        reader = AnswerReader()
        assert reader.feed(head + way + b"\r\n") is None
        for _ in range(LARGEST_BODY // len(piece)):
            assert reader.feed(frame[0] + piece + frame[1]) is None
        with pytest.raises(NoAnswerError, match=f"longer than {LARGEST_BODY} bytes"):
            reader.feed(frame[0] + piece + frame[1])


class Server:
    """Answers each request with the next of what it was given: bytes to send, or None to close without a word."""

    def __init__(self):
        self.answers = []
        self.requests = []
        self.connections = 0
        self.release = asyncio.Event()

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append((head.decode(), await reader.readexactly(length)))
                answer = self.answers.pop(0) if self.answers else CREATED
                if answer is None:
                    return
                if answer == b"wait":
                    await self.release.wait()
                    answer = CREATED
                writer.write(answer)
                await writer.drain()
                if b"Connection: close" in answer:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(idle=60.0, certificates=None):
    server = Server()
    tls = None
    if certificates is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificates.certificate, certificates.key)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    url = f"{'http' if tls is None else 'https'}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    to = access(url)
    if certificates is not None:
        to = dataclasses.replace(to, ssl_context=ssl.create_default_context(cafile=certificates.authority))
    writes = WriteConnections("tests/1", 2.0, idle)
    try:
        yield server, writes, to
    finally:
        writes.close()
        server.release.set()
        listening.close()
        await asyncio.sleep(0.01)


def access(url, authorization="Bearer one"):
    return Access(url, authorization, None, None, None, True, None, None, None)


def send(writes, to, path="/api/v1/x", body=b"{}", timeout=2.0):
    return writes.send(to, "POST", path, body, "application/json", timeout)


async def test_a_request_is_what_an_api_server_expects():
    async with serving() as (server, writes, to):
        answer = await send(writes, to, body=b'{"kind":"Binding"}')
        assert (answer.status, answer.body) == (201, b'{"a":1}')
        ((head, body),) = server.requests
        assert head.startswith("POST /api/v1/x HTTP/1.1\r\n")
        assert "Authorization: Bearer one\r\n" in head
        assert "Content-Type: application/json\r\n" in head
        assert "User-Agent: tests/1\r\n" in head
        assert f"Host: {to.server.removeprefix('http://')}\r\n" in head
        assert body == b'{"kind":"Binding"}'


async def test_one_connection_serves_one_request_after_the_other_and_several_serve_several():
    async with serving() as (server, writes, to):
        for _ in range(5):
            await send(writes, to)
        assert server.connections == 1
        await asyncio.gather(*(send(writes, to) for _ in range(4)))
        assert server.connections == 4
        assert len(server.requests) == 9


async def test_a_new_token_is_sent_from_the_next_request_on_over_the_same_connection():
    async with serving() as (server, writes, to):
        await send(writes, to)
        await send(writes, access(to.server, "Bearer two"))
        assert "Bearer two" in server.requests[1][0]
        assert server.connections == 1


async def test_another_server_gets_connections_of_its_own():
    async with serving() as (first, writes, to), serving() as (second, _, other):
        first.answers.append(b"wait")
        slow = asyncio.create_task(send(writes, to))
        await asyncio.sleep(0.05)
        await send(writes, other)
        first.release.set()
        await slow  # its connection must not be taken for one to the other server
        await send(writes, other)
        assert (len(first.requests), len(second.requests)) == (1, 2)


async def test_a_path_before_the_api_is_kept():
    async with serving() as (server, writes, to):
        await send(writes, access(f"{to.server}/clusters/c1/"))
        assert server.requests[0][0].startswith("POST /clusters/c1/api/v1/x HTTP/1.1")


async def test_a_connection_closed_without_an_answer_leaves_doubt():
    async with serving() as (server, writes, to):
        server.answers.append(None)
        with pytest.raises(NoAnswerError):
            await send(writes, to)
        assert (await send(writes, to)).status == 201


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again():
    async with serving() as (server, writes, to):
        server.answers.append(b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        await send(writes, to)
        await asyncio.sleep(0.05)
        assert (await send(writes, to)).status == 201
        assert server.connections == 2


async def test_a_time_out_leaves_doubt_and_its_late_answer_meets_nobody():
    async with serving() as (server, writes, to):
        server.answers.append(b"wait")
        with pytest.raises(TimeoutError):
            await send(writes, to, timeout=0.1)
        server.release.set()
        assert (await send(writes, to)).body == b'{"a":1}'
        assert server.connections == 2
        assert len(writes._idle) == 1


async def test_a_request_that_is_given_up_takes_its_connection_with_it():
    async with serving() as (server, writes, to):
        server.answers.append(b"wait")
        given_up = asyncio.create_task(send(writes, to))
        await asyncio.sleep(0.05)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        assert writes._idle == []
        assert writes._open == set()


async def test_nobody_there_means_that_nothing_was_sent():
    writes = WriteConnections("tests/1", 2.0, 60.0)
    with pytest.raises(NotSentError, match=r"cannot connect to 127\.0\.0\.1:1"):
        await send(writes, access("http://127.0.0.1:1"))


async def test_a_connection_on_which_the_server_has_said_goodbye_is_not_used_again():
    """It is not closed yet, but what is written is not sent any more: there would be doubt about nothing."""
    async with serving() as (server, writes, to):
        await send(writes, to)
        writes._idle[0].eof_received()
        assert (await send(writes, to)).status == 201
        assert server.connections == 2


async def test_a_connection_that_is_lost_before_it_is_used_has_sent_nothing():
    connection = _Connection(("http://x", None, None))
    connection.connection_made(asyncio.Transport())
    connection.connection_lost(ConnectionResetError())
    with pytest.raises(NotSentError):
        await connection.ask(b"POST", 1.0, None)


async def test_time_that_ends_before_there_is_a_connection_leaves_no_doubt():
    async def no_handshake(reader, writer):
        await reader.read()
        writer.close()

    async with await asyncio.start_server(no_handshake, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        to = dataclasses.replace(access(f"https://127.0.0.1:{port}"), ssl_context=ssl.create_default_context())
        writes = WriteConnections("tests/1", 2.0, 60.0)
        with pytest.raises(NotSentError, match="TimeoutError"):
            await send(writes, to, timeout=0.1)
        await asyncio.sleep(0.05)  # until both ends are closed


async def test_what_comes_unasked_ends_the_connection():
    async with serving() as (server, writes, to):
        server.answers.append(CREATED + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await send(writes, to)
        assert writes._idle == []
        assert (await send(writes, to)).status == 201
        assert server.connections == 2


async def test_an_old_idle_connection_is_not_trusted():
    async with serving(idle=0.0) as (server, writes, to):
        await send(writes, to)
        await send(writes, to)
        assert server.connections == 2


async def test_connections_that_a_burst_has_opened_are_closed_when_nobody_needs_them():
    async with serving(idle=0.2) as (server, writes, to):
        await asyncio.gather(*(send(writes, to) for _ in range(5)))
        assert len(writes._idle) == 5

        async def all_closed():
            return not writes._idle

        await wait_until(all_closed, 2)
        assert (await send(writes, to)).status == 201
        assert server.connections == 6


# ---- TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


async def test_requests_and_answers_of_any_length_go_over_tls(certificates):
    async with serving(certificates=certificates) as (server, writes, to):
        body = bytes(range(256)) * 8192
        server.answers.append(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = await send(writes, to, body=body)
        assert (answer.status, answer.body) == (200, body)
        assert server.requests[0][1] == body
        server.answers.append(CHUNKED)
        assert (await send(writes, to)).body == b"abcde"
        assert server.connections == 1


async def test_a_server_that_closes_leaves_doubt_over_tls_too(certificates):
    async with serving(certificates=certificates) as (server, writes, to):
        server.answers.append(None)
        with pytest.raises(NoAnswerError):
            await send(writes, to)
        server.answers.append(b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        await send(writes, to)
        await asyncio.sleep(0.05)
        assert (await send(writes, to)).status == 201
        assert server.connections == 3


async def test_nothing_is_sent_to_a_server_whose_certificate_is_not_accepted(certificates):
    async with serving(certificates=certificates) as (server, writes, to):
        for wrong in (
            dataclasses.replace(to, server_hostname="another.example"),
            dataclasses.replace(to, ssl_context=ssl.create_default_context()),
        ):
            with pytest.raises(NotSentError, match="CERTIFICATE_VERIFY_FAILED"):
                await send(writes, wrong)
        named = dataclasses.replace(to, server_hostname="kubernetes.default.svc")
        assert (await send(writes, named)).status == 201
        assert len(server.requests) == 1


async def test_nothing_is_sent_where_no_handshake_takes_place(certificates):
    async with serving() as (_, writes, plain):
        port = plain.server.rpartition(":")[2]
        to = dataclasses.replace(access(f"https://127.0.0.1:{port}"), ssl_context=ssl.create_default_context())
        with pytest.raises(NotSentError):
            await send(writes, to)


async def test_a_connection_holds_little_memory(certificates):
    """A burst of binds and events opens 128 of them."""
    async with serving(certificates=certificates) as (server, writes, to):
        await send(writes, to)
        server.answers = [b"wait"] * 8
        tracemalloc.start()
        try:
            under_way = [asyncio.create_task(send(writes, to)) for _ in range(8)]

            async def all_sent():
                return len(server.requests) == 9

            await wait_until(all_sent)
            held = tracemalloc.take_snapshot().filter_traces(
                # The server's half of the connections is asyncio's, in the same process.
                [tracemalloc.Filter(inclusive=False, filename_pattern="*/asyncio/streams.py")]
            )
        finally:
            tracemalloc.stop()
        server.release.set()
        await asyncio.gather(*under_way)
    buffers = sum(trace.size >= 2**17 for trace in held.traces)
    assert buffers <= 8, "one each for the server's half"
