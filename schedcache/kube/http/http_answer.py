"""Reads the HTTP/1.1 answers that arrive on one connection: httptools (llhttp, Node's parser) parses, this module enforces limits."""

from collections.abc import Mapping
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

LARGEST_HEAD = 64 * 1024
LARGEST_BODY = 16 * 1024 * 1024


class NoAnswerError(Exception):
    """The connection ended before the answer was complete, or the answer is not HTTP: the request may have been carried out."""


class Answer(NamedTuple):
    """`headers` by lower-case name; `reason` is the phrase after the status."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class AnswerReader:
    """Puts answers together, one after the other, from what arrives on a connection.

    Attributes:
        reusable: after an answer, whether another may follow on the connection. If not, and after an error, nothing more may be
            fed.
    """

    def __init__(self) -> None:
        self.reusable = False
        self._parser = HttpResponseParser(self)
        self._begin()

    def feed(self, data: bytes) -> Answer | None:
        """The answer once it is complete. Raises NoAnswerError."""
        if self._in_head:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if self._answer is None:
                raise NoAnswerError(self._problem or f"not HTTP: {error}: {data[:80]!r}") from error
            # Nobody asked for what follows the answer.
            self.reusable = False
        answer = self._answer
        if answer is not None:
            self._begin()
        elif self._in_head and self._head_size > LARGEST_HEAD:
            raise NoAnswerError("the headers of the answer are too long")
        return answer

    def end(self) -> Answer:
        """The connection has ended. Raises NoAnswerError if the answer is not complete."""
        if self._in_head or self._has_end:
            raise NoAnswerError("the connection was closed before the answer was complete")
        return self._put_together()

    def _begin(self) -> None:
        self._reason = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_size = self._head_size = 0
        self._in_head = True
        # Whether the answer itself says where it ends; if not, it ends with the connection.
        self._has_end = True
        self._problem = ""
        self._answer: Answer | None = None

    def _put_together(self) -> Answer:
        status = self._parser.get_status_code()
        return Answer(status, self._reason.decode("latin-1"), self._headers, b"".join(self._body))

    def _limit_body(self, size: int) -> None:
        if size > LARGEST_BODY:
            self._problem = f"the answer is longer than {LARGEST_BODY} bytes"
            raise NoAnswerError(self._problem)

    # Called by the parser. What they raise ends its work.

    def on_message_begin(self) -> None:
        """Another answer, which nobody has asked for, if there is one."""
        self.reusable = False

    def on_status(self, status: bytes) -> None:
        """A part of the phrase after the status."""
        self._reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head, or one after the body, which is of no use here."""
        if self._in_head:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._in_head = self._parser.get_status_code() < 200
        length = self._headers.get("content-length")
        self._has_end = length is not None or "chunked" in self._headers.get("transfer-encoding", "").lower()
        self._limit_body(int(length or 0))

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._body_size += len(body)
        self._limit_body(self._body_size)
        self._body.append(body)

    def on_message_complete(self) -> None:
        """All of the answer is there, or all of what comes before it (1xx)."""
        if self._in_head:
            self._begin()
        elif self._answer is None:
            self.reusable = self._parser.should_keep_alive()
            self._answer = self._put_together()
