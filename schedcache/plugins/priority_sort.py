"""PrioritySort: higher priority first, then the pod that has waited longer."""

from typing import Any

from schedcache.framework import Handle
from schedcache.queue import priority_sort


class PrioritySort:
    """The order of the active queue."""

    name = "PrioritySort"

    def __init__(self, _args: Any, _handle: Handle) -> None:
        pass

    sort_key = staticmethod(priority_sort)
