"""What every request on the HTTPS port has to pass."""

import asyncio
import ipaddress
from collections.abc import Callable, Iterable

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from schedcache.ports import UserInfo
from schedcache.server.access.authentication import Authenticator
from schedcache.server.access.reviewing import NoReviewError, Reviewer, TooManyReviewsError
from schedcache.server.secure_settings import AccessSettings

MASTERS = "system:masters"
"""Whoever is in this group may do anything, whatever the API server says, or whether it does: as in kube-scheduler."""
_IPV6_NETWORK = 64
log = structlog.get_logger(__name__)


def guard(authenticator: Authenticator, reviewer: Reviewer, settings: AccessSettings) -> Middleware:
    """Lets a request through if its user is known (else 401) and may do that with its path (else 403).

    429 if the answer would need more reviews than its client may cause, and 503 if the API server does not give one in time.
    The verb is the method, in lower case. A path that there is not is answered 404 without asking.
    """
    is_open = open_paths(settings.always_allow_paths)

    async def check(request: web.Request) -> None:
        user = await authenticator.user_of(request, client_of(request.remote))
        if user is None:
            raise web.HTTPUnauthorized(text="Unauthorized", headers={"WWW-Authenticate": "Bearer"})
        if MASTERS in user.groups or isinstance(request.match_info.http_exception, web.HTTPNotFound):
            return
        verb = request.method.lower()
        if not await reviewer.may(user, verb, request.path):
            raise web.HTTPForbidden(text=_forbidden(user, verb, request.path))

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not is_open(request.path):
            try:
                async with asyncio.timeout(settings.review_seconds):
                    await check(request)
            except TooManyReviewsError:
                text = "too many requests with unknown credentials or rights, try again"
                raise web.HTTPTooManyRequests(text=text, headers={"Retry-After": "1"}) from None
            except (NoReviewError, TimeoutError) as error:
                log.warning(
                    "a request was refused: the API server does not say whether it is allowed", error=str(error)
                )
                text = "the API server does not say whether this is allowed, try again"
                raise web.HTTPServiceUnavailable(text=text, headers={"Retry-After": "1"}) from None
        return await handler(request)

    return handle


@web.middleware
async def for_local_names(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers only who calls this machine by a name of its own: on loopback, where there is no other guard.

    Otherwise a web page could give its own name the address 127.0.0.1, and have a browser on this machine read everything to it
    (DNS rebinding).
    """
    # Without the header, as of a program that speaks HTTP/1.0, it is no browser.
    host = request.headers.get("Host", "localhost")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if not is_loopback(name):
        raise web.HTTPForbidden(text=f"this port is for localhost, not for {name!r}")
    return await handler(request)


def is_loopback(name: str) -> bool:
    """Whether it is an address of loopback, or localhost."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def open_paths(paths: Iterable[str]) -> Callable[[str], bool]:
    """Whether a path is one of these, as kube-scheduler's --authorization-always-allow-paths has them.

    A final `*` stands for any ending, a leading slash is optional. Raises ValueError for a `*` anywhere else.
    """
    exact: set[str] = set()
    prefixes: list[str] = []
    for path in paths:
        bare = path.removeprefix("/")
        if "*" in bare[:-1]:
            raise ValueError(f"only a final * is allowed, got {path!r}")
        if bare.endswith("*"):
            prefixes.append(bare[:-1])
        else:
            exact.add(bare)
    begins = tuple(prefixes)

    def is_open(path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in exact or bare.startswith(begins)

    return is_open


def client_of(address: str | None) -> str:
    """What counts as one client: an IPv4 address, or a network of IPv6, of which anybody has as many addresses as they like."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or ""
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_NETWORK), strict=False))


def _forbidden(user: UserInfo, verb: str, path: str) -> str:
    return f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
