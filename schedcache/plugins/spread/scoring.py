"""How PodTopologySpread ranks nodes: by pods in their domains, the fewer the better (kube-scheduler 1.37)."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from schedcache.cache.terms import Counts
from schedcache.framework import MAX_NODE_SCORE, RowView, Scores
from schedcache.model import HOSTNAME_LABEL, TopologySpreadConstraint
from schedcache.plugins.nodes.matching import Mask
from schedcache.plugins.spread.constraints import SpreadDomains, Topology


class _Part:
    """One constraint's share of the score: `per_slot[slots[row]]`, or `per_row[row]` for hostname."""

    __slots__ = ("_by_row", "_slots", "_values", "_weight", "_worst")

    def __init__(self, constraint: TopologySpreadConstraint, domains: SpreadDomains, counts: Counts, size: int) -> None:
        self._slots = domains.slots
        self._by_row = constraint.topology_key == HOSTNAME_LABEL
        values = counts if self._by_row else domains.sums(counts)
        self._values = values.astype(np.float64)
        # Small topologies would be drowned by large ones: a logarithm of the number of domains evens it out.
        self._weight = math.log(size + 2)
        self._worst = float(constraint.max_skew - 1)

    def scores(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        slots = self._slots[rows]
        counts = self._values[rows] if self._by_row else self._values[slots]
        scores: npt.NDArray[np.float64] = np.where(slots > 0, counts * self._weight + self._worst, 0.0)
        return scores


class SpreadScoring:
    """What one attempt computes once: sums by domain, and `ignored`, the positions of nodes that lack a key."""

    def __init__(
        self,
        constraints: Sequence[TopologySpreadConstraint],
        topology: Topology,
        counts: Sequence[Counts],
        view: RowView,
        *,
        need_all_keys: bool,
    ) -> None:
        rows = view.rows
        self.ignored: Mask = ~topology.complete[rows] if need_all_keys else np.zeros(len(rows), np.bool_)
        self._ignored_rows = ~topology.complete if need_all_keys else None
        scored = rows[~self.ignored] if need_all_keys else rows
        self._parts = []
        for constraint, domains, of_pods in zip(constraints, topology.domains, counts, strict=True):
            size = len(scored) if constraint.topology_key == HOSTNAME_LABEL else domains.number_of(scored)
            self._parts.append(_Part(constraint, domains, of_pods, size))

    def scores(self, view: RowView) -> Scores:
        total = np.zeros(len(view), np.float64)
        for part in self._parts:
            total += part.scores(view.rows)
        if self._ignored_rows is not None:
            total[self._ignored_rows[view.rows]] = 0
        return _rounded(total)


def normalized(scores: Scores, ignored: Mask) -> Scores:
    """0..100, most for the least; nodes that are ignored have 0 and do not set the scale."""
    counted = scores[~ignored]
    highest = int(counted.max(initial=0))
    if highest == 0:
        result = np.full(len(scores), MAX_NODE_SCORE, np.int64)
    else:
        result = MAX_NODE_SCORE * (highest + int(counted.min()) - scores) // highest
    result[ignored] = 0
    return result


def _rounded(values: npt.NDArray[np.float64]) -> Scores:
    """To the nearest integer, halves away from zero (Go's math.Round); values are not negative."""
    whole = np.floor(values)
    return (whole + (values - whole >= 0.5)).astype(np.int64)
