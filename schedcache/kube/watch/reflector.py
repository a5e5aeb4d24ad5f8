"""The EventSource that lists and watches without a library: a state machine for each kind, and their supervisor."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import structlog

from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import WatchSettings
from schedcache.kube.watch.differences import comparison_of
from schedcache.kube.watch.edges import FAILURES
from schedcache.kube.watch.kind_watch import KindWatch, State
from schedcache.kube.watch.kinds import KINDS, HeldObject, Kind
from schedcache.kube.watch.pacing import BackoffManager, Comeback, Timing
from schedcache.kube.watch.probe import Followed, ServerProbe
from schedcache.kube.watch.rebuilds import Rebuilds
from schedcache.kube.watch.stats import KindStats, SourceStats
from schedcache.kube.watch.store import ObjectStore, SinkError
from schedcache.kube.watch.sweep import lasting_differences
from schedcache.model import compare_resource_versions
from schedcache.ports import EventSink, KindComparison, Outage

__all__ = ["Reflector"]


log = structlog.get_logger()


class Reflector:
    """Keeps an EventSink in step with the API server; an EventSource.

    Args:
        transport: requests to the server.
        sink: called with every change, from the event loop that runs `run`.
        kinds: names from `KINDS`.
        settings: deadlines, pauses, pages and sweeps.
        timing: clock, sleep and jitter.
        known: the kinds by name, where some are not to be read as those in `KINDS`.

    Attributes:
        stats: counters, by kind.
        on_compared: told of every comparison of a kind with the server, before what differs is repaired.

    Raises:
        ValueError: a kind that is not in `KINDS`.
    """

    def __init__(
        self,
        transport: Transport,
        sink: EventSink,
        kinds: Iterable[str] = ("Pod", "Node"),
        *,
        settings: WatchSettings = WatchSettings(),
        timing: Timing | None = None,
        known: Mapping[str, Kind] = KINDS,
    ) -> None:
        self.on_compared: Callable[[KindComparison], None] = lambda _: None
        names = tuple(dict.fromkeys(kinds))
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"kinds: {', '.join(unknown)}: expected some of {', '.join(known)}")
        timing = timing or Timing()
        self._transport = transport
        self._sink = sink
        self._settings = settings
        self._clock = timing.clock
        self._sleep = timing.sleep
        self._backoff = BackoffManager(timing, settings)
        self._rebuilt_at = self._swept_at = float("-inf")
        # Kinds to list again, and why.
        self._relists: dict[str, str] = {}
        self._sweep_wanted = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.stats = SourceStats(kinds={name: KindStats() for name in names})
        self._rebuilds = Rebuilds(self.stats.rebuilds)
        comeback = Comeback()
        self._watches = {
            name: KindWatch(
                transport,
                ObjectStore(known[name], sink, self.stats.kinds[name]),
                timing,
                settings,
                comeback,
                self._rebuilds.rolled_back,
            )
            for name in names
        }
        self._probe = ServerProbe(
            transport,
            {name: Followed(known[name], watch.contact, watch.known_version) for name, watch in self._watches.items()},
            settings,
            timing,
            self._rebuilds.rolled_back,
            self._sweep_wanted.set,
        )

    async def run(self) -> None:
        """Feed the sink until cancelled. It goes on whatever the server answers."""
        probing = asyncio.create_task(self._probe_for_ever(), name="reflector probe")
        try:
            while True:
                if self._rebuilds.wanted.is_set():
                    await self._rebuild()
                else:
                    await self._watch_until_rebuild()
        finally:
            probing.cancel()
            await asyncio.wait([probing])
            await self._stop_watches()

    def has_synced(self) -> bool:
        """Whether the first complete list of every kind has been delivered."""
        return all(watch.synced for watch in self._watches.values())

    def resource_versions(self) -> Mapping[str, str]:
        """Kind -> the resourceVersion up to which its changes have been delivered, "" before the first list."""
        return {name: watch.version for name, watch in self._watches.items()}

    def states(self) -> Mapping[str, State]:
        """Kind -> the state of its state machine."""
        return {name: watch.state for name, watch in self._watches.items()}

    def ages(self) -> Mapping[str, float]:
        """Kind -> seconds since the server last sent anything for it, inf for never. Over 70 s, something is wrong."""
        return {name: self._clock() - stats.last_heard for name, stats in self.stats.kinds.items()}

    def outages(self) -> Mapping[str, Outage]:
        """Kind -> since when and why no watch is open; kinds that are watched are left out."""
        found = {name: watch.contact.outage() for name, watch in self._watches.items()}
        return {name: outage for name, outage in found.items() if outage is not None}

    def unanswered(self) -> Outage | None:
        """For how long the server has answered no question at all; None if it answers."""
        return self._probe.outage()

    def held(self, kind: str) -> Mapping[str, HeldObject]:
        """UID -> the latest state of the objects of a kind that were handed on; a live view."""
        return self._watches[kind].store.by_uid

    async def compare(self) -> None:
        """Compare every kind with the server now, and repair what differs; `on_compared` is told of each."""
        for name, watch in self._watches.items():
            if watch.state is State.WATCHING:
                await self._try_sweep(name, watch)
            else:
                self.on_compared(KindComparison(name, problem=f"no watch is open ({watch.state.value})"))

    def request_rebuild(self, reason: str) -> None:
        """Read every kind again and call `on_rebuild`: soon, and once for any number of requests."""
        self._rebuilds.request(reason)

    def rebuild_wanted(self) -> str:
        """Why a rebuild is wanted or under way, "" if none is: what the sink holds may be wrong."""
        return self._rebuilds.reason

    async def _watch_until_rebuild(self) -> None:
        """Run the state machines until a rebuild is wanted."""
        for name, watch in self._watches.items():
            self._tasks[name] = asyncio.create_task(watch.run(), name=f"reflector {name}")
        wanted = asyncio.create_task(self._rebuilds.wanted.wait(), name="rebuild wanted")
        sweeps = asyncio.create_task(self._sweep_for_ever(), name="reflector sweeps")
        try:
            while not wanted.done():
                done, _ = await asyncio.wait([wanted, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
                for name in [name for name, task in self._tasks.items() if task in done]:
                    self._ended(name, self._tasks.pop(name))
        finally:
            wanted.cancel()
            sweeps.cancel()
            await asyncio.wait([sweeps])
            await self._stop_watches()

    async def _probe_for_ever(self) -> None:
        while True:
            try:
                return await self._probe.run()
            except Exception:
                # As with comparisons: a second line of defence.
                log.exception("asking the server crashed, going on")
                await self._sleep(self._backoff.pause())

    async def _sweep_for_ever(self) -> None:
        while self._settings.sweep_interval_seconds is not None:
            await self._until_sweep(self._settings.sweep_interval_seconds)
            self._swept_at = self._clock()
            for name, watch in self._watches.items():
                if watch.state is State.WATCHING:
                    await self._try_sweep(name, watch)

    async def _try_sweep(self, name: str, watch: KindWatch) -> None:
        try:
            await self._sweep(name, watch)
        except FAILURES as error:
            self.stats.kinds[name].list_failures["sweep"] += 1
            log.warning("a comparison failed, trying again later", kind=name, error=str(error))
            self.on_compared(KindComparison(name, problem=str(error)))
        except Exception:
            # Comparing is a second line of defence: a fault in it must not end the first one.
            self.stats.kinds[name].crashes += 1
            log.exception("a comparison crashed, trying again later", kind=name)
            self.on_compared(KindComparison(name, problem="the comparison crashed; the log says why"))

    async def _until_sweep(self, seconds: float) -> None:
        """Wait for the next one. After an outage it comes soon.

        A server that was restored from a backup, and has caught up with what we had seen before anybody could look, gives no other
        sign than objects that differ.
        """
        waiting = asyncio.create_task(self._sweep_wanted.wait())
        resting = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait([waiting, resting], return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                # Once the watches are open again. A server that misses questions since it has too much to do does not get more to do.
                calm = self._swept_at + self._settings.rebuild_calm_seconds - self._clock()
                await self._sleep(max(self._settings.sweep_grace_seconds, calm))
        finally:
            self._sweep_wanted.clear()
            waiting.cancel()
            resting.cancel()

    async def _sweep(self, name: str, watch: KindWatch) -> None:
        """Compare one kind with the server, and list it again if an event was lost."""
        stats = self.stats.kinds[name]
        settings = self._settings
        known, started = watch.version, self._clock()
        found = await lasting_differences(
            self._transport, watch.store, settings, known, partial(self._wait_for_watch, watch)
        )
        self.on_compared(comparison_of(watch.store, found, self._clock() - started))
        if found.rolled_back:
            self._rebuilds.rolled_back(name, known, found.resource_version)
            return
        if not found.gone and not found.behind:
            return
        missed_adds = sum(not version for version in found.behind.values())
        stats.repaired["missed_delete"] += len(found.gone)
        stats.repaired["missed_add"] += missed_adds
        stats.repaired["missed_update"] += len(found.behind) - missed_adds
        log.warning("events were lost, listing again", kind=name, gone=len(found.gone), behind=len(found.behind))
        if name in self._tasks:
            self._relists[name] = "sweep"
            self._tasks[name].cancel()

    async def _wait_for_watch(self, watch: KindWatch, version: str) -> None:
        """Until it has come as far as that version, or has brought nothing for a while: a backlog is no loss."""
        while True:
            before = watch.version
            await self._sleep(self._settings.sweep_grace_seconds)
            if watch.version == before or compare_resource_versions(watch.version, version) != -1:
                return

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """State machines do not end on their own: the sink has failed, or this program has a fault."""
        error = None if task.cancelled() else task.exception()
        watch, stats = self._watches[name], self.stats.kinds[name]
        if isinstance(error, SinkError):
            stats.sink_errors += 1
            log.error("an event could not be applied", kind=name, error=str(error), exc_info=error)
            self.request_rebuild("sink error")
            return
        if (reason := self._relists.pop(name, None)) is not None:
            watch.start_over(reason)
            self._tasks[name] = asyncio.create_task(watch.run(), name=f"reflector {name}")
            return
        stats.crashes += 1
        log.error("a watch crashed, restarting it", kind=name, exc_info=error)
        watch.start_over("crash")
        self._tasks[name] = asyncio.create_task(self._restarted(watch), name=f"reflector {name}")

    async def _restarted(self, watch: KindWatch) -> None:
        await self._sleep(self._backoff.pause())
        await watch.run()

    async def _stop_watches(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _rebuild(self) -> None:
        """List all kinds, then call the sink once. The watches do not run meanwhile."""
        watches = self._watches
        if self._clock() - self._rebuilt_at < self._settings.rebuild_calm_seconds:
            await self._sleep(self._backoff.pause())
        log.warning("reading everything again", reasons=dict(self.stats.rebuilds))
        for watch in watches.values():
            watch.start_over("rebuild")
        try:
            async with asyncio.TaskGroup() as group:
                lists = {name: group.create_task(watch.list(afresh=True)) for name, watch in watches.items()}
            self._rebuilds.done()
            for name, watch in watches.items():
                watch.store.adopt(lists[name].result())
            self._sink.on_rebuild({name: watch.store.objects() for name, watch in watches.items()})
            for name, watch in watches.items():
                watch.delivered(lists[name].result())
            self._rebuilt_at = self._clock()
        except Exception:
            # The sink's state is unknown now, and only another rebuild can help.
            log.exception("the rebuild failed")
            self.request_rebuild("rebuild failed")
            self._rebuilt_at = self._clock()
