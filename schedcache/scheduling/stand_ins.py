"""Names that stand where a plugin's would, for rejections that are no plugin's, and what brings such pods back."""

from collections.abc import Sequence

from schedcache.model import Pod
from schedcache.queue import EventHint
from schedcache.queue.events import ADD, NODE, TARGET_POD, UPDATE

NOT_SUPPORTED = "NotSupported"
"""The pod asks for what this scheduler cannot do at all: no event wakes it but a change of what it asks for."""
NO_NODES = "NoNodes"
"""There is no node: nothing but a node's arrival can help.

kube-scheduler 1.37 records no plugin here and so tries such a pod again after each backoff, for as long as there is no node.
"""


def _asks_for_something_else(_pod: Pod, old: Pod, new: Pod) -> bool:
    """Other changes of the pod come from ourselves, such as the condition that tells why it waits."""
    return old.spec is not new.spec


STAND_IN_HINTS: Sequence[EventHint] = (
    EventHint(TARGET_POD, (UPDATE,), _asks_for_something_else, plugin=NOT_SUPPORTED),
    EventHint(NODE, (ADD,), plugin=NO_NODES),
)
