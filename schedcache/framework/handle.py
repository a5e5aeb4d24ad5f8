"""What a plugin is given besides its arguments: the rest of the cluster, and the ways to act on it."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from schedcache.cache.cluster_objects import ClusterObjects
from schedcache.framework.waiting_pods import WaitingPods
from schedcache.model import Pod
from schedcache.ports import Binder


class PodNominator(Protocol):
    """Which pods wait for room on a node after a preemption; `schedcache.queue.Nominator` is the live one."""

    def nominated_nodes(self) -> Collection[str]:
        """Names of the nodes that have nominated pods."""

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        """The pods nominated to the node, in the order they came."""


class Handle(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Given to every plugin of a profile when it is made.

    The runtime makes one for each profile and fills in `scheduler_name`. `binder` is None where nothing can be bound
    (offline). `waiting_pods` are those that Permit plugins keep waiting, of all profiles.
    """

    cluster_objects: ClusterObjects
    nominator: PodNominator
    binder: Binder | None = None
    waiting_pods: WaitingPods = msgspec.field(default_factory=WaitingPods)
    scheduler_name: str = ""
