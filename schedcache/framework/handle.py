"""What a plugin is given besides its arguments: the rest of the cluster, and the ways to act on it."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from schedcache.cache.cluster_objects import ClusterObjects
from schedcache.model import Pod
from schedcache.ports import Binder

if TYPE_CHECKING:
    from schedcache.framework.runtime import Framework


class Nominator(Protocol):
    """Which pods wait for room on a node after a preemption (the scheduling queue keeps them)."""

    def nominated_nodes(self) -> Collection[str]:
        """Names of the nodes that have nominated pods."""

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        """The pods nominated to the node, in the order they came."""


class Handle(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Given to every plugin of a profile when it is made.

    The runtime makes one for each profile and fills in `scheduler_name` and `framework`; a plugin may use `framework`
    once all plugins of the profile exist, not in its constructor. `binder` is None where nothing can be bound (offline).
    """

    cluster_objects: ClusterObjects
    nominator: Nominator
    binder: Binder | None = None
    scheduler_name: str = ""
    framework: "Framework | None" = None
