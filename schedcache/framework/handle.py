"""What a plugin gets besides its arguments: the rest of the cluster, and the means to act on it."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from schedcache.cache.cluster_objects import ClusterObjects
from schedcache.framework.extenders import Extenders
from schedcache.framework.filtering import Feasibility
from schedcache.framework.interface import CycleState
from schedcache.framework.row_view import RowView
from schedcache.framework.shared_view import SharedView
from schedcache.framework.waiting_pods import WaitingPods
from schedcache.model import Node, Pod
from schedcache.ports import Binder, Metrics, NoMetrics, PreemptionExecutor, VolumeWriter

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

NodeLister = Callable[[str], Node | None]
"""Name -> the newest object, None = there is no such node."""


class PodNominator(Protocol):
    """The pods that wait for room on a node after a preemption; the scheduler's is `schedcache.queue.Nominator`."""

    def nominated_nodes(self) -> Collection[str]:
        """Names of the nodes that have nominated pods."""

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        """The pods nominated to the node, in the order they came."""


def no_node(_name: str) -> Node | None:
    """The NodeLister where nobody follows the nodes."""
    return None


class Filters(Protocol):
    """The filters of the profile, for rows as they are not (kube-scheduler's RunFilterPluginsWithNominatedPods)."""

    def locality(self, state: CycleState, pod: Pod, snapshot: "Snapshot", /) -> tuple[object, ...] | None:
        """What the verdict on a row depends on besides the row and the pod's spec; None where that is more of the cluster."""

    def guests(self, pod: Pod, view: RowView, /) -> Mapping[int, Sequence[Pod]]:
        """Position -> the nominated pods that the pod must yield to there."""

    def share(self, pod: Pod, view: RowView, /) -> SharedView:
        """The rows of the view without and with the nominated pods that the pod must yield to."""

    def run_shared_filters(self, state: CycleState, pod: Pod, shared: SharedView, /) -> Feasibility:
        """Who passes, and who fails why. Raises PluginError when a plugin raises."""


class Handle(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Passed to every plugin of a profile when it is made.

    The runtime makes one for each profile and fills in `scheduler_name` and `filters`. `binder` and `volume_writer` are None
    where nothing can be bound (offline), `preemption` where nothing can be evicted. `extenders` and `waiting_pods`, those that Permit
    plugins keep waiting, are those of all profiles. `chance` decides between what is equally good; where it is None, names do. What
    awaits something does so on `clock` (seconds, monotonic) and `sleep`. `metrics` counts for the whole scheduler.
    """

    cluster_objects: ClusterObjects
    nominator: PodNominator
    binder: Binder | None = None
    volume_writer: VolumeWriter | None = None
    node_lister: NodeLister = no_node
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    extenders: Extenders = msgspec.field(default_factory=Extenders)
    preemption: PreemptionExecutor | None = None
    filters: Filters | None = None
    chance: random.Random | None = None
    waiting_pods: WaitingPods = msgspec.field(default_factory=WaitingPods)
    metrics: Metrics = msgspec.field(default_factory=NoMetrics)
    scheduler_name: str = ""
