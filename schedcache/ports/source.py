"""The watch side: where changes in the cluster come from, and where they go."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from schedcache.model import MalformedObjectError
from schedcache.ports.comparison import KindComparison

KubernetesObject = object
"""A model object: Pod, Node, or one of the other kinds; each has `uid`, `name` and `resource_version`."""


class EventSink(Protocol):
    """Takes changes in the order of arrival. All methods are synchronous and quick; an exception means "state unknown".

    If a method raises, the source requests a rebuild; it never just logs the exception.
    """

    def on_add(self, kind: str, obj: KubernetesObject) -> None:
        """An object not held before. Also called after `on_delete` for a new UID under an old name."""

    def on_update(self, kind: str, old: KubernetesObject, new: KubernetesObject) -> None:
        """An object held already (same UID), in another resourceVersion."""

    def on_delete(self, kind: str, obj: KubernetesObject, *, missed: bool) -> None:
        """The last known state of an object that is gone; `missed`: found by a relist, so this state may be old."""

    def on_synced(self, kind: str) -> None:
        """The first complete list of the kind has been delivered."""

    def on_malformed(self, kind: str, error: MalformedObjectError) -> None:
        """An object that could not be read; its last readable state, if any, is kept."""

    def on_rebuild(self, objects: Mapping[str, Sequence[KubernetesObject]]) -> None:
        """Everything, read again: replaces all that the sink holds, in one call."""


class Outage(NamedTuple):
    """How many seconds there has been no working connection, and how the last one ended or failed."""

    seconds: float
    why: str


class EventSource(Protocol):
    """Lists and watches a set of kinds and feeds an EventSink.

    `on_compared` is told of every comparison of a kind with the API server, before what differs is repaired.
    """

    on_compared: Callable[[KindComparison], None]

    async def run(self) -> None:
        """Feed the sink until cancelled. It goes on whatever the server answers."""

    def has_synced(self) -> bool:
        """Whether the first complete list of every kind has been delivered."""

    def resource_versions(self) -> Mapping[str, str]:
        """Kind -> the resourceVersion up to which its changes have been delivered."""

    def ages(self) -> Mapping[str, float]:
        """Kind -> seconds since the server last sent anything for it, inf for never."""

    def outages(self) -> Mapping[str, Outage]:
        """The kinds for which no watch is open at this moment."""

    def unanswered(self) -> Outage | None:
        """For how long the server has answered no question at all; None if it answers, whatever becomes of the watches."""

    async def compare(self) -> None:
        """Compare every kind with the API server now, and repair what differs; `on_compared` is told of each."""

    def held(self, kind: str) -> Mapping[str, KubernetesObject]:
        """UID -> the latest state of the objects of a kind that were handed on; a live view."""

    def request_rebuild(self, reason: str) -> None:
        """Read every kind again and call `on_rebuild`: soon, and once for any number of requests."""

    def rebuild_wanted(self) -> str:
        """Why a rebuild is wanted or under way, "" if none is: what the sink holds may be wrong."""
