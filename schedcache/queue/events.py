"""Makes cluster events from object changes, as precisely as kube-scheduler 1.37 (framework/events.go there).

The more exactly an event says what changed, the fewer pods have to be checked. A change that matters to no plugin, such as
a node's heartbeat, is not an event.
"""

from functools import cache

from schedcache.model import Node, Pod, Resource
from schedcache.model.resources import PodRequests
from schedcache.ports import ALL, WILDCARD, ClusterEvent

NODE = "Node"
POD = "Pod"
"""For registrations only: stands for the three kinds of pods below."""
ASSIGNED_POD = "AssignedPod"
"""A pod that has a node."""
UNSCHEDULED_POD = "UnscheduledPod"
"""Another pod, without a node."""
TARGET_POD = "TargetPod"
"""The waiting pod itself."""

ADD = "Add"
DELETE = "Delete"
UPDATE = "Update"
UPDATE_NODE_ALLOCATABLE = "UpdateNodeAllocatable"
UPDATE_NODE_LABEL = "UpdateNodeLabel"
UPDATE_NODE_TAINT = "UpdateNodeTaint"
UPDATE_NODE_CONDITION = "UpdateNodeCondition"
UPDATE_NODE_ANNOTATION = "UpdateNodeAnnotation"
UPDATE_NODE_DECLARED_FEATURE = "UpdateNodeDeclaredFeature"
UPDATE_POD_LABEL = "UpdatePodLabel"
UPDATE_POD_SCALE_DOWN = "UpdatePodScaleDown"
UPDATE_POD_SCALE_UP = "UpdatePodScaleUp"
UPDATE_POD_TOLERATION = "UpdatePodToleration"
UPDATE_POD_SCHEDULING_GATES_ELIMINATED = "UpdatePodSchedulingGatesEliminated"


@cache
def cluster_event(resource: str, action: str) -> ClusterEvent:
    """The event of one action on one kind."""
    return ClusterEvent(resource, (action,))


NODE_ADD = cluster_event(NODE, ADD)
NODE_DELETE = cluster_event(NODE, DELETE)
ASSIGNED_POD_ADD = cluster_event(ASSIGNED_POD, ADD)
ASSIGNED_POD_DELETE = cluster_event(ASSIGNED_POD, DELETE)
UNSCHEDULED_POD_ADD = cluster_event(UNSCHEDULED_POD, ADD)
UNSCHEDULED_POD_DELETE = cluster_event(UNSCHEDULED_POD, DELETE)
FORCE_ACTIVATE = ClusterEvent(WILDCARD, (ALL,), "ForceActivate")
UNSCHEDULABLE_TIMEOUT = ClusterEvent(WILDCARD, (ALL,), "UnschedulableTimeout")

# What moves a pod without being a cluster event; labels of queue_incoming_pods_total.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"


def is_wildcard(event: ClusterEvent) -> bool:
    """Whether the event concerns every pod, whatever rejected it."""
    return event.resource == WILDCARD and event.actions == (ALL,)


def node_update_events(old: Node, new: Node) -> list[ClusterEvent]:
    """The events for an update of a node; none if only heartbeats, images or versions changed.

    Uncordoning is a taint update; cordoning cannot help any pod.
    """
    conditions_changed = {c.type: c.status for c in old.conditions} != {c.type: c.status for c in new.conditions}
    changes = (
        (UPDATE_NODE_TAINT, (old.unschedulable and not new.unschedulable) or old.taints != new.taints),
        (UPDATE_NODE_ALLOCATABLE, _other_allocatable(old.allocatable, new.allocatable)),
        (UPDATE_NODE_LABEL, old.labels != new.labels),
        (UPDATE_NODE_CONDITION, conditions_changed),
        (UPDATE_NODE_ANNOTATION, old.annotations != new.annotations),
        (UPDATE_NODE_DECLARED_FEATURE, old.declared_features != new.declared_features),
    )
    return [cluster_event(NODE, action) for action, changed in changes if changed]


def pod_update_events(old: Pod, new: Pod, *, target: bool = False) -> list[ClusterEvent]:
    """The events for an update of a pod, at least one; `target`: it is the waiting pod itself that has changed."""
    resource = ASSIGNED_POD if new.node_name else TARGET_POD if target else UNSCHEDULED_POD
    was, now = old.requests, new.requests
    rescaled = was is not now
    changes = (
        (UPDATE_POD_LABEL, old.labels != new.labels),
        (UPDATE_POD_SCALE_DOWN, rescaled and _exceeds(was, now)),
        (UPDATE_POD_SCALE_UP, rescaled and _exceeds(now, was)),
        (UPDATE_POD_SCHEDULING_GATES_ELIMINATED, bool(old.scheduling_gates) and not new.scheduling_gates),
        # Tolerations can only be added to a pod, so it is enough to compare their number.
        (UPDATE_POD_TOLERATION, len(old.spec.tolerations) != len(new.spec.tolerations)),
    )
    events = [cluster_event(resource, action) for action, changed in changes if changed]
    return events or [cluster_event(resource, UPDATE)]


def _other_allocatable(old: Resource, new: Resource) -> bool:
    """A resource of which the node has 0 differs from one that it does not have."""
    return old != new or old.scalar.keys() != new.scalar.keys()


def _exceeds(a: PodRequests, b: PodRequests) -> bool:
    """Whether `a` asks for more than `b` of anything; a request of 0 is more than none."""
    less = dict(b.resource.amounts())
    return not a.named <= b.named or any(amount > less.get(name, 0) for name, amount in a.resource.amounts())
