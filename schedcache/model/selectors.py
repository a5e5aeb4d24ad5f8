"""Compiles selectors from the API's JSON; the only place where that is done."""

from collections.abc import Iterable

from schedcache.model import wire
from schedcache.model.decode import labels_of, strings
from schedcache.model.labels import LabelSelector, NodeSelectorTerm, Requirement, selector_from_labels


def label_selector(selector: wire.LabelSelectorWire | None) -> LabelSelector | None:
    """A compiled selector; None stays None, which matches nothing."""
    if selector is None:
        return None
    equal = selector_from_labels(labels_of(selector.match_labels)).requirements
    # Sorted, so that selectors with the same meaning are equal.
    more = (
        Requirement(e.key or "", e.operator or "", tuple(sorted(e.values or ())))
        for e in selector.match_expressions or ()
    )
    return LabelSelector((*equal, *more))


def node_selector_term(term: wire.NodeSelectorTermWire | None) -> NodeSelectorTerm:
    """A compiled node selector term; None is the empty term, which matches no node."""
    if term is None:
        return NodeSelectorTerm()
    return NodeSelectorTerm(_as_written(term.match_expressions), _as_written(term.match_fields))


def _as_written(found: Iterable[wire.SelectorRequirement] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(r.key or "", r.operator or "", strings(r.values)) for r in found or ())
