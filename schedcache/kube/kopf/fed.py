"""One kind as kopf feeds it: events of one object come in their order, those of several in any."""

from collections.abc import Callable, Mapping
from typing import Any

from schedcache.kube.settings import KopfSettings
from schedcache.kube.watch.contact import Contact
from schedcache.kube.watch.decoder import identify
from schedcache.kube.watch.graveyard import Graveyard, is_newer
from schedcache.kube.watch.lister import Lister
from schedcache.kube.watch.store import ObjectStore
from schedcache.kube.watch.sweep import Findings
from schedcache.model import MalformedObjectError


class Fed:
    """What is known of one kind, and how it is brought up to date by what kopf says in no particular order.

    Args:
        store: its objects.
        lister: reads all of them without kopf.
        settings: how long its first list may bring nothing.
        clock: seconds, monotonic.

    Attributes:
        store: as given.
        lister: as given.
        graves: UIDs that are gone, against older events.
        contact: with the server, about this kind.
        version: the latest resourceVersion that was seen.
        synced: whether the first complete list has been delivered.
        stale_sweeps: comparisons that found kopf behind since its last event.
    """

    def __init__(self, store: ObjectStore, lister: Lister, settings: KopfSettings, clock: Callable[[], float]) -> None:
        self.store = store
        self.lister = lister
        self.graves = Graveyard(clock)
        self.contact = Contact(clock, store.stats)
        self.version = ""
        self.synced = False
        self.stale_sweeps = 0
        self._clock = clock
        self._stalled_seconds = settings.stalled_seconds
        self._held = 0
        self._grew_at = clock()

    def apply(self, type_: str | None, obj: Mapping[str, Any]) -> None:
        """Apply one event, unless it is older than what is already known. Raises SinkError."""
        store, graves = self.store, self.graves
        self.stale_sweeps = 0
        identity = identify(obj)
        uid, version = identity.uid, identity.resource_version
        if type_ == "DELETED":
            graves.bury(uid, version)
            store.delete(uid, missed=False)
        elif (held := store.get(uid)) is not None:
            if not is_newer(version, held.resource_version):
                return
        elif graves.covers(uid, version):
            return
        if type_ != "DELETED":
            try:
                store.upsert(store.read(obj))
            except MalformedObjectError as error:
                store.malformed(identity, error)
        self.advance(version)

    def known_version(self) -> str:
        """The latest resourceVersion that was seen."""
        return self.version

    def advance(self, version: str) -> None:
        """Changes up to that resourceVersion have been delivered."""
        if is_newer(version, self.version):
            self.version = version

    def forget(self) -> None:
        """The server was set back: what it says from now on must not be measured by what it said before."""
        self.graves = Graveyard(self._clock)
        self.version = ""

    def listed(self, version: str) -> None:
        """All that the server had at that resourceVersion is held, and nothing else: older events are out of date."""
        self.graves.floor = version
        self.advance(version)

    def lost(self, why: str) -> None:
        """An operator that was joined does not report this kind, or the server does not answer."""
        self.contact.ended(self, why)
        self.contact.failed(why)

    def stalled(self) -> bool:
        """Whether the first list has brought nothing new for a long time."""
        if len(self.store) != self._held:
            self._held, self._grew_at = len(self.store), self._clock()
        return self._clock() - self._grew_at > self._stalled_seconds

    def still_gone(self, findings: Findings) -> list[str]:
        """Those that kopf has not reported as deleted meanwhile."""
        return [uid for uid in findings.gone if uid in self.store]

    def still_behind(self, findings: Findings) -> list[str]:
        """Those that kopf has not reported meanwhile."""
        found = []
        for uid, version in findings.behind.items():
            held = self.store.get(uid)
            now = held.resource_version if held is not None else ""
            # What it has reported may be unreadable.
            reported = not is_newer(findings.versions[uid], self.store.unreadable_version(uid))
            if now == version and uid not in self.graves and not reported:
                found.append(uid)
        return found
