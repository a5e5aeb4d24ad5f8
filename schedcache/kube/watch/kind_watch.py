"""The state machine that keeps one kind in step with the API server."""

import asyncio
from collections import Counter
from collections.abc import Callable
from enum import Enum

import structlog

from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import WatchSettings
from schedcache.kube.watch.contact import Contact
from schedcache.kube.watch.decoder import LineSplitter, decode_event, identify
from schedcache.kube.watch.edges import (
    EDGES,
    FAILURES,
    IDLE_CLOSES,
    IDLE_SECONDS,
    RELIST_AFTER_BROKEN,
    RELIST_AFTER_SILENT,
    Edge,
    Ending,
    Failure,
    Pause,
    ending_of,
    retry_after_of,
)
from schedcache.kube.watch.lister import Lister
from schedcache.kube.watch.pacing import BackoffManager, Comeback, TimeSlice, Timing
from schedcache.kube.watch.store import Listing, ObjectStore
from schedcache.kube.watch.sweep import is_behind
from schedcache.model import MalformedObjectError

log = structlog.get_logger()


class State(Enum):
    """The state of a kind; docs/watch.md has a diagram."""

    EMPTY = "Empty"
    LISTING = "Listing"
    LISTED = "Listed"
    WATCHING = "Watching"
    WAITING = "Waiting"
    """Between a failure and the next try."""


class KindWatch:
    """Lists a kind, then watches it, for ever; for every answer of the server there is an edge.

    Args:
        transport: requests to the server.
        store: takes every change.
        timing: clock, sleep and jitter.
        settings: deadlines, pauses and pages.
        comeback: shared with the other kinds of the same server.
        rolled_back: called with the kind's name, the version seen before and a list's lower one, which is not delivered.

    Attributes:
        state: of the machine.
        contact: whether there is a working connection.
        version: resourceVersion up to which everything has been delivered; opaque, "" before the first list.
        synced: the first complete list has been delivered.
    """

    def __init__(
        self,
        transport: Transport,
        store: ObjectStore,
        timing: Timing,
        settings: WatchSettings,
        comeback: Comeback,
        rolled_back: Callable[[str, str, str], object],
    ) -> None:
        self.store = store
        self.state = State.EMPTY
        self.version = ""
        self.synced = False
        self.contact = Contact(timing.clock, store.stats)
        self.lister = Lister(transport, store, settings, timing.clock, self._heard)
        self._transport = transport
        self._clock = timing.clock
        self._sleep = timing.sleep
        self._rng = timing.rng
        self._inactivity_timeout = settings.inactivity_timeout_seconds
        self._unreachable_pause = settings.unreachable_pause_seconds
        self._comeback = comeback
        self._rolled_back = rolled_back
        # The last version before the list was read again.
        self._known = ""
        self._backoff = BackoffManager(timing, settings)
        self._relist_reason = ""
        # How often a watch has ended in each way since the last useful one.
        self._fruitless: Counter[Ending] = Counter()
        # The ending that was logged last, since the last proper answer.
        self._told: Ending | None = None

    async def run(self) -> None:
        """Never returns. Raises SinkError."""
        while True:
            if not self.version:
                listing = await self.list()
                if is_behind(listing.resource_version, self._known):
                    self._rolled_back(self.store.kind.name, self._known, listing.resource_version)
                    # Every kind is read again, and this task ends for it.
                    await asyncio.Event().wait()
                await self._deliver(listing)
            error, useful = await self._watch()
            await self._follow(error, useful=useful)

    def known_version(self) -> str:
        """The version up to which anything was ever seen of the kind; unlike `version` not "" while it is listed again."""
        return self.version or self._known

    def start_over(self, reason: str) -> None:
        """List again before the next watch; for when the kind's task does not run."""
        self._known, self.version = self.version or self._known, ""
        self._relist_reason = reason
        self.state = State.EMPTY

    def delivered(self, listing: Listing) -> None:
        """All of the list has reached the sink: watch from its version on. Raises SinkError."""
        self.version, self._known = listing.resource_version, ""
        self.state = State.LISTED
        if not self.synced:
            self.synced = True
            self.store.synced()

    async def list(self, *, afresh: bool = False) -> Listing:
        """The whole list, tried until it succeeds."""
        if self._relist_reason:
            self.store.stats.relists[self._relist_reason] += 1
            self._relist_reason = ""
        while True:
            self.state = State.LISTING
            try:
                listing = await self.lister.read(afresh=afresh)
            except FAILURES as error:
                ending = ending_of(error)
                self.store.stats.list_failures[ending.value] += 1
                self.contact.failed(ending.value)
                self._report(ending, error, "list")
                wait = Pause.RETRY_AFTER if EDGES[ending].pause is Pause.RETRY_AFTER else Pause.BACKOFF
                await self._wait(wait, error)
            else:
                return listing

    async def _deliver(self, listing: Listing) -> None:
        time_slice = TimeSlice(self._clock)
        for _ in self.store.replace(listing):
            if time_slice.over():
                await time_slice.rest()
        self.delivered(listing)

    async def _watch(self) -> tuple[Failure | None, bool]:
        """Apply events until the stream ends; the error that ended it (None: it ended properly), and whether it was useful."""
        self.state = State.WATCHING
        stats = self.store.stats
        splitter = LineSplitter()
        started, events_before = self._clock(), stats.watch_events.total()
        stream = object()
        try:
            async with self._transport.stream(self.store.kind.path, self._query(), self._inactivity_timeout) as body:
                self.contact.opened(stream)
                self._works_again()
                time_slice = TimeSlice(self._clock)
                async for chunk in body.iter_any():
                    stats.last_heard = self._clock()
                    for line in splitter.feed(chunk):
                        self._apply(line)
                        if time_slice.over():
                            await time_slice.rest()
            error: Failure | None = None
        except FAILURES as failure:
            error = failure
        finally:
            self.contact.ended(stream, Ending.CLOSED.value)
        fruitful = stats.watch_events.total() > events_before
        # An orderly end after a while is no sign of trouble, even if nothing happened.
        try:
            return error, fruitful or (error is None and self._clock() - started > IDLE_SECONDS)
        finally:
            # Its traceback leads to this frame: the garbage collector, which may take hours, would have to find the two, with the
            # connection's buffers of a quarter of a megabyte.
            del error

    def _query(self) -> dict[str, str]:
        kind = self.store.kind
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.version,
            # Spread over time, so that not all watches of all clients are renewed at once.
            "timeoutSeconds": str(self._rng.randint(300, 600)),
        }
        if kind.field_selector:
            query["fieldSelector"] = kind.field_selector
        return query

    def _apply(self, line: bytes) -> None:
        """Apply one event. Raises BrokenStreamError, StatusError or SinkError."""
        kind, raw = decode_event(line)
        stats = self.store.stats
        if kind in ("ADDED", "MODIFIED"):
            try:
                obj = self.store.read(raw)
            except MalformedObjectError as error:
                identity = identify(raw)
                version = identity.resource_version
                self.store.malformed(identity, error)
            else:
                version = obj.resource_version
                self.store.upsert(obj)
        else:
            identity = identify(raw)
            version = identity.resource_version
            if kind == "DELETED":
                self.store.delete(identity.uid, missed=False)
        stats.watch_events[kind] += 1
        stats.last_event = self._clock()
        self.version = version or self.version

    async def _follow(self, error: Failure | None, *, useful: bool) -> None:
        """Take the edge for the way in which the watch ended."""
        ending = Ending.CLOSED if error is None else ending_of(error)
        if useful:
            self._fruitless.clear()
        else:
            self._fruitless[ending] += 1
        times = self._fruitless[ending]
        if ending is Ending.CLOSED and times >= IDLE_CLOSES:
            ending = Ending.IDLE_CLOSED
        self.store.stats.watch_restarts[ending.value] += 1
        self.contact.failed(ending.value)
        relist, pause = _edge(ending, times)
        if relist:
            self.start_over(ending.value)
        if error is not None:
            self._report(ending, error, "watch")
        await self._wait(pause, error)

    async def _wait(self, pause: Pause, error: Failure | None) -> None:
        if pause is Pause.NONE:
            return
        self.state = State.WAITING
        seconds = self._backoff.pause()
        asked = retry_after_of(error) if pause is Pause.RETRY_AFTER else None
        if asked is not None:
            # Never sooner than asked, and not all clients at the same moment.
            seconds = min(asked, self._transport.settings.retry_after_limit_seconds) * self._rng.uniform(1.0, 1.2)
        if error is not None and ending_of(error) is Ending.CONNECTION:
            await self._comeback.wait(self._sleep(min(seconds, self._unreachable_pause)))
        else:
            await self._sleep(seconds)

    def _heard(self) -> None:
        self.contact.heard()
        self._works_again()

    def _works_again(self) -> None:
        self._comeback.tell()
        if self._told is not None:
            log.info("the server answers again", resource=self.store.kind.plural)
            self._told = None

    def _report(self, ending: Ending, error: Failure, verb: str) -> None:
        """Log it, unless it was the last thing logged: repetitions are counted, and recovery is logged."""
        if ending is self._told:
            return
        about = {"resource": self.store.kind.plural, "verb": verb, "ending": ending.value, "error": str(error)}
        if ending in (Ending.EXPIRED, Ending.SILENT):
            log.info("list or watch ended, starting again", **about)
            return
        self._told = ending
        if ending is Ending.FORBIDDEN:
            log.error("not allowed: the verbs list and watch are needed; trying again", **about)
        else:
            log.warning("list or watch failed, trying again", **about)


def _edge(ending: Ending, times: int) -> Edge:
    """What follows from an ending that has occurred so many times since the last useful watch."""
    relist, pause = EDGES[ending]
    if ending is Ending.BROKEN and times >= RELIST_AFTER_BROKEN:
        relist = True
    if ending is Ending.SILENT and times >= RELIST_AFTER_SILENT:
        relist = True
    if ending is Ending.EXPIRED and times > 1:
        # Even the list's own version had expired: listing without end would only slow the server down. An API server also
        # answers this after it has started; so there is no pause the first time, when enough time has been lost already.
        pause = Pause.BACKOFF
    return Edge(relist, pause)
