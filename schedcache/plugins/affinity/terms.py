"""A pod's own (anti-)affinity terms, their namespace selectors resolved, as terms that count pods."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from schedcache.cache import ClusterObjects
from schedcache.cache.terms import PodTerm, term_namespaces
from schedcache.model import LabelSelector, PodAffinityTerm, PodShape, Requirement

_NAMESPACE = "Namespace"
_REMEMBERED = 512


class KeyedTerm(NamedTuple):
    """A term about the domains of one topology key; `term` None matches no pod."""

    topology_key: str
    term: PodTerm | None
    weight: int = 0


class OwnTerms(NamedTuple):
    """The terms of one shape; `affinity` holds for pods that match all required affinity terms at once.

    `affinity_keys` and the rest are without repetitions of keys or in the order written; preferred anti-affinity has
    negative weight.
    """

    affinity_keys: tuple[str, ...]
    affinity: PodTerm | None
    anti_affinity: tuple[KeyedTerm, ...]
    preferred: tuple[KeyedTerm, ...]

    def affinity_matches(self, shape: PodShape) -> bool:
        return self.affinity is not None and self.affinity.matches(shape)


class AffinityTerms:
    """Resolves terms against the current namespaces; the result for a shape is kept until a namespace changes.

    An own term's namespace selector stands for the names of the Namespace objects it matches, the empty one for all
    namespaces whatever their names (mergeAffinityTermNamespacesIfNotEmpty of kube-scheduler 1.37).
    """

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._generation = -1
        self._of_shape: dict[PodShape, OwnTerms] = {}
        self._selected: dict[LabelSelector, frozenset[str]] = {}

    def of(self, shape: PodShape) -> OwnTerms:
        """The terms of the shape."""
        generation = self._objects.generation(_NAMESPACE)
        if generation != self._generation or len(self._of_shape) >= _REMEMBERED:
            self._generation = generation
            self._of_shape.clear()
            self._selected.clear()
        terms = self._of_shape.get(shape)
        if terms is None:
            terms = self._of_shape[shape] = self._compile(shape)
        return terms

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; none if there is no such object."""
        found = self._objects.get(_NAMESPACE, "", namespace)
        return {} if found is None else found.labels

    def _compile(self, shape: PodShape) -> OwnTerms:
        spec, namespace = shape.spec, shape.namespace
        preferred = [
            *((w.term, w.weight) for w in spec.preferred_pod_affinity),
            *((w.term, -w.weight) for w in spec.preferred_pod_anti_affinity),
        ]
        return OwnTerms(
            affinity_keys=tuple(dict.fromkeys(t.topology_key for t in spec.pod_affinity)),
            affinity=_all_of(self._resolve(t, namespace) for t in spec.pod_affinity) if spec.pod_affinity else None,
            anti_affinity=tuple(KeyedTerm(t.topology_key, self._resolve(t, namespace)) for t in spec.pod_anti_affinity),
            preferred=tuple(KeyedTerm(t.topology_key, self._resolve(t, namespace), w) for t, w in preferred),
        )

    def _resolve(self, term: PodAffinityTerm, namespace: str) -> PodTerm | None:
        if term.selector is None:
            return None
        names, selector = term_namespaces(term, namespace), term.namespace_selector
        if selector is None:
            return PodTerm(names, term.selector)
        return PodTerm(None if selector.empty else names | self._select(selector), term.selector)

    def _select(self, selector: LabelSelector) -> frozenset[str]:
        found = self._selected.get(selector)
        if found is None:
            namespaces = self._objects.list(_NAMESPACE)
            found = self._selected[selector] = frozenset(n.name for n in namespaces if selector.matches(n.labels))
        return found


def terms_problem(shape: PodShape) -> str:
    """Why Kubernetes would refuse a selector in one of the terms, or ""."""
    spec = shape.spec
    weighted = (*spec.preferred_pod_affinity, *spec.preferred_pod_anti_affinity)
    terms = (*spec.pod_affinity, *spec.pod_anti_affinity, *(w.term for w in weighted))
    selectors = (s for t in terms for s in (t.selector, t.namespace_selector) if s is not None)
    return next(filter(None, (s.problem() for s in selectors)), "")


def _all_of(terms: Iterable[PodTerm | None]) -> PodTerm | None:
    """One term that matches what all of them match: the namespaces they share, all their requirements."""
    namespaces: frozenset[str] | None = None
    requirements: list[Requirement] = []
    for term in terms:
        if term is None:
            return None
        if term.namespaces is not None:
            namespaces = term.namespaces if namespaces is None else namespaces & term.namespaces
        requirements += term.selector.requirements
    return PodTerm(namespaces, LabelSelector(tuple(dict.fromkeys(requirements))))
