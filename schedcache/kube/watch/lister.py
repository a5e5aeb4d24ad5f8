"""Reading all objects of a kind, page by page."""

import asyncio
from collections.abc import Callable

from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import SourceSettings
from schedcache.kube.watch.decoder import decode_page
from schedcache.kube.watch.pacing import TimeSlice
from schedcache.kube.watch.store import Listing, ObjectStore
from schedcache.ports import RefusedError


class Lister:
    """Lists one kind with quorum reads, so that no list is older than what was seen before.

    Args:
        transport: requests to the server.
        store: of the kind.
        settings: size and deadline of a page.
        clock: seconds, monotonic.
        heard: called whenever a page has come.

    Attributes:
        page: number of the page that is being read, 0 between lists.
    """

    def __init__(
        self,
        transport: Transport,
        store: ObjectStore,
        settings: SourceSettings,
        clock: Callable[[], float],
        heard: Callable[[], None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._store = store
        self._settings = settings
        self._clock = clock
        self._heard = heard
        self.page = 0

    async def read(self, *, afresh: bool = False) -> Listing:
        """The whole list; unless `afresh`, an object that is held in the same resourceVersion is not decoded again.

        Raises RefusedError, UnavailableError or BrokenStreamError; what was read until then is not used.
        """
        try:
            return await self._read({"limit": str(self._settings.page_limit)}, afresh=afresh)
        except RefusedError as error:
            if error.status != 410 or self.page < 2:
                raise
        finally:
            self.page = 0
        # The pages' snapshot was compacted away between two pages: start again, in one piece that cannot expire.
        self._store.stats.list_failures["page expired"] += 1
        try:
            return await self._read({}, afresh=afresh)
        finally:
            self.page = 0

    async def _read(self, limit: dict[str, str], *, afresh: bool) -> Listing:
        kind, stats = self._store.kind, self._store.stats
        params = limit | ({"fieldSelector": kind.field_selector} if kind.field_selector else {})
        listing = Listing()
        time_slice = TimeSlice(self._clock)
        self.page = 0
        asked = self._ask(params)
        try:
            while True:
                self.page += 1
                page = decode_page(await asked)
                stats.list_pages += 1
                stats.last_heard = self._clock()
                self._heard()
                if page.next:
                    # The server prepares the next page while this one is read.
                    asked = self._ask(params | {"continue": page.next})
                    await time_slice.rest()
                for raw in page.items:
                    self._store.read_into(listing, raw, afresh=afresh)
                    if time_slice.over():
                        await time_slice.rest()
                if not page.next:
                    stats.lists += 1
                    listing.resource_version = page.resource_version
                    return listing
        finally:
            asked.cancel()

    def _ask(self, params: dict[str, str]) -> "asyncio.Task[bytes]":
        path, timeout = self._store.kind.path, self._settings.page_timeout_seconds
        asked = asyncio.create_task(self._transport.get(path, params, timeout=timeout))
        # A page that nobody waits for any more may fail in silence.
        asked.add_done_callback(lambda asked: asked.cancelled() or asked.exception())
        return asked
