"""The HTTPS port: its certificate, whom it recognises, and what keeps both up to date."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog
from aiohttp import web
from msgspec.structs import replace

from schedcache.app.errors import UsageError
from schedcache.app.program import Program
from schedcache.app.serving import serve
from schedcache.kube.access.reviews import ApiReviews, cluster_authentication
from schedcache.kube.http.credentials import CredentialError, load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.ports import ApiError, ClusterAuthentication
from schedcache.server.access.authentication import Authenticator
from schedcache.server.access.guard import guard
from schedcache.server.access.metrics import AccessCollector
from schedcache.server.access.reviewing import Reviewer
from schedcache.server.certificates import CertificateError, read_file
from schedcache.server.secure_settings import AccessSettings
from schedcache.server.share import ProcessorShare
from schedcache.server.tls import TLSContexts

_FIRST_LOOK_SECONDS = 3.0
_LOOK_SECONDS = 10.0
_log = structlog.get_logger(__name__)


class ClientAuthorities:
    """Who vouches for clients: from files where they are given, else from the cluster.

    Args:
        settings: which files, and whether to ask the cluster.
        transport: the way to the cluster.

    Attributes:
        current: what holds now; it stays if files or cluster cannot be read.
        on_change: called when the cluster publishes something else.
    """

    def __init__(self, settings: AccessSettings, transport: Transport) -> None:
        self._settings = settings
        self._transport = transport
        self._published = ClusterAuthentication()
        self._known = False
        self.on_change: Callable[[], None] = lambda: None
        self.current = ClusterAuthentication()

    def pem(self) -> str:
        """All authorities. Raises CertificateError for a file that cannot be used."""
        settings, published = self._settings, self._published
        current = published
        if settings.client_ca_file is not None:
            current = replace(current, client_ca=_bundle(settings.client_ca_file))
        if settings.requestheader_client_ca_file is not None:
            current = replace(
                current,
                requestheader_client_ca=_bundle(settings.requestheader_client_ca_file),
                requestheader_allowed_names=settings.requestheader_allowed_names,
                requestheader_username_headers=settings.requestheader_username_headers,
                requestheader_uid_headers=settings.requestheader_uid_headers,
                requestheader_group_headers=settings.requestheader_group_headers,
                requestheader_extra_headers_prefix=settings.requestheader_extra_headers_prefix,
            )
        self.current = current
        return "\n".join(filter(None, dict.fromkeys((current.client_ca, current.requestheader_client_ca))))

    @property
    def _asks(self) -> bool:
        settings = self._settings
        given = settings.client_ca_file is not None and settings.requestheader_client_ca_file is not None
        return not settings.skip_lookup and not given

    async def begin(self) -> None:
        """Read what the cluster publishes where that must not fail. Raises UsageError if it does."""
        if self._asks and not self._settings.tolerate_lookup_failure:
            try:
                await self._look()
            except (ApiError, CertificateError) as error:
                raise UsageError(f"--authentication-tolerate-lookup-failure=false: {error}") from error

    async def run(self) -> None:
        """Read it from time to time, until cancelled."""
        while self._asks:
            try:
                await self._look()
            except (ApiError, CertificateError) as error:
                _log.warning("what is known of client certificates could not be brought up to date", error=str(error))
            await asyncio.sleep(self._settings.lookup_seconds if self._known else _FIRST_LOOK_SECONDS)
        await asyncio.Event().wait()

    async def _look(self) -> None:
        published = await cluster_authentication(self._transport, _LOOK_SECONDS)
        published = replace(
            published,
            client_ca=_ascii(published.client_ca),
            requestheader_client_ca=_ascii(published.requestheader_client_ca),
        )
        _check(published.client_ca, "client-ca-file")
        _check(published.requestheader_client_ca, "requestheader-client-ca-file")
        self._known = True
        if published != self._published:
            self._published = published
            self.on_change()


def _bundle(path: Path) -> str:
    text = _ascii(read_file(path).decode("ascii", "replace"))
    _check(text, str(path))
    return text


def _ascii(pem: str) -> str:
    """Without what OpenSSL does not take: whose certificate it is stands above it in many bundles, in any language."""
    return pem.encode("ascii", "ignore").decode("ascii")


def _check(pem: str, name: str) -> None:
    if not pem:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"{name}: expected certificates in PEM: {error}") from error


@asynccontextmanager
async def served_securely(
    program: Program, routes: Iterable[web.RouteDef], port: int, share: ProcessorShare
) -> AsyncIterator[int]:
    """Serve the routes over TLS to those who may ask; yields the port. Raises UsageError."""
    settings = program.settings
    async with AsyncExitStack() as stack:
        authentication = await _transport(stack, program, settings.access.authentication_kubeconfig)
        authorization = await _transport(stack, program, settings.access.authorization_kubeconfig)
        reviews = ApiReviews(authentication, authorization, settings.access.token_audiences)
        authorities = ClientAuthorities(settings.access, authentication)
        await authorities.begin()
        try:
            contexts = TLSContexts(settings.tls, authorities.pem)
        except CertificateError as error:
            raise UsageError(f"HTTPS: {error}") from error
        authorities.on_change = contexts.refresh
        reviewer = Reviewer(reviews, settings.access)
        collector = AccessCollector(reviewer.stats, lambda: contexts.expires_at)
        program.registry.register(collector)
        stack.callback(program.registry.unregister, collector)
        guards = [guard(Authenticator(reviewer, lambda: authorities.current), reviewer, settings.access)]
        serving = serve(
            routes,
            settings.bind_address,
            port,
            "--secure-port",
            settings=settings.serving,
            stats=program.serving,
            share=share,
            tls=contexts,
            guards=guards,
        )
        tasks = [asyncio.create_task(work.run(), name=type(work).__name__) for work in (authorities, contexts)]
        stack.push_async_callback(_end, tasks)
        yield await stack.enter_async_context(serving)


async def _transport(stack: AsyncExitStack, program: Program, kubeconfig: str | None) -> Transport:
    if kubeconfig is None:
        return program.transport
    try:
        credentials = load_credentials(kubeconfig)
    except CredentialError as error:
        raise UsageError(str(error)) from error
    return await stack.enter_async_context(Transport(credentials, program.settings.requests))


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
