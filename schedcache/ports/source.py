"""The watch side: what tells the scheduler about the cluster, and what it tells."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from schedcache.model import MalformedObjectError

KubernetesObject = object
"""A model object: Pod, Node, or one of the other kinds; each has `uid`, `name` and `resource_version`."""


class EventSink(Protocol):
    """Takes changes in arrival order. All methods are synchronous and quick; an exception means "state unknown".

    A source that sees one raise calls `EventSource.rebuild` by itself: it is never only logged.
    """

    def on_add(self, kind: str, obj: KubernetesObject) -> None:
        """An object not held before. Also called after `on_delete` for a new UID under an old name."""

    def on_update(self, kind: str, old: KubernetesObject, new: KubernetesObject) -> None:
        """A held object (same UID) in another resourceVersion."""

    def on_delete(self, kind: str, obj: KubernetesObject, *, missed: bool) -> None:
        """The last known state of an object that is gone; `missed`: found by a relist, so that state may be old."""

    def on_synced(self, kind: str) -> None:
        """The first complete list of the kind has been delivered."""

    def on_malformed(self, kind: str, error: MalformedObjectError) -> None:
        """An object that could not be read; the last readable state, if any, stays held."""

    def on_rebuild(self, objects: Mapping[str, Sequence[KubernetesObject]]) -> None:
        """Everything, read afresh: replaces all that the sink holds, in one call."""


class Outage(NamedTuple):
    """For how many seconds there has been no working connection, and how the last one ended or failed."""

    seconds: float
    why: str


class EventSource(Protocol):
    """Lists and watches a set of kinds and feeds an EventSink."""

    async def run(self) -> None:
        """Feed the sink until cancelled. No answer of the server ends it."""

    def has_synced(self) -> bool:
        """Whether the first complete list of every kind has been delivered."""

    def resource_versions(self) -> Mapping[str, str]:
        """Kind -> the resourceVersion up to which its changes have been delivered."""

    def ages(self) -> Mapping[str, float]:
        """Kind -> seconds since the server was last heard on it, inf for never."""

    def outages(self) -> Mapping[str, Outage]:
        """The kinds for which no watch is open at this moment."""

    def request_rebuild(self, reason: str) -> None:
        """Read every kind afresh and call `on_rebuild`; soon, once for any number of requests."""

    def rebuild_wanted(self) -> bool:
        """Whether a rebuild was asked for and is not done: what the sink holds may be wrong."""
