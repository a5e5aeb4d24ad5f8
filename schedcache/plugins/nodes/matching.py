"""Node selectors and taints against many nodes at once: each distinct label value or taint list is looked at once."""

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from schedcache.framework import RowView
from schedcache.model import (
    NO_EXECUTE,
    NO_SCHEDULE,
    NodeSelectorTerm,
    PodSpec,
    Requirement,
    Taint,
    Toleration,
    tolerated,
)
from schedcache.model.labels import IN, NOT_IN

Mask = npt.NDArray[np.bool_]


def required_node_affinity(spec: PodSpec, view: RowView) -> Mask:
    """Where spec.nodeSelector holds, and one of the required node affinity terms if there are any.

    A term that Kubernetes could not parse matches nothing (component-helpers' RequiredNodeAffinity.Match).
    """
    matching = np.ones(len(view), np.bool_)
    for key, value in spec.node_selector.items():
        matching &= matches_requirement(Requirement(key, IN, (value,)), view)
    if spec.node_affinity is not None:
        matching &= any_term(spec.node_affinity, view)
    return matching


def any_term(terms: Iterable[NodeSelectorTerm], view: RowView) -> Mask:
    """Where at least one term matches."""
    found = np.zeros(len(view), np.bool_)
    for term in terms:
        found |= matches_term(term, view)
    return found


def matches_term(term: NodeSelectorTerm, view: RowView) -> Mask:
    """Where all expressions of the term hold; nowhere if it is empty or Kubernetes could not parse it."""
    if term.empty or term.problem():
        return np.zeros(len(view), np.bool_)
    matching = np.ones(len(view), np.bool_)
    for requirement in term.expressions:
        matching &= matches_requirement(requirement, view)
    for requirement in term.fields:
        matching &= _matches_name(requirement, view)
    return matching


def matches_requirement(requirement: Requirement, view: RowView) -> Mask:
    """Where one label expression holds."""
    key, columns = requirement.key, view.columns
    ids = columns.label_ids(key)[view.index]
    match requirement.operator:
        case "Exists":
            return ids >= 0
        case "DoesNotExist":
            return ids < 0
        case "In" | "NotIn":
            found = _with_values(ids, columns.label_values(key), requirement.values)
            return found if requirement.operator == IN else ~found
    verdicts = [requirement.matches({key: value}) for value in columns.label_values(key)]
    # The last one answers for -1, the id of nodes without the label.
    verdicts.append(requirement.matches({}))
    matching: Mask = np.array(verdicts, np.bool_)[ids]
    return matching


def untolerated(
    tolerations: tuple[Toleration, ...], view: RowView, effects: Collection[str] = (NO_SCHEDULE, NO_EXECUTE)
) -> Mask:
    """Where some taint of one of the effects is not tolerated."""
    return (
        by_taints(view, lambda taints: any(t.effect in effects and not tolerated(t, tolerations) for t in taints)) > 0
    )


def by_taints(view: RowView, measure: Callable[[Sequence[Taint]], int]) -> npt.NDArray[np.int64]:
    """What `measure` says of each row's taints."""
    sets = view.columns.taint_sets
    if len(view) < len(sets):
        ids = view.columns.taint_set[view.index].tolist()
        return np.fromiter((measure(sets[i]) for i in ids), np.int64, len(view))
    by_set = [measure(taints) for taints in sets]
    if not any(by_set):
        return np.zeros(len(view), np.int64)
    measures: npt.NDArray[np.int64] = np.array(by_set, np.int64)[view.columns.taint_set[view.index]]
    return measures


def _with_values(ids: npt.NDArray[np.int32], values: Sequence[str], wanted: Sequence[str]) -> Mask:
    found = np.zeros(len(ids), np.bool_)
    for value in wanted:
        if value in values:
            found |= ids == values.index(value)
    return found


def _matches_name(requirement: Requirement, view: RowView) -> Mask:
    """An expression over metadata.name, the only field of a node that can be asked for, with In or NotIn."""
    if requirement.key != "metadata.name" or requirement.operator not in (IN, NOT_IN):
        return np.zeros(len(view), np.bool_)
    row_of = view.columns.row_of
    named = np.isin(view.rows, [row_of[name] for name in requirement.values if name in row_of])
    return named if requirement.operator == IN else ~named
