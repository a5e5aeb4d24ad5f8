"""What scheduling reads besides pods and nodes: namespaces, services, the controllers behind pods, disruption budgets.

Each kind is a compact immutable struct, compared by identity, with only the fields that scheduling reads.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import msgspec

from schedcache.model import wire
from schedcache.model.decode import Reader, labels_of, name_of
from schedcache.model.labels import LabelSelector
from schedcache.model.selectors import label_selector


class ClusterObject(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The fields of every kind; `namespace` is "" for cluster-wide ones."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    _reader: ClassVar[Reader[Any]]
    namespaced: ClassVar[bool] = False
    """Whether objects of the kind live in namespaces."""

    @classmethod
    def from_dict(cls, obj: Mapping[str, Any]) -> Self:
        """From the API's JSON as Python values. Raises MalformedObjectError, naming the field."""
        return cls._reader.build(cls._reader.convert(obj), cls._from_wire)

    @classmethod
    def from_json(cls, raw: bytes | memoryview | msgspec.Raw) -> Self:
        """From the API's JSON. Raises MalformedObjectError, naming the field."""
        return cls._reader.build(cls._reader.parse(raw), cls._from_wire)

    @classmethod
    def _from_wire(cls, w: Any) -> Self:
        raise NotImplementedError

    @classmethod
    def _identity(cls, meta: wire.ObjectMeta | None) -> dict[str, Any]:
        meta = meta or wire.ObjectMeta()
        return {
            "name": name_of(meta),
            "namespace": (meta.namespace or "default") if cls.namespaced else "",
            "uid": meta.uid or "",
            "resource_version": meta.resource_version or "",
        }

    @property
    def full_name(self) -> str:
        """`namespace/name`, or the name alone for a cluster-wide kind."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _MetaWire(msgspec.Struct, gc=False):
    metadata: wire.ObjectMeta | None = None


class _EqualitySpec(msgspec.Struct, gc=False):
    selector: dict[str, str | None] | None = None


class _EqualityWire(msgspec.Struct, gc=False):
    metadata: wire.ObjectMeta | None = None
    spec: _EqualitySpec | None = None


class _SelectorSpec(msgspec.Struct, gc=False):
    selector: wire.LabelSelectorWire | None = None


class _SelectorWire(msgspec.Struct, gc=False):
    metadata: wire.ObjectMeta | None = None
    spec: _SelectorSpec | None = None


class _BudgetStatus(msgspec.Struct, gc=False, rename="camel"):
    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, str | None] | None = None


class _BudgetWire(msgspec.Struct, gc=False):
    metadata: wire.ObjectMeta | None = None
    spec: _SelectorSpec | None = None
    status: _BudgetStatus | None = None


class Namespace(ClusterObject, frozen=True, eq=False, kw_only=True):
    """A namespace and its labels, which namespace selectors of affinity terms look at."""

    labels: Mapping[str, str] = {}

    _reader: ClassVar[Reader[Any]] = Reader("Namespace", _MetaWire)

    @classmethod
    def _from_wire(cls, w: _MetaWire) -> Self:
        return cls(**cls._identity(w.metadata), labels=labels_of(w.metadata.labels if w.metadata else None))


class _SelectsByLabels(ClusterObject, frozen=True, eq=False, kw_only=True):
    """Kinds whose selector is a list of labels."""

    selector: Mapping[str, str] | None = None

    namespaced: ClassVar[bool] = True

    @classmethod
    def _from_wire(cls, w: _EqualityWire) -> Self:
        found = w.spec.selector if w.spec else None
        return cls(**cls._identity(w.metadata), selector=None if found is None else labels_of(found))


class _SelectsBySelector(ClusterObject, frozen=True, eq=False, kw_only=True):
    """Kinds that have a label selector."""

    selector: LabelSelector | None = None

    namespaced: ClassVar[bool] = True

    @classmethod
    def _from_wire(cls, w: _SelectorWire) -> Self:
        return cls(**cls._identity(w.metadata), selector=label_selector(w.spec.selector if w.spec else None))


class Service(_SelectsByLabels, frozen=True, eq=False, kw_only=True):
    """A service; a `selector` of None (not given) selects no pod, an empty one every pod of the namespace."""

    _reader: ClassVar[Reader[Any]] = Reader("Service", _EqualityWire)


class ReplicationController(_SelectsByLabels, frozen=True, eq=False, kw_only=True):
    """A replication controller; `selector` is None if not given."""

    _reader: ClassVar[Reader[Any]] = Reader("ReplicationController", _EqualityWire)


class ReplicaSet(_SelectsBySelector, frozen=True, eq=False, kw_only=True):
    """A replica set; `selector` is None if not given."""

    _reader: ClassVar[Reader[Any]] = Reader("ReplicaSet", _SelectorWire)


class StatefulSet(_SelectsBySelector, frozen=True, eq=False, kw_only=True):
    """A stateful set; `selector` is None if not given."""

    _reader: ClassVar[Reader[Any]] = Reader("StatefulSet", _SelectorWire)


class PodDisruptionBudget(ClusterObject, frozen=True, eq=False, kw_only=True):
    """A disruption budget as preemption reads it: how many evictions are left, and the names of pods already being evicted."""

    selector: LabelSelector | None = None
    disruptions_allowed: int = 0
    disrupted_pods: frozenset[str] = frozenset()

    _reader: ClassVar[Reader[Any]] = Reader("PodDisruptionBudget", _BudgetWire)
    namespaced: ClassVar[bool] = True

    @classmethod
    def _from_wire(cls, w: _BudgetWire) -> Self:
        status = w.status or _BudgetStatus()
        return cls(
            **cls._identity(w.metadata),
            selector=label_selector(w.spec.selector if w.spec else None),
            disruptions_allowed=status.disruptions_allowed or 0,
            disrupted_pods=frozenset(status.disrupted_pods or ()),
        )
