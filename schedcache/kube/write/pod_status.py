"""Patches of pods/status: how they are sent, and what a refusal means."""

from typing import Any

import msgspec

from schedcache.kube.times import to_time
from schedcache.kube.write.binder import pod_path
from schedcache.model import Pod, PodCondition
from schedcache.ports import ApiError, ConflictError

INVALID = 422
"""How the API server refuses a patch whose metadata.uid is not the object's."""

_encode = msgspec.json.Encoder().encode


def status_patch(pod: Pod, status: dict[str, Any]) -> tuple[str, bytes]:
    """(path, body) of a strategic merge patch. The UID keeps a new pod of the same name from getting the old one's status."""
    return f"{pod_path(pod.namespace, pod.name)}/status", _encode({"metadata": {"uid": pod.uid}, "status": status})


def condition_patch(condition: PodCondition, changed_at: float | None) -> dict[str, Any]:
    """A condition in such a patch; `changed_at`, seconds since the epoch: None keeps the time at which its status last changed."""
    found: dict[str, Any] = {"type": condition.type, "status": condition.status}
    for key, value in (("reason", condition.reason), ("message", condition.message)):
        # null removes what an earlier condition said.
        found[key] = value or None
    if condition.observed_generation:
        found["observedGeneration"] = condition.observed_generation
    if changed_at is not None:
        found["lastTransitionTime"] = to_time(changed_at)
    return found


def is_another(error: ApiError) -> bool:
    """Whether a patch was refused since the pod of that name has another UID."""
    return isinstance(error, ConflictError) or (error.status == INVALID and "metadata.uid" in str(error))
