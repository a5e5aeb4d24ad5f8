"""What this process holds besides memory and files, which prometheus_client's own collector tells."""

import asyncio
from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class TaskCollector(Collector):
    """The tasks of an event loop: what goroutines are in Go, and as sure a sign of a leak if their number grows."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "scheduler_event_loop_tasks",
            "Tasks of the event loop, whatever they do.",
            len(asyncio.all_tasks(self._loop)),
        )
