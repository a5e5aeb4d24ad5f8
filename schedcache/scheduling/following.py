"""A cache that is kept in step and nothing else: for programs that embed it and schedule nothing, or in their own way."""

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
    """An EventSink that keeps a cache in step, by the same rules as the scheduler's; no pod is queued.

    What the caller has assumed is confirmed when a pod's event shows its node, moved when that is another one, taken back when
    the pod is deleted, and kept over a rebuild as long as the pod has no node.

    Args:
        cache: counts the pods that have a node, and the nodes.
        objects: takes the other kinds; None where no others are watched.
        pods: takes all pods, those without a node too; None where nobody asks for them.
        metrics: told of every event.
        clock: seconds, monotonic; for `metrics`.

    The sink's methods raise CacheCorruptedError where cache and events contradict each other. An EventSource answers that by
    reading everything afresh; whoever calls them by hand has to do so with `on_rebuild`.
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
    pod_events = PodEvents(state, reject_waiting=lambda _uid, _why: False, abandon=lambda _uid: False)
    return EventHandlers(state, pod_events, objects if objects is not None else ClusterObjects())


def _refuse(reason: str) -> NoReturn:
    raise CacheCorruptedError(f"{reason}: everything has to be read afresh")


class _NobodyWaits:
    """The StatusWriter where no pod is told anything."""

    def patch_status(self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None = None) -> None:
        """Nothing is written."""

    def forget(self, uid: str) -> None:
        """Nothing waits."""
