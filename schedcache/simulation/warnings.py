"""Settings of a pod that are legal but probably mistakes: mistyped label keys, selectors that match nothing."""

from collections.abc import Iterable, Iterator

from schedcache.cache import Snapshot
from schedcache.config import Extender
from schedcache.model import LabelSelector, Pod, PodAffinityTerm, PodSpec
from schedcache.plugins.volumes.attached import MissingClaimError, VolumeUse, VolumeUseError
from schedcache.plugins.volumes.binder import NO_PROVISIONER
from schedcache.ports import asks_for
from schedcache.simulation.cluster import OfflineCluster


def warnings_for(pod: Pod, cluster: OfflineCluster, snapshot: Snapshot) -> list[str]:
    """One sentence each, with the field, the suspicious name and how many nodes have it."""
    found = [*_label_keys(pod.spec, snapshot), *_pod_selectors(pod, cluster), *_volume_limits(pod, cluster)]
    return list(dict.fromkeys(found))


def left_out(pod: Pod, extenders: Iterable[Extender]) -> list[str]:
    """A sentence about each extender that the scheduler would ask about the pod; none is asked here."""
    return [
        f"extender {extender.url_prefix} has no part in this answer: it is asked about such pods, and simulate asks nobody"
        for extender in extenders
        if (extender.filter_verb or extender.prioritize_verb or extender.preempt_verb)
        and asks_for(pod, {resource.name for resource in extender.managed_resources})
    ]


def _label_keys(spec: PodSpec, snapshot: Snapshot) -> Iterator[str]:
    nodes = snapshot.num_nodes
    for field, key in _keys(spec):
        if not (snapshot.columns.label_ids(key)[snapshot.columns.order] >= 0).any():
            yield f"{field} that 0 of {nodes} nodes carry: {key!r}"


def _keys(spec: PodSpec) -> Iterator[tuple[str, str]]:
    for key in spec.node_selector:
        yield "spec.nodeSelector: asks for a label", key
    for kind, term in _terms(spec):
        yield f"{kind} term names a topology key", term.topology_key
    for constraint in spec.topology_spread:
        kind = "hard" if constraint.when_unsatisfiable == "DoNotSchedule" else "soft"
        yield f"spec.topologySpreadConstraints: {kind} constraint names a topology key", constraint.topology_key


def _terms(spec: PodSpec) -> Iterator[tuple[str, PodAffinityTerm]]:
    together, apart = "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"
    yield from ((f"{together}: hard", term) for term in spec.pod_affinity)
    yield from ((f"{together}: soft", weighted.term) for weighted in spec.preferred_pod_affinity)
    yield from ((f"{apart}: hard", term) for term in spec.pod_anti_affinity)
    yield from ((f"{apart}: soft", weighted.term) for weighted in spec.preferred_pod_anti_affinity)


def _pod_selectors(pod: Pod, cluster: OfflineCluster) -> Iterator[str]:
    pods = [pod, *(p for p in cluster.pods.values() if p.node_name)]
    for kind, term in _terms(pod.spec):
        if not _matches_any(term.selector, pods):
            yield f"{kind} term selects no pod of the cluster, in no namespace, nor this one: {_text(term.selector)}"
    for constraint in pod.spec.topology_spread:
        if not _matches_any(constraint.selector, [pod]):
            text = _text(constraint.selector)
            yield f"spec.topologySpreadConstraints: the selector does not match the pod's own labels: {text}"


def _matches_any(selector: LabelSelector | None, pods: Iterable[Pod]) -> bool:
    return selector is not None and any(selector.matches(pod.labels) for pod in pods)


def _text(selector: LabelSelector | None) -> str:
    if selector is None:
        return "there is none"
    parts = (f"{r.key} {r.operator} {', '.join(r.values)}".rstrip() for r in selector.requirements)
    return " and ".join(parts) or "{}"


def _volume_limits(pod: Pod, cluster: OfflineCluster) -> Iterator[str]:
    """A node whose CSINode lacks the driver takes any number of its volumes; usually the driver is just restarting."""
    try:
        volumes = VolumeUse(cluster.objects).of_new_pod(pod, csi_node=True)
    except (MissingClaimError, VolumeUseError):
        # The same look-up rejects the pod on every node, and says why; limits do not matter then.
        return
    drivers = sorted(set(volumes.values()) - {NO_PROVISIONER})
    for node in cluster.objects.list("CSINode") if drivers else ():
        counts = {d.name: d.allocatable_count for d in node.drivers}
        for driver in drivers:
            if node.name in cluster.nodes and counts.get(driver) is None:
                yield f"node {node.name}: CSINode names no limit for driver {driver}: limit unknown, taken as none"
