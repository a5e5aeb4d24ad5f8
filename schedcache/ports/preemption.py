"""Making room: what becomes of the victims that preemption has chosen."""

from collections.abc import Sequence
from typing import Protocol

from schedcache.model import Pod, PodCondition


class PreemptionExecutor(Protocol):
    """What DefaultPreemption acts through; evictions go on in the background."""

    def attempted(self) -> None:
        """PostFilter was asked to make room, whatever came of it."""

    def preempt(self, preemptor: Pod, node_name: str, victims: Sequence[Pod]) -> None:
        """Begin to make room on the node; `victims` by importance, those that are terminating already among them."""

    def is_running(self, uid: str) -> bool:
        """Whether the evictions for the pod of this UID are still on their way: it had better not be tried now."""


class Evictor(Protocol):
    """Evicts single pods, by UID: a pod made again under the name is left alone."""

    async def evict(self, victim: Pod, condition: PodCondition) -> bool:
        """Set the condition, then delete the pod; False where it was gone before. Raises ApiError."""
