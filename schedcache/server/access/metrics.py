"""Reviews, and the certificate, as metrics."""

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from schedcache.server.access.reviewing import ReviewStats


class AccessCollector(Collector):
    """`scheduler_http_reviews_*`, and when the certificate of the HTTPS port expires."""

    def __init__(self, stats: ReviewStats, expires_at: Callable[[], float]) -> None:
        self._stats = stats
        self._expires_at = expires_at

    def collect(self) -> Iterable[Metric]:
        reviews = CounterMetricFamily(
            "scheduler_http_reviews",
            "Questions about tokens and about access, by how they were answered: hit, shared, asked, refused, failed.",
            labels=("review", "result"),
        )
        for labels, number in self._stats.reviews.items():
            reviews.add_metric(labels, number)
        yield reviews
        seconds = CounterMetricFamily(
            "scheduler_http_review_seconds", "Time that the API server took to answer them.", labels=("review",)
        )
        for kind, spent in self._stats.seconds.items():
            seconds.add_metric((kind,), spent)
        yield seconds
        yield GaugeMetricFamily(
            "scheduler_http_certificate_expiry_timestamp_seconds",
            "When the certificate of the HTTPS port expires.",
            self._expires_at(),
        )
