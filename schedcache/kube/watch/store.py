"""The objects of one kind, by UID: turns lists and events into calls of an EventSink."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType

import msgspec

from schedcache.kube.watch.decoder import Identity, Source, decode_object, identify
from schedcache.kube.watch.kinds import HeldObject, Kind
from schedcache.kube.watch.stats import KindStats
from schedcache.model import MalformedObjectError
from schedcache.ports import EventSink


class SinkError(Exception):
    """The sink raised: from now on its state is unknown. The cause is the sink's exception."""

    def __init__(self, kind: str, method: str, error: Exception) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {method}: {error!r}")


class Listing:
    """A list that is being read.

    Attributes:
        objects: the readable ones, by UID, in the server's order.
        malformed: (identity, error) of the others.
        resource_version: of the list.
    """

    def __init__(self) -> None:
        self.objects: dict[str, HeldObject] = {}
        self.malformed: list[tuple[Identity, MalformedObjectError]] = []
        self.resource_version = ""


class ObjectStore:
    """The objects of one kind, as the sink knows them.

    Every change goes through here, so that the sink sees each UID added once, updated in order and deleted once. An
    exception of the sink becomes a SinkError.

    Args:
        kind: what is held.
        sink: called with every change.
        stats: where changes are counted.
        timer: seconds, for measuring work.
    """

    def __init__(
        self, kind: Kind, sink: EventSink, stats: KindStats, timer: Callable[[], float] = time.perf_counter
    ) -> None:
        self.kind = kind
        self.stats = stats
        self._sink = sink
        self._timer = timer
        self._objects: dict[str, HeldObject] = {}
        self._uids: dict[str, str] = {}
        # UID -> resourceVersion of objects whose newest state cannot be read.
        self._unreadable: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, uid: str) -> bool:
        return uid in self._objects

    def get(self, uid: str) -> HeldObject | None:
        """The object with that UID, as the sink knows it."""
        return self._objects.get(uid)

    @property
    def by_uid(self) -> Mapping[str, HeldObject]:
        """All objects held; a live view, of this moment only: a rebuild makes another one."""
        return MappingProxyType(self._objects)

    def uids(self) -> Collection[str]:
        """The UIDs of all objects held."""
        return self._objects.keys()

    def objects(self) -> list[HeldObject]:
        """All objects held."""
        return list(self._objects.values())

    def unreadable_version(self, uid: str) -> str:
        """The resourceVersion in which the object could not be read, "" if its newest state is the one held."""
        return self._unreadable.get(uid, "")

    def read(self, raw: Source) -> HeldObject:
        """Decode one object. Raises MalformedObjectError."""
        started = self._timer()
        try:
            return decode_object(self.kind, raw)
        finally:
            self.stats.decode_seconds += self._timer() - started

    def read_into(self, listing: Listing, raw: msgspec.Raw, *, afresh: bool) -> None:
        """Decode one item of a list; unless `afresh`, an object held in the same resourceVersion is reused."""
        if not afresh and self._objects:
            identity = identify(raw)
            held = self._objects.get(identity.uid)
            if held is not None and held.resource_version == identity.resource_version:
                listing.objects[identity.uid] = held
                return
        try:
            obj = self.read(raw)
        except MalformedObjectError as error:
            listing.malformed.append((identify(raw), error))
        else:
            listing.objects[obj.uid] = obj

    def upsert(self, obj: HeldObject) -> None:
        """An object was added or changed. Raises SinkError."""
        uid = obj.uid
        held = self._objects.get(uid)
        if held is not None and held.resource_version == obj.resource_version:
            return
        if self._unreadable:
            self._forget_unreadable(uid)
        if held is not None:
            self._objects[uid] = obj
            self._tell(self._sink.on_update, held, obj)
            return
        key = self.kind.key_of(obj)
        former = self._uids.get(key)
        if former is not None:
            # Names are unique at any one time, so the former owner of the name is gone.
            self.delete(former, missed=True)
        self._objects[uid] = obj
        self._uids[key] = uid
        self._tell(self._sink.on_add, obj)

    def delete(self, uid: str, *, missed: bool) -> bool:
        """The object is gone. Returns whether it was held. Raises SinkError."""
        self._forget_unreadable(uid)
        held = self._objects.pop(uid, None)
        if held is None:
            return False
        key = self.kind.key_of(held)
        if self._uids.get(key) == uid:
            del self._uids[key]
        if missed:
            self.stats.missed_deletes += 1
        started = self._timer()
        try:
            self._sink.on_delete(self.kind.name, held, missed=missed)
        except Exception as error:
            raise SinkError(self.kind.name, "on_delete", error) from error
        self.stats.apply_seconds += self._timer() - started
        return True

    def malformed(self, identity: Identity, error: MalformedObjectError) -> None:
        """The object's newest state cannot be read: reported once for each resourceVersion. Raises SinkError."""
        if identity.uid:
            if self._unreadable.get(identity.uid) == identity.resource_version:
                return
            self._unreadable[identity.uid] = identity.resource_version
            self.stats.unreadable = len(self._unreadable)
        self.stats.malformed += 1
        try:
            self._sink.on_malformed(self.kind.name, error)
        except Exception as failure:
            raise SinkError(self.kind.name, "on_malformed", failure) from failure

    def replace(self, listing: Listing) -> Iterator[None]:
        """Make what is held equal to the list: additions and changes first, then deletions, one per step.

        Store and sink agree after every step, so others may run between steps. Raises SinkError.
        """
        listed = self._listed(listing)
        for obj in listing.objects.values():
            self.upsert(obj)
            yield
        for identity, error in listing.malformed:
            self.malformed(identity, error)
            yield
        for uid in [uid for uid in self._objects if uid not in listed]:
            self.delete(uid, missed=True)
            yield
        for uid in [uid for uid in self._unreadable if uid not in listed]:
            self._forget_unreadable(uid)

    def adopt(self, listing: Listing) -> None:
        """Hold what is in the list, without calling the sink for each object. Raises SinkError for a malformed one."""
        listed = self._listed(listing)
        kept = {uid: obj for uid, obj in self._objects.items() if uid in listed}
        self._objects = kept | listing.objects
        self._uids = {self.kind.key_of(obj): uid for uid, obj in self._objects.items()}
        self._unreadable.clear()
        self.stats.unreadable = 0
        for identity, error in listing.malformed:
            self.malformed(identity, error)

    def synced(self) -> None:
        """The first complete list has been delivered. Raises SinkError."""
        try:
            self._sink.on_synced(self.kind.name)
        except Exception as error:
            raise SinkError(self.kind.name, "on_synced", error) from error

    def _listed(self, listing: Listing) -> set[str]:
        """UIDs of the list, including those of unreadable objects, whose last readable state is kept."""
        listed = set(listing.objects)
        for identity, _ in listing.malformed:
            key = f"{identity.namespace}/{identity.name}" if self.kind.namespaced else identity.name
            # An object without a readable UID is known by its name only.
            listed.add(identity.uid or self._uids.get(key, ""))
        return listed

    def _forget_unreadable(self, uid: str) -> None:
        if self._unreadable.pop(uid, None) is not None:
            self.stats.unreadable = len(self._unreadable)

    def _tell(self, method: Callable[..., None], *objects: HeldObject) -> None:
        started = self._timer()
        try:
            method(self.kind.name, *objects)
        except Exception as error:
            raise SinkError(self.kind.name, method.__name__, error) from error
        self.stats.apply_seconds += self._timer() - started
