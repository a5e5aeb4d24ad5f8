"""Which victims would break a PodDisruptionBudget, on all candidates at once (filterPodsWithPDBViolation, 1.37)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from schedcache.cache import ClusterObjects
from schedcache.cache.cluster_objects import NAMESPACE
from schedcache.framework import LiftedPods, Mask
from schedcache.model import LabelSelector, Pod, PodDisruptionBudget, PodShape

KIND = "PodDisruptionBudget"
_NONE, _SEVERAL = -1, -2
_MAX_SHAPES = 4096

_Budgets = tuple[PodDisruptionBudget, ...]


class Budgets:
    """The budgets of the cluster. One with an empty selector, or none, covers no pod; nor is a pod without labels covered."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._covering: dict[str, _Covering] = {}

    def all(self) -> Sequence[PodDisruptionBudget]:
        """As they are now."""
        return list(self._objects.list(KIND))

    def violating(self, lifted: LiftedPods) -> Mask | None:
        """[position, slot]: the eviction of the pod that is off there would break a budget; None where none would.

        On each position by itself: every pod, the most important first, uses up what its budgets allow, and breaks those that
        have nothing left. A pod that the API server is evicting already uses up nothing.
        """
        if not self._objects.list(KIND):
            return None
        budgets, of_kind = self._by_kind(lifted)
        if not budgets:
            return None
        covered = np.where(lifted.off, of_kind[lifted.kinds], _NONE)
        broken = _beyond_allowance(covered, np.array([b.disruptions_allowed for b in budgets], np.int64))
        for position in np.flatnonzero((covered == _SEVERAL).any(axis=1)).tolist():
            broken[position] = False
            slots = np.flatnonzero(lifted.off[position]).tolist()
            for slot, pod_breaks in zip(slots, self._one_by_one(lifted.pods(position)), strict=True):
                broken[position, slot] = pod_breaks
        return broken if np.count_nonzero(broken) else None

    def covering(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets that the pod's eviction uses up."""
        self._learn(pod.namespace)
        return self._used_by(pod)

    def _by_kind(self, lifted: LiftedPods) -> tuple[list[PodDisruptionBudget], npt.NDArray[np.int64]]:
        """The budgets that cover some kind, and for each kind which of them does: its index, `_NONE` or `_SEVERAL`.

        One that names pods already being evicted counts as several, since it does not cover all pods of a kind.
        """
        for namespace in {shape.namespace for shape in lifted.shapes()}:
            self._learn(namespace)
        budgets: list[PodDisruptionBudget] = []
        index: dict[str, int] = {}
        of_kind = np.full(len(lifted.table.priority), _NONE, np.int64)
        for kind in lifted.used:
            shape = lifted.table.shape(kind)
            found = self._covering_shape(shape) if shape is not None else ()
            if not found:
                continue
            [first, *others] = found
            if first.full_name not in index:
                index[first.full_name] = len(budgets)
                budgets.append(first)
            of_kind[kind] = _SEVERAL if others or first.disrupted_pods else index[first.full_name]
        return budgets, of_kind

    def _one_by_one(self, pods: Sequence[Pod]) -> list[bool]:
        left: dict[str, int] = {}
        return [self._breaks(pod, left) for pod in pods]

    def _breaks(self, pod: Pod, left: dict[str, int]) -> bool:
        for budget in self._used_by(pod):
            name = budget.full_name
            left[name] = left.get(name, budget.disruptions_allowed) - 1
            if left[name] < 0:
                return True
        return False

    def _used_by(self, pod: Pod) -> list[PodDisruptionBudget]:
        return [b for b in self._covering_shape(pod.shape) if pod.name not in b.disrupted_pods]

    def _learn(self, namespace: str) -> None:
        budgets = sorted(self._objects.indexed(KIND, NAMESPACE, namespace), key=lambda b: b.name)
        selectors = tuple((b.name, b.selector) for b in budgets)
        known = self._covering.get(namespace)
        if known is None or known.selectors != selectors:
            known = self._covering[namespace] = _Covering(selectors)
        known.budgets = tuple(budgets)

    def _covering_shape(self, shape: PodShape) -> _Budgets:
        return self._covering[shape.namespace].of(shape)


class _Covering:
    """The budgets of one namespace; which of them cover a shape is found out once, whatever becomes of their status."""

    def __init__(self, selectors: tuple[tuple[str, LabelSelector | None], ...]) -> None:
        self.selectors = selectors
        self.budgets: _Budgets = ()
        self._indexes: dict[PodShape, list[int]] = {}

    def of(self, shape: PodShape) -> _Budgets:
        indexes = self._indexes.get(shape)
        if indexes is None:
            if len(self._indexes) >= _MAX_SHAPES:
                self._indexes.clear()
            indexes = self._indexes[shape] = [
                i for i, (_, selector) in enumerate(self.selectors) if _covers(selector, shape)
            ]
        return tuple(self.budgets[i] for i in indexes)


def _covers(selector: LabelSelector | None, shape: PodShape) -> bool:
    if selector is None or selector.empty or not shape.labels or selector.problem():
        return False
    return selector.matches(shape.labels)


def _beyond_allowance(covered: npt.NDArray[np.int64], allowed: npt.NDArray[np.int64]) -> Mask:
    """`covered` [position, slot] is the index of a budget or negative: true from the pod on that finds nothing left."""
    broken = np.zeros(covered.shape, np.bool_)
    positions, slots = np.nonzero(covered >= 0)
    if not len(positions):
        return broken
    budget = covered[positions, slots]
    groups = positions * len(allowed) + budget
    # Stable: within a group, which is one budget on one position, slots stay in their order.
    by_group = np.argsort(groups, kind="stable")
    ordered = groups[by_group]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    number = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))
    broken[positions[by_group], slots[by_group]] = number >= allowed[budget[by_group]]
    return broken
