"""Reading one answer of HTTP/1.1, as its bytes come in."""

from collections.abc import Mapping
from typing import NamedTuple

LARGEST_HEAD = 64 * 1024
LARGEST_BODY = 16 * 1024 * 1024
_END_OF_HEAD = b"\r\n\r\n"


class NoAnswerError(Exception):
    """The connection ended before the answer did, or what came was no HTTP: the request may have been carried out."""


class Answer(NamedTuple):
    """`headers` by lower-case name; `reason` is the phrase after the status."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class _Head(NamedTuple):
    status: int
    reason: str
    headers: dict[str, str]
    length: int | None
    """None: not said."""
    chunked: bool
    keep_alive: bool


class AnswerReader:
    """Puts one answer together from what arrives. `reusable` afterwards: whether another may follow on the connection."""

    def __init__(self) -> None:
        self.reusable = False
        self._data = bytearray()
        self._head: _Head | None = None
        self._body = bytearray()

    def feed(self, data: bytes) -> Answer | None:
        """The answer once it is complete. Raises NoAnswerError."""
        self._data += data
        head = self._head or self._read_head()
        if head is None:
            return None
        if head.chunked:
            return self._read_chunks(head)
        if head.length is None:
            # The body ends with the connection.
            self._limit(len(self._data))
            return None
        if len(self._data) < head.length:
            return None
        body = bytes(self._data[: head.length])
        del self._data[: head.length]
        return self._complete(head, body)

    def end(self) -> Answer:
        """The connection has ended. Raises NoAnswerError where the answer had not."""
        head = self._head
        if head is None or head.chunked or head.length is not None:
            raise NoAnswerError("the connection was closed before the answer was complete")
        return Answer(head.status, head.reason, head.headers, bytes(self._data))

    def _read_head(self) -> _Head | None:
        while (end := self._data.find(_END_OF_HEAD)) >= 0:
            head = parse_head(bytes(self._data[:end]))
            del self._data[: end + len(_END_OF_HEAD)]
            # 1xx come before the answer.
            if head.status >= 200:
                self._limit(head.length or 0)
                self._head = head
                return head
        if len(self._data) > LARGEST_HEAD:
            raise NoAnswerError("the head of the answer is too long")
        return None

    def _read_chunks(self, head: _Head) -> Answer | None:
        while (end := self._data.find(b"\r\n")) >= 0:
            size = _chunk_size(bytes(self._data[:end]))
            if size == 0:
                return self._read_trailer(head, end + 2)
            after = end + 2 + size
            if len(self._data) < after + 2:
                return None
            self._body += self._data[end + 2 : after]
            self._limit(len(self._body))
            if self._data[after : after + 2] != b"\r\n":
                raise NoAnswerError("a chunk of the answer is longer than it said")
            del self._data[: after + 2]
        return None

    def _read_trailer(self, head: _Head, start: int) -> Answer | None:
        """Fields after the last chunk are of no use here; an empty line ends them."""
        while (end := self._data.find(b"\r\n", start)) >= 0:
            if end == start:
                del self._data[: end + 2]
                return self._complete(head, bytes(self._body))
            start = end + 2
        return None

    def _complete(self, head: _Head, body: bytes) -> Answer:
        # What follows an answer belongs to no request.
        self.reusable = head.keep_alive and not self._data
        return Answer(head.status, head.reason, head.headers, body)

    @staticmethod
    def _limit(size: int) -> None:
        if size > LARGEST_BODY:
            raise NoAnswerError(f"the answer is longer than {LARGEST_BODY} bytes")


def parse_head(data: bytes) -> _Head:
    """Status line and header fields, without the empty line that ends them. Raises NoAnswerError."""
    first, *lines = data.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code, _, reason = rest.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (len(code) == 3 and code.isdigit()):
        raise NoAnswerError(f"not HTTP: {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise NoAnswerError(f"no header field: {line[:80]!r}")
        headers[name.lower()] = value.strip()
    status = int(code)
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    length = 0 if status in (204, 304) else _length(headers.get("content-length"))
    keep_alive = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return _Head(status, reason, headers, length, chunked, keep_alive)


def _length(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit():
        raise NoAnswerError(f"Content-Length: expected a number, got {text[:20]!r}")
    return int(text)


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    try:
        size = int(digits, 16)
    except ValueError:
        size = -1
    if not 0 <= size <= LARGEST_BODY:
        raise NoAnswerError(f"no size of a chunk: {line[:20]!r}")
    return size
