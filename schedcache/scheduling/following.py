"""Only a cache that follows the cluster: for programs that embed it and do not schedule, or schedule in their own way."""

import time
from collections.abc import Callable
from typing import NoReturn

from schedcache.cache import CacheCorruptedError, ClusterObjects, SchedulerCache
from schedcache.model import Pod, PodCondition
from schedcache.ports import Metrics, NoMetrics
from schedcache.queue import SchedulingQueue
from schedcache.scheduling.event_handlers import EventHandlers
from schedcache.scheduling.pod_events import PodEvents
from schedcache.scheduling.pod_store import PodStore
from schedcache.scheduling.state import SchedulingState


def make_cache_sink(
    cache: SchedulerCache,
    objects: ClusterObjects | None = None,
    pods: PodStore | None = None,
    *,
    metrics: Metrics | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> EventHandlers:
    """An EventSink that keeps a cache up to date, by the same rules as the scheduler's; no pod is queued.

    A pod that the caller has assumed is confirmed when an event shows its node, moved if that is another one, forgotten when
    it is deleted, and kept over a rebuild as long as it has no node.

    Args:
        cache: counts the pods that have a node, and the nodes.
        objects: takes the other kinds; None if no others are watched.
        pods: takes all pods, including those without a node; None if nobody needs them.
        metrics: called for every event.
        clock: seconds, monotonic; for `metrics`.

    The sink's methods raise CacheCorruptedError if cache and events contradict each other. An EventSource then reads
    everything again; whoever calls them directly has to call `on_rebuild`.
    """
    state = SchedulingState(
        cache=cache,
        queue=SchedulingQueue(clock=clock),
        pods=pods if pods is not None else PodStore(),
        scheduler_names=(),
        status_writer=_NobodyWaits(),
        metrics=metrics or NoMetrics(),
        clock=clock,
        request_rebuild=_refuse,
    )
    pod_events = PodEvents(
        state,
        reject_waiting=lambda _uid, _why: False,
        abandon=lambda _uid: False,
        deletion_seen=lambda _uid: (),
    )
    return EventHandlers(state, pod_events, objects if objects is not None else ClusterObjects())


def _refuse(reason: str) -> NoReturn:
    raise CacheCorruptedError(f"{reason}: everything has to be read again")


class _NobodyWaits:
    """A StatusWriter that writes nothing."""

    def patch_status(self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None = None) -> None:
        """Nothing is written."""

    def forget(self, uid: str) -> None:
        """Nothing waits."""
