"""percentageOfNodesToScore: how many of the feasible nodes are scored, and whose turn it is.

numFeasibleNodesToFind and nextStartNodeIndex of kube-scheduler 1.37, as with one worker. There, filtering stops at that number. Here
all nodes have been filtered at once, and what is saved is scoring, and questions to extenders.
"""

import numpy as np

from schedcache.framework.filtering import Feasibility

_FEWEST = 100
"""In a cluster with fewer nodes all are scored, and elsewhere no fewer than this (minFeasibleNodesToFind)."""
_ALL = 100


class NodeSampling:
    """Of one scheduler: its profiles take turns on the same nodes. Percentages are 0 to 100, and 0 is all nodes.

    There kube-scheduler, given 0, chooses a percentage by the size of the cluster.
    """

    def __init__(self, percentage: int = 0) -> None:
        """`percentage`: of profiles that have none of their own."""
        self._percentage = percentage
        self.start = 0
        """Where the next pod's turn begins, counted in node list order."""

    def apply(
        self, found: Feasibility, percentage: int | None, num_nodes: int, start: int | None = None
    ) -> Feasibility:
        """Keep the first feasible rows from `start` on, going round; the next pod's turn begins at the first one left out.

        `percentage`: of the profile, None where it has none; `num_nodes`: of the cluster. With `start` of an earlier attempt, whose
        pod is now decided again, nobody's turn changes.
        """
        looked_at, feasible = len(found.view), found.feasible
        wanted = self._wanted(percentage, looked_at)
        first = self.start if start is None else start
        processed = looked_at
        if len(feasible) > wanted:
            begin = first % looked_at
            in_turn = np.roll(feasible, -int(np.searchsorted(feasible, begin)))
            processed = (int(in_turn[wanted]) - begin) % looked_at
            found = found._replace(feasible=np.sort(in_turn[:wanted]))
        if start is None:
            self.start = (first + processed) % num_nodes
        return found

    def _wanted(self, percentage: int | None, looked_at: int) -> int:
        percentage = self._percentage if percentage is None else percentage
        if percentage in (0, _ALL):
            return looked_at
        return max(looked_at * percentage // 100, _FEWEST)
