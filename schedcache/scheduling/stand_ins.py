"""Names that stand in for a plugin's, for rejections without a plugin, and the events that bring such pods back."""

from collections.abc import Sequence

from schedcache.model import Pod
from schedcache.queue import EventHint
from schedcache.queue.events import ADD, NODE, TARGET_POD, UPDATE

NOT_SUPPORTED = "NotSupported"
"""The pod asks for something that this scheduler does not support: only a change of that wakes it."""
NO_NODES = "NoNodes"
"""There is no node: only a new node can help.

kube-scheduler 1.37 records no plugin here, and so retries such a pod after each backoff as long as there is no node.
"""


def _asks_for_something_else(_pod: Pod, old: Pod, new: Pod) -> bool:
    """Other changes of the pod come from ourselves, such as the condition that says why it waits."""
    return old.spec is not new.spec


STAND_IN_HINTS: Sequence[EventHint] = (
    EventHint(TARGET_POD, (UPDATE,), _asks_for_something_else, plugin=NOT_SUPPORTED),
    EventHint(NODE, (ADD,), plugin=NO_NODES),
)
