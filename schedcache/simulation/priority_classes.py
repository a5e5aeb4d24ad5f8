"""The priority that a pod gets from its class, and what the API server would object to (the admission plugin Priority, 1.37)."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_USUAL_POLICY = "PreemptLowerPriority"
_REFUSES = "the API server would refuse the pod"

JSONObject = Mapping[str, Any]


class _Class(NamedTuple):
    value: int
    preemption_policy: str


_NO_CLASS = _Class(0, _USUAL_POLICY)


class PriorityClasses:
    """The priority classes of a cluster."""

    def __init__(self) -> None:
        self._classes = {name: _Class(value, _USUAL_POLICY) for name, value in _SYSTEM_CLASSES.items()}
        self._default: _Class | None = None

    def add(self, obj: JSONObject) -> None:
        """Note a PriorityClass that has been checked."""
        added = _Class(obj.get("value") or 0, obj.get("preemptionPolicy") or _USUAL_POLICY)
        self._classes[obj["metadata"]["name"]] = added
        # There should be only one default; of several, the API server takes the lowest.
        if obj.get("globalDefault") and (self._default is None or added.value < self._default.value):
            self._default = added

    def apply(self, spec: dict[str, Any]) -> None:
        """Give a pod the priority and preemption policy of its class, unless it has its own."""
        found = self._class(spec)
        if found is not None:
            for field, value in (("priority", found.value), ("preemptionPolicy", found.preemption_policy)):
                if spec.get(field) is None:
                    spec[field] = value

    def objections(self, spec: JSONObject, *, stored: bool) -> Iterator[str]:
        """Why the API server would refuse such a pod; for one that it has admitted (`stored`), why its priority is unknown."""
        found, given, policy = self._class(spec), spec.get("priority"), spec.get("preemptionPolicy")
        if found is None:
            if given is None or not stored:
                yield (
                    f"spec.priorityClassName: no PriorityClass with name {spec['priorityClassName']} was found; {_REFUSES}, here"
                    f" its priority is {given or 0}"
                )
        elif not stored:
            if given not in (None, found.value):
                yield f"spec.priority: {given} is not that of its class, {found.value}; {_REFUSES}"
            if policy not in (None, found.preemption_policy):
                yield f"spec.preemptionPolicy: {policy} is not that of its class, {found.preemption_policy}; {_REFUSES}"

    def _class(self, spec: JSONObject) -> _Class | None:
        """The pod's class or, if it names none, the default; None if it names one that does not exist."""
        name = spec.get("priorityClassName")
        return self._classes.get(name) if name else self._default or _NO_CLASS
