"""What the API server fills in when a raw manifest is created, as far as scheduling sees it (Kubernetes 1.37).

Sources: pkg/apis/core/v1/defaults.go and pkg/registry/core/pod/strategy.go, and between the two the admission plugins. An object
that comes from an API server stays the same. Objects are plain data; the ones passed in are not changed.
"""

import copy
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from schedcache.model.kinds import CLUSTER_OBJECTS
from schedcache.model.pod_spec import DEFAULT_SCHEDULER_NAME
from schedcache.model.quantity import QuantityError, parse_quantity
from schedcache.model.resources import (
    HUGEPAGES_PREFIX,
    ContainerRequests,
    PodResources,
    is_pod_level_resource,
    pod_requests,
)
from schedcache.simulation.admission import Admission
from schedcache.simulation.manifest_checks import READ, check_manifest

_NAMESPACE = uuid.UUID("6f0d5c38-3a5f-5a1b-9c57-0d6c3f3f7a11")
_WITHOUT_NAMESPACE = {"Node", "PriorityClass", "RuntimeClass"} | {
    name for name, kind in CLUSTER_OBJECTS.items() if not kind.namespaced
}

JSONObject = Mapping[str, Any]


def with_api_defaults(obj: JSONObject, admission: Admission) -> JSONObject:
    """The object as the API server would store it. Kinds that scheduling does not read are left alone.

    Raises MalformedObjectError, naming object and field.
    """
    kind = str(obj.get("kind"))
    if kind not in READ:
        return obj
    check_manifest(obj)
    made = copy.deepcopy(dict(obj))
    stored = bool((obj.get("metadata") or {}).get("uid"))
    _default_metadata(made, kind)
    if kind == "Pod":
        _default_pod(made)
        admission.admit_pod(made, stored=stored)
        _merge_label_keys(made["spec"], made["metadata"].get("labels") or {})
    elif kind == "Node":
        status = made.get("status") or {}
        if status.get("allocatable") is None and status.get("capacity") is not None:
            made["status"] = {**status, "allocatable": status["capacity"]}
    elif kind in ("PersistentVolume", "PersistentVolumeClaim"):
        _set_default(made, "spec", "volumeMode", "Filesystem")
        _set_default(made, "status", "phase", "Pending")
        if kind == "PersistentVolumeClaim" and not stored:
            admission.admit_claim(made)
    elif kind == "StorageClass" and not made.get("volumeBindingMode"):
        made["volumeBindingMode"] = "Immediate"
    return made


def _default_metadata(obj: dict[str, Any], kind: str) -> None:
    metadata = obj["metadata"] = dict(obj.get("metadata") or {})
    if kind not in _WITHOUT_NAMESPACE and not metadata.get("namespace"):
        metadata["namespace"] = "default"
    if not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName']}{uuid.uuid5(_NAMESPACE, repr(obj)).hex[:5]}"
    if not metadata.get("uid"):
        name = f"{kind}/{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
        metadata["uid"] = str(uuid.uuid5(_NAMESPACE, name))
    if kind == "Namespace":
        metadata["labels"] = {"kubernetes.io/metadata.name": metadata.get("name"), **(metadata.get("labels") or {})}


def _set_default(obj: dict[str, Any], part: str, field: str, value: str) -> None:
    found = obj.get(part) or {}
    if not found.get(field):
        obj[part] = {**found, field: value}


def _default_pod(pod: dict[str, Any]) -> None:
    spec = pod["spec"] = dict(pod.get("spec") or {})
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in containers:
        _requests_from_limits(container)
        for port in container.get("ports") or ():
            if spec.get("hostNetwork") and not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort")
            if not port.get("protocol"):
                port["protocol"] = "TCP"
    if spec.get("resources"):
        _default_pod_level(spec)
    if not spec.get("schedulerName"):
        spec["schedulerName"] = DEFAULT_SCHEDULER_NAME
    status = pod["status"] = dict(pod.get("status") or {})
    if not status.get("phase"):
        status["phase"] = "Pending"


def _requests_from_limits(container: dict[str, Any]) -> None:
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if limits:
        container["resources"] = {**resources, "requests": {**limits, **(resources.get("requests") or {})}}


def _default_pod_level(spec: dict[str, Any]) -> None:
    """KEP-2837: pod-level requests follow from the containers' where they have some, else from pod-level limits."""
    resources = spec["resources"]
    limits = dict(resources.get("limits") or {})
    requests = dict(resources.get("requests") or {})
    if not limits and not requests:
        return
    for name, amount in _aggregate(spec, "limits").items():
        if name.startswith(HUGEPAGES_PREFIX) and name not in requests:
            limits.setdefault(name, amount)
    if limits:
        for name, amount in _aggregate(spec, "requests").items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if is_pod_level_resource(name):
                requests.setdefault(name, amount)
    spec["resources"] = {**resources, "limits": limits, "requests": requests}


def _aggregate(spec: JSONObject, which: str) -> dict[str, str]:
    """The containers' effective total of the resources that they mention."""
    groups = [_amounts(spec.get(field) or (), which) for field in ("containers", "initContainers")]
    mentioned = {name for group in groups for container in group for name in container.requests}
    total = pod_requests(PodResources(groups[0], groups[1])).resource
    units = {"cpu": f"{total.milli_cpu}m", "memory": str(total.memory), **{n: str(a) for n, a in total.scalar.items()}}
    return {name: amount for name, amount in units.items() if name in mentioned}


def _amounts(containers: Iterable[JSONObject], which: str) -> tuple[ContainerRequests, ...]:
    return tuple(
        ContainerRequests(
            {n: _nanos(v) for n, v in ((c.get("resources") or {}).get(which) or {}).items()},
            restartable_init=c.get("restartPolicy") == "Always",
        )
        for c in containers
    )


def _nanos(value: Any) -> int:
    try:
        return parse_quantity(str(value))
    except QuantityError:
        # Reading the pod will refuse the amount with the name of the field; nothing can be derived from it here.
        return 0


def _merge_label_keys(spec: JSONObject, labels: Mapping[str, str]) -> None:
    """MatchLabelKeys and mismatchLabelKeys become part of the label selectors."""
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge(constraint, labels)
    affinity = spec.get("affinity") or {}
    for group in (affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}):
        for term in group.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            _merge(term, labels)
        for weighted in group.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            _merge(weighted.get("podAffinityTerm") or {}, labels)


def _merge(term: Any, labels: Mapping[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    keys = [(key, "In") for key in term.get("matchLabelKeys") or ()]
    keys += [(key, "NotIn") for key in term.get("mismatchLabelKeys") or ()]
    added = [{"key": key, "operator": operator, "values": [labels[key]]} for key, operator in keys if key in labels]
    expressions = selector.get("matchExpressions") or []
    new = [expression for expression in added if expression not in expressions]
    if new:
        term["labelSelector"] = {**selector, "matchExpressions": [*expressions, *new]}
