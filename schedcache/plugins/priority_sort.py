"""PrioritySort: higher priority first, then who has waited longer."""

from typing import Any

from schedcache.framework.handle import Handle
from schedcache.queue.heap import SortKey
from schedcache.queue.queued_pod import QueuedPodInfo
from schedcache.queue.scheduling_queue import priority_sort


class PrioritySort:
    """The order of the active queue."""

    name = "PrioritySort"

    def __init__(self, _args: Any, _handle: Handle) -> None:
        pass

    @staticmethod
    def sort_key(info: QueuedPodInfo) -> SortKey:
        return priority_sort(info)
