"""MaintenanceWindow: no new pods on nodes that are about to be serviced. A plugin for one node at a time."""

from typing import TYPE_CHECKING, Any

from schedcache.framework import CycleState, EventHint, Handle, Status, unresolvable
from schedcache.model import Node, Pod

if TYPE_CHECKING:
    from schedcache.cache import NodeInfo

ANNOTATION = "example.com/maintenance"


class MaintenanceWindow:
    """Rejects nodes with annotation `example.com/maintenance: planned`."""

    name = "MaintenanceWindow"
    per_node = True
    # The answer depends on the node object alone: it is kept until the node changes.
    filter_locality = "node"

    def __init__(self, args: Any, handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: Pod, node_info: "NodeInfo") -> Status | None:
        return unresolvable("node(s) were about to be serviced") if is_planned(node_info.node) else None

    def events_to_register(self) -> list[EventHint]:
        """A pod that was rejected is worth another attempt when a node's maintenance is over."""
        return [EventHint("Node", ("Add", "UpdateNodeAnnotation"), is_over)]


def is_planned(node: Node | None) -> bool:
    """Whether the node is to be serviced."""
    return node is not None and node.annotations.get(ANNOTATION) == "planned"


def is_over(_pod: Pod, old: Node | None, new: Node) -> bool:
    """Whether the node has become one to place pods on."""
    return not is_planned(new) and (old is None or is_planned(old))
