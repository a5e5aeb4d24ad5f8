"""What kube-scheduler knows and this scheduler does not, and what it accepts without needing it."""

from collections.abc import Mapping
from typing import Any

from schedcache.config.problems import Problem, get
from schedcache.config.types import KubeSchedulerConfiguration

_GANG_POINTS = ("placementGenerate", "placementScore", "podGroupPostFilter")


def unsupported_fields(data: Mapping[str, Any]) -> list[Problem]:
    """Fields of kube-scheduler's that are not read here."""
    profiles = data.get("profiles")
    return [
        Problem(("profiles", i, "plugins", point), "is for scheduling groups of pods, which this scheduler does not do")
        for i in range(len(profiles) if isinstance(profiles, list) else 0)
        for point in _GANG_POINTS
        if isinstance(found := get(data, ("profiles", i, "plugins")), Mapping) and point in found
    ]


def unsupported(config: KubeSchedulerConfiguration) -> list[Problem]:
    """Settings that are understood and cannot be honoured."""
    problems = []
    if config.extenders:
        problems.append(Problem(("extenders",), "extenders are not supported; write the rule as a plugin instead"))
    return problems


def notes(given: KubeSchedulerConfiguration) -> list[str]:
    """Settings in the file that are accepted and change nothing."""
    found = []
    if given.percentage_of_nodes_to_score is not None or any(
        p.percentage_of_nodes_to_score is not None for p in given.profiles or ()
    ):
        found.append("percentageOfNodesToScore: all nodes are considered for every pod, whatever is set")
    if given.parallelism is not None:
        found.append("parallelism: nodes are looked at all at once, not by parallel workers")
    if given.enable_profiling or given.enable_contention_profiling:
        found.append("enableProfiling, enableContentionProfiling: there are no Go profiles to serve")
    if given.client_connection is not None and (
        given.client_connection.content_type or given.client_connection.accept_content_types
    ):
        found.append("clientConnection: the API is always spoken to in JSON")
    if given.delay_cache_until_active:
        found.append("delayCacheUntilActive: the cache is filled at once, so that a standby takes over without delay")
    return found
