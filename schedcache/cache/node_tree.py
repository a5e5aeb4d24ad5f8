"""Node names by zone, and the order in which nodes are considered."""

from collections.abc import Iterator


class NodeTree:
    """Zones in the order they were first seen, the nodes of each in the order they came (kube-scheduler's nodeTree).

    It remembers each node's zone, so callers need not know it.
    """

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._zone_of)

    def __contains__(self, name: object) -> bool:
        return name in self._zone_of

    @property
    def zones(self) -> dict[str, list[str]]:
        """Zone key -> node names."""
        return {zone: list(names) for zone, names in self._zones.items()}

    def zone(self, name: str) -> str | None:
        """The zone key that a node is filed under; None for an unknown one."""
        return self._zone_of.get(name)

    def set(self, name: str, zone: str) -> None:
        """File a node under a zone. One that is already there keeps its place; one from another zone goes to the end."""
        known = self._zone_of.get(name)
        if known == zone:
            return
        if known is not None:
            self.remove(name)
        self._zones.setdefault(zone, {})[name] = None
        self._zone_of[name] = zone

    def remove(self, name: str) -> bool:
        """Remove a node, and its zone if it was the last one in it. Returns whether it was known."""
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return False
        del self._zones[zone][name]
        if not self._zones[zone]:
            del self._zones[zone]
        return True

    def list(self) -> list[str]:
        """All names, one of each zone in turn, always starting at the first zone (kubernetes/kubernetes#91601)."""
        result: list[str] = []
        turns: list[Iterator[str]] = [iter(names) for names in self._zones.values()]
        while turns:
            left = []
            for names in turns:
                name = next(names, None)
                if name is not None:
                    result.append(name)
                    left.append(names)
            turns = left
        return result
