"""What the cache refuses, one class a reason, each with a stable `kind` for programs."""

from typing import ClassVar


class CacheError(Exception):
    """A call that the cache refused; unless a class says otherwise its state is as before."""

    kind: ClassVar[str] = "cache_error"


class NoUIDError(CacheError):
    """A pod without UID: the cache knows pods by nothing else."""

    kind = "no_uid"


class NoNodeNameError(CacheError):
    """A pod without node name was to be counted on a node, or a node without name added."""

    kind = "no_node_name"


class AlreadyCachedError(CacheError):
    """`assume_pod` of a pod that is assumed or added already."""

    kind = "already_cached"


class AlreadyAddedError(CacheError):
    """`add_pod` of a pod that is confirmed already."""

    kind = "already_added"


class PodNotFoundError(CacheError):
    """No pod with this UID is cached."""

    kind = "not_found"


class PodIsAssumedError(CacheError):
    """`update_pod` of a pod that is only assumed."""

    kind = "is_assumed"


class WrongNodeError(CacheError):
    """`forget_pod` names another node than the one the pod is cached on."""

    kind = "wrong_node"


class NotAssumedError(CacheError):
    """`forget_pod` or `expire_pod` of a confirmed pod."""

    kind = "not_assumed"


class NotExpiredError(CacheError):
    """`expire_pod` of a pod whose binding has not finished or whose deadline has not passed."""

    kind = "not_expired"


class CacheCorruptedError(CacheError):
    """Cache and cluster contradict each other (kube-scheduler ends its process here): rebuild the cache from the API."""

    kind = "corruption"


class PodNotOnNodeError(CacheError):
    """A node's aggregate, or a what-if snapshot, does not have the pod that it should give up."""

    kind = "pod_not_on_node"


class UnknownNodeError(CacheError):
    """No node object of this name is known here."""

    kind = "unknown_node"


class InconsistentSnapshotError(CacheError):
    """Snapshot and node tree disagreed, or the snapshot could not be updated, and this cycle should fail.

    The snapshot has been rebuilt and is sound; after an update in pieces its next update does that.
    """

    kind = "inconsistent_snapshot"


class SnapshotInUseError(CacheError):
    """A snapshot was to be changed otherwise while an update of it in pieces was not done."""

    kind = "snapshot_in_use"


class UnknownObjectError(CacheError):
    """An object that is to be assumed is not in the store."""

    kind = "unknown_object"


class StaleObjectError(CacheError):
    """An object that is to be assumed was made from another version than the newest."""

    kind = "stale_object"
