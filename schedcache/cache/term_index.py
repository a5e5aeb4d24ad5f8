"""Counts of pods that match, or own, (anti-)affinity and spread terms, node by node."""

from schedcache.cache.node_info import NodeInfo


class TermIndex:
    """Without terms: nobody has asked for any yet."""

    def __len__(self) -> int:
        return 0

    def apply(self, row: int, old: NodeInfo | None, new: NodeInfo | None) -> None:
        """A row shows `new` instead of `old`; None: no node."""
        raise NotImplementedError(f"no terms to count in row {row} ({old} -> {new})")
