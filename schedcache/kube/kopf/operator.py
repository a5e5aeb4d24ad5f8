"""kopf as a source of events: handlers for any operator, and an operator with nothing but these handlers, in its own thread.

It has its own event loop, because kopf blocks the loop for seconds while it reads long lists, and cancels every task in it at the end.
"""

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import aiohttp
import kopf
import structlog
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory

from schedcache.kube.http.credentials import Access, CredentialError, Credentials
from schedcache.kube.http.outcomes import CONNECTION_FAILURES, WATCH, done, failure, retry_after
from schedcache.kube.http.threads import DaemonThreads
from schedcache.kube.http.transport import USER_AGENT
from schedcache.kube.kopf import quiet
from schedcache.kube.settings import KopfSettings
from schedcache.kube.sockets import probing_socket
from schedcache.kube.watch.contact import Contact
from schedcache.kube.watch.edges import Ending, ending_of, ending_of_status
from schedcache.kube.watch.kinds import Kind

CLOSE_SECONDS = 0.1
ERROR_DELAY_SECONDS = 1.0
HANDLER_PREFIX = "schedcache-"

Deliver = Callable[[Kind, str | None, Mapping[str, Any]], None]
"""Called in kopf's thread with an event's type (None: from a list) and its object."""

log = structlog.get_logger()


class KopfEndedError(Exception):
    """kopf has given up; the cause is the exception that it raised, if any."""


class NoDiffBase(kopf.DiffBaseStorage):
    """Stores nothing about an object: nobody asks what has changed, and copying each body to find out is slow."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        pass


class NoProgress(kopf.ProgressStorage):
    """Keeps no progress of handlers: the only handlers are `on.event`, which have none."""

    def fetch(self, *, key: Any, body: kopf.Body) -> None:
        return None

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        pass

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        pass

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        pass

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


class NoMemories(ResourceMemories):
    """Remembers nothing about an object from one event to the next.

    kopf keeps a kilobyte for each object until it sees it deleted. It does not see what is deleted while its watch is interrupted, so
    that would add up until it is restarted. What it remembers is for daemons, timers, indices and memos, of which there are none, and
    for the second of two faults in a row in its own handling of an object, which now waits no longer than the first.

    `spawn_tasks` takes an object of this class, although kopf does not export it.
    """

    async def recall(
        self,
        raw_body: Any,
        *,
        memobase: Any = None,
        noticed_by_listing: bool = False,
        ephemeral: bool = True,
    ) -> ResourceMemory:
        return await super().recall(raw_body, memobase=memobase, noticed_by_listing=noticed_by_listing, ephemeral=True)


class KopfOperator:
    """Runs kopf, repeatedly if asked to; for use within one event loop, while kopf has its own.

    Args:
        credentials: for kopf's login.
        kinds: what to watch, each with the callback for its connections (called in kopf's thread).
        deliver: called with every event.
        probe: what kopf's liveness endpoint answers; called in kopf's thread.
        settings: deadlines, pauses and pages.
        liveness_endpoint: URL at which to serve that, such as `http://0.0.0.0:8080/healthz`; None for nowhere.

    Attributes:
        access: what kopf has logged in with; None before it has.

    Raises:
        CredentialError: the kubeconfig has a `tls-server-name`, which kopf does not support.
    """

    def __init__(
        self,
        credentials: Credentials,
        kinds: Mapping[Kind, Contact],
        deliver: Deliver,
        probe: Callable[[], Mapping[str, Any]],
        settings: KopfSettings,
        liveness_endpoint: str | None = None,
    ) -> None:
        if credentials.access.server_hostname is not None:
            raise CredentialError(f"{credentials.origin}: tls-server-name is not supported with kopf as event source")
        self.access: Access | None = None
        self._credentials = credentials
        self._kinds = kinds
        self._deliver = deliver
        self._probe = probe
        self._settings = settings
        self._liveness_endpoint = liveness_endpoint
        self._logged_in_at: float | None = None
        self._sessions: list[aiohttp.ClientSession] = []

    async def run(self) -> None:
        """Run kopf until it ends, which it does when the API server gives an answer that it does not expect.

        Raises KopfEndedError; when cancelled, kopf is stopped first.
        """
        run = _Run(self._operate, self._settings.stop_seconds)
        try:
            await run.ended()
        finally:
            await run.stop()

    async def _operate(self, stop: asyncio.Event) -> None:
        quiet.tell_failures_sparingly()
        registry = kopf.OperatorRegistry()
        add_handlers(registry, self._kinds, self._deliver)
        kopf.on.login(registry=registry, errors=kopf.ErrorsMode.TEMPORARY, backoff=5)(self._login)
        kopf.on.startup(registry=registry)(self._configure)
        kopf.on.cleanup(registry=registry)(self._clean_up)
        kopf.on.probe(id="schedcache", registry=registry, errors=kopf.ErrorsMode.PERMANENT)(self._answer_probe)
        self._logged_in_at = None
        try:
            others = asyncio.all_tasks()
            with quiet.starting():
                tasks = await kopf.spawn_tasks(
                    registry=registry,
                    memories=NoMemories(),
                    standalone=True,
                    clusterwide=True,
                    stop_flag=stop,
                    liveness_endpoint=self._liveness_endpoint,
                )
            await kopf.run_tasks(tasks, ignored=others)
        finally:
            # kopf closes them as well, unless it gives up.
            for session in self._sessions:
                await session.close()
            self._sessions.clear()
            # TLS connections need the loop a little longer to close.
            await asyncio.sleep(CLOSE_SECONDS)

    async def _configure(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.persistence.diffbase_storage = NoDiffBase()
        settings.persistence.progress_storage = NoProgress()
        # A whole list in one answer would take kopf gigabytes and block it for ten seconds and more.
        settings.watching.chunk_size = self._settings.page_limit
        # An API server may be away for longer than kopf waits, and a restart of kopf takes long.
        settings.networking.error_backoffs = self._settings.error_backoff
        # A fault in kopf's own handling of an object would otherwise hold back that object's events for up to ten minutes.
        settings.queueing.error_delays = [ERROR_DELAY_SECONDS]
        settings.queueing.idle_timeout = 1.0
        settings.queueing.exit_timeout = 0.5
        # It would kill the process if kopf takes long to stop.
        settings.process.ultimate_exiting_timeout = None
        for kind in self._kinds:
            if kind.field_selector:
                settings.watching.field_selectors[kind.group, kind.version, kind.plural] = kind.field_selector
        # Otherwise there are two lines for each event.
        logging.getLogger(quiet.OBJECTS_LOGGER).setLevel(logging.WARNING)
        log.info("kopf starts", kinds=[kind.name for kind in self._kinds])

    async def _clean_up(self, **_: Any) -> None:
        log.info("kopf stops")

    async def _answer_probe(self, **_: Any) -> Mapping[str, Any]:
        return self._probe()

    async def _login(self, **_: Any) -> kopf.AiohttpSession:
        # Called a second time: the server has refused the credentials that kopf was given.
        refused = self._logged_in_at is not None
        if self._logged_in_at is not None:
            # kopf comes back at once, however often it is refused.
            await asyncio.sleep(self._logged_in_at + self._settings.relogin_seconds - time.monotonic())
        access = await asyncio.to_thread(self._credentials.reload if refused else self._credentials.refresh)
        self._logged_in_at, self.access = time.monotonic(), access
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=access.ssl_context or True, socket_factory=probing_socket),
            headers={"User-Agent": USER_AGENT},
            proxy=access.proxy,
            response_class=_Response,
            middlewares=(self._follow,),
        )
        self._sessions = [*(former for former in self._sessions if not former.closed), session]
        # It never expires: kopf would go by the wall clock, and a new login breaks every stream. Each request has the latest token.
        return kopf.AiohttpSession(server=access.server, aiohttp_session=session)

    async def _follow(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request of kopf's with the latest token, and note what becomes of its lists and watches."""
        if authorization := self._credentials.access.authorization:
            request.headers["Authorization"] = authorization
        contact = next((contact for kind, contact in self._kinds.items() if request.url.path.endswith(kind.path)), None)
        try:
            response = await self._unless_throttled(request, handler, contact)
        except CONNECTION_FAILURES as error:
            quiet.note_failure()
            if contact is not None:
                contact.failed(ending_of(failure(WATCH, request.url.path, error)).value)
            raise
        if contact is None:
            return response
        if not done(response.status):
            quiet.note_failure()
            contact.failed(ending_of_status(response.status).value)
            return response
        quiet.note_answer()
        if "watch" in request.url.query and isinstance(response, _Response):
            contact.opened(response)
            response.on_end = partial(contact.ended, response, Ending.CLOSED.value)
        else:
            contact.heard()
        return response

    async def _unless_throttled(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType, contact: Contact | None
    ) -> aiohttp.ClientResponse:
        """Kopf would wait as long as a 429 asks it to, be that an hour, and end if it does not understand the header."""
        while True:
            response = await handler(request)
            if response.status != 429:
                return response
            if contact is not None:
                contact.failed(Ending.THROTTLED.value)
            asked = retry_after(response.headers.get("Retry-After"))
            response.release()
            await asyncio.sleep(min(asked or 1.0, self._settings.retry_after_limit_seconds) * random.uniform(1.0, 1.2))


def add_handlers(registry: kopf.OperatorRegistry, kinds: Iterable[Kind], deliver: Deliver) -> None:
    """Deliver every event of these kinds; no handler makes kopf write anything to an object.

    Objects that a kind's field selector leaves out are reported as deleted: somebody else's operator watches them too.
    """
    for kind in kinds:
        kopf.on.event(kind.group, kind.version, kind.plural, id=f"{HANDLER_PREFIX}{kind.plural}", registry=registry)(
            _handler(kind, deliver)
        )
    quiet.leave_out_successes()


def _handler(kind: Kind, deliver: Deliver) -> Any:
    # A value returned would be written to the object's status.
    async def on_event(type: str | None, event: Mapping[str, Any], **_: Any) -> None:  # noqa: A002  kopf's keyword
        obj = event["object"]
        deliver(kind, type if _selected(kind.field_selector, obj) else "DELETED", obj)
        quiet.note_delivery()

    return on_event


def _selected(field_selector: str, obj: Mapping[str, Any]) -> bool:
    """Whether a selector made of `path!=value` selects the object."""
    for term in filter(None, field_selector.split(",")):
        path, _, unwanted = term.partition("!=")
        value: Any = obj
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value == unwanted:
            return False
    return True


class _Response(aiohttp.ClientResponse):
    """A response that reports when it has ended, however that came about."""

    on_end: Callable[[], None] | None = None

    def release(self) -> Any:
        self._tell()
        return super().release()

    def close(self) -> None:
        self._tell()
        super().close()

    def _tell(self) -> None:
        if self.on_end is not None:
            self.on_end()
            self.on_end = None


def _unless_it_is_the_end(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report uncaught errors, except those of generators that kopf leaves open: everything has ended by then."""
    if "asyncgen" not in context:
        loop.default_exception_handler(context)


class _Run:
    """One life of kopf's thread."""

    def __init__(self, operate: Callable[[asyncio.Event], Any], stop_seconds: float) -> None:
        self._operate = operate
        self._stop_seconds = stop_seconds
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[BaseException | None] = self._loop.create_future()
        self._started = threading.Event()
        self._kopf_loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._main_task: asyncio.Task[Any] | None = None
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)
        self._thread.start()

    async def ended(self) -> None:
        """Wait for kopf's end. Raises KopfEndedError."""
        error = await asyncio.shield(self._end)
        raise KopfEndedError("kopf has ended" if error is None else f"kopf has given up: {error!r}") from error

    async def stop(self) -> None:
        """Ask kopf to stop and wait until it has."""
        await asyncio.to_thread(self._started.wait, self._stop_seconds)
        if self._kopf_loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed: it has ended by itself
                self._kopf_loop.call_soon_threadsafe(self._stop.set)
        await asyncio.wait([self._end], timeout=self._stop_seconds)
        if not self._end.done() and self._kopf_loop is not None and self._main_task is not None:
            # Something keeps it from ending, as may happen when it gives up while it reconnects.
            with contextlib.suppress(RuntimeError):  # as above
                self._kopf_loop.call_soon_threadsafe(self._main_task.cancel)
            await asyncio.wait([self._end], timeout=self._stop_seconds)
        if not self._end.done():
            log.error("kopf did not stop in time; its thread is left behind")

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._main())
        except BaseException as caught:  # noqa: BLE001  whatever ended the thread, the source has to learn of it
            error = caught
        finally:
            self._started.set()
            with contextlib.suppress(RuntimeError):  # the source's loop is closed: nobody is waiting
                self._loop.call_soon_threadsafe(self._tell, error)

    def _tell(self, error: BaseException | None) -> None:
        if not self._end.done():
            self._end.set_result(error)

    async def _main(self) -> None:
        self._kopf_loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._kopf_loop.set_default_executor(DaemonThreads())
        self._kopf_loop.set_exception_handler(_unless_it_is_the_end)
        self._main_task = asyncio.current_task()
        self._started.set()
        await self._operate(self._stop)
