"""Metrics of the log itself."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from schedcache.cli.log_output import LogOutput


class LogCollector(Collector):
    """What a LogOutput could not write."""

    def __init__(self, output: LogOutput) -> None:
        self._output = output

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily(
            "scheduler_log_lines_dropped",
            "Lines of the log that were dropped, since nobody read them or they could not be written.",
            self._output.dropped,
        )
