"""One scheduler with its way to the API server: made, run and stopped."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import structlog
from prometheus_client import CollectorRegistry

from schedcache.app.currency import cache_problems, watch_problems
from schedcache.app.extenders import extender_settings, known_kinds
from schedcache.app.idle import Nobody
from schedcache.app.leader_election import new_identity
from schedcache.app.leader_metrics import LeaderCollector
from schedcache.app.own_pod import own_pod
from schedcache.app.plugins import watched_kinds
from schedcache.app.request_metrics import RequestCollector
from schedcache.app.settings import Settings
from schedcache.app.source_metrics import SourceCollector
from schedcache.cache import CacheCorruptedError, ClusterObjects, SchedulerCache
from schedcache.framework import Extenders, Framework
from schedcache.kube.extender.client import HttpExtenders
from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.leader_election.elector import LeaderElector
from schedcache.kube.leader_election.fence import clock_with_suspend
from schedcache.kube.leader_election.lease_lock import ApiLeaseLock
from schedcache.kube.watch.kinds import KINDS, Kind
from schedcache.kube.watch.pacing import Timing
from schedcache.kube.watch.reflector import Reflector
from schedcache.kube.write.binder import ApiBinder
from schedcache.kube.write.event_recorder import ApiEventRecorder
from schedcache.kube.write.evictor import ApiEvictor
from schedcache.kube.write.rate import TokenBucket
from schedcache.kube.write.status_writer import ApiStatusWriter
from schedcache.kube.write.urgent import Urgent
from schedcache.kube.write.volume_writer import ApiVolumeWriter
from schedcache.model import Pod
from schedcache.plugins.default_plugins import installed_registry
from schedcache.ports import EventSink, Fence
from schedcache.scheduling import PodStore, Preemptions, Scheduler, make_profiles
from schedcache.server.compare_metrics import CompareCollector
from schedcache.server.comparing import Comparer
from schedcache.server.dump import has_work
from schedcache.server.metrics import PrometheusMetrics
from schedcache.server.process_metrics import TaskCollector
from schedcache.server.share import ProcessorShare
from schedcache.server.state_metrics import StateCollector
from schedcache.server.stats import ServingCollector, ServingStats

_SYNC_LOOK_SECONDS = 0.02
_CONFIRM_SECONDS = 1.0
# By number of objects that were made and not freed: fewer young collections than Python's default makes, since nearly everything on
# the hot path is freed by its reference count. What is left of failed requests is not (an exception and its frames hold one another),
# and outlives young collections; so an old one comes after 120,000 objects. It leaves out what was read at the start.
_GC_THRESHOLDS = (20_000, 3, 2)
_log = structlog.get_logger(__name__)


if TYPE_CHECKING:
    from schedcache.kube.kopf.source import KopfSource


class Program:
    """A scheduler, its event source, what it writes in the background, and its metrics.

    `run` follows and schedules until cancelled, then stops cleanly.
    """

    def __init__(  # noqa: PLR0913  what `assembled` has made, each part once
        self,
        scheduler: Scheduler,
        source: "Reflector | KopfSource",
        registry: CollectorRegistry,
        transport: Transport,
        binder: ApiBinder,
        settings: Settings,
        *,
        writers: Sequence[ApiEventRecorder | ApiStatusWriter] = (),
        elector: LeaderElector | None = None,
        volume_writer: ApiVolumeWriter | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.source = source
        self.registry = registry
        self.transport = transport
        self.binder = binder
        self.settings = settings
        self.elector = elector
        self.stopping = False
        self.serving = ServingStats()
        recorder = next((writer for writer in writers if isinstance(writer, ApiEventRecorder)), Nobody())
        self.comparer = Comparer(
            scheduler,
            source,
            recorder,
            ProcessorShare(lambda: has_work(scheduler), settings.serving.busy_share),
            own_pod=partial(own_pod, scheduler.state.pods),
            interval=settings.watch.sweep_interval_seconds,
        )
        registry.register(CompareCollector(self.comparer))
        registry.register(ServingCollector(self.serving))
        self._writers = writers
        self._volume_writer = volume_writer
        self._tasks: list[asyncio.Task[None]] = []
        self._electing: asyncio.Task[None] | None = None

    def failed_task(self) -> str:
        """The name of a task that should run and does not, "" if there is none."""
        return next((task.get_name() for task in self._tasks if task.done()), "")

    async def run(self) -> None:
        """Raises whatever ends the source, a writer or the loop, which none does by itself; and LeadershipLostError."""
        # From the first list on, which makes hundreds of thousands of objects and nearly no garbage.
        gc.set_threshold(*_GC_THRESHOLDS)
        async with asyncio.TaskGroup() as background:
            for writer in self._writers:
                self._start(background, writer.run(), type(writer).__name__)
            self._start(background, self.source.run(), "event source")
            self._start(background, self.binder.rights.run(), "bind rights")
            self._start(background, self.comparer.run(), "comparisons")
            try:
                if self.elector is None:
                    await self._schedule()
                else:
                    await self._schedule_as_leader(self.elector)
            finally:
                # What is under way may still be settled by an event, and what happened may still be told.
                self.stopping = True
                await self._drain()
                for task in self._tasks:
                    task.cancel()

    async def _schedule_as_leader(self, elector: LeaderElector) -> None:
        self.scheduler.pause()
        # Outside the group, whose other tasks would be ended with it, and be missed when what is under way is brought to an end.
        electing = asyncio.create_task(elector.run(), name="leader election")
        scheduling = asyncio.create_task(self._schedule(), name="scheduling")
        self._tasks += electing, scheduling
        try:
            await asyncio.wait((electing, scheduling), return_when=asyncio.FIRST_COMPLETED)
        finally:
            scheduling.cancel()
            await asyncio.wait([scheduling])
            if not electing.done():
                self._electing = electing
        for task in (electing, scheduling):
            if task.done():
                task.result()

    def _start(self, group: asyncio.TaskGroup, work: Coroutine[None, None, None], name: str) -> None:
        self._tasks.append(group.create_task(work, name=name))

    async def _schedule(self) -> None:
        clock = self.scheduler.state.clock
        started = clock()
        while not self.source.has_synced():  # noqa: ASYNC110  sources are asked, they have no event to wait for
            await asyncio.sleep(_SYNC_LOOK_SECONDS)
        keep_what_was_read()
        cache = self.scheduler.state.cache
        _log.info(
            "synced",
            nodes=cache.node_count(),
            pods=len(self.scheduler.state.pods),
            seconds=round(clock() - started, 3),
            scheduler_names=sorted(self.scheduler.frameworks),
        )
        if self.elector is not None:
            self.elector.stand(self._out_of_date)
        await self.scheduler.run()

    def _out_of_date(self) -> str:
        """Why another replica should rather lead: this one does not see the cluster as it is."""
        return watch_problems(self.source, self.settings.health) or cache_problems(self.source)

    async def _drain(self) -> None:
        under_way = len(self.scheduler.bindings)
        until = asyncio.get_running_loop().time() + self.settings.stop.drain_seconds
        cut_off = await self.scheduler.drain(self.settings.stop.drain_seconds)
        if self.elector is not None and self._electing is not None:
            left = max(_CONFIRM_SECONDS, until - asyncio.get_running_loop().time())
            _, unsettled = await asyncio.gather(self._confirmed(), self._settled(left))
            cut_off += unsettled
            # The Lease was renewed until here. Where a request may still arrive, it is left to run out.
            self._electing.cancel()
            await asyncio.wait([self._electing])
            if cut_off == 0:
                await self.elector.release()
            else:
                self.elector.stop()
        limit = self.settings.stop.write_seconds
        left = sum(await asyncio.gather(*(writer.drain(limit) for writer in self._writers)))
        _log.info("stopped scheduling", bindings_awaited=under_way, writes_left=left)

    async def _settled(self, longest: float) -> int:
        """See to its end what is written besides bindings and evictions, so that the next leader's writes come later.

        Returns how many writes may still arrive after `longest` seconds.
        """
        ends = [one.settle(_CONFIRM_SECONDS, longest) for one in self._writers if isinstance(one, ApiStatusWriter)]
        if self._volume_writer is not None:
            ends.append(self._volume_writer.settle(longest))
        return sum(await asyncio.gather(*ends))

    async def _confirmed(self) -> None:
        """Wait until the watch has shown what was bound, so that the next leader's has, too, when it begins to fill nodes."""
        try:
            async with asyncio.timeout(_CONFIRM_SECONDS):
                while self.scheduler.state.cache.assumed_pods:  # noqa: ASYNC110  nobody tells, as in _schedule
                    await asyncio.sleep(_SYNC_LOOK_SECONDS)
        except TimeoutError:
            _log.debug("stopping although binds are not confirmed", pods=len(self.scheduler.state.cache.assumed_pods))


def keep_what_was_read() -> None:
    """What was read at the start stays, so the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    # Old collections wait until a quarter has been added to what this one counts: now, nothing.
    gc.collect()


@asynccontextmanager
async def assembled(
    settings: Settings, connection: Transport | None = None, timing: Timing | None = None
) -> AsyncIterator[Program]:
    """A program that is ready to run, with its connections.

    Args:
        settings: what to run.
        connection: the way to the API server, not opened yet; None: the one that the settings describe.
        timing: clocks and randomness of all parts. They sleep as the event loop does.

    Raises CredentialError, ExtenderSetupError, or PluginSetError or RegistryError for a profile that does not make sense.
    """
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    called = () if settings.observe else extender_settings(settings.configuration)
    transport = connection or Transport(load_credentials(settings.kubeconfig), settings.requests)
    elector = make_elector(settings, transport, lambda: scheduler, timing)
    fence = None if elector is None else elector.fence
    timing = timing or Timing()
    clock, rng = timing.clock, timing.rng
    async with transport, HttpExtenders(called, fence) as http_extenders:
        extenders = Extenders(http_extenders, metrics=metrics, clock=clock)
        kinds = known_kinds(called, extenders, [profile.scheduler_name for profile in settings.profiles])
        read_pod = cast("Callable[[bytes], Pod]", kinds["Pod"].from_json)
        rate = _budget(transport, settings, clock)
        binder = ApiBinder(transport, rate, settings.writes, clock, read_pod, fence=fence)
        writing = None if settings.observe else _writing_side(transport, settings, timing, metrics, fence)
        recorder, status_writer, preemptions = writing or (Nobody(), Nobody(), None)
        volume_writer = ApiVolumeWriter(transport, _budget(transport, settings, clock), fence)
        pods, plugins = PodStore(), installed_registry()

        def contradicted(error: CacheCorruptedError) -> None:
            scheduler.state.contradicted("validation", error)

        objects = ClusterObjects(settings.validate, contradicted, clock)
        cache = SchedulerCache(settings.assumed_pod_ttl, clock, validate=settings.validate, on_corruption=contradicted)
        frameworks, queue = make_profiles(
            settings.profiles,
            plugins,
            objects=objects,
            binder=binder,
            volume_writer=volume_writer,
            node_lister=cache.get_node,
            extenders=extenders,
            preemption=preemptions,
            chance=rng,
            percentage_of_nodes_to_score=settings.configuration.percentage_of_nodes_to_score,
            pod_lister=pods.get,
            clock=clock,
            initial_backoff=settings.configuration.pod_initial_backoff_seconds,
            max_backoff=settings.configuration.pod_max_backoff_seconds,
            max_in_unschedulable=settings.max_in_unschedulable,
            metrics=metrics,
            queue_metrics=metrics,
        )
        scheduler = Scheduler(
            cache=cache,
            queue=queue,
            pods=pods,
            objects=objects,
            frameworks=frameworks,
            binder=binder,
            status_writer=status_writer,
            recorder=recorder,
            metrics=metrics,
            clock=clock,
            sleep=asyncio.sleep,
            rng=rng,
            # As many again wait for their turn, so that a request follows where another ends.
            max_binding=2 * settings.writes.concurrent_binds,
            preemptions=preemptions,
            request_rebuild=lambda reason: source.request_rebuild(reason),  # noqa: PLW0108  made below
        )
        source = make_source(settings, transport, scheduler.handlers, frameworks.values(), kinds, timing)
        registry.register(StateCollector(scheduler))
        registry.register(TaskCollector(asyncio.get_running_loop()))
        registry.register(SourceCollector(source))
        registry.register(RequestCollector(transport.stats))
        if elector is not None:
            registry.register(LeaderCollector(elector))
        writers = writing[:2] if writing else ()
        yield Program(
            scheduler,
            source,
            registry,
            transport,
            binder,
            settings,
            writers=writers,
            elector=elector,
            volume_writer=volume_writer,
        )


def make_elector(
    settings: Settings, transport: Transport, scheduler: Callable[[], Scheduler], timing: Timing | None = None
) -> LeaderElector | None:
    """The candidate for the Lease that the settings name, None without; it has the scheduler go on and stop."""
    election = settings.leader_election
    if election is None or settings.observe:
        return None
    return LeaderElector(
        ApiLeaseLock(transport, election.resource_namespace, election.resource_name),
        election,
        identity=new_identity(),
        on_started_leading=lambda: scheduler().resume(),
        on_stopped_leading=lambda: scheduler().pause(),
        clock=clock_with_suspend if timing is None else timing.clock,
        wall_clock=time.time if timing is None else timing.wall_clock,
        rng=None if timing is None else timing.rng,
    )


def _budget(transport: Transport, settings: Settings, clock: Callable[[], float]) -> TokenBucket:
    return TokenBucket(settings.qps, settings.burst, clock, observe=transport.stats.throttled)


def _writing_side(
    transport: Transport, settings: Settings, timing: Timing, metrics: PrometheusMetrics, fence: Fence | None
) -> tuple[ApiEventRecorder, ApiStatusWriter, Preemptions]:
    """Neither bad news nor a burst of binds delays the room that somebody waits for: evictions have a budget of their own.

    Events and what else is written into a pod's status draw from a second one, and never from that of binds.
    """
    budget, rate = _budget(transport, settings, timing.clock), _budget(transport, settings, timing.clock)
    urgent, writes, wall_clock = Urgent(), settings.writes, timing.wall_clock
    names = [profile.scheduler_name for profile in settings.profiles]
    recorder = ApiEventRecorder(transport, budget, names, writes, wall_clock=wall_clock, urgent=urgent)
    status_writer = ApiStatusWriter(transport, budget, writes, wall_clock, fence=fence, urgent_rate=rate)
    evictor = ApiEvictor(transport, rate, writes, wall_clock, urgent=urgent, fence=fence)
    return recorder, status_writer, Preemptions(evictor, status_writer.nominate, recorder, metrics)


def make_source(
    settings: Settings,
    transport: Transport,
    sink: EventSink,
    frameworks: Iterable[Framework],
    known: Mapping[str, Kind] = KINDS,
    timing: Timing | None = None,
) -> "Reflector | KopfSource":
    """The event source that is asked for, for pods, nodes and what the plugins read besides. Raises PluginSetError."""
    kinds = ["Pod", "Node", *sorted(set[str]().union(*map(watched_kinds, frameworks)))]
    if settings.event_source == "kopf":
        from schedcache.kube.kopf.source import KopfSource  # noqa: PLC0415  half a second of imports that nobody else needs

        return KopfSource(transport, sink, kinds, settings=settings.kopf, known=known)
    return Reflector(transport, sink, kinds, settings=settings.watch, timing=timing, known=known)
