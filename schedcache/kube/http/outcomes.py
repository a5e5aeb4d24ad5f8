"""How a request ended: the only place where HTTP statuses, and exceptions of sockets and aiohttp, become errors of the ports."""

import aiohttp
import msgspec

from schedcache.kube.http.http_answer import NoAnswerError
from schedcache.kube.http.write_connections import NotSentError
from schedcache.model.decode import DECODE_ERRORS
from schedcache.ports import ApiError, ConflictError, NotFoundError, OutcomeUnknownError, RefusedError, UnavailableError

WATCH = "WATCH"
"""The verb of a GET whose answer goes on until one side ends it."""
UNREACHABLE = "Unreachable"
SILENT = "Silent"
NO_ANSWER = "NoAnswer"
FORBIDDEN = "Forbidden"
NAMESPACE_TERMINATING = "NamespaceTerminating"
"""A 403 because nothing may be created in a namespace that is being deleted."""

CONNECTION_FAILURES = (aiohttp.ClientError, OSError, NotSentError, NoAnswerError)
"""Every exception that means that a request had no answer; time-outs are OSErrors."""
_NEVER_SENT = (
    NotSentError,
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    # The proxy has not opened the way to the server.
    aiohttp.ClientHttpProxyError,
)


class ThrottledError(RefusedError):
    """429: not done; the server asks to retry after `retry_after` seconds (None: it names no time)."""

    may_pass = True

    def __init__(self, message: str, *, reason: str, retry_after: float | None) -> None:
        self.retry_after = retry_after
        super().__init__(message, status=429, reason=reason)


class _Cause(msgspec.Struct):
    reason: str | None = None


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    message: str | None = None
    reason: str | None = None
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


def failure(method: str, path: str, error: BaseException) -> ApiError:
    """The error for a request that ended in one of `CONNECTION_FAILURES`.

    Its reason is `Unreachable`; for a write that was sent, `NoAnswer`; for a watch that fell silent, `Silent`.
    """
    text = f"{method} {path}: {str(error) or type(error).__name__}"
    if isinstance(error, _NEVER_SENT):
        return UnavailableError(text, reason=UNREACHABLE)
    if not _reads(method):
        return OutcomeUnknownError(text, reason=NO_ANSWER)
    silent = method == WATCH and isinstance(error, TimeoutError)
    return UnavailableError(text, reason=SILENT if silent else UNREACHABLE)


def done(status: int) -> bool:
    """Whether the status means that the request was carried out: a redirect, such as a proxy's, does not."""
    return 200 <= status < 300


def refusal_of(method: str, path: str, response: aiohttp.ClientResponse, body: bytes) -> ApiError:
    """`refusal` for an answer that aiohttp has read."""
    return refusal(method, path, response.status, response.reason or "", response.headers.get("Retry-After"), body)


def refusal(method: str, path: str, status: int, phrase: str, pause: str | None, body: bytes) -> ApiError:
    """The error for an answer other than 2xx; `phrase` follows its status, `pause` is its header Retry-After."""
    message, reason = _explanation(body)
    text = f"{method} {path}: {status} {reason or phrase}: {message}"
    if status == 429:
        return ThrottledError(text, reason=reason, retry_after=retry_after(pause))
    return _class_of(method, status, reason)(text, status=status, reason=reason)


def _class_of(method: str, status: int, reason: str) -> type[ApiError]:
    # A proxy that knows no such path says 404 too, and an object is not gone because of that.
    if status == 404 and reason == "NotFound":
        return NotFoundError
    if status == 409 and not _reads(method):
        return ConflictError
    if 300 <= status < 500:
        return RefusedError
    return UnavailableError if _reads(method) else OutcomeUnknownError


def _reads(method: str) -> bool:
    return method in ("GET", WATCH)


def retry_after(header: str | None) -> float | None:
    """Seconds of a Retry-After header; None for a date, which API servers do not send, and for anything else."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _explanation(body: bytes) -> tuple[str, str]:
    """(message, reason) of a Status object, or the start of any other body, such as a proxy's error page."""
    try:
        status = _decode_status(body)
    except DECODE_ERRORS:
        return body[:200].decode(errors="replace"), ""
    causes = [cause.reason for cause in (status.details and status.details.causes) or ()]
    # Not a matter of rights, although it is told as one.
    return status.message or "", NAMESPACE_TERMINATING if NAMESPACE_TERMINATING in causes else status.reason or ""
