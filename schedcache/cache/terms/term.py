"""Terms that count pods: what one pod asks of others, and what placed pods ask of new ones."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import msgspec

from schedcache.cache.terms.row_counts import RowCounts
from schedcache.model import LabelSelector, PodAffinityTerm, PodShape

_OWNED = "owned_terms"


class PodTerm(msgspec.Struct, frozen=True, gc=False):
    """Pods of some namespaces (None: of all) that a selector matches; terminating ones count unless it says otherwise."""

    namespaces: frozenset[str] | None
    selector: LabelSelector
    ignore_terminating: bool = False

    def matches(self, shape: PodShape) -> bool:
        """Whether pods of the shape count."""
        if self.namespaces is not None and shape.namespace not in self.namespaces:
            return False
        return self.selector.matches(shape.labels)


class Ownership(enum.Enum):
    """The list of the owner's spec that a term is in."""

    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    REQUIRED_AFFINITY = "required affinity"
    PREFERRED = "preferred"


class OwnedTerm(msgspec.Struct, frozen=True, gc=False):
    """An (anti-)affinity term of placed pods, equal for all that own it; `weight` is negative for preferred anti-affinity.

    The namespace selector is asked about the labels of the incoming pod's namespace, {} if there is no such object.
    """

    ownership: Ownership
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector
    weight: int = 0

    def matches(self, shape: PodShape, namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term is about pods of the shape, `namespace_labels` being those of their namespace."""
        if shape.namespace not in self.namespaces and not (
            self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)
        ):
            return False
        return self.selector.matches(shape.labels)


def term_namespaces(term: PodAffinityTerm, namespace: str) -> frozenset[str]:
    """The namespaces a term names; the pod's own where it names none and has no selector for them."""
    if not term.namespaces and term.namespace_selector is None:
        return frozenset((namespace,))
    return frozenset(term.namespaces)


def owned_terms(shape: PodShape) -> tuple[OwnedTerm, ...]:
    """The terms that pods of the shape impose on others, each as often as it is written; without those that match nothing."""
    found = shape.__dict__.get(_OWNED)
    if found is None:
        found = shape.__dict__[_OWNED] = tuple(_owned(shape)) if shape.spec.has_pod_affinity else ()
    return cast("tuple[OwnedTerm, ...]", found)


def _owned(shape: PodShape) -> Iterator[OwnedTerm]:
    spec = shape.spec
    written = [
        *((Ownership.REQUIRED_ANTI_AFFINITY, t, 0) for t in spec.pod_anti_affinity),
        *((Ownership.REQUIRED_AFFINITY, t, 0) for t in spec.pod_affinity),
        *((Ownership.PREFERRED, w.term, w.weight) for w in spec.preferred_pod_affinity),
        *((Ownership.PREFERRED, w.term, -w.weight) for w in spec.preferred_pod_anti_affinity),
    ]
    for ownership, term, weight in written:
        if term.selector is not None:
            names = term_namespaces(term, shape.namespace)
            yield OwnedTerm(ownership, term.topology_key, names, term.namespace_selector, term.selector, weight)


class Matched:
    """A term that somebody asked for, with the number of pods on each row that match it."""

    __slots__ = ("counts", "term", "used")

    def __init__(self, term: PodTerm) -> None:
        self.term = term
        self.counts = RowCounts()
        self.used = 0


class Owned:
    """A term that placed pods own, with the number of its owners on each row."""

    __slots__ = ("counts", "shapes", "term")

    def __init__(self, term: OwnedTerm) -> None:
        self.term = term
        self.counts = RowCounts()
        self.shapes = 0
        """Shapes in place that own it."""


class Placed:
    """Where the pods of one shape are, and whose counts they are part of."""

    __slots__ = ("live_terms", "owned", "rows", "terminating", "terms")

    def __init__(self, owned: Sequence[Owned]) -> None:
        self.rows: dict[int, int] = {}
        self.terminating: dict[int, int] = {}
        self.terms: list[Matched] = []
        self.live_terms: list[Matched] = []
        """Terms that leave terminating pods out."""
        self.owned = owned
