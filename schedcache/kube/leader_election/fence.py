"""Holds back writes that could reach the API server after the lease has run out."""

import time
from collections.abc import Callable

from schedcache.ports import FencedError

__all__ = ["LeaseFence", "clock_with_suspend"]

_CLOCK_RATES = 0.99
"""Clocks of two machines that run at different speeds, by far more than NTP lets them (0.05 %), still agree on that part of the time."""
_SHORTEST = 0.1
"""A request gets at least that part of the lease's duration, or it is not sent."""


class LeaseFence:
    """Open from a renewal until the renew deadline, both counted from before that renewal was sent; closed at first.

    It goes by the clock alone. So it is closed where nobody has had the time to close it: after the process was stopped, or its
    machine was suspended.

    Args:
        lease_duration: seconds.
        renew_deadline: seconds, less than that.
        clock: seconds, monotonic; it should go on while the machine is suspended (`clock_with_suspend`).
    """

    def __init__(self, lease_duration: float, renew_deadline: float, clock: Callable[[], float]) -> None:
        self._ends_after = lease_duration * _CLOCK_RATES
        self._closes_after = min(renew_deadline, lease_duration * (_CLOCK_RATES - _SHORTEST))
        self._clock = clock
        self._renewed_at = float("-inf")

    def renewed(self, sent_at: float) -> None:
        """A renewal was carried out that was sent at this time or later."""
        self._renewed_at = sent_at

    def close(self) -> None:
        """Let nothing through from now on, since the lease is somebody else's, or about to be."""
        self._renewed_at = float("-inf")

    def allow(self, seconds: float) -> float:
        """How long a request that is sent now may take: at most `seconds`, and not beyond the lease. Raises FencedError."""
        age = self._clock() - self._renewed_at
        if age >= self._closes_after:
            raise FencedError("not sent: this replica does not lead, or no longer for sure", reason="NotLeading")
        return min(seconds, self._ends_after - age)


def clock_with_suspend() -> float:
    """Seconds, monotonic, time in which the machine was suspended included; `time.monotonic` stands still meanwhile on Linux."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)
