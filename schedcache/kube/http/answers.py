"""Whether requests of one kind are answered, and if not, since when."""

from collections.abc import Callable

from schedcache.ports import Outage

FORGET_SECONDS = 60.0
"""A failure that is older than this, with no try since, says nothing about the present."""


class Answers:
    """Whether requests of one kind are answered, as their sender reports it.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # The first and the last failure since the last answer.
        self._failed: tuple[float, float] | None = None
        self._why = ""

    def answered(self) -> None:
        """The server has carried a request out, or refused it."""
        self._failed = None

    def failed(self, why: str) -> None:
        """There was no answer, or one that only says that something is wrong with the server."""
        now = self._clock()
        first = now if self.outage() is None or self._failed is None else self._failed[0]
        self._failed = first, now
        self._why = why

    def outage(self) -> Outage | None:
        """None after an answer or if nothing is known; otherwise for how long all requests have failed."""
        now = self._clock()
        if self._failed is None or now - self._failed[1] > FORGET_SECONDS:
            return None
        return Outage(now - self._failed[0], self._why)
