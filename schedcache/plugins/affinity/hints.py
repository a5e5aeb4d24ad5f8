"""Which cluster events may help a pod that InterPodAffinity rejected (kube-scheduler 1.37).

Unlike there, namespace selectors are resolved first (kubernetes/kubernetes#141953), and namespaces are watched: a pod that
waits for a partner in selected namespaces wakes when one arrives, or when a selector begins to match a namespace.
"""

from collections.abc import Mapping, Sequence

from schedcache.cache.terms import Ownership, owned_terms
from schedcache.framework import EventHint
from schedcache.model import LabelSelector, Namespace, Node, Pod
from schedcache.plugins.affinity.terms import AffinityTerms, OwnTerms


class AffinityHints:
    """The hints look at the waiting pod's required terms, and on deletions at the deleted pod's anti-affinity."""

    def __init__(self, terms: AffinityTerms) -> None:
        self._terms = terms

    def events(self) -> Sequence[EventHint]:
        return (
            EventHint("AssignedPod", ("Add", "UpdatePodLabel", "Delete"), self._assigned_pod, by_shape=True),
            EventHint("TargetPod", ("UpdatePodLabel",)),
            EventHint("Node", ("Add", "UpdateNodeLabel"), _node, by_shape=True),
            EventHint("Namespace", ("Add", "Update", "Delete"), _namespace, by_shape=True),
        )

    def _assigned_pod(self, pod: Pod, old: Pod | None, new: Pod | None) -> bool:
        if any(p is not None and not (p.node_name or p.nominated_node_name) for p in (old, new)):
            return False
        own = self._terms.of(pod.shape)
        if new is None:
            return old is not None and (_repelled_by(own, old) or self._repels(old, pod))
        wanted = own.affinity_matches(new.shape)
        if old is None:
            return wanted
        came_near = wanted and not own.affinity_matches(old.shape)
        return came_near or (_repelled_by(own, old) and not _repelled_by(own, new))

    def _repels(self, deleted: Pod, pod: Pod) -> bool:
        labels = self._terms.namespace_labels(pod.namespace)
        return any(
            t.ownership is Ownership.REQUIRED_ANTI_AFFINITY and t.matches(pod.shape, labels)
            for t in owned_terms(deleted.shape)
        )


def _repelled_by(own: OwnTerms, other: Pod) -> bool:
    return any(t.term is not None and t.term.matches(other.shape) for t in own.anti_affinity)


def _node(pod: Pod, old: Node | None, new: Node) -> bool:
    """A domain that pods may be wanted in appears, or one that they must stay out of may have lost the node."""
    wanted = [t.topology_key for t in pod.spec.pod_affinity]
    avoided = [t.topology_key for t in pod.spec.pod_anti_affinity]
    if old is None:
        return bool(avoided) or any(key in new.labels for key in wanted)
    before, after = old.labels, new.labels
    gained = any(key in after and before.get(key) != after[key] for key in wanted)
    return gained or any(key in before and before[key] != after.get(key) for key in avoided)


def _namespace(pod: Pod, old: Namespace | None, new: Namespace | None) -> bool:
    """Own terms select another set of namespaces, or others' terms may look at the pod's own namespace differently."""
    before, after = (None if namespace is None else namespace.labels for namespace in (old, new))
    if before == after:
        return False
    changed = old or new
    if changed is not None and changed.name == pod.namespace:
        return True
    terms = (*pod.spec.pod_affinity, *pod.spec.pod_anti_affinity)
    selectors = [t.namespace_selector for t in terms if t.namespace_selector is not None]
    return any(_selects(s, before) != _selects(s, after) for s in selectors)


def _selects(selector: LabelSelector, labels: Mapping[str, str] | None) -> bool:
    return labels is not None and selector.matches(labels)
