"""A scheduling cycle's result, on its way to be bound."""

from typing import NamedTuple

from schedcache.framework import CycleState, Framework
from schedcache.model import Pod
from schedcache.queue import QueuedPodInfo


class Decision(NamedTuple):
    """A pod that is assumed on a node.

    `pod` has its node name; `info.pod` has not. `started`: when the attempt began, in the clock's seconds. `waiting`: on Permit.
    """

    info: QueuedPodInfo
    pod: Pod
    framework: Framework
    cycle_state: CycleState
    started: float
    waiting: bool

    @property
    def node_name(self) -> str:
        return self.pod.node_name
