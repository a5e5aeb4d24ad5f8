"""simulate: objects in, kube-scheduler's decision out."""

from collections.abc import Iterable, Mapping
from typing import Any

from schedcache.simulation.cluster import OfflineCluster, read_pod
from schedcache.simulation.offline import OfflineScheduler
from schedcache.simulation.profiles import effective_config


def simulate(
    objects: Iterable[Mapping[str, Any]], pod: Mapping[str, Any], config: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Where a pod would go, and why not elsewhere.

    Args:
        objects: the cluster, as an API server returns it (defaults are not applied here).
        pod: the pod to place, not among the objects.
        config: a KubeSchedulerConfiguration, None for kube-scheduler's defaults.

    Returns:
        `feasible` (node names), `rejected` (node -> plugin, code, reasons), `preFilterRejected`, `scores`
        (node -> plugins, total; weighted), `selected` (nodes with the highest total), `message` (of the FailedScheduling
        event), `preemption` (None where it was not asked; else `nominatedNode`, `nominating`: set, clear or none, `victims`, `code`,
        `message`), and for people `warnings` and `explanation`.

    Raises:
        MalformedObjectError: an object that cannot be read, with its name and the field.
        ConfigError: a configuration that cannot be used.
        ProfileError: several profiles, none of them the pod's.
    """
    effective = effective_config(config)
    cluster = OfflineCluster(objects, {profile.scheduler_name for profile in effective.profiles})
    return OfflineScheduler(cluster, effective).ask(read_pod(pod))
