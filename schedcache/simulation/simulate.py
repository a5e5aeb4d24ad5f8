"""simulate: objects in, kube-scheduler's decision out."""

from collections.abc import Iterable, Mapping
from typing import Any

from schedcache.framework import Framework, Handle
from schedcache.plugins.default_plugins import default_registry
from schedcache.simulation.cluster import OfflineCluster, read_pod
from schedcache.simulation.decision import decide
from schedcache.simulation.profiles import effective_config, profile_for


def simulate(
    objects: Iterable[Mapping[str, Any]], pod: Mapping[str, Any], config: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Where a pod would go, and why not elsewhere.

    Args:
        objects: the cluster, as an API server shows it (defaults are not applied here).
        pod: the pod to place, not among the objects.
        config: a KubeSchedulerConfiguration, None for kube-scheduler's defaults.

    Returns:
        `feasible` (node names), `rejected` (node -> plugin, code, reasons), `preFilterRejected`, `scores`
        (node -> plugins, total; weighted), `selected` (nodes with the highest total), `message` (of the FailedScheduling
        event), `preemption`, and `warnings`.

    Raises:
        MalformedObjectError: an object that cannot be read, with its name and the field.
        ConfigError: a configuration that cannot be used.
        ProfileError: several profiles, none of them the pod's.
    """
    effective = effective_config(config)
    subject = read_pod(pod)
    profile, warnings = profile_for(subject.scheduler_name, effective)
    cluster = OfflineCluster(objects, {profile.scheduler_name or "" for profile in effective.profiles or ()})
    handle = Handle(cluster_objects=cluster.objects, nominator=cluster)
    framework = Framework(profile, default_registry(), handle)
    decision = decide(framework, subject, cluster.snapshot(), cluster.nominated_pods_for_node)
    return {**decision.want(), "warnings": warnings}
