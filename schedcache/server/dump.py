"""`/dump`: everything that the scheduler holds, from one moment."""

import secrets
import time
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from aiohttp import web

from schedcache.cache import NodeInfo, Story
from schedcache.dump import API_VERSION, KIND, Dump, PodState, pieces
from schedcache.model import Pod
from schedcache.ports import EventSource
from schedcache.queue import QueueDump
from schedcache.scheduling import Scheduler
from schedcache.server.dump_query import DumpQuery, dump_query, matching
from schedcache.server.dump_serving import DumpReaders, Taken
from schedcache.server.dump_states import Moment, Rendered, node_state, queue_state, queue_version, story_of
from schedcache.server.limits import ServingSettings
from schedcache.server.share import ProcessorShare
from schedcache.server.stats import ServingStats

WallClock = Callable[[], float]
"""Seconds since 1970."""
ALL = DumpQuery()
_64_BITS = 2**64 - 1


def take_dump(
    scheduler: Scheduler,
    source: EventSource,
    wall_clock: WallClock = time.time,
    told: Iterable[Story] | None = None,
    query: DumpQuery = ALL,
) -> Dump:
    """What is held now, with the stories `told`, all of one moment, as far as the query wants it; takes microseconds per pod.

    The maps store nothing: a node or pod is rendered when it is asked for, from data that no longer changes.
    """
    return _taken(scheduler, source, wall_clock, told, query)[0]


def _taken(
    scheduler: Scheduler,
    source: EventSource,
    wall_clock: WallClock,
    told: Iterable[Story] | None,
    query: DumpQuery,
) -> tuple[Dump, int]:
    """A dump, and a number that is the same for as long as nothing has changed but the time."""
    state = scheduler.state
    moment = Moment(state.clock(), wall_clock())
    cache, queue = state.cache.dump(), state.queue.dump()
    pods = _Pods(scheduler, queue, moment)
    versions = dict(source.resource_versions())
    # In one step, however many there are: so no call for each pod where all are wanted.
    shown = {pod.uid: pod for pod in state.pods.values()}
    if query.filter is not None:
        shown = {uid: pod for uid, pod in shown.items() if query.wants_pod(pod, pods.node_of(pod))}
    queued = queue if query.filter is None else _filtered(queue, query, shown)
    dump = Dump(
        api_version=API_VERSION,
        kind=KIND,
        taken_at=moment.taken_at,
        generation=cache.generation,
        resource_versions=versions if query.wants_field("resourceVersions") else {},
        assumed=tuple(sorted(uid for uid in cache.assumed_pods if uid in shown))
        if query.wants_field("assumed")
        else (),
        queue=queue_state(queued, moment),
        nodes=Rendered(_wanted_nodes(cache.nodes, query), node_state),
        pods=Rendered(shown if query.wants_field("pods") else {}, pods.state),
        stories=None if told is None else tuple([story_of(story, moment) for story in told]),
        filter=query.filter,
    )
    changes = tuple(sorted(versions.items())), cache.generation, queue_version(queue), pods.version()
    return dump, hash(changes)


def _wanted_nodes(nodes: Mapping[str, NodeInfo], query: DumpQuery) -> Mapping[str, NodeInfo]:
    if not query.wants_field("nodes"):
        return {}
    if query.filter is None or not query.filter.nodes:
        return nodes
    return {name: nodes[name] for name in query.filter.nodes if name in nodes}


def _filtered(queue: QueueDump, query: DumpQuery, shown: Container[str]) -> QueueDump:
    """The queue as far as it is about pods that are shown."""
    if not query.wants_field("queue"):
        return QueueDump((), (), (), (), (), (), queue.scheduling_cycle, {}, {})
    nominated = {node: matching(shown, uids) for node, uids in queue.nominated.items() if query.wants_node(node)}
    return QueueDump(
        active=matching(shown, queue.active),
        backoff=matching(shown, queue.backoff),
        error_backoff=matching(shown, queue.error_backoff),
        unschedulable=matching(shown, queue.unschedulable),
        in_flight=matching(shown, queue.in_flight),
        in_flight_events=tuple(
            [(kind, what) for kind, what in queue.in_flight_events if kind != "pod" or what in shown]
        ),
        scheduling_cycle=queue.scheduling_cycle,
        nominated={node: uids for node, uids in nominated.items() if uids},
        pods={uid: history for uid, history in queue.pods.items() if uid in shown},
    )


class _Assumed(NamedTuple):
    pod: Pod
    binding_finished: bool
    deadline: float | None


class _Pods:
    """Where each pod is in its life, at one moment."""

    def __init__(self, scheduler: Scheduler, queue: QueueDump, moment: Moment) -> None:
        assumed = scheduler.state.cache.assumed_pods
        self._assumed = {uid: _Assumed(held.pod, held.binding_finished, held.deadline) for uid, held in assumed.items()}
        self._waiting = {waiting.pod.uid for f in scheduler.frameworks.values() for waiting in f.waiting_pods}
        self._queue = queue
        self._moment = moment

    def node_of(self, pod: Pod) -> str:
        """Where it is bound or assumed, "" if nowhere."""
        assumed = self._assumed.get(pod.uid)
        return pod.node_name if assumed is None else assumed.pod.node_name

    def version(self) -> int:
        """The same for as long as no pod is assumed, confirmed or let go by a Permit plugin."""
        assumed = frozenset((uid, held.binding_finished, held.deadline) for uid, held in self._assumed.items())
        return hash((assumed, frozenset(self._waiting)))

    def state(self, pod: Pod) -> PodState:
        assumed = self._assumed.get(pod.uid)
        shown = pod if assumed is None else assumed.pod
        return PodState(
            namespace=pod.namespace,
            name=pod.name,
            node=shown.node_name,
            state=self._where(pod),
            scheduler_name=pod.scheduler_name,
            priority=shown.priority,
            phase=shown.phase,
            deleting=shown.terminating,
            nominated_node_name=shown.nominated_node_name,
            resource_version=shown.resource_version,
            binding_finished=assumed is not None and assumed.binding_finished,
            assumed_deadline=self._moment.date_if_any(None if assumed is None else assumed.deadline),
        )

    def _where(self, pod: Pod) -> str:
        if pod.node_name:
            return "bound"
        if pod.uid in self._assumed:
            return "waiting on permit" if pod.uid in self._waiting else "assumed"
        return self._queued.get(pod.uid, "pending")

    @cached_property
    def _queued(self) -> Mapping[str, str]:
        """UID -> state, for the pods that the queue knows; all others without a node are other schedulers'."""
        queue = self._queue
        states = {uid: "gated" if history.gated_by else "unschedulable" for uid, history in queue.pods.items()}
        states.update(dict.fromkeys(queue.active, "active"))
        states.update(dict.fromkeys(queue.backoff + queue.error_backoff, "backoff"))
        states.update(dict.fromkeys(queue.in_flight, "in flight"))
        return states


def stories(scheduler: Scheduler, wanted: str) -> list[Story]:
    """What the cache recently did to one pod (`NAMESPACE/NAME` or UID) or node; to everything for `all`."""
    ring = scheduler.state.cache.stories
    if wanted in ("", "all"):
        return list(ring.of())
    namespace, slash, name = wanted.partition("/")
    pod = scheduler.state.pods.get(namespace, name) if slash else None
    uid = wanted if pod is None else pod.uid
    return list(ring.of(uid=uid)) or list(ring.of(node=wanted))


def dump_route(
    scheduler: Scheduler,
    source: EventSource,
    wall_clock: WallClock = time.time,
    *,
    share: ProcessorShare | None = None,
    settings: ServingSettings = ServingSettings(),
    stats: ServingStats | None = None,
) -> web.RouteDef:
    """`GET /dump`, with the parameters of `DumpQuery`. Anything else is a 400.

    `share` of the processor that it may take; None: its own. `settings` bound what readers may take, and `stats` counts refusals.
    """
    run = secrets.token_hex(4)

    def take(query: DumpQuery) -> Taken:
        told = None if query.stories is None else stories(scheduler, query.stories)
        dump, version = _taken(scheduler, source, wall_clock, told, query)
        # Stories tell of what leaves no other trace, such as a pod that has come and gone.
        seen = hash((version, query, told[-1] if told else None))
        return Taken(f'W/"{run}-{dump.generation}-{seen & _64_BITS:x}"', pieces(dump))

    share = share or ProcessorShare(lambda: has_work(scheduler), settings.busy_share)
    readers: DumpReaders[DumpQuery] = DumpReaders(take, share, settings, stats or ServingStats())

    async def handle(request: web.Request) -> web.StreamResponse:
        return await readers.answer(request, dump_query(request.query))

    return web.get("/dump", handle)


def has_work(scheduler: Scheduler) -> bool:
    """Whether pods are being scheduled or bound at this moment."""
    return bool(scheduler.state.queue.pending_counts()["active"] or len(scheduler.bindings))
