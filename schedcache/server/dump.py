"""`/dump`: everything that the scheduler holds, from one moment."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from aiohttp import web

from schedcache.cache import Story
from schedcache.dump import API_VERSION, KIND, Dump, PodState, pieces
from schedcache.model import Pod
from schedcache.ports import EventSource
from schedcache.queue import QueueDump
from schedcache.scheduling import Scheduler
from schedcache.server.dump_serving import DumpReaders
from schedcache.server.dump_states import Moment, Rendered, node_state, queue_state, story_of
from schedcache.server.limits import ServingSettings
from schedcache.server.share import ProcessorShare
from schedcache.server.stats import ServingStats

WallClock = Callable[[], float]
"""Seconds since 1970."""
_STORIES = "stories"
_WANTED = re.compile(r"(?:[^/]+(?:/[^/]+)?)?")
_WHOSE = "expected all, NAMESPACE/NAME or the UID of a pod, or the name of a node"


def take_dump(
    scheduler: Scheduler, source: EventSource, wall_clock: WallClock = time.time, told: Iterable[Story] | None = None
) -> Dump:
    """What is held now, with the stories `told`, all of one moment; takes microseconds per pod.

    The maps store nothing: a node or pod is rendered when it is asked for, from data that no longer changes.
    """
    state = scheduler.state
    moment = Moment(state.clock(), wall_clock())
    cache, queue = state.cache.dump(), state.queue.dump()
    pods = _Pods(scheduler, queue, moment)
    return Dump(
        api_version=API_VERSION,
        kind=KIND,
        taken_at=moment.taken_at,
        generation=cache.generation,
        resource_versions=dict(source.resource_versions()),
        assumed=tuple(sorted(cache.assumed_pods)),
        queue=queue_state(queue, moment),
        nodes=Rendered(cache.nodes, node_state),
        pods=Rendered({pod.uid: pod for pod in state.pods.values()}, pods.state),
        stories=None if told is None else tuple([story_of(story, moment) for story in told]),
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
    """`GET /dump`; with `?stories=all`, `=NAMESPACE/NAME`, `=UID` or `=NODE` the stories too. Anything else is a 400.

    `share` of the processor that it may take; None: its own. `settings` bound what readers may take, and `stats` counts refusals.
    """

    def take(wanted: str | None) -> Iterator[bytes]:
        told = None if wanted is None else stories(scheduler, wanted)
        return pieces(take_dump(scheduler, source, wall_clock, told))

    share = share or ProcessorShare(lambda: has_work(scheduler), settings.busy_share)
    readers = DumpReaders(take, share, settings, stats or ServingStats())

    async def handle(request: web.Request) -> web.StreamResponse:
        return await readers.answer(request, _wanted_stories(request))

    return web.get("/dump", handle)


def has_work(scheduler: Scheduler) -> bool:
    """Whether pods are being scheduled or bound at this moment."""
    return bool(scheduler.state.queue.pending_counts()["active"] or len(scheduler.bindings))


def _wanted_stories(request: web.Request) -> str | None:
    """Raises HTTPBadRequest for invalid parameters."""
    if unknown := sorted(request.query.keys() - {_STORIES}):
        raise web.HTTPBadRequest(text=f"unknown parameter {unknown[0]!r}: expected {_STORIES}, or no parameter\n")
    values = request.query.getall(_STORIES, [])
    if len(values) > 1:
        raise web.HTTPBadRequest(text=f"{_STORIES}: expected one value, got {len(values)}\n")
    wanted = values[0] if values else None
    if wanted is not None and not _WANTED.fullmatch(wanted):
        raise web.HTTPBadRequest(text=f"{_STORIES}: {_WHOSE}, got {wanted!r}\n")
    return wanted
