"""The scheduler cache and its snapshots."""

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
