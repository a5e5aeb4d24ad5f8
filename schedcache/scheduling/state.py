"""What the handlers and cycles of one scheduler share."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import structlog

from schedcache.cache import CacheError, NotAssumedError, PodNotFoundError, SchedulerCache, WrongNodeError
from schedcache.model import Pod
from schedcache.ports import Metrics, StatusWriter
from schedcache.queue import SchedulingQueue
from schedcache.queue.events import ASSIGNED_POD_DELETE
from schedcache.scheduling.pod_store import PodStore

PreCheck = Callable[[Pod], bool]
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class SchedulingState:
    """Cache, queue and the pods as last reported; all are changed in one thread, synchronously.

    `scheduler_names`: the profiles' names, whose pods are ours. An empty collection observes only: no pod is queued.
    """

    cache: SchedulerCache
    queue: SchedulingQueue
    pods: PodStore
    scheduler_names: Collection[str]
    status_writer: StatusWriter
    metrics: Metrics
    clock: Callable[[], float]
    request_rebuild: Callable[[str], None]
    """Makes the event source read everything again, soon; takes the reason."""

    def contradicted(self, where: str, error: CacheError) -> None:
        """The cache can no longer be trusted: count it, log it, and have everything read again."""
        self.metrics.cache_error(error.kind)
        _log.error("cache error, reading everything again", where=where, kind=error.kind, error=str(error))
        self.request_rebuild(f"cache error: {error.kind}")

    def is_ours(self, pod: Pod) -> bool:
        """Whether one of our profiles is to schedule the pod."""
        return pod.shape.spec.scheduler_name in self.scheduler_names

    def cached(self, pod: Pod) -> Pod | None:
        """The pod as the cache counts it, assumed or confirmed; None if it is not counted."""
        try:
            return self.cache.get_pod(pod)
        except PodNotFoundError:
            return None

    def forget(self, assumed: Pod) -> bool:
        """Free an assumed pod's room; False if it is confirmed, gone, or counted elsewhere meanwhile, and there is nothing to undo."""
        try:
            self.cache.forget_pod(assumed)
        except (PodNotFoundError, NotAssumedError, WrongNodeError):
            return False
        return True

    def room_freed(self, pod: Pod, pre_check: PreCheck | None = None) -> None:
        """Tell the queue that a pod has left its node, whether it ever ran there or was only assumed or nominated."""
        self.queue.move(ASSIGNED_POD_DELETE, pod, None, pre_check)


def at_most_priority_of(pod: Pod) -> PreCheck:
    """Selects the pods that counted the nominated pod as running: those of its priority or lower."""
    priority = pod.priority
    return lambda other: other.priority <= priority
