"""Metrics of leader election, read from the elector when scraped."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from schedcache.kube.leader_election.elector import LeaderElector


class LeaderCollector(Collector):
    """client-go's `leader_election_master_status`, and what the Lease says."""

    def __init__(self, elector: LeaderElector) -> None:
        self._elector = elector

    def collect(self) -> Iterable[Metric]:
        elector = self._elector
        yield self._gauge(
            "leader_election_master_status",
            "Whether this replica leads (1), or another one (0).",
            float(elector.leading),
        )
        record = elector.record
        yield self._gauge(
            "scheduler_leader_election_transitions",
            "How often the Lease has changed hands, as it says itself.",
            0.0 if record is None else float(record.leader_transitions),
        )
        yield self._gauge(
            "scheduler_leader_election_lease_expiry_seconds",
            "Seconds until the Lease as last seen runs out.",
            elector.seconds_to_expiry(),
        )

    def _gauge(self, name: str, text: str, value: float) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, text, labels=("name",))
        family.add_metric((self._elector.settings.resource_name,), value)
        return family
