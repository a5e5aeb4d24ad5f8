"""Extenders: programs that take part in decisions, asked over the network (kube-scheduler's Extender, 1.37)."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import NamedTuple, Protocol

from schedcache.model import Node, Pod

MAX_EXTENDER_PRIORITY = 10
"""The highest score that an extender is meant to give a node (extender/v1)."""


class ExtenderResult(StrEnum):
    """How a call of an extender ended; the values are label values of a metric."""

    SUCCESS = "success"
    UNREACHABLE = "unreachable"
    """There was no connection, so it was not asked."""
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    """The connection ended before the answer did."""
    STATUS = "status"
    """An HTTP status other than 200."""
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    """Not JSON, or not of the expected form."""
    WRONG = "wrong"
    """The answer is about something that was not asked."""
    ERROR = "error"
    """The extender reports a failure."""


class ExtenderError(Exception):
    """An extender gave no usable answer; the message names it."""

    def __init__(self, message: str, result: ExtenderResult) -> None:
        self.result = result
        super().__init__(message)


class FilterAnswer(NamedTuple):
    """The nodes in `node_names` may have the pod; others may have a reason, which evicting pods may or may not remove.

    A name in both maps is `unresolvable`.
    """

    node_names: Sequence[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class Victims(NamedTuple):
    """Pods that would have to leave a node, and how many of them a PodDisruptionBudget protects."""

    pods: Sequence[Pod]
    pdb_violations: int


class MetaVictims(NamedTuple):
    """`Victims` by their UIDs, as extenders answer."""

    uids: Sequence[str]
    pdb_violations: int


def asks_for(pod: Pod, managed_resources: AbstractSet[str]) -> bool:
    """Whether an extender that manages these resources is interested in the pod: if it asks for one of them; none: in any pod."""
    return not managed_resources or not managed_resources.isdisjoint(pod.spec.requests.resource.scalar)


class Extender(Protocol):
    """One extender. It is only asked for what it does (`filters`, `prioritizes`, `preempts`, `binds`).

    Every call takes at most the extender's own time-out, and raises ExtenderError.
    """

    @property
    def name(self) -> str:
        """Its URL."""

    @property
    def filters(self) -> bool: ...
    @property
    def prioritizes(self) -> bool: ...
    @property
    def preempts(self) -> bool: ...
    @property
    def binds(self) -> bool: ...

    @property
    def weight(self) -> int:
        """The factor for its scores."""

    @property
    def ignorable(self) -> bool:
        """Whether pods are placed without its answer if it gives none."""

    def is_interested(self, pod: Pod) -> bool:
        """Whether it is to be asked about this pod."""

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterAnswer:
        """Which of the nodes may have the pod."""

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        """Names of nodes with their scores, of any range."""

    async def process_preemption(self, pod: Pod, candidates: Mapping[str, Victims]) -> Mapping[str, MetaVictims]:
        """The candidates that are left, by node name, with their victims."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Have the pod bound. After an ExtenderError other than `unreachable` it may be bound all the same.

        Raises FencedError, too.
        """
