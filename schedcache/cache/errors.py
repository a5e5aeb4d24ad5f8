"""What the cache refuses: one class per reason, each with a stable `kind` for programs."""

from typing import ClassVar


class CacheError(Exception):
    """A call that the cache refused. Unless a class says otherwise, its state is unchanged."""

    kind: ClassVar[str] = "cache_error"


class NoUIDError(CacheError):
    """A pod without a UID, by which the cache identifies pods."""

    kind = "no_uid"


class NoNodeNameError(CacheError):
    """A pod without node name was to be counted on a node, or a node without name added."""

    kind = "no_node_name"


class AlreadyCachedError(CacheError):
    """`assume_pod` of a pod that is already assumed or added."""

    kind = "already_cached"


class AlreadyAddedError(CacheError):
    """`add_pod` of a pod that is already confirmed."""

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
    """The pod to remove is not counted on the node, or not assumed in the snapshot."""

    kind = "pod_not_on_node"


class UnknownNodeError(CacheError):
    """No node object of this name is known here."""

    kind = "unknown_node"


class InconsistentSnapshotError(CacheError):
    """Snapshot and node tree disagreed, or the snapshot could not be updated, so this cycle should fail.

    The snapshot has been rebuilt and is sound; after an update in pieces, its next update rebuilds it.
    """

    kind = "inconsistent_snapshot"


class SnapshotInUseError(CacheError):
    """A snapshot was to be changed while an update of it in pieces was under way."""

    kind = "snapshot_in_use"


class UnknownObjectError(CacheError):
    """An object that is to be assumed is not in the store."""

    kind = "unknown_object"


class StaleObjectError(CacheError):
    """An object that is to be assumed was made from a version that is not the newest."""

    kind = "stale_object"
