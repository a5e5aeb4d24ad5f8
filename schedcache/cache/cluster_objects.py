"""The kinds besides Pod and Node that plugins read: one indexed store per kind."""

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any

from schedcache.cache.checks.validation import expect, require
from schedcache.cache.checks.validator import Validator, run
from schedcache.cache.errors import CacheCorruptedError, StaleObjectError, UnknownObjectError
from schedcache.model.objects import ClusterObject

NAMESPACE = "namespace"
STORAGE_CLASS = "storage class"
NODE = "node"
CLAIM = "claim"

PERSISTENT_VOLUME = "PersistentVolume"
PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
ASSUMABLE = frozenset({PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM})
"""Kinds of which a volume binder assumes changes before it makes them in the API."""

Listener = Callable[[str, str], None]
"""Called with the namespace and name of an object that is now shown differently, or no longer shown."""
OnRestored = Callable[[str, ClusterObject, ClusterObject], None]
"""Called with the kind, the assumed object, and the API's, which is shown again."""

_Key = tuple[str, str]
_IndexFunction = Callable[[Any], Hashable]


def _claim(volume: Any) -> Hashable:
    ref = volume.claim_ref
    return (ref.namespace, ref.name) if ref is not None else None


_INDEXES: Mapping[str, Mapping[str, _IndexFunction]] = {
    PERSISTENT_VOLUME: {STORAGE_CLASS: lambda o: o.storage_class_name, CLAIM: _claim},
    "CSIStorageCapacity": {STORAGE_CLASS: lambda o: o.storage_class_name},
    "VolumeAttachment": {NODE: lambda o: o.node_name},
}


class _Store:
    """Objects of one kind as the API has them, and over them what is assumed."""

    def __init__(self, kind: str, generation: int = 0) -> None:
        self.kind = kind
        self.generation = generation
        self.visible: dict[_Key, ClusterObject] = {}
        self.base: dict[_Key, ClusterObject] = {}
        """The API's version of the objects that are assumed in `visible`."""
        self.listeners: list[Listener] = []
        self._functions: dict[str, _IndexFunction] = {NAMESPACE: lambda o: o.namespace, **_INDEXES.get(kind, {})}
        self._indexes: dict[str, dict[Hashable, dict[_Key, ClusterObject]]] = {name: {} for name in self._functions}

    def show(self, key: _Key, obj: ClusterObject | None) -> None:
        old = self.visible.pop(key, None)
        if obj is not None:
            self.visible[key] = obj
        for name, function in self._functions.items():
            index = self._indexes[name]
            if old is not None:
                entries = index[function(old)]
                del entries[key]
                if not entries:
                    del index[function(old)]
            if obj is not None:
                index.setdefault(function(obj), {})[key] = obj
        self.generation += 1
        for listener in self.listeners:
            listener(*key)

    def from_api(self, key: _Key, obj: ClusterObject) -> None:
        base = self.base.get(key)
        if base is not None and _same_version(base, obj):
            return
        self.base.pop(key, None)
        self.show(key, obj)

    def at(self, index: str, value: Hashable) -> Collection[ClusterObject]:
        return self._indexes[index].get(value, {}).values()

    def renewed(self, objects: Iterable[ClusterObject]) -> "_Store":
        """A store of these, made from scratch, with what is assumed here on a version that is still the newest."""
        store = _Store(self.kind, self.generation + 1)
        for obj in objects:
            store.show(_key(obj), obj)
        for key, base in self.base.items():
            newest, assumed = store.visible.get(key), self.visible.get(key)
            if newest is not None and assumed is not None and _same_version(base, newest):
                store.base[key] = newest
                store.show(key, assumed)
        return store

    def check(self) -> None:
        """Compare indexes and assumptions with the objects. Raises CacheCorruptedError."""
        indexes: dict[str, dict[Hashable, dict[_Key, ClusterObject]]] = {name: {} for name in self._functions}
        for key, obj in self.visible.items():
            expect(f"key of a {self.kind}", _key(obj), key)
            for name, function in self._functions.items():
                indexes[name].setdefault(function(obj), {})[key] = obj
        for name, index in indexes.items():
            expect(f"{self.kind} objects by {name}", index, self._indexes[name])
        for key, base in self.base.items():
            expect(f"key of a {self.kind} that is assumed", _key(base), key)
            self.check_one(key)

    def check_one(self, key: _Key) -> None:
        """The same for one object. Raises CacheCorruptedError."""
        obj, base = self.visible.get(key), self.base.get(key)
        if obj is not None:
            for name, function in self._functions.items():
                found = self._indexes[name].get(function(obj), {}).get(key)
                require(f"{self.kind} {obj.full_name} by {name}", found is obj)
        if base is not None:
            found_version = obj.resource_version if obj is not None else None
            expect(f"version that {self.kind} {base.full_name} is assumed on", base.resource_version, found_version)


class ClusterObjects:
    """Objects by kind (the API's name), namespace and name; a kind that was never fed is empty.

    PersistentVolumes and PersistentVolumeClaims may be assumed: shown changed until the API shows a newer version or the
    assumption is taken back. All calls come from the thread that runs the scheduling cycles.

    `validate` recomputes and compares the indexes of the kind after each change (see `Validator` for large clusters) and raises
    CacheCorruptedError on a difference, or passes it to `on_corruption`; `replace` repairs it.
    """

    def __init__(
        self,
        validate: bool = False,
        on_corruption: Callable[[CacheCorruptedError], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.validate = validate
        self.on_restored: OnRestored | None = None
        """To be told of assumptions that are taken back: a change like those that the API brings, but no event tells of it."""
        self._stores: dict[str, _Store] = {}
        self._validator = Validator(clock, on_corruption)

    def list(self, kind: str) -> Collection[Any]:
        """All objects of the kind, in no meaningful order; a live view."""
        return self._store(kind).visible.values()

    def get(self, kind: str, namespace: str, name: str) -> Any | None:
        """One object, in its assumed state if it has one; `namespace` is "" for kinds without namespaces."""
        return self._store(kind).visible.get((namespace, name))

    def indexed(self, kind: str, index: str, value: Hashable) -> Collection[Any]:
        """The objects whose index has this value.

        Every kind has NAMESPACE; PersistentVolume STORAGE_CLASS and CLAIM ((namespace, name), None for unclaimed ones);
        CSIStorageCapacity STORAGE_CLASS; VolumeAttachment NODE. Raises KeyError for another index.
        """
        return self._store(kind).at(index, value)

    def generation(self, kind: str) -> int:
        """A number that rises with every change to an object of the kind, assumptions included."""
        return self._store(kind).generation

    def listen(self, kind: str, listener: Listener) -> None:
        """Have the listener told of each change to an object of the kind, assumptions included; it must not change anything."""
        self._store(kind).listeners.append(listener)

    def add(self, kind: str, obj: ClusterObject) -> None:
        """The API has a new object, or a known one in a new version."""
        store, key = self._store(kind), _key(obj)
        store.from_api(key, obj)
        self._done(store, key)

    update = add

    def remove(self, kind: str, obj: ClusterObject) -> None:
        """The API no longer has the object. Nothing happens if another object (by UID) has its name by now."""
        store, key = self._store(kind), _key(obj)
        held = store.base.get(key, store.visible.get(key))
        if held is not None and (not obj.uid or held.uid == obj.uid):
            store.base.pop(key, None)
            store.show(key, None)
            self._done(store, key)

    def replace(self, kind: str, objects: Iterable[ClusterObject]) -> None:
        """The API has exactly these objects; all indexes are rebuilt.

        An assumption stays if the version that it was based on is still the newest.
        """
        before = self._store(kind)
        store = self._stores[kind] = before.renewed(objects)
        if self.validate:
            self._validator.start_over()
            self._validator.after(kind, store.check)
        store.listeners = before.listeners
        for key in before.visible.keys() | store.visible.keys() if store.listeners else ():
            for listener in store.listeners:
                listener(*key)

    def assume(self, kind: str, obj: ClusterObject) -> None:
        """Show the object changed. `obj` keeps the resourceVersion of the API's object that it was made from.

        Raises UnknownObjectError, StaleObjectError if the API has another version by now, and ValueError for a kind that
        cannot be assumed.
        """
        if kind not in ASSUMABLE:
            raise ValueError(f"a {kind} cannot be assumed, only one of {', '.join(sorted(ASSUMABLE))}")
        store, key = self._store(kind), _key(obj)
        held = store.base.get(key, store.visible.get(key))
        if held is None:
            raise UnknownObjectError(f"{kind} {obj.full_name} is not known")
        if held.resource_version != obj.resource_version:
            raise StaleObjectError(
                f"{kind} {obj.full_name} is at resourceVersion {held.resource_version!r}, not {obj.resource_version!r}"
            )
        store.base[key] = held
        store.show(key, obj)
        self._done(store, key)

    def restore(self, kind: str, assumed: ClusterObject) -> None:
        """Withdraw an assumption; does nothing if a newer version, or another assumption, has replaced it."""
        store, key = self._store(kind), _key(assumed)
        if key in store.base and store.visible.get(key) is assumed:
            held = store.base.pop(key)
            store.show(key, held)
            self._done(store, key)
            if self.on_restored is not None:
                self.on_restored(kind, assumed, held)

    def in_api(self, kind: str, namespace: str, name: str) -> Any | None:
        """One object as the API has it, whatever is assumed."""
        store, key = self._store(kind), (namespace, name)
        return store.base.get(key, store.visible.get(key))

    def assumed(self, kind: str) -> Collection[Any]:
        """The assumed objects of the kind."""
        store = self._store(kind)
        return [store.visible[key] for key in store.base]

    def check(self) -> None:
        """Recompute and compare everything now. Raises CacheCorruptedError."""
        for store in self._stores.values():
            run(store.check)

    def _done(self, store: _Store, key: _Key) -> None:
        if self.validate:
            self._validator.after(store.kind, store.check, lambda: store.check_one(key))

    def _store(self, kind: str) -> _Store:
        store = self._stores.get(kind)
        if store is None:
            store = self._stores[kind] = _Store(kind)
        return store


def _key(obj: ClusterObject) -> _Key:
    return obj.namespace, obj.name


def _same_version(one: ClusterObject, other: ClusterObject) -> bool:
    return (one.uid, one.resource_version) == (other.uid, other.resource_version)
