"""A pod's claims: by which name each volume refers to one, and whether the claim found is the pod's to use."""

from collections.abc import Callable, Iterator
from typing import Any

from schedcache.cache import ClusterObjects
from schedcache.cache.cluster_objects import PERSISTENT_VOLUME_CLAIM
from schedcache.framework import Status, unresolvable
from schedcache.model import PersistentVolumeClaim, Pod, Volume

_RESOURCES = {
    PERSISTENT_VOLUME_CLAIM: "persistentvolumeclaim",
    "PersistentVolume": "persistentvolume",
    "StorageClass": "storageclass.storage.k8s.io",
}


def claim_volumes(pod: Pod, *, ephemeral: bool = True) -> Iterator[Volume]:
    """The volumes that refer to a claim, in the pod's order; generic ephemeral ones only if asked for."""
    return (v for v in pod.volumes if _refers_to_claim(v) and (ephemeral or not v.ephemeral))


def claim_of(objects: ClusterObjects, pod: Pod, volume: Volume) -> PersistentVolumeClaim | None:
    """The claim of that name, None where there is none."""
    found: PersistentVolumeClaim | None = objects.get(PERSISTENT_VOLUME_CLAIM, pod.namespace, volume.claim_name)
    return found


def ownership_fault(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """Why the claim is not the one made for a generic ephemeral volume of the pod, "" where it is."""
    if claim.owner is not None and claim.owner.uid == pod.uid:
        return ""
    return f"PVC {claim.full_name} was not created for pod {pod.full_name} (pod is not owner)"


def not_found(kind: str, name: str) -> Status:
    """No such object; nothing but its creation helps."""
    return unresolvable(not_found_text(kind, name))


def not_found_text(kind: str, name: str) -> str:
    """As client-go's listers put it."""
    return f'{_RESOURCES[kind]} "{name}" not found'


def refers_to(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Whether one of the pod's volumes names the claim."""
    if claim.namespace != pod.namespace:
        return False
    return any(v.claim_name == claim.name for v in claim_volumes(pod, ephemeral=ephemeral))


def hint_by_name(*, ephemeral: bool) -> Callable[[Pod, Any, PersistentVolumeClaim], bool]:
    """A queueing hint for claims: only those that the pod names can help it."""
    return lambda pod, _old, new: refers_to(pod, new, ephemeral=ephemeral)


def _refers_to_claim(volume: Volume) -> bool:
    return not volume.source_kind
