"""Metrics of requests to the API server, read from the transport when scraped, under client-go's names."""

from collections.abc import Iterable, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from schedcache.kube.http.request_stats import Distribution, RequestStats

_DISTRIBUTIONS = {
    "seconds": (
        "rest_client_request_duration_seconds",
        "Time of a request, from sending it to the last byte of its answer.",
    ),
    "request_bytes": ("rest_client_request_size_bytes", "Sizes of the bodies that were sent."),
    "response_bytes": ("rest_client_response_size_bytes", "Sizes of the bodies that were received."),
    "throttled_seconds": (
        "rest_client_rate_limiter_duration_seconds",
        "Time that requests waited for our own rate limit.",
    ),
}


class RequestCollector(Collector):
    """`rest_client_*`."""

    def __init__(self, stats: RequestStats) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "rest_client_requests_total", "Requests to the API server, by answer.", labels=("code", "method", "host")
        )
        for labels, number in self._stats.requests.items():
            requests.add_metric(labels, number)
        yield requests
        for field, (name, text) in _DISTRIBUTIONS.items():
            yield _histogram(name, text, getattr(self._stats, field))


def _histogram(name: str, text: str, found: Mapping[tuple[str, str], Distribution]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=("verb", "host"))
    for labels, distribution in found.items():
        bounds = [*map(str, map(float, distribution.bounds)), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(distribution.counts), strict=True)), distribution.total)
    return family
