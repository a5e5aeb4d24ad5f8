"""Wishes that everything be read again."""

import asyncio
from collections import Counter

import structlog

ROLLBACK = "the API server was restored from a backup"
"""Why everything is read again."""
_ROLLED_BACK = (
    "the API server has an older state than what was seen of it, as after a restored backup; reading everything again"
)

log = structlog.get_logger()


class Rebuilds:
    """Counts each wish; however many there are before a rebuild begins, they are one.

    Args:
        counts: where wishes are counted, by reason.

    Attributes:
        reason: why one is wanted or under way, the first of several reasons, or that there was a rollback; "" if none is.
        wanted: set as long as one is.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self.reason = ""
        self.wanted = asyncio.Event()

    def request(self, reason: str) -> None:
        """Wish for one."""
        self._counts[reason] += 1
        self.reason = self.reason or reason
        self.wanted.set()

    def rolled_back(self, kind: str, known: str, found: str) -> bool:
        """Wish for one because the server has an older state of the kind than what was seen of it; False if that is known already."""
        if self.reason == ROLLBACK:
            return False
        log.error(_ROLLED_BACK, kind=kind, seen=known, server_has=found)
        self.reason = ROLLBACK
        self.request(ROLLBACK)
        return True

    def done(self) -> None:
        """Everything has been read: who wishes from now on wishes for another one."""
        self.wanted.clear()
        self.reason = ""
