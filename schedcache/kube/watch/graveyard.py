"""Recognises late events: which objects are known to be gone, and which of two states is newer."""

import time
from collections.abc import Callable
from itertools import islice

from schedcache.model import compare_resource_versions

REMEMBERED_SECONDS = 600.0


def is_newer(version: str, other: str) -> bool:
    """Whether a resourceVersion is later than another of the same kind; if that is unknown, yes."""
    return compare_resource_versions(version, other) in (1, None)


class Graveyard:
    """UIDs of deleted objects, so that a late event does not bring one back.

    Each is kept until a complete list is newer than its deletion, and for ten minutes at most.

    Attributes:
        floor: resourceVersion of the last complete list: an object that is not in it, and not newer, is gone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.floor = ""
        self._clock = clock
        self._buried: dict[str, tuple[str, float]] = {}

    def bury(self, uid: str, version: str) -> None:
        """The object was deleted at, or not there at, that resourceVersion."""
        now = self._clock()
        for oldest, (gone_at_version, at) in list(islice(self._buried.items(), 2)):
            # Two leave for each one that comes, so only recent ones remain.
            if now - at > REMEMBERED_SECONDS or (self.floor and not is_newer(gone_at_version, self.floor)):
                del self._buried[oldest]
        self._buried[uid] = version, now

    def __len__(self) -> int:
        return len(self._buried)

    def __contains__(self, uid: str) -> bool:
        return uid in self._buried

    def covers(self, uid: str, version: str) -> bool:
        """Whether a state of an object that is not held is from before its deletion."""
        if uid in self._buried:
            return not is_newer(version, self._buried[uid][0])
        return bool(self.floor) and not is_newer(version, self.floor)
