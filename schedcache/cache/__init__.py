"""The scheduler cache: which pods hold what on which node, decisions that the API server has not confirmed included.

Promises: the state, errors and orders of kube-scheduler 1.34.4's cache, the last version with FinishBinding and expiry. A call
either does all of its work or raises a `CacheError` and changes nothing. One generation counts every change, and a `Snapshot`
shows exactly one generation, whatever happens to the cache afterwards. `SchedulerCache` may be called from any thread; a
`Snapshot` and `ClusterObjects` belong to the thread that runs the scheduling cycles.

May touch: memory. Nothing here does I/O, sleeps or decides anything by itself: the clock is a callable, and a pod past its
deadline is only reported (`expired_pods`) until a caller expires it.

Start reading with `scheduler_cache` (the calls), then `node_info` (what a node's pods add up to), `snapshot` and `columns` (what a
scheduling cycle works on). `terms` counts pods for spreading and affinity; `checks` recomputes all of it from scratch.
"""

from schedcache.cache.cluster_objects import ClusterObjects
from schedcache.cache.columns import Columns
from schedcache.cache.errors import (
    AlreadyAddedError,
    AlreadyCachedError,
    CacheCorruptedError,
    CacheError,
    InconsistentSnapshotError,
    NoNodeNameError,
    NotAssumedError,
    NotExpiredError,
    NoUIDError,
    PodIsAssumedError,
    PodNotFoundError,
    PodNotOnNodeError,
    SnapshotInUseError,
    StaleObjectError,
    UnknownNodeError,
    UnknownObjectError,
    WrongNodeError,
)
from schedcache.cache.node_info import NodeInfo
from schedcache.cache.node_tree import NodeTree
from schedcache.cache.pod_state import PodState
from schedcache.cache.pod_table import PodTable
from schedcache.cache.scheduler_cache import Dump, SchedulerCache
from schedcache.cache.snapshot import Snapshot
from schedcache.cache.stories import PROCESS_STORIES, Stories, Story
from schedcache.cache.terms import TermIndex

__all__ = [
    "PROCESS_STORIES",
    "AlreadyAddedError",
    "AlreadyCachedError",
    "CacheCorruptedError",
    "CacheError",
    "ClusterObjects",
    "Columns",
    "Dump",
    "InconsistentSnapshotError",
    "NoNodeNameError",
    "NoUIDError",
    "NodeInfo",
    "NodeTree",
    "NotAssumedError",
    "NotExpiredError",
    "PodIsAssumedError",
    "PodNotFoundError",
    "PodNotOnNodeError",
    "PodState",
    "PodTable",
    "SchedulerCache",
    "Snapshot",
    "SnapshotInUseError",
    "StaleObjectError",
    "Stories",
    "Story",
    "TermIndex",
    "UnknownNodeError",
    "UnknownObjectError",
    "WrongNodeError",
]
