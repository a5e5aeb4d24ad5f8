"""The EventSource on kopf, for those who already run a kopf operator; sweeps correct it."""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

import kopf
import structlog

from schedcache.kube.http.transport import Transport
from schedcache.kube.kopf.fed import Fed
from schedcache.kube.kopf.operator import KopfOperator, add_handlers
from schedcache.kube.settings import KopfSettings
from schedcache.kube.watch.differences import comparison_of
from schedcache.kube.watch.edges import FAILURES, Ending, ending_of
from schedcache.kube.watch.graveyard import is_newer
from schedcache.kube.watch.kinds import KINDS, HeldObject, Kind
from schedcache.kube.watch.lister import Lister
from schedcache.kube.watch.pacing import BackoffManager, TimeSlice, Timing
from schedcache.kube.watch.probe import Followed, ServerProbe
from schedcache.kube.watch.rebuilds import Rebuilds
from schedcache.kube.watch.stats import KindStats, SourceStats
from schedcache.kube.watch.store import Listing, ObjectStore, SinkError
from schedcache.kube.watch.sweep import Findings, compare, is_behind
from schedcache.ports import EventSink, KindComparison, Outage

__all__ = ["KopfSource"]

GRACE_LOOKS = 20
GRACES = 15

log = structlog.get_logger()


class KopfSource:
    """Keeps an EventSink in step with the API server through kopf; an EventSource.

    kopf reports no deletions that happen while its watch is interrupted, and no end of its first list. A sweep, which
    lists metadata only, finds both, and anything else that kopf misses. The sink is called from the event loop that runs
    `run`, in the order in which events arrive from kopf.

    kopf runs in its own thread here. With `registry` it is an operator that somebody else runs: this source then adds
    handlers to it and sweeps, and `run` may be a task in that operator's loop.

    Args:
        transport: requests to the server, for sweeps and rebuilds; kopf gets its credentials.
        sink: called with every change.
        kinds: names from `KINDS`.
        settings: deadlines, pauses, pages and sweeps.
        liveness_endpoint: URL at which kopf answers probes, None for nowhere; only if kopf runs here.
        registry: of the operator to join, before it starts to watch: in a startup handler at the latest. It has to watch
            all namespaces.
        clock: seconds, monotonic.
        known: the kinds by name, where some are not to be read as those in `KINDS`.

    Attributes:
        stats: counters, by kind.
        on_compared: told of every comparison of a kind with the server, before what differs is repaired.

    Raises:
        ValueError: a kind that is not in `KINDS`.
        CredentialError: kopf cannot use the credentials.
    """

    def __init__(
        self,
        transport: Transport,
        sink: EventSink,
        kinds: Iterable[str] = ("Pod", "Node"),
        *,
        settings: KopfSettings = KopfSettings(),
        liveness_endpoint: str | None = None,
        registry: kopf.OperatorRegistry | None = None,
        clock: Callable[[], float] = time.monotonic,
        known: Mapping[str, Kind] = KINDS,
    ) -> None:
        self.on_compared: Callable[[KindComparison], None] = lambda _: None
        names = tuple(dict.fromkeys(kinds))
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"kinds: {', '.join(unknown)}: expected some of {', '.join(known)}")
        self._transport = transport
        self._sink = sink
        self._settings = settings
        self._clock = clock
        self._backoff = BackoffManager(Timing(clock), settings)
        self.stats = SourceStats(kinds={name: KindStats() for name in names})
        self._rebuilds = Rebuilds(self.stats.rebuilds)
        self._fed: dict[str, Fed] = {}
        for name in names:
            store = ObjectStore(known[name], sink, self.stats.kinds[name])
            self._fed[name] = Fed(store, Lister(transport, store, settings, clock), settings, clock)
        contacts = {known[name]: fed.contact for name, fed in self._fed.items()}
        self._operator: KopfOperator | None = None
        if registry is not None:
            add_handlers(registry, contacts, self._arrive)
        else:
            self._operator = KopfOperator(
                transport.credentials, contacts, self._arrive, self._probe, settings, liveness_endpoint
            )
        self._operating: asyncio.Task[None] | None = None
        self._sweep_wanted = asyncio.Event()
        # Why kopf is being stopped, "" if it is not; until it is started again, nothing that it says counts.
        self._stopping = ""
        self._operating_since = clock()
        self._server_probe = ServerProbe(
            transport,
            {name: Followed(known[name], fed.contact, fed.known_version) for name, fed in self._fed.items()},
            settings,
            Timing(clock),
            self._rolled_back,
            self._sweep_wanted.set,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        # Filled in kopf's thread, emptied in the loop's.
        self._arrivals: deque[tuple[Kind, str | None, Mapping[str, Any]]] = deque()
        self._stopped = False
        self._woken = threading.Event()
        self._arrived = asyncio.Event()
        # Held while stores change: a full list must not interleave with events.
        self._applying = asyncio.Lock()
        # Who waits for the next round of sweeps.
        self._asked: list[asyncio.Future[None]] = []
        self._rebuilt_at = float("-inf")
        self._reliable = asyncio.Event()
        self._reliable.set()

    async def run(self) -> None:
        """Feed the sink until cancelled. It goes on whatever the server answers, and if kopf ends."""
        self._loop, self._stopped = asyncio.get_running_loop(), False
        # An operator that was joined may have reported something already.
        self._arrived.set()
        works: dict[str, Callable[[], Awaitable[None]]]
        works = {"pump": self._pump, "sweep": self._sweep_for_ever, "rebuild": self._rebuild_for_ever}
        works["probe"] = self._probe_for_ever
        if self._operator is not None:
            works["operate"] = partial(self._operate, self._operator)
            works["supervise"] = partial(self._supervise, self._operator)
        try:
            async with asyncio.TaskGroup() as group:
                for name, work in works.items():
                    group.create_task(self._for_ever(name, work), name=f"kopf source {name}")
        finally:
            # An operator that was joined goes on reporting, and nobody listens.
            self._stopped = True
            self._arrivals.clear()
            for fed in self._fed.values():
                fed.lost("stopped")

    def has_synced(self) -> bool:
        """Whether the first complete list of every kind has been delivered."""
        return all(fed.synced for fed in self._fed.values())

    def resource_versions(self) -> Mapping[str, str]:
        """Kind -> the latest resourceVersion of what was delivered.

        kopf keeps the order of events only within one object, so events before it may still be on their way.
        """
        return {name: fed.version for name, fed in self._fed.items()}

    def ages(self) -> Mapping[str, float]:
        """Kind -> seconds since the last event or a sweep's list, inf for never."""
        return {name: self._clock() - stats.last_heard for name, stats in self.stats.kinds.items()}

    def outages(self) -> Mapping[str, Outage]:
        """Kind -> since when and why kopf has no watch open; kinds that it watches are left out."""
        found = {name: fed.contact.outage() for name, fed in self._fed.items()}
        return {name: outage for name, outage in found.items() if outage is not None}

    def unanswered(self) -> Outage | None:
        """For how long the server has answered no question at all; None if it answers."""
        return self._server_probe.outage()

    def held(self, kind: str) -> Mapping[str, HeldObject]:
        """UID -> the latest state of the objects of a kind that were handed on; a live view."""
        return self._fed[kind].store.by_uid

    async def compare(self) -> None:
        """Compare every kind with the server now, and repair what differs; `on_compared` is told of each."""
        swept = asyncio.get_running_loop().create_future()
        self._asked.append(swept)
        self._sweep_wanted.set()
        await swept

    def request_rebuild(self, reason: str) -> None:
        """Read every kind again and call `on_rebuild`: soon, and once for any number of requests."""
        self._rebuilds.request(reason)

    def rebuild_wanted(self) -> str:
        """Why a rebuild is wanted or under way, "" if none is: what the sink holds may be wrong."""
        return self._rebuilds.reason

    async def _for_ever(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except SinkError as error:
                log.exception("an event could not be applied", kind=error.kind)
                self.stats.kinds[error.kind].sink_errors += 1
                # Nothing more is applied until the sink has been rebuilt.
                self._reliable.clear()
                self.request_rebuild("sink error")
            except Exception:
                log.exception("a task of the kopf source crashed, restarting it", task=name)
                for stats in self.stats.kinds.values():
                    stats.crashes += 1
                await asyncio.sleep(self._backoff.pause())

    # In kopf's thread.

    def _arrive(self, kind: Kind, type_: str | None, obj: Mapping[str, Any]) -> None:
        if self._stopped or self._stopping:
            return
        self._arrivals.append((kind, type_, obj))
        if not self._woken.is_set() and self._loop is not None:
            self._woken.set()
            self._loop.call_soon_threadsafe(self._arrived.set)

    def _probe(self) -> Mapping[str, Any]:
        return {name: {"synced": fed.synced, "held": len(fed.store)} for name, fed in self._fed.items()}

    # In the loop's.

    async def _operate(self, operator: KopfOperator) -> None:
        """Run kopf, and restart it when it gives up or misses too much."""
        self._stopping, self._operating_since = "", self._clock()
        operating = self._operating = asyncio.create_task(operator.run(), name="kopf")
        try:
            await asyncio.wait([operating])
        finally:
            operating.cancel()
            await asyncio.wait([operating])
        error = None if operating.cancelled() else operating.exception()
        cause = error.__cause__ if error is not None else None
        reason = (self._stopping or "stale") if error is None else type(cause or error).__name__
        self.stats.source_restarts[reason] += 1
        log.warning("kopf has ended, restarting it", reason=reason, error=str(error))
        # It will not report what happens until it runs again.
        self._sweep_wanted.set()
        await asyncio.sleep(self._backoff.pause())

    def _restart(self, reason: str) -> None:
        """Stop kopf; it is started again after a pause."""
        if self._operating is not None and not self._stopping:
            self._stopping = reason
            self._operating.cancel()

    async def _supervise(self, operator: KopfOperator) -> None:
        """Restart kopf when it sees nothing although the server answers, or when it could not know new certificates.

        It may wait for something that will never come, or retry for ever with what it once logged in with.
        """
        while True:
            await asyncio.sleep(1.0)
            had, has = operator.access, self._transport.credentials.access
            if had is not None and (had.server, had.ssl_context, had.proxy) != (has.server, has.ssl_context, has.proxy):
                operator.access = None
                self._restart("credentials")
                continue
            limit = self._settings.blind_seconds
            last_event = max(stats.last_event for stats in self.stats.kinds.values())
            if not self._server_probe.answers() or self._clock() - max(self._operating_since, last_event) < limit:
                continue
            for name, outage in self.outages().items():
                # A server that throttles is not to be asked for whole lists again and again.
                patience = self._settings.retry_after_limit_seconds if outage.why == Ending.THROTTLED.value else 0.0
                if outage.seconds > limit + patience:
                    log.warning("kopf has no watch although the server answers", kind=name, why=outage.why)
                    self._restart("blind")
                    break

    async def _probe_for_ever(self) -> None:
        await self._server_probe.run()
        # There is to be no asking.
        await asyncio.Event().wait()

    def _rolled_back(self, name: str, known: str, found: str) -> None:
        """The server has an older state of the kind than what was seen of it, so nothing that is held can be relied on."""
        if not self._rebuilds.rolled_back(name, known, found):
            return
        # What has arrived is from the time that is lost, and kopf would go on waiting for it.
        self._arrivals.clear()
        self._restart("rollback")
        for fed in self._fed.values():
            fed.forget()

    async def _pump(self) -> None:
        """Apply what has arrived, in slices."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            self._woken.clear()
            while self._arrivals:
                await self._reliable.wait()
                async with self._applying:
                    self._apply_slice()
                await asyncio.sleep(0)

    def _apply_slice(self) -> None:
        time_slice = TimeSlice(self._clock)
        while self._arrivals and not time_slice.over():
            kind, type_, obj = self._arrivals.popleft()
            fed, stats = self._fed[kind.name], self.stats.kinds[kind.name]
            stats.watch_events[type_ or "LISTED"] += 1
            stats.last_heard = stats.last_event = self._clock()
            if type_ is None and fed.synced:
                # A list after the first one: kopf has had a gap.
                self._sweep_wanted.set()
            fed.apply(type_, obj)

    async def _sweep_for_ever(self) -> None:
        while True:
            self._sweep_wanted.clear()
            asked, self._asked = self._asked, []
            try:
                for name, fed in self._fed.items():
                    await self._sweep(name, fed)
            finally:
                for swept in asked:
                    if not swept.done():
                        swept.set_result(None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._until_next_sweep()):
                    await self._sweep_wanted.wait()

    def _until_next_sweep(self) -> float:
        """Seconds; soon where kopf may have missed something: while it has no watch, and in the first minutes after its start."""
        interval, soon = self._settings.sweep_interval_seconds, self._settings.blind_sweep_seconds
        if not self.has_synced():
            return min(0.5, interval)
        if self._operator is None:
            return interval
        if self._server_probe.answers() and self.outages():
            return min(soon, interval)
        return min(interval, max(soon, (self._clock() - self._operating_since) / 2))

    async def _sweep(self, name: str, fed: Fed) -> None:
        """Compare one kind, give kopf time to catch up, and repair the rest. Raises SinkError."""
        stats = self.stats.kinds[name]
        known, graves = fed.version, fed.graves
        started = self._clock()
        try:
            findings = await compare(self._transport, fed.store, self._settings, known)
            stats.last_heard = self._clock()
            if findings.rolled_back and not is_behind(fed.version, known):
                self._rolled_back(name, known, findings.resource_version)
                return
            await self._wait_for_kopf(fed, findings)
            await self._reliable.wait()
            behind = fed.still_behind(findings)
            if behind and not fed.synced and not fed.stalled():
                return
            if fed.synced:
                left = findings._replace(
                    gone=fed.still_gone(findings), behind={uid: findings.behind[uid] for uid in behind}
                )
                self.on_compared(comparison_of(fed.store, left, self._clock() - started))
            async with self._applying:
                if fed.graves is not graves:
                    # The server was set back since: what it said before is no measure.
                    return
                if behind:
                    await self._catch_up(fed, behind)
                else:
                    self._remove(fed, findings)
        except FAILURES as error:
            log.warning("a sweep failed, trying again later", kind=name, error=str(error))
            stats.list_failures["sweep"] += 1
            self.on_compared(KindComparison(name, problem=str(error)))
            if self._operator is None:
                fed.lost(ending_of(error).value)
        else:
            self._judge(name, fed, kopf_is_behind=bool(behind))

    async def _wait_for_kopf(self, fed: Fed, findings: Findings) -> None:
        """Until it has reported everything, or nothing for a while: a backlog is no loss."""
        events = fed.store.stats.watch_events
        for _ in range(GRACES):
            before = events.total()
            for _ in range(GRACE_LOOKS):
                if not fed.still_gone(findings) and not fed.still_behind(findings):
                    return
                await asyncio.sleep(self._settings.sweep_grace_seconds / GRACE_LOOKS)
            if events.total() == before and not self._arrivals:
                return

    async def _catch_up(self, fed: Fed, behind: Iterable[str]) -> None:
        """Read the whole kind without kopf. Raises SinkError and what the lister raises."""
        repaired, missed_deletes = fed.store.stats.repaired, fed.store.stats.missed_deletes
        listing = await fed.lister.read()
        for uid in behind:
            repaired["missed_update" if uid in fed.store else "missed_add"] += 1
        time_slice = TimeSlice(self._clock)
        for _ in fed.store.replace(listing):
            if time_slice.over():
                await time_slice.rest()
        repaired["missed_delete"] += fed.store.stats.missed_deletes - missed_deletes
        fed.listed(listing.resource_version)

    def _remove(self, fed: Fed, findings: Findings) -> None:
        for uid in fed.still_gone(findings):
            fed.graves.bury(uid, findings.resource_version)
            fed.store.delete(uid, missed=True)
            fed.store.stats.repaired["missed_delete"] += 1
        # A rebuild may have read a later list since.
        if is_newer(findings.resource_version, fed.graves.floor):
            fed.listed(findings.resource_version)

    def _judge(self, name: str, fed: Fed, *, kopf_is_behind: bool) -> None:
        first = not fed.synced
        if first:
            fed.synced = True
            fed.store.synced()
        elif kopf_is_behind:
            fed.stale_sweeps += 1
        if self._operator is None:
            self._judge_operator_joined(name, fed, kopf_is_behind=kopf_is_behind)
        elif kopf_is_behind and not first:
            # It may be about to give up, which can take it a minute: look again soon.
            self._sweep_wanted.set()
        if fed.stale_sweeps >= self._settings.stale_sweeps and self._operating is not None:
            fed.stale_sweeps = 0
            self._restart("stale")

    def _judge_operator_joined(self, name: str, fed: Fed, *, kopf_is_behind: bool) -> None:
        """Its connections cannot be seen, so judge it by what a sweep found."""
        if not kopf_is_behind:
            fed.contact.opened(fed)
            return
        fed.lost("kopf is behind")
        if fed.stale_sweeps % self._settings.stale_sweeps == 0:
            log.warning("kopf misses events, sweeps make up for them; does it watch all namespaces?", kind=name)

    async def _rebuild_for_ever(self) -> None:
        while True:
            await self._rebuilds.wanted.wait()
            if self._clock() - self._rebuilt_at < self._settings.rebuild_calm_seconds:
                await asyncio.sleep(self._backoff.pause())
            async with self._applying:
                await self._rebuild()

    async def _rebuild(self) -> None:
        log.warning("reading everything again", reasons=dict(self.stats.rebuilds))
        listings = {name: await self._list_afresh(name, fed) for name, fed in self._fed.items()}
        self._rebuilds.done()
        try:
            for name, fed in self._fed.items():
                fed.store.adopt(listings[name])
            self._sink.on_rebuild({name: fed.store.objects() for name, fed in self._fed.items()})
            for name, fed in self._fed.items():
                fed.listed(listings[name].resource_version)
                if not fed.synced:
                    fed.synced = True
                    fed.store.synced()
        except Exception:
            # The sink's state is unknown now, and only another rebuild can help.
            log.exception("the rebuild failed")
            self.request_rebuild("rebuild failed")
        else:
            self._reliable.set()
        self._rebuilt_at = self._clock()

    async def _list_afresh(self, name: str, fed: Fed) -> Listing:
        while True:
            try:
                return await fed.lister.read(afresh=True)
            except FAILURES as error:
                log.warning("a list failed, trying again", kind=name, error=str(error))
                self.stats.kinds[name].list_failures[ending_of(error).value] += 1
                await asyncio.sleep(self._backoff.pause())
