"""What clients of the ports did that they should not have, as metrics."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(slots=True)
class ServingStats:
    """Counters never decrease; `port` is what the port is for: main or probes.

    Attributes:
        connections: open now, by port.
        refused: (port, reason): connections and requests answered 503: connections, address, readers, waiting.
        cut: (port, reason): connections that were ended: room, head, stalled, reading.
        bad_requests: by port: requests that are not HTTP.
        handshakes_failed: by port: connections that did not become TLS, or whose certificate was refused.
        answers: (port, path, code): requests that were answered; paths that there are not count as "other".
    """

    connections: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    cut: Counter[tuple[str, str]] = field(default_factory=Counter)
    bad_requests: Counter[str] = field(default_factory=Counter)
    handshakes_failed: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str, str, int]] = field(default_factory=Counter)


class ServingCollector(Collector):
    """`scheduler_http_*`."""

    def __init__(self, stats: ServingStats) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        stats = self._stats
        connections = GaugeMetricFamily("scheduler_http_connections", "Open connections to a port.", labels=("port",))
        for port, number in stats.connections.items():
            connections.add_metric((port,), number)
        yield connections
        bad = CounterMetricFamily("scheduler_http_bad_requests", "Requests that are not HTTP.", labels=("port",))
        for port, number in stats.bad_requests.items():
            bad.add_metric((port,), number)
        yield bad
        handshakes = CounterMetricFamily(
            "scheduler_http_handshakes_failed", "TLS handshakes that failed.", labels=("port",)
        )
        for port, number in stats.handshakes_failed.items():
            handshakes.add_metric([port], number)
        yield handshakes
        answers = CounterMetricFamily(
            "scheduler_http_requests", "Requests that were answered.", labels=("port", "path", "code")
        )
        for (port, path, code), number in stats.answers.items():
            answers.add_metric((port, path, str(code)), number)
        yield answers
        told = {
            "refused": (stats.refused, "Connections and requests answered 503, by what there was too much of."),
            "cut": (stats.cut, "Connections that were ended because of what their clients did, or did not do."),
        }
        for name, (counts, text) in told.items():
            family = CounterMetricFamily(f"scheduler_http_{name}", text, labels=("port", "reason"))
            for labels, number in counts.items():
                family.add_metric(labels, number)
            yield family
