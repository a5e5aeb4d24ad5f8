"""Terms that count pods: what one pod asks of others, and what placed pods ask of those to come."""

import enum
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar, cast

import msgspec

from schedcache.model import LabelSelector, PodAffinityTerm, PodShape, Requirement
from schedcache.model.labels import IN

T = TypeVar("T", bound=Hashable)

_OWNED = "owned_terms"


class PodTerm(msgspec.Struct, frozen=True, gc=False):
    """Pods of some namespaces (None: of all) that a selector matches; terminating ones count unless told otherwise."""

    namespaces: frozenset[str] | None
    selector: LabelSelector
    ignore_terminating: bool = False

    def matches(self, shape: PodShape) -> bool:
        """Whether pods of the shape count."""
        if self.namespaces is not None and shape.namespace not in self.namespaces:
            return False
        return self.selector.matches(shape.labels)


class Ownership(enum.Enum):
    """In which list of the owner's spec a term stands."""

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


class TermFile(Generic[T]):
    """Terms filed so that a pod's labels lead to the few that can match it.

    A term lies under each value of one requirement of the form "label in values" (equality is one value), the one whose
    drawers are emptiest; a term without such a requirement is looked at for every pod.
    """

    def __init__(self) -> None:
        self._drawers: dict[tuple[str, str], dict[T, None]] = {}
        self._catch_all: dict[T, None] = {}
        self._filed_under: dict[T, Requirement | None] = {}

    def __len__(self) -> int:
        return len(self._filed_under)

    def add(self, item: T, selector: LabelSelector) -> None:
        equalities = [r for r in selector.requirements if r.operator == IN]
        chosen = min(equalities, key=self._crowd, default=None)
        self._filed_under[item] = chosen
        if chosen is None:
            self._catch_all[item] = None
        else:
            for value in dict.fromkeys(chosen.values):
                self._drawers.setdefault((chosen.key, value), {})[item] = None

    def discard(self, item: T) -> None:
        chosen = self._filed_under.pop(item)
        if chosen is None:
            del self._catch_all[item]
            return
        for value in dict.fromkeys(chosen.values):
            drawer = self._drawers[chosen.key, value]
            del drawer[item]
            if not drawer:
                del self._drawers[chosen.key, value]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Every term that can match a pod of these labels, each once."""
        yield from self._catch_all
        if self._drawers:
            for pair in labels.items():
                yield from self._drawers.get(pair, ())

    def _crowd(self, requirement: Requirement) -> int:
        return sum(1 + len(self._drawers.get((requirement.key, value), ())) for value in set(requirement.values))
