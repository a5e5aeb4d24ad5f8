"""What all answers of a port have in common: headers, the form of errors, and that they are counted."""

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from schedcache.server.errors import error_response
from schedcache.server.stats import ServingStats

_HEADERS = {
    "Server": "schedcache",
    # Nothing here is for a cache, and nothing is a page that may load or be loaded by anything.
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
_KEPT_HEADERS = ("Allow", "Retry-After", "WWW-Authenticate")
OTHER = "other"


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Before an answer's head is sent, for `Application.on_response_prepare`."""
    response.headers.update(_HEADERS)


def counting(stats: ServingStats, port: str) -> Middleware:
    """Counts answers by path and code, and gives every error of ours the form of a Status."""

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        path = OTHER if resource is None else resource.canonical
        try:
            response = await handler(request)
        except web.HTTPException as error:
            headers = {name: error.headers[name] for name in _KEPT_HEADERS if name in error.headers}
            # aiohttp's own say no more than the status.
            text = (error.text or "").strip().removeprefix(f"{error.status}: ")
            response = error_response(error.status, text, headers)
        except Exception:
            stats.answers[port, path, 500] += 1
            raise
        stats.answers[port, path, response.status] += 1
        return response

    return handle
