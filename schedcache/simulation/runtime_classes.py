"""Overhead, node labels and tolerations that a pod gets from its RuntimeClass (the admission plugin RuntimeClass, 1.37)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schedcache.model.quantity import parse_quantity
from schedcache.model.taints import NO_EXECUTE

JSONObject = Mapping[str, Any]
_REFUSES = "the API server would refuse the pod"


class RuntimeClasses:
    """By name."""

    def __init__(self) -> None:
        self._classes: dict[str, JSONObject] = {}

    def add(self, obj: JSONObject) -> None:
        """Note a RuntimeClass that has been checked."""
        self._classes[obj["metadata"]["name"]] = obj

    def apply(self, spec: dict[str, Any]) -> None:
        """Give a new pod what its class defines."""
        found = self._classes.get(spec.get("runtimeClassName") or "")
        if found is None:
            return
        if found.get("overhead"):
            spec["overhead"] = found["overhead"].get("podFixed") or {}
        scheduling = found.get("scheduling")
        if scheduling:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **(scheduling.get("nodeSelector") or {})}
            spec["tolerations"] = _merged([*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())])

    def objections(self, spec: JSONObject) -> Iterator[str]:
        """The contradictions between the pod and its class, as text; the class wins here."""
        name = spec.get("runtimeClassName")
        if not name:
            return
        found = self._classes.get(name)
        if found is None:
            yield f"spec.runtimeClassName: RuntimeClass {name} not found; {_REFUSES}, here it has no class"
            return
        fixed = (found.get("overhead") or {}).get("podFixed") or {}
        if found.get("overhead") and spec.get("overhead") and _nanos(spec["overhead"]) != _nanos(fixed):
            yield f"spec.overhead: is not that of RuntimeClass {name}; {_REFUSES}, here the class's is used"
        selector = (found.get("scheduling") or {}).get("nodeSelector") or {}
        for key, value in sorted((spec.get("nodeSelector") or {}).items()):
            if selector.get(key, value) != value:
                yield f"spec.nodeSelector.{key}: {value} conflicts with {selector[key]} of RuntimeClass {name}; {_REFUSES}"


def _nanos(amounts: JSONObject) -> dict[str, int]:
    return {name: parse_quantity(str(amount)) for name, amount in amounts.items()}


def _merged(tolerations: Sequence[JSONObject]) -> list[JSONObject]:
    """Without those that another one covers; of equal ones the first stays."""
    kept: list[JSONObject] = []
    for i, toleration in enumerate(tolerations):
        before = any(_covers(other, toleration) for other in kept)
        after = any(_key(other) != _key(toleration) and _covers(other, toleration) for other in tolerations[i + 1 :])
        if not (before or after):
            kept.append(toleration)
    return kept


def _key(toleration: JSONObject) -> tuple[str, str, str, str, int | None]:
    """Operator, key, value, effect and seconds, an operator left out being Equal."""
    operator, key, value, effect = (
        str(toleration.get(field) or "") for field in ("operator", "key", "value", "effect")
    )
    return operator or "Equal", key, value, effect, toleration.get("tolerationSeconds")


def _covers(wide: JSONObject, narrow: JSONObject) -> bool:
    if _key(wide) == _key(narrow):
        return True
    operator, key, value, effect, seconds = _key(wide)
    narrow_operator, narrow_key, narrow_value, narrow_effect, narrow_seconds = _key(narrow)
    if key != narrow_key and (key or operator != "Exists"):
        return False
    if effect not in ("", narrow_effect):
        return False
    if effect == NO_EXECUTE and seconds is not None and (narrow_seconds is None or narrow_seconds > seconds):
        return False
    return operator == "Exists" or (operator == "Equal" == narrow_operator and value == narrow_value)
