"""What the API server's admission plugins do to a new pod or claim (those that are on by default in 1.37).

Priority, LimitRanger, DefaultTolerationSeconds, RuntimeClass and DefaultStorageClass change what scheduling sees. Sources:
plugin/pkg/admission there. An object with a UID has already been admitted, and is left as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schedcache.model.taints import NO_EXECUTE
from schedcache.simulation.limit_ranges import LimitRanges
from schedcache.simulation.manifest_checks import check_manifest
from schedcache.simulation.priority_classes import PriorityClasses
from schedcache.simulation.runtime_classes import RuntimeClasses

_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_OUTAGES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS = 300

JSONObject = Mapping[str, Any]


class Admission:
    """The objects of a cluster that admission depends on, and what follows from them."""

    def __init__(self, objects: Iterable[JSONObject] = ()) -> None:
        self._priorities = PriorityClasses()
        self._limit_ranges = LimitRanges()
        self._runtime_classes = RuntimeClasses()
        self._default_storage_classes: list[JSONObject] = []
        for obj in objects:
            self.note(obj)

    def note(self, obj: JSONObject) -> None:
        """Remember the object if admission depends on its kind. Raises MalformedObjectError."""
        match obj.get("kind"):
            case "PriorityClass":
                check_manifest(obj)
                self._priorities.add(obj)
            case "LimitRange":
                check_manifest(obj)
                self._limit_ranges.add(obj)
            case "RuntimeClass":
                check_manifest(obj)
                self._runtime_classes.add(obj)
            case "StorageClass":
                check_manifest(obj)
                annotations = obj["metadata"].get("annotations") or {}
                if any(annotations.get(name) == "true" for name in _DEFAULT_CLASS):
                    self._default_storage_classes.append(obj)

    def admit_pod(self, pod: dict[str, Any], *, stored: bool) -> None:
        """Change the pod, which already has the API's defaults. One that is `stored` can lack only its priority."""
        spec = pod["spec"]
        if not stored:
            self._limit_ranges.apply(pod["metadata"]["namespace"], spec)
            spec["tolerations"] = _tolerating_outages(spec.get("tolerations") or ())
            self._runtime_classes.apply(spec)
        self._priorities.apply(spec)

    def admit_claim(self, claim: dict[str, Any]) -> None:
        """Give a new claim without a storage class the default one: of several, the newest, then the first by name."""
        spec = claim.get("spec") or {}
        asked = spec.get("storageClassName") is not None
        if asked or _CLASS_ANNOTATION in (claim["metadata"].get("annotations") or {}):
            return
        classes = sorted(self._default_storage_classes, key=lambda c: str(c["metadata"]["name"]))
        newest = max(classes, key=lambda c: str(c["metadata"].get("creationTimestamp") or ""), default=None)
        if newest is not None:
            claim["spec"] = {**spec, "storageClassName": newest["metadata"]["name"]}

    def objections(self, pod: JSONObject) -> list[str]:
        """Why the API server would refuse such a pod: each with field and reason."""
        stored = bool((pod.get("metadata") or {}).get("uid"))
        spec = pod.get("spec") or {}
        of_runtime = () if stored else self._runtime_classes.objections(spec)
        return [*self._priorities.objections(spec, stored=stored), *of_runtime]


def _tolerating_outages(tolerations: Sequence[JSONObject]) -> list[JSONObject]:
    """With five minutes for a node that is not ready or cannot be reached, unless the pod says something of that itself."""
    added = [key for key in _OUTAGES if not any(_speaks_of(toleration, key) for toleration in tolerations)]
    common = {"operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": _TOLERATED_SECONDS}
    return [*tolerations, *({"key": key, **common} for key in added)]


def _speaks_of(toleration: JSONObject, key: str) -> bool:
    return (toleration.get("key") or "") in ("", key) and (toleration.get("effect") or "") in ("", NO_EXECUTE)
