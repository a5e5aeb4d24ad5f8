"""Whether there is a working connection for a kind, and if not, since when."""

from collections.abc import Callable

from schedcache.kube.watch.stats import KindStats
from schedcache.ports import Outage


class Contact:
    """What is known of the connection that a kind's events come over, as reported by whoever lists and watches.

    Args:
        clock: seconds, monotonic.
        stats: of the kind; notes when the server was last heard from.

    Attributes:
        opened_count: how many watches have been accepted so far.
    """

    def __init__(self, clock: Callable[[], float], stats: KindStats) -> None:
        self._clock = clock
        self._stats = stats
        self._lost_at = clock()
        self._why = "none yet"
        self._stream: object | None = None
        self.opened_count = 0

    def opened(self, stream: object) -> None:
        """The server has accepted the watch. That is a sign of life: if nothing happens, the next one is a minute away."""
        self._stream = stream
        self.opened_count += 1
        self._stats.last_heard = self._clock()

    def ended(self, stream: object, why: str) -> None:
        """The watch has ended; ignored if it is not the one that is open."""
        if self._stream is stream:
            self._stream = None
            self._why = why
            self._lost_at = self._clock()

    def heard(self) -> None:
        """The server has answered with a page of a list."""
        self._lost_at = self._stats.last_heard = self._clock()

    def failed(self, why: str) -> None:
        """A list or watch was not answered, or was refused."""
        self._why = why

    def is_open(self) -> bool:
        """Whether a watch is open."""
        return self._stream is not None

    def outage(self) -> Outage | None:
        """None while a watch is open; otherwise the time since one was open, or since a page was read."""
        return None if self._stream is not None else Outage(self._clock() - self._lost_at, self._why)
