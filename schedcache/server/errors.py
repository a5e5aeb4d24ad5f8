"""Errors as Kubernetes writes them: a Status object, of one shape whatever is wrong."""

from http import HTTPStatus

import msgspec
from aiohttp import web

JSON = "application/json"
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    413: "RequestEntityTooLarge",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
"""As in k8s.io/apimachinery's StatusReason."""


def status_object(code: int, message: str) -> bytes:
    """The JSON of a Status."""
    content = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, ""),
        "code": code,
    }
    return msgspec.json.encode(content)


def error_response(code: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """An answer that says what is wrong."""
    return web.Response(status=code, body=status_object(code, message), content_type=JSON, headers=headers)


def refusal_bytes(code: int, message: str) -> bytes:
    """The same, complete with its head, for a connection that is closed afterwards and may be tried again in a second."""
    body = status_object(code, message)
    head = (
        f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\nRetry-After: 1\r\nConnection: close\r\n"
        f"Content-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
