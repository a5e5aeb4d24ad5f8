"""Requests and limits that a namespace's LimitRanges give to containers which name none (LimitRanger, 1.37)."""

from collections.abc import Mapping
from typing import Any

_CONTAINER = "Container"

JSONObject = Mapping[str, Any]
Amounts = dict[str, Any]


class LimitRanges:
    """By namespace and name."""

    def __init__(self) -> None:
        self._defaults: dict[str, dict[str, tuple[Amounts, Amounts]]] = {}

    def add(self, obj: JSONObject) -> None:
        """Note a LimitRange that has been checked."""
        namespace = obj["metadata"].get("namespace") or "default"
        requests: Amounts = {}
        limits: Amounts = {}
        for item in (obj.get("spec") or {}).get("limits") or ():
            if item.get("type") == _CONTAINER:
                default = {**(item.get("max") or {}), **(item.get("default") or {})}
                limits |= default
                requests |= {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        self._defaults.setdefault(namespace, {})[obj["metadata"]["name"]] = requests, limits

    def apply(self, namespace: str, spec: dict[str, Any]) -> None:
        """Fill in what the containers of a new pod leave open, after the API's own defaults: limits are no requests any more."""
        for _, (requests, limits) in sorted(self._defaults.get(namespace, {}).items()):
            for group in ("containers", "initContainers"):
                for container in spec.get(group) or ():
                    resources = container.get("resources") or {}
                    container["resources"] = {
                        **resources,
                        "requests": {**requests, **(resources.get("requests") or {})},
                        "limits": {**limits, **(resources.get("limits") or {})},
                    }
