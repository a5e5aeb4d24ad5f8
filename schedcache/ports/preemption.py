"""Making room: what becomes of the victims that preemption has chosen."""

from collections.abc import Sequence
from typing import Protocol

from schedcache.model import Pod


class PreemptionExecutor(Protocol):
    """Evicts victims, in the background where that takes time."""

    def preempt(self, preemptor: Pod, node_name: str, victims: Sequence[Pod]) -> None:
        """Begin to make room on the node; `victims` by importance, those that are terminating already among them."""

    def is_running(self, uid: str) -> bool:
        """Whether the evictions for the pod of this UID are still on their way: it had better not be tried now."""
