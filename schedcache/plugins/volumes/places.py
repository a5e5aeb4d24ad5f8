"""From where something can be reached: volumes with node affinity, and room for volumes, of which a node needs the best.

There may be one volume, or one object that describes room, for each of thousands of nodes. So those that require the same
label are looked up by its values, all at once, instead of being compared one by one with all nodes.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from schedcache.framework import RowView
from schedcache.model import LabelSelector, NodeSelectorTerm, Requirement, TopologySelectorTerm
from schedcache.model.labels import IN, NOT_IN
from schedcache.plugins.nodes.matching import Mask, matches_requirement

Conjunction = tuple[Requirement, ...]
Place = tuple[Conjunction, ...] | None
"""Alternatives, one of which a node's labels must satisfy; None: everywhere."""

Ranks = npt.NDArray[np.int32]


def place_of_terms(terms: Iterable[NodeSelectorTerm] | None) -> Place:
    """Of a volume's node affinity.

    kube-scheduler asks it about the labels alone (component-helpers' CheckNodeAffinity): field expressions hold everywhere
    if they are sound. A term that is empty or unsound holds nowhere.
    """
    if terms is None:
        return None
    conjunctions = tuple(term.expressions for term in terms if _sound(term))
    return None if () in conjunctions else conjunctions


def place_of_selector(selector: LabelSelector | None) -> Place:
    """Of a label selector: none is nowhere, an empty one everywhere, an unsound one nowhere."""
    if selector is None or selector.problem():
        return ()
    return (selector.requirements,) if selector.requirements else None


def place_of_topologies(terms: Sequence[TopologySelectorTerm]) -> Place:
    """Of a storage class's allowedTopologies: none given is everywhere, an empty term nowhere."""
    if not terms:
        return None
    return tuple(
        tuple(Requirement(key, IN, values) for key, values in term.expressions) for term in terms if term.expressions
    )


def includes(place: Place, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is in the place."""
    return place is None or any(all(r.matches(labels) for r in conjunction) for conjunction in place)


def reaches(place: Place, view: RowView) -> Mask:
    """The rows that the place includes."""
    if place is None:
        return np.ones(len(view), np.bool_)
    found = np.zeros(len(view), np.bool_)
    for conjunction in place:
        matching = np.ones(len(view), np.bool_)
        for requirement in conjunction:
            matching &= matches_requirement(requirement, view)
        found |= matching
    return found


def first_reaching(places: Sequence[Place], view: RowView, excluded: Sequence[Ranks] = ()) -> Ranks:
    """For each row the index of the first place that includes it, -1 where none does.

    Each array in `excluded` has an index for each row that is not to be taken there (-1: no exclusion).
    """
    none = len(places)
    everywhere: list[int] = []
    by_label: dict[str, dict[str, list[int]]] = {}
    other: list[int] = []
    for rank, place in enumerate(places):
        if place is None:
            everywhere.append(rank)
        elif (requirement := _single_label(place)) is not None:
            by_value = by_label.setdefault(requirement.key, {})
            for value in requirement.values:
                by_value.setdefault(value, []).append(rank)
        elif place:
            other.append(rank)
    # So many candidates of one kind are enough for one to be left when all exclusions strike them.
    enough = len(excluded) + 1
    best = np.full(len(view), none, np.int32)
    for rank in everywhere[:enough]:
        _improve(best, np.full(len(view), rank, np.int32), excluded)
    for key, by_value in by_label.items():
        for candidates in _by_value(key, by_value, view, enough, none):
            _improve(best, candidates, excluded)
    for rank in other:
        _improve(best, np.where(reaches(places[rank], view), rank, none).astype(np.int32), excluded)
    best[best == none] = -1
    return best


def _improve(best: Ranks, candidates: Ranks, excluded: Sequence[Ranks]) -> None:
    better = candidates < best
    for taken in excluded:
        better &= candidates != taken
    best[better] = candidates[better]


def _by_value(key: str, by_value: dict[str, list[int]], view: RowView, enough: int, none: int) -> Iterable[Ranks]:
    """The first candidates by the value of one label, as one array each for the first, the second, and so on."""
    values = view.columns.label_values(key)
    depth = min(enough, max(map(len, by_value.values())))
    # The last column is for -1, the id of nodes without the label.
    table = np.full((depth, len(values) + 1), none, np.int32)
    for i, value in enumerate(values):
        ranks = by_value.get(value)
        if ranks is not None:
            table[: min(depth, len(ranks)), i] = ranks[:depth]
    return table[:, view.columns.label_ids(key)[view.rows]]


def _single_label(place: Sequence[Conjunction]) -> Requirement | None:
    """The place's only expression, if it is about the values that one label may have."""
    if len(place) == 1 and len(place[0]) == 1 and place[0][0].operator == IN:
        return place[0][0]
    return None


def _sound(term: NodeSelectorTerm) -> bool:
    fields_sound = all(r.operator in (IN, NOT_IN) and len(r.values) == 1 for r in term.fields)
    return not term.empty and fields_sound and not any(r.problem(for_nodes=True) for r in term.expressions)
