"""The kinds beside Pod and Node that plugins read: one indexed store a kind."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any

from schedcache.cache.errors import StaleObjectError, UnknownObjectError
from schedcache.model.objects import ClusterObject

NAMESPACE = "namespace"
STORAGE_CLASS = "storage class"
NODE = "node"
CLAIM = "claim"

PERSISTENT_VOLUME = "PersistentVolume"
PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
ASSUMABLE = frozenset({PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM})
"""Kinds that a volume binder changes in thought before it changes them in the API."""

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

    def __init__(self, kind: str) -> None:
        self.generation = 0
        self.visible: dict[_Key, ClusterObject] = {}
        self.base: dict[_Key, ClusterObject] = {}
        """What the API has of the objects that `visible` has an assumed one of."""
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

    def from_api(self, key: _Key, obj: ClusterObject) -> None:
        base = self.base.get(key)
        if base is not None and (base.uid, base.resource_version) == (obj.uid, obj.resource_version):
            return
        self.base.pop(key, None)
        self.show(key, obj)

    def at(self, index: str, value: Hashable) -> Collection[ClusterObject]:
        return self._indexes[index].get(value, {}).values()


class ClusterObjects:
    """Objects by kind (the API's name), namespace and name; a kind that was never fed is empty.

    PersistentVolumes and PersistentVolumeClaims may be assumed: shown changed until the API shows a newer version or the
    assumption is taken back. Everything is called from the thread that runs the scheduling cycles.
    """

    def __init__(self) -> None:
        self._stores: dict[str, _Store] = {}

    def list(self, kind: str) -> Collection[Any]:
        """All objects of the kind, in no meaningful order; a live view."""
        return self._store(kind).visible.values()

    def get(self, kind: str, namespace: str, name: str) -> Any | None:
        """One object, as assumed where it is; `namespace` is "" for kinds without namespaces."""
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

    def add(self, kind: str, obj: ClusterObject) -> None:
        """The API has a new object, or a known one in a new version."""
        self._store(kind).from_api(_key(obj), obj)

    update = add

    def remove(self, kind: str, obj: ClusterObject) -> None:
        """The API has the object no more. Nothing where another one of that name (by UID) has taken its place."""
        store, key = self._store(kind), _key(obj)
        held = store.base.get(key, store.visible.get(key))
        if held is not None and (not obj.uid or held.uid == obj.uid):
            store.base.pop(key, None)
            store.show(key, None)

    def replace(self, kind: str, objects: Iterable[ClusterObject]) -> None:
        """The API has exactly these. What is assumed stays where the version it was assumed on is still the newest."""
        store = self._store(kind)
        found = {_key(obj): obj for obj in objects}
        for key in [key for key in store.visible if key not in found]:
            store.base.pop(key, None)
            store.show(key, None)
        for key, obj in found.items():
            if store.visible.get(key) is not obj:
                store.from_api(key, obj)

    def assume(self, kind: str, obj: ClusterObject) -> None:
        """Show the object changed. `obj` keeps the resourceVersion of the API's object that it was made from.

        Raises UnknownObjectError, StaleObjectError when the API has another version by now, and ValueError for a kind that
        nothing assumes.
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

    def restore(self, kind: str, namespace: str, name: str) -> None:
        """Take an assumption back; nothing where there is none."""
        store, key = self._store(kind), (namespace, name)
        held = store.base.pop(key, None)
        if held is not None:
            store.show(key, held)

    def in_api(self, kind: str, namespace: str, name: str) -> Any | None:
        """One object as the API has it, whatever is assumed."""
        store, key = self._store(kind), (namespace, name)
        return store.base.get(key, store.visible.get(key))

    def assumed(self, kind: str) -> Collection[Any]:
        """The assumed objects of the kind."""
        store = self._store(kind)
        return [store.visible[key] for key in store.base]

    def _store(self, kind: str) -> _Store:
        store = self._stores.get(kind)
        if store is None:
            store = self._stores[kind] = _Store(kind)
        return store


def _key(obj: ClusterObject) -> _Key:
    return obj.namespace, obj.name
