"""Which priority a pod gets from its class, and what the API server would say of it (the admission plugin Priority, 1.37)."""

from collections.abc import Mapping
from typing import Any

from schedcache.simulation.manifest_checks import check_manifest

_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

JSONObject = Mapping[str, Any]


class PriorityClasses:
    """The priority classes of a cluster."""

    def __init__(self) -> None:
        self._values = dict(_SYSTEM_CLASSES)
        self._default: int | None = None

    def add(self, obj: JSONObject) -> None:
        """Note the object if it is one. Raises MalformedObjectError."""
        if obj.get("kind") == "PriorityClass":
            check_manifest(obj)
            value = obj.get("value") or 0
            self._values[obj["metadata"]["name"]] = value
            if obj.get("globalDefault"):
                # There should be but one; of several the API server takes the lowest.
                self._default = value if self._default is None else min(self._default, value)

    def value(self, name: str | None) -> int | None:
        """The priority that a pod of the class gets; None where there is no such class."""
        return self._values.get(name) if name else self._default or 0

    def objection(self, pod: JSONObject) -> str:
        """Why the API server would not let such a pod in, "" where it would. Of one that has been let in it has the UID."""
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        name, given, stored = spec.get("priorityClassName"), spec.get("priority"), bool(metadata.get("uid"))
        computed = self.value(name)
        if computed is None and (given is None or not stored):
            return (
                f"spec.priorityClassName: no PriorityClass with name {name} was found; the API server would refuse the pod,"
                f" here its priority is {given or 0}"
            )
        if given not in (None, computed) and not stored:
            return (
                f"spec.priority: {given} is not what follows from spec.priorityClassName, {computed}; the API server would"
                " refuse the pod"
            )
        return ""
