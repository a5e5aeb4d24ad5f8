"""Whether requests of one kind are carried out, and if not, since when."""

from collections.abc import Callable

from schedcache.ports import Outage

FORGET_SECONDS = 60.0
"""A failure that is older than this, with no try since, says nothing about the present."""
ENOUGH_REFUSED = 2
"""Objects whose requests are refused one after the other, before that is taken for more than a matter of one object."""
WAITING = "no answer yet"


class Answers:
    """Whether requests of one kind are carried out, as their sender reports it: `asked`, and then one of the others.

    `disproved` may still follow `undecided`.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._under_way = 0
        # When the first request without success after the last one with it was sent, and when the last such request failed.
        self._since: float | None = None
        self._failed_at: float | None = None
        self._why = ""
        self._refused: set[str] = set()

    def asked(self) -> None:
        """A request is sent."""
        if self._since is None or self._is_forgotten():
            self._start_over(self._clock())
        self._under_way += 1

    def answered(self) -> None:
        """The server has carried it out, or says that there is nothing to be done."""
        self._refused = set()
        self._under_way -= 1
        self._start_over(self._clock() if self._under_way else None)

    def undecided(self) -> None:
        """The answer says nothing about the server."""
        self._under_way -= 1
        if not self._under_way and self._failed_at is None:
            self._start_over(None)

    def refused(self, about: str, why: str) -> None:
        """The server refuses to do it for that object, which may be the object's fault alone."""
        if len(self._refused) < ENOUGH_REFUSED:
            self._refused.add(about)
        if len(self._refused) < ENOUGH_REFUSED:
            self.undecided()
        else:
            self.failed(why)

    def failed(self, why: str) -> None:
        """There was no answer, or one that only says that something is wrong with the server."""
        self._under_way -= 1
        self._failed_at, self._why = self._clock(), why

    def disproved(self, why: str) -> None:
        """What an undecided answer was about has turned out not to be done, though nothing stands against it."""
        self.asked()
        self.failed(why)

    def outage(self) -> Outage | None:
        """None if nothing is known, as after a success; otherwise how long requests have been tried without one, and how the last ended."""
        if self._since is None:
            return None
        if self._under_way:
            return Outage(self._clock() - self._since, self._why or WAITING)
        if self._failed_at is None or self._is_forgotten():
            return None
        # One failure proves nothing, and with time it does not come to prove more.
        return Outage(self._failed_at - self._since, self._why)

    def _is_forgotten(self) -> bool:
        return not self._under_way and self._failed_at is not None and self._clock() - self._failed_at > FORGET_SECONDS

    def _start_over(self, since: float | None) -> None:
        self._since, self._failed_at, self._why = since, None, ""
