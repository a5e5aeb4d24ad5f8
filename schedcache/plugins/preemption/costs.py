"""Which of several candidates is preempted (pickOneNodeForPreemption, kube-scheduler 1.37)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schedcache.cache.pod_table import started
from schedcache.framework import Rows
from schedcache.ports import Victims

PRIORITY_OFFSET = 2**31
"""Added to each priority before they are summed, so that fewer victims are better, whatever their priorities."""


class Costs(NamedTuple):
    """What each candidate costs, by position: the one that is lower in the first that differs is better."""

    violations: npt.NDArray[np.int64]
    top_priority: npt.NDArray[np.int64]
    priority_sum: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    earliest_start: npt.NDArray[np.int64]
    """Of the victims of the highest priority; here the latest is the best."""

    def best(self) -> Rows:
        """The positions that kube-scheduler might choose, ascending."""
        best: Rows = np.arange(len(self.number))
        for cost in (*self[:-1], -self.earliest_start):
            of_best = cost[best]
            best = best[of_best == of_best.min(initial=2**63 - 1)]
        return best

    def ranked(self) -> Rows:
        """All positions, the best first; equally good ones in their order."""
        ranked: Rows = np.lexsort((-self.earliest_start, *reversed(self[:-1])))
        return ranked


def costs_of(candidates: Iterable[Victims]) -> Costs:
    """Of victims one by one, as extenders name them; each candidate has at least one."""
    rows = []
    for pods, violations in candidates:
        top = max(pod.priority for pod in pods)
        start = min(started(pod) for pod in pods if pod.priority == top)
        rows.append((violations, top, sum(pod.priority + PRIORITY_OFFSET for pod in pods), len(pods), start))
    columns = np.array(rows, np.int64).reshape(-1, len(Costs._fields)).T
    return Costs(*columns)
