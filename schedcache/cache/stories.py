"""What recently happened to pods and nodes in the cache: a ring of fixed size, cheap enough to be always on."""

from collections import deque
from collections.abc import Callable, Iterator

import msgspec

CAPACITY = 16_384

StoryTuple = tuple[float, str, str, str, int, str]


class Story(msgspec.Struct, frozen=True, gc=False):
    """One transition.

    `time` is the cache's clock (seconds), `generation` that of the node afterwards (0 = the node's entry is gone);
    `cause` is what the caller named (an attempt), otherwise the pod's or node's resourceVersion.
    """

    time: float
    operation: str
    uid: str
    node: str
    generation: int
    cause: str


class Stories:
    """The ring. Appending is one atomic call, so caches in several threads may share it."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._ring: deque[StoryTuple] = deque(maxlen=capacity)
        self.append: Callable[[StoryTuple], None] = self._ring.append
        """Takes the fields of a Story, in its order."""

    def __len__(self) -> int:
        return len(self._ring)

    def of(self, uid: str | None = None, node: str | None = None) -> Iterator[Story]:
        """Oldest first; only those of one pod (by UID) or of one node, if given."""
        for entry in self._ring.copy():
            if uid in (None, entry[2]) and node in (None, entry[3]):
                yield Story(*entry)

    def clear(self) -> None:
        self._ring.clear()


PROCESS_STORIES = Stories()
"""The ring that all caches of the process write to unless they are given another."""
